// SPDX-License-Identifier: Apache-2.0
// Arrays that live as long as one call.
//
// Converting an array of handles or statuses needs room of a length known only at run time, in code
// that may run in a signal handler on top of an interrupted malloc. So: a small array in the frame,
// and fresh pages from the kernel for the rare long one.
// Invariant: no heap, no lock; the pages go back when the scope ends.
#pragma once

#include <sys/mman.h>

#include "base/types.h"

namespace fermata {

template <class T, int kInline = 64>
class Scratch {
 public:
  explicit Scratch(i64 count) {
    if (FERMATA_LIKELY(count <= kInline)) return;
    bytes_ = page_ceil(u64(count) * sizeof(T));
    void* pages = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) __builtin_trap();
    data_ = static_cast<T*>(pages);
  }
  ~Scratch() {
    if (FERMATA_UNLIKELY(bytes_ != 0)) munmap(data_, bytes_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T* data() { return data_; }
  T& operator[](i64 i) { return data_[i]; }

 private:
  struct Room {
    alignas(T) unsigned char bytes[sizeof(T) * kInline];
  };
  Room room_;
  T* data_ = reinterpret_cast<T*>(&room_);
  u64 bytes_ = 0;
};

}  // namespace fermata
