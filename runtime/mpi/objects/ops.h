// SPDX-License-Identifier: Apache-2.0
// Reduction operations of the application.
//
// MPI calls a user function without any context, so the lower half gets one of a fixed number of
// static functions, each of which knows its Op. They live in the front end's code, hence at the
// same address in every life of the image. The lower half runs on its own thread register, so the
// application's function finds its own.
//
// An application may free an operation that a non-blocking reduction still needs: operations are
// counted.
//
// Invariant: thunk i is taken exactly while thunk_ops[i] != null.
#pragma once

#include "mpi/comms/group_calls.h"

namespace fermata::mpi {

/// The application's datatype for a real one. Only user functions need it, so a search will do.
inline Slot* datatype_of_real(u64 real) {
  for (u32 number = kDatatypeNull + 1; number < kPredefinedCount; number++)
    if (slot_at(kDatatype, number)->real == real) return front::predefined(kDatatype, number);
  Slot* found = null_of(kDatatype);
  for_each_live(kDatatype, [&](Slot* slot) {
    if (slot->real == real) found = slot;
  });
  return found;
}

template <i32 kIndex>
void op_thunk(void* in, void* inout, int* length, void* native_datatype) {
  const Op* const op = op_of(state().thunk_ops[kIndex]);
  i64 wide = *length;  // a pointer to it is passed on as what the function takes
  front::call_user_op(op->fn, in, inout, op->counts_widely ? reinterpret_cast<int*>(&wide) : length,
                      datatype_of_real(lower().load_datatype(native_datatype)));
}

using OpThunk = void (*)(void*, void*, int*, void*);
struct OpThunks {
  OpThunk of[kThunks];
};
template <i32 kFirst, i32 kCount>
struct FillThunks {
  static constexpr void fill(OpThunks& thunks) {
    FillThunks<kFirst, kCount / 2>::fill(thunks);
    FillThunks<kFirst + kCount / 2, kCount - kCount / 2>::fill(thunks);
  }
};
template <i32 kFirst>
struct FillThunks<kFirst, 1> {
  static constexpr void fill(OpThunks& thunks) { thunks.of[kFirst] = op_thunk<kFirst>; }
};
inline constexpr OpThunks kOpThunks = [] {
  OpThunks thunks{};
  FillThunks<0, kThunks>::fill(thunks);
  return thunks;
}();

inline int make_op(Slot* slot) {
  const Op* const op = op_of(slot);
  return lower().Op_create(reinterpret_cast<void*>(kOpThunks.of[op->thunk]), op->commute,
                           &slot->real);
}

namespace core {

inline int Op_create(void* user_fn, int commute, Slot** handle) {
  LowerScope scope;
  i32 thunk = 0;
  while (thunk < kThunks && state().thunk_ops[thunk]) thunk++;
  if (thunk == kThunks) return kErrNoMem;  // more user operations alive than there are thunks
  Op* const op = arena_new<Op>();
  *op = Op{user_fn, commute != 0, thunk, 0, false, false};
  Slot* const slot = slot_new(kOp, op);
  state().thunk_ops[thunk] = slot;
  const int error = make_op(slot);
  if (error) {
    state().thunk_ops[thunk] = nullptr;
    arena_free(op);
    slot_free(slot);
    return error;
  }
  *handle = slot;
  return kSuccess;
}

}  // namespace core

inline int op_end(Slot* slot) {
  Op* const op = op_of(slot);
  const int error = lower().Op_free(&slot->real);
  state().thunk_ops[op->thunk] = nullptr;
  arena_free(op);
  slot_free(slot);
  return error;
}

inline void op_ref(Slot* slot) {
  if (Op* const op = op_of(slot)) op->users++;
}
inline void op_unref(Slot* slot) {
  Op* const op = op_of(slot);
  if (op && --op->users == 0 && op->freed) (void)op_end(slot);
}

namespace core {

inline int Op_free(Slot** handle) {
  LowerScope scope;
  Slot* const slot = *handle;
  if (is_null(slot, kOpNull) || (slot->flags & kSlotPredefined)) return kErrOp;
  *handle = null_of(kOp);
  op_of(slot)->freed = true;
  return op_of(slot)->users ? int(kSuccess) : op_end(slot);
}

}  // namespace core
}  // namespace fermata::mpi
