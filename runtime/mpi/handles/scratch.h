// SPDX-License-Identifier: Apache-2.0
// Arrays that live as long as one call.
//
// Converting an array of handles or statuses needs room of a length known only at run time, in code
// that may run in a signal handler on top of an interrupted malloc. So: a small array in the frame,
// and pages that are kept from call to call for the long one.
// Invariant: no heap, no lock, and no call of the kernel once there are pages. Not checked: nothing
// else is called here.
#pragma once

#include <sys/mman.h>

#include "base/kept.h"

namespace fermata {

struct FreshPages {
  static void* map(u64 bytes) {
    void* const pages =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) __builtin_trap();
    return pages;
  }
  static void unmap(void* pages, u64 bytes) { (void)munmap(pages, bytes); }
};

template <class T, int kInline = 64>
class Scratch {
 public:
  explicit Scratch(i64 count) {
    if (FERMATA_UNLIKELY(count > kInline))
      data_ = static_cast<T*>(KeptRoom<FreshPages>::take(u64(count) * sizeof(T)));
  }
  ~Scratch() {
    if (FERMATA_UNLIKELY(data_ != inline_data())) KeptRoom<FreshPages>::give_back(data_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T* data() { return data_; }
  T& operator[](i64 i) { return data_[i]; }

 private:
  T* inline_data() { return reinterpret_cast<T*>(&room_); }

  struct Room {
    alignas(T) unsigned char bytes[sizeof(T) * kInline];
  };
  Room room_;
  T* data_ = inline_data();
};

}  // namespace fermata
