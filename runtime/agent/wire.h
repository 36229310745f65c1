// SPDX-License-Identifier: Apache-2.0
// How the fields of a message lie in a frame (spec/protocol.toml): little-endian, unaligned, one
// after the other. The writer fills a buffer its owner gives and the reader's views point into the
// received frame, so that a report costs no allocation wherever the MPI thread happens to be.
//
// Invariant: neither ever touches a byte outside its buffer; a writer that ran out stays failed,
// and a reader that met nonsense says so. Checked at each access.
#pragma once

#include <string.h>

#include "base/types.h"
#include "halves/crossing.h"

namespace fermata::protocol {

// A view of text; not NUL-terminated.
struct Text {
  const char* data = "";
  u32 bytes = 0;
};

inline Text text(const char* string) { return Text{string, static_cast<u32>(strlen(string))}; }

// A view of a list of (key, value). A received one is unaligned: read it by at().
struct Pairs {
  const void* data = nullptr;
  u64 count = 0;

  Count at(u64 i) const {
    Count pair;
    memcpy(&pair, static_cast<const u8*>(data) + i * sizeof(Count), sizeof(pair));
    return pair;
  }
};

class Writer {
 public:
  Writer(u8* buffer, u64 capacity) : buffer_(buffer), capacity_(capacity) {}

  void put(u32 value) { raw(&value, sizeof(value)); }
  void put(i32 value) { raw(&value, sizeof(value)); }
  void put(u64 value) { raw(&value, sizeof(value)); }
  void put(Text value) {
    put(value.bytes);
    raw(value.data, value.bytes);
  }
  void put(Pairs value) {
    put(value.count);
    if (value.count > capacity_ / sizeof(Count)) {
      failed_ = true;
      return;
    }
    raw(value.data, value.count * sizeof(Count));
  }

  void raw(const void* data, u64 bytes) {
    if (failed_ || bytes > capacity_ - used_) {
      failed_ = true;
      return;
    }
    if (bytes != 0) memcpy(buffer_ + used_, data, bytes);
    used_ += bytes;
  }

  u64 used() const { return used_; }
  bool ok() const { return !failed_; }

 private:
  u8* buffer_;
  u64 capacity_;
  u64 used_ = 0;
  bool failed_ = false;
};

class Reader {
 public:
  Reader(const u8* data, u64 bytes) : data_(data), left_(bytes) {}

  bool get(u32& value) { return raw(&value, sizeof(value)); }
  bool get(i32& value) { return raw(&value, sizeof(value)); }
  bool get(u64& value) { return raw(&value, sizeof(value)); }
  bool get(Text& value) {
    if (!get(value.bytes) || value.bytes > left_) return false;
    value.data = reinterpret_cast<const char*>(data_);
    skip(value.bytes);
    return true;
  }
  bool get(Pairs& value) {
    if (!get(value.count) || value.count > left_ / sizeof(Count)) return false;
    value.data = data_;
    skip(value.count * sizeof(Count));
    return true;
  }
  bool at_end() const { return left_ == 0; }

 private:
  bool raw(void* out, u64 bytes) {
    if (bytes > left_) return false;
    memcpy(out, data_, bytes);
    skip(bytes);
    return true;
  }
  void skip(u64 bytes) {
    data_ += bytes;
    left_ -= bytes;
  }

  const u8* data_;
  u64 left_;
};

}  // namespace fermata::protocol
