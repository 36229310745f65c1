// SPDX-License-Identifier: Apache-2.0
// Canonical and native spellings of the same thing: handles, pointers, arrays of them. Compiled
// against one installation's mpi.h; where two MPIs differ in type, templates choose, never #if.
#pragma once

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "base/kept.h"
#include "halves/mpi_calls.gen.h"

namespace fermata::backend {

// What mpi.h calls the handles of each kind. MPICH: an int, Open MPI: a pointer.
template <mpi::Kind kind>
struct NativeHandle;
template <> struct NativeHandle<mpi::kComm> { using Type = MPI_Comm; };
template <> struct NativeHandle<mpi::kDatatype> { using Type = MPI_Datatype; };
template <> struct NativeHandle<mpi::kRequest> { using Type = MPI_Request; };
template <> struct NativeHandle<mpi::kOp> { using Type = MPI_Op; };
template <> struct NativeHandle<mpi::kGroup> { using Type = MPI_Group; };
template <> struct NativeHandle<mpi::kInfo> { using Type = MPI_Info; };
template <> struct NativeHandle<mpi::kWin> { using Type = MPI_Win; };
template <> struct NativeHandle<mpi::kFile> { using Type = MPI_File; };
template <> struct NativeHandle<mpi::kErrhandler> { using Type = MPI_Errhandler; };
template <> struct NativeHandle<mpi::kMessage> { using Type = MPI_Message; };
template <mpi::Kind kind>
using Native = typename NativeHandle<kind>::Type;

/// The MPI's own handle from a real one, and back.
template <mpi::Kind kind>
Native<kind> native(Real<kind> real) {
  using T = Native<kind>;
  if constexpr (sizeof(T) == sizeof(u64)) return reinterpret_cast<T>(real.value);
  else return static_cast<T>(static_cast<u32>(real.value));
}
template <mpi::Kind kind>
Real<kind> canonical(Native<kind> handle) {
  if constexpr (sizeof handle == sizeof(u64)) return {reinterpret_cast<u64>(handle)};
  else return {static_cast<u32>(handle)};
}

/// A pointer that becomes whatever pointer the native prototype wants: headers differ in const, and
/// in which 64-bit integer MPI_Count is.
struct AnyPointer {
  void* address;
  template <typename T>
  operator T*() const {
    return reinterpret_cast<T*>(address);
  }
};
template <typename T>
AnyPointer as_any(T* pointer) {
  return {reinterpret_cast<void*>(reinterpret_cast<u64>(pointer))};
}

inline AnyPointer as_buffer(const void* address) {
  if (FERMATA_UNLIKELY(reinterpret_cast<u64>(address) == abi::kInPlace))
    return as_any(MPI_IN_PLACE);
  return as_any(address);
}
inline AnyPointer as_weights(const int* list) {
  if (reinterpret_cast<u64>(list) == abi::kUnweighted) return as_any(MPI_UNWEIGHTED);
  if (reinterpret_cast<u64>(list) == abi::kWeightsEmpty) return as_any(MPI_WEIGHTS_EMPTY);
  return as_any(list);
}

struct HeapRoom {
  static void* map(u64 bytes) {
    void* const room = aligned_alloc(kPageBytes, bytes);
    if (!room) abort();
    return room;
  }
  static void unmap(void* room, u64) { free(room); }
};

/// Room for n values: on the stack when they are few.
template <typename T>
class Scratch {
 public:
  explicit Scratch(i64 count)
      : data_(FERMATA_LIKELY(count <= kFew)
                  ? few_
                  : static_cast<T*>(KeptRoom<HeapRoom>::take(u64(count) * sizeof(T)))) {}
  ~Scratch() {
    if (FERMATA_UNLIKELY(data_ != few_)) KeptRoom<HeapRoom>::give_back(data_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* data() { return data_; }

 private:
  static constexpr i64 kFew = 64;
  T few_[kFew];
  T* data_;
};

/// An array of handles that the call only reads. Pointer-sized handles are passed as they are.
template <mpi::Kind kind, bool kSame = sizeof(Native<kind>) == sizeof(u64)>
class ConstHandleArray {
 public:
  ConstHandleArray(const Real<kind>* reals, i64 count) : scratch_(reals ? count : 0) {
    for (i64 i = 0; reals && i < count; i++) scratch_.data()[i] = native(reals[i]);
  }
  Native<kind>* data() { return scratch_.data(); }

 private:
  Scratch<Native<kind>> scratch_;
};
template <mpi::Kind kind>
class ConstHandleArray<kind, true> {
 public:
  ConstHandleArray(const Real<kind>* reals, i64) : reals_(reals) {}
  Native<kind>* data() { return reinterpret_cast<Native<kind>*>(const_cast<Real<kind>*>(reals_)); }

 private:
  const Real<kind>* reals_;
};

/// An array of handles that the call may change; what it wrote goes back when the scope ends.
template <mpi::Kind kind, bool kSame = sizeof(Native<kind>) == sizeof(u64)>
class HandleArray {
 public:
  HandleArray(Real<kind>* reals, i64 count) : reals_(reals), count_(count), scratch_(count) {
    for (i64 i = 0; i < count; i++) scratch_.data()[i] = native(reals[i]);
  }
  ~HandleArray() {
    for (i64 i = 0; i < count_; i++) reals_[i] = canonical<kind>(scratch_.data()[i]);
  }
  Native<kind>* data() { return scratch_.data(); }

 private:
  Real<kind>* reals_;
  i64 count_;
  Scratch<Native<kind>> scratch_;
};
template <mpi::Kind kind>
class HandleArray<kind, true> : public ConstHandleArray<kind, true> {
  using ConstHandleArray<kind, true>::ConstHandleArray;
};

/// An array of integers whose values are translated one by one.
class NumberArray {
 public:
  NumberArray(const int* values, i64 count, int (*translate)(int)) : scratch_(count) {
    for (i64 i = 0; i < count; i++) scratch_.data()[i] = translate(values[i]);
  }
  int* data() { return scratch_.data(); }

 private:
  Scratch<int> scratch_;
};

inline RealDatatype load_datatype(const void* from) {
  MPI_Datatype type;
  memcpy(&type, from, sizeof type);
  return canonical<mpi::kDatatype>(type);
}

}  // namespace fermata::backend
