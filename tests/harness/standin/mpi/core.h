// SPDX-License-Identifier: Apache-2.0
// A core without books: handles become slots, calls go straight down, nothing is remembered.
//
// It stands in for runtime/mpi/core.h when a front end is built for tests of the translation alone
// (tests/harness/build-standin). Only one user op at a time, no attributes, no error handlers: an
// error is returned. It can never take part in a checkpoint.
#pragma once

#include <stdio.h>

#include "mpi/core.gen.h"

namespace fermata::mpi {

inline void park(void*) {}
inline void leave_interrupted() {}
inline void enter_collective_pending(ClockEntry*) {}

namespace core {

inline ClockEntry g_clock;
inline u32 g_next[kKindCount];
inline void* g_user_op;

// The few slots of completed requests, so that measurements do not walk through fresh memory.
inline Slot* g_free_requests;

inline Slot* make_request(u64 real) {
  Slot* null_request = front::predefined(kRequest, abi::kRequestNull);
  if (real == null_request->real) return null_request;
  Slot* slot = g_free_requests;
  if (slot == nullptr) {
    if (g_next[kRequest] < kFirstDynamic) g_next[kRequest] = kFirstDynamic;
    u32 index = g_next[kRequest]++;
    slot = slot_at(kRequest, index);
    *slot = Slot{0, index, kRequest, kSlotLive, nullptr, 0};
  } else {
    g_free_requests = static_cast<Slot*>(slot->object);
  }
  slot->real = real;
  return slot;
}

inline Slot* make(Kind kind, u64 real) {
  if (kind == kRequest) return make_request(real);
  for (u32 number = 0x20; number < 0x300; number++) {
    Slot* known = slot_at(kind, number);
    if ((known->flags & kSlotPredefined) && known->real == real) {
      return front::predefined(kind, number);
    }
  }
  if (g_next[kind] < kFirstDynamic) g_next[kind] = kFirstDynamic;
  u32 index = g_next[kind]++;
  *slot_at(kind, index) = Slot{real, index, kind, kSlotLive, nullptr, u64(&g_clock)};
  return slot_at(kind, index);
}

// After a call that may have freed the object: keep the slot, or hand back the null object.
inline void settle(Kind kind, Slot** slot, u64 real) {
  if ((*slot)->real == real) return;
  if (kind == kRequest) {
    (*slot)->object = g_free_requests;
    g_free_requests = *slot;
  }
  *slot = make(kind, real);
}

inline int world_size() { return int(crossing().world_size); }

inline int raise(Slot*, int error_class, const char* function) {
  char text[512] = "";
  int length = 0;
  lower_mpi().Error_string(error_class, text, &length);
  fprintf(stderr, "standin: %s: %s\n", function, text);
  return front::app_error_code(error_class);
}

inline void fill(Slot* slot, Kind kind, u32 canonical, void*) {
  slot->real = crossing().lower->predefined(kind, canonical);
  slot->spare = u64(&g_clock);
}

inline int after_init(int error) {
  if (error != 0) return error;
  front::for_each_predefined(fill, nullptr);
  int size = 0;
  lower_mpi().Comm_size(crossing().lower->predefined(kComm, abi::kCommWorld), &size);
  crossing().world_size = u32(size);
  return 0;
}

inline int Init(int* argc, char*** argv) { return after_init(lower_mpi().Init(argc, argv)); }
inline int Init_thread(int* argc, char*** argv, int required, int* provided) {
  return after_init(lower_mpi().Init_thread(argc, argv, required, provided));
}

inline void user_op(void* in, void* inout, int* length, void* native_type) {
  u64 real = lower_mpi().load_datatype(native_type);
  front::call_user_op(g_user_op, in, inout, length, make(kDatatype, real));
}

inline int Op_create(void* user_fn, int commute, Slot** op) {
  u64 real = 0;
  g_user_op = user_fn;
  int error = lower_mpi().Op_create(reinterpret_cast<void*>(user_op), commute, &real);
  if (error == 0) *op = make(kOp, real);
  return error;
}

#include "mpi/standin.gen.h"

}  // namespace core

// Attributes are the real core's alone.
struct Keyval {
  void* copy_fn;
  void* delete_fn;
};
inline Keyval* keyval_of(int) { return nullptr; }
template <class T>
inline T* arena_new() {
  return nullptr;
}
inline int attribute_set_integer(Kind, Slot*, int, AttributeValue) {
  return abi::kErrUnsupportedOperation;
}
inline int attribute_get_integer(Kind, Slot*, int, i64*, int*) {
  return abi::kErrUnsupportedOperation;
}

/// What the real core calls an operation; here there is one.
struct Op {
  void* fn;
};
inline void fill_interface(const char*) {}
inline Op* op_of(Slot*) { return reinterpret_cast<Op*>(&core::g_user_op); }

}  // namespace fermata::mpi
