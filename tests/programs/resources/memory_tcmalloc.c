// SPDX-License-Identifier: Apache-2.0
// Row: tcmalloc in place of malloc, with threads
// Flags: -l:libtcmalloc_minimal.so.4
#include "memory_allocator.h"

extern int tc_version(int *, int *, const char **);

int main(int argc, char **argv) {
  return run(argc, argv, "tc_version", (const void *)(uintptr_t)tc_version);
}
