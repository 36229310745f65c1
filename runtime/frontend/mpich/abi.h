// SPDX-License-Identifier: Apache-2.0
// MPICH's C ABI (sonames libmpi.so.12 and Debian's libmpich.so.12; Intel MPI and others share it).
//
// Handles are 32-bit integers (MPI_File alone is a pointer). Bit 31 set: dynamic, the low 26 bits
// are the slot's index. Clear: predefined, bit 30 tells builtin from null and the low byte is
// unique per kind, so bit 30 and the low byte give an index into a mirror of the predefined slots
// at kMirror. The five pair types are 0x8c000000..4, which lands on index 0..4, free in every kind.
// Invariant: decoding is two or three instructions without a table; the mirrors carry the canonical
//            number in Slot::index. Not checked: hot path.
#pragma once

#include "frontend/mpich/tables.gen.h"

namespace fermata::front {

inline constexpr u32 kMirror = 0x400;

template <Kind kind>
struct AppHandle {
  using Type = int;
};
template <>
struct AppHandle<mpi::kFile> {
  using Type = mpi::FileSlot*;
};
template <Kind kind>
using App = typename AppHandle<kind>::Type;

struct AppStatus {
  int count_low;
  int count_high_and_cancelled;
  int source;
  int tag;
  int error;
};
static_assert(sizeof(AppStatus) == 20);

FERMATA_CALLBACK const char* name() { return "MPICH"; }

FERMATA_CALLBACK bool objects_follow_world() { return true; }
FERMATA_CALLBACK bool refuses_nested_epochs() { return true; }

inline bool is_ignored(const AppStatus* status) { return reinterpret_cast<u64>(status) == 1; }

inline CanonStatus status_in(const AppStatus* status) {
  int high = int(u32(status->count_high_and_cancelled) >> 1);
  return {rank_in(status->source), tag_in(status->tag), error_class_in(status->error),
          {status->count_low, high, status->count_high_and_cancelled & 1, 0, 0}};
}

// MPI_ERROR belongs to the calls that return arrays, and to empty statuses; else it stays as it is.
inline void status_out(const CanonStatus& canon, AppStatus* status) {
  if (FERMATA_UNLIKELY(canon.source == abi::kAnySource)) status->error = 0;
  status->source = rank_out(canon.source);
  status->tag = tag_out(canon.tag);
  status->count_low = canon.internal[0];
  status->count_high_and_cancelled = int(u32(canon.internal[1]) << 1) | (canon.internal[2] & 1);
}

[[gnu::always_inline]] inline u32 index_of(int handle) {
  u32 bits = u32(handle);
  if (FERMATA_LIKELY(handle < 0)) return bits & 0x3ff'ffff;
  return kMirror + (((bits >> 22) & 0x100) | (bits & 0xff));
}

constexpr u32 kind_bits(Kind kind) {
  switch (kind) {
    case mpi::kComm: return 1;
    case mpi::kGroup: return 2;
    case mpi::kDatatype: return 3;
    case mpi::kFile: return 4;
    case mpi::kErrhandler: return 5;
    case mpi::kOp: return 6;
    case mpi::kInfo: return 7;
    case mpi::kWin: return 8;
    case mpi::kRequest: return 11;
    case mpi::kMessage: return 11;
    case mpi::kSession: return 14;
    default: return 0;
  }
}

inline u32 g_app_value[0x400];  // of a predefined handle, by canonical number (unique over kinds)

template <Kind kind>
[[gnu::always_inline]] inline SlotOf<kind>* handle_in(App<kind> handle) {
  if constexpr (kind == mpi::kFile) {
    return handle == nullptr ? mpi::slot_at<kind>(abi::kFileNull) : handle;
  } else {
    return mpi::slot_at<kind>(index_of(handle));
  }
}

template <Kind kind>
[[gnu::always_inline]] inline App<kind> handle_out(SlotOf<kind>* slot) {
  if constexpr (kind == mpi::kFile) {
    return slot->index == abi::kFileNull ? nullptr : slot;
  } else {
    u32 index = slot->index;
    if (FERMATA_LIKELY(index >= mpi::kFirstDynamic)) {
      return int(0x8000'0000u | kind_bits(kind) << 26 | index);
    }
    return int(g_app_value[index & 0x3ff]);
  }
}

FERMATA_CALLBACK Slot* predefined(Kind kind, u32 canonical) {
  return mpi::slot_at(kind, canonical);
}

template <class Pointer>
inline Pointer buffer_in(Pointer buffer) {
  u64 value = reinterpret_cast<u64>(buffer);
  if (value == ~u64(0)) return reinterpret_cast<Pointer>(abi::kInPlace);
  if (value == ~u64(1)) return reinterpret_cast<Pointer>(abi::kBufferAutomatic);
  return buffer;
}

inline void* buffer_out(void* buffer) {
  return buffer == reinterpret_cast<void*>(abi::kBufferAutomatic) ? reinterpret_cast<void*>(~u64(1))
                                                                  : buffer;
}

// Only their addresses mean something.
inline int g_unweighted, g_weights_empty, g_all_tool_handles;
inline void* const kAllToolHandles = &g_all_tool_handles;

inline const int* weights_in(const int* weights) {
  if (weights == &g_unweighted) return reinterpret_cast<const int*>(abi::kUnweighted);
  if (weights == &g_weights_empty) return reinterpret_cast<const int*>(abi::kWeightsEmpty);
  return weights;
}

}  // namespace fermata::front

// What mpi_f08 passes for MPI_UNWEIGHTED and MPI_WEIGHTS_EMPTY. Its library has them too, and then
// those are meant.
extern "C" {
FERMATA_EXPORT int* MPIR_C_MPI_UNWEIGHTED;
FERMATA_EXPORT int* MPIR_C_MPI_WEIGHTS_EMPTY;
}

namespace fermata::front {

inline void abi_start() {
  MPIR_C_MPI_UNWEIGHTED = &g_unweighted;
  MPIR_C_MPI_WEIGHTS_EMPTY = &g_weights_empty;
  for (const Value& value : kValues) {
    g_app_value[value.canonical] = value.app;
    make_predefined(mpi::slots(value.kind) + index_of(int(value.app)), value.kind,
                    value.canonical);
  }
}

inline void for_each_alias(PredefinedVisitor visit, void* context) {
  for (const Value& value : kValues) {
    visit(mpi::slots(value.kind) + index_of(int(value.app)), value.kind, value.canonical, context);
  }
}

template <Kind kind>
inline int to_integer(App<kind> handle) {
  if constexpr (kind == mpi::kFile) {
    return handle == nullptr ? 0 : int(handle->index);
  } else {
    return handle;
  }
}

template <Kind kind>
inline App<kind> from_integer(int integer) {
  if constexpr (kind == mpi::kFile) {
    return integer == 0 ? nullptr : mpi::slot_at<kind>(u32(integer));
  } else {
    return integer;
  }
}

}  // namespace fermata::front

extern "C" {
FERMATA_EXPORT int* MPI_UNWEIGHTED = &fermata::front::g_unweighted;
FERMATA_EXPORT int* MPI_WEIGHTS_EMPTY = &fermata::front::g_weights_empty;
FERMATA_EXPORT int* MPI_F_STATUS_IGNORE = nullptr;
FERMATA_EXPORT int* MPI_F_STATUSES_IGNORE = nullptr;
FERMATA_EXPORT void* MPI_F08_STATUS_IGNORE = nullptr;
FERMATA_EXPORT void* MPI_F08_STATUSES_IGNORE = nullptr;
FERMATA_EXPORT void* MPI_T_PVAR_ALL_HANDLES = fermata::front::kAllToolHandles;
}
