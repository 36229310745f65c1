// SPDX-License-Identifier: Apache-2.0
// What the fuzz targets share. An invariant that does not hold ends the process, and libFuzzer
// keeps the input.
#pragma once

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/types.h"

#define REQUIRE(condition)                                                         \
  do {                                                                             \
    if (!(condition)) {                                                            \
      fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      abort();                                                                     \
    }                                                                              \
  } while (0)

namespace fermata::fuzz {

/// A version in an input becomes the current one, so that no corpus ends at it when there is a new
/// version. Inputs with this one (cut to the field's width) keep it: they try another.
inline constexpr u32 kOtherVersion = ~u32(0);

/// What became of an input, for tests/support/fuzz.py: how far it was read.
[[gnu::format(printf, 1, 2)]] inline void tell(const char* format, ...) {
  static const bool wanted = getenv("FERMATA_FUZZ_TELL");
  if (!wanted) return;
  va_list values;
  va_start(values, format);
  fprintf(stderr, "outcome: ");
  vfprintf(stderr, format, values);
  fprintf(stderr, "\n");
  va_end(values);
}

/// A file in memory that readers which want a path or a descriptor can open.
class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
    REQUIRE(fd_ >= 0);
    REQUIRE(fchmod(fd_, 0600) == 0);  // an image that others may write is not read
    snprintf(path_, sizeof path_, "/proc/self/fd/%d", fd_);
  }
  void hold(const void* data, u64 bytes) {
    REQUIRE(ftruncate(fd_, 0) == 0);
    REQUIRE(pwrite(fd_, data, bytes, 0) == ssize_t(bytes));
  }
  int fd() const { return fd_; }
  const char* path() const { return path_; }

 private:
  int fd_;
  char path_[32];
};

}  // namespace fermata::fuzz
