// SPDX-License-Identifier: Apache-2.0
// Open MPI's C ABI (sonames libmpi.so.40: releases 4.x and 5.x).
//
// A handle is a pointer. Ours is the address of a slot, so decoding costs nothing: dynamic objects
// live in the slot arrays, predefined ones are the exported objects below, which programs may hold
// copies of (copy relocation); the constructor fills whichever copy the program sees through the
// global offset table. Statuses are 24 bytes and carry the byte count in a 64-bit word.
// Invariant: every Slot* an application sees of a predefined object is its exported object.
//            Not checked: tests compare them (mpi/null_results.c).
#pragma once

#include "frontend/ompi/tables.gen.h"

namespace fermata::front {

template <Kind kind>
using App = SlotOf<kind>*;

struct AppStatus {
  int source;
  int tag;
  int error;
  int cancelled;
  u64 bytes;
};
static_assert(sizeof(AppStatus) == 24);

FERMATA_CALLBACK const char* name() { return "Open MPI"; }

FERMATA_CALLBACK bool objects_follow_world() { return false; }
FERMATA_CALLBACK bool refuses_nested_epochs() { return false; }

// MPI_T_PVAR_ALL_HANDLES.
inline void* const kAllToolHandles = reinterpret_cast<void*>(-1);

inline bool is_ignored(const AppStatus* status) { return status == nullptr; }

inline CanonStatus status_in(const AppStatus* status) {
  CanonStatus result = {rank_in(status->source), tag_in(status->tag),
                        error_class_in(status->error), {0, 0, status->cancelled, 0, 0}};
  result.set_bytes(status->bytes);
  return result;
}

// MPI_ERROR belongs to the calls that return arrays, and to empty statuses; else it stays as it is.
inline void status_out(const CanonStatus& canon, AppStatus* status) {
  if (FERMATA_UNLIKELY(canon.source == abi::kAnySource)) status->error = 0;
  status->source = rank_out(canon.source);
  status->tag = tag_out(canon.tag);
  status->cancelled = canon.internal[2];
  status->bytes = canon.bytes();
}

// The object of each predefined handle by canonical number, in the running program's copy.
inline Slot* g_exported[mpi::kFirstDynamic / 4];

template <Kind kind>
inline SlotOf<kind>* handle_in(SlotOf<kind>* handle) {
  return handle;
}

template <Kind kind>
inline SlotOf<kind>* handle_out(SlotOf<kind>* slot) {
  u64 offset = reinterpret_cast<u64>(slot) - reinterpret_cast<u64>(mpi::slots(kind));
  if (FERMATA_UNLIKELY(offset < mpi::kFirstDynamic * sizeof(Slot))) {
    return mpi::slot_as<kind>(g_exported[offset / sizeof(Slot)]);
  }
  return slot;
}

FERMATA_CALLBACK Slot* predefined(Kind kind, u32 canonical) {
  if (kind == mpi::kRequest) return reinterpret_cast<Slot*>(ompi_request_null);
  return g_exported[canonical];
}

inline const void* buffer_in(const void* buffer) { return buffer; }  // sentinels are canonical
inline void* buffer_in(void* buffer) { return buffer; }
inline void* buffer_out(void* buffer) { return buffer; }

inline const int* weights_in(const int* weights) {
  u64 value = reinterpret_cast<u64>(weights);
  if (value == 2) return reinterpret_cast<const int*>(abi::kUnweighted);
  if (value == 3) return reinterpret_cast<const int*>(abi::kWeightsEmpty);
  return weights;
}

inline void abi_start() {
  for (const Exported& exported : kExported) {
    Slot* slot = reinterpret_cast<Slot*>(exported.object);
    make_predefined(slot, exported.kind, exported.canonical);
    if (g_exported[exported.canonical] == nullptr) g_exported[exported.canonical] = slot;
  }
}

inline void for_each_alias(PredefinedVisitor visit, void* context) {
  for (const Exported& exported : kExported) {
    visit(reinterpret_cast<Slot*>(exported.object), exported.kind, exported.canonical, context);
  }
}

// Fortran integers: predefined handles have fixed small numbers, dynamic ones their index. A null
// pointer is none, as Open MPI says: a program has one where its MPI has no object of that name.
template <Kind kind>
inline int to_integer(SlotOf<kind>* handle) {
  if (handle == nullptr) return -1;
  if (handle->index >= mpi::kFirstDynamic) return int(handle->index);
  for (const Integer& entry : kIntegers) {
    if (entry.kind == kind && entry.canonical == handle->index) return entry.integer;
  }
  return -1;
}

template <Kind kind>
inline SlotOf<kind>* from_integer(int integer) {
  if (integer >= int(mpi::kFirstDynamic)) return mpi::slot_at<kind>(u32(integer));
  for (const Integer& entry : kIntegers) {
    if (entry.kind == kind && entry.integer == integer) return predefined<kind>(entry.canonical);
  }
  return nullptr;
}

}  // namespace fermata::front
