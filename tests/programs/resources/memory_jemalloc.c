// SPDX-License-Identifier: Apache-2.0
// Row: jemalloc in place of malloc, with threads
// Flags: -l:libjemalloc.so.2
#include "memory_allocator.h"

extern int mallctl(const char *, void *, size_t *, void *, size_t);

int main(int argc, char **argv) {
  return run(argc, argv, "mallctl", (const void *)(uintptr_t)mallctl);
}
