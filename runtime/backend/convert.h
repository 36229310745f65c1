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

/// A real handle from its canonical form and back. MPICH: an int, Open MPI: a pointer.
template <typename T>
T native(u64 word) {
  if constexpr (sizeof(T) == sizeof(u64)) return reinterpret_cast<T>(word);
  else return static_cast<T>(static_cast<u32>(word));
}
template <typename T>
u64 canonical(T handle) {
  if constexpr (sizeof(T) == sizeof(u64)) return reinterpret_cast<u64>(handle);
  else return static_cast<u32>(handle);
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
template <typename T, bool kSame = sizeof(T) == sizeof(u64)>
class ConstHandleArray {
 public:
  ConstHandleArray(const u64* words, i64 count) : scratch_(words ? count : 0) {
    for (i64 i = 0; words && i < count; i++) scratch_.data()[i] = native<T>(words[i]);
  }
  T* data() { return scratch_.data(); }

 private:
  Scratch<T> scratch_;
};
template <typename T>
class ConstHandleArray<T, true> {
 public:
  ConstHandleArray(const u64* words, i64) : words_(words) {}
  T* data() { return reinterpret_cast<T*>(const_cast<u64*>(words_)); }

 private:
  const u64* words_;
};

/// An array of handles that the call may change; what it wrote goes back when the scope ends.
template <typename T, bool kSame = sizeof(T) == sizeof(u64)>
class HandleArray {
 public:
  HandleArray(u64* words, i64 count) : words_(words), count_(count), scratch_(count) {
    for (i64 i = 0; i < count; i++) scratch_.data()[i] = native<T>(words[i]);
  }
  ~HandleArray() {
    for (i64 i = 0; i < count_; i++) words_[i] = canonical(scratch_.data()[i]);
  }
  T* data() { return scratch_.data(); }

 private:
  u64* words_;
  i64 count_;
  Scratch<T> scratch_;
};
template <typename T>
class HandleArray<T, true> : public ConstHandleArray<T, true> {
  using ConstHandleArray<T, true>::ConstHandleArray;
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

inline u64 load_datatype(const void* from) {
  MPI_Datatype type;
  memcpy(&type, from, sizeof type);
  return canonical(type);
}

}  // namespace fermata::backend
