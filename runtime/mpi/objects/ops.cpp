// SPDX-License-Identifier: Apache-2.0
#include "mpi/objects/ops.h"

#include "frontend/callbacks.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/references.h"
#include "mpi/handles/table.h"

namespace fermata::mpi {
namespace {

/// The application's datatype for a real one. Only user functions need it, so a search will do.
DatatypeSlot* datatype_of_real(RealDatatype real) {
  for (u32 number = kDatatypeNull + 1; number < kPredefinedCount; number++)
    if (slot_at<kDatatype>(number)->real() == real) return front::predefined<kDatatype>(number);
  DatatypeSlot* found = null_of<kDatatype>();
  for_each_live<kDatatype>([&](DatatypeSlot* slot) {
    if (slot->real() == real) found = slot;
  });
  return found;
}

template <i32 kIndex>
void op_thunk(void* in, void* inout, int* length, void* native_datatype) {
  const Op* const op = op_of(state().objects.thunk_ops[kIndex]);
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
constexpr OpThunks kOpThunks = [] {
  OpThunks thunks{};
  FillThunks<0, kThunks>::fill(thunks);
  return thunks;
}
();

}  // namespace

int make_op(OpSlot* slot) {
  const Op* const op = op_of(slot);
  return lower().Op_create(reinterpret_cast<void*>(kOpThunks.of[op->thunk]), op->commute,
                           &slot->real());
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

int Op_create_c(void* user_fn, int commute, OpSlot** handle) {
  const int error = Op_create(user_fn, commute, handle);
  if (!error) op_of(*handle)->counts_widely = true;
  return error;
}

int Op_create(void* user_fn, int commute, OpSlot** handle) {
  LowerScope scope;
  i32 thunk = 0;
  while (thunk < kThunks && state().objects.thunk_ops[thunk]) thunk++;
  if (thunk == kThunks) return kErrNoMem;  // more user operations alive than there are thunks
  Op* const op = arena_new<Op>();
  *op = Op{user_fn, commute != 0, thunk, 0, false, false};
  OpSlot* const slot = slot_new<kOp>(op);
  state().objects.thunk_ops[thunk] = slot;
  const int error = make_op(slot);
  if (error) {
    state().objects.thunk_ops[thunk] = nullptr;
    arena_free(op);
    slot_free(slot);
    return error;
  }
  *handle = slot;
  return kSuccess;
}

int Op_free(OpSlot** handle) {
  LowerScope scope;
  OpSlot* const slot = *handle;
  if (is_null(slot, kOpNull) || (slot->flags & kSlotPredefined)) return kErrOp;
  *handle = null_of<kOp>();
  op_of(slot)->freed = true;
  return op_of(slot)->users ? int(kSuccess) : op_end(slot);
}

}  // namespace fermata::mpi::core
