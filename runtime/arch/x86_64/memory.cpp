// SPDX-License-Identifier: Apache-2.0
// The four functions a compiler may call on its own account, for programs without a libc.
#include "base/types.h"

extern "C" {

void* memcpy(void* __restrict to, const void* __restrict from, size_t bytes) {
  void* result = to;
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
  return result;
}

void* memset(void* to, int value, size_t bytes) {
  void* result = to;
  asm volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(value) : "memory");
  return result;
}

void* memmove(void* to, const void* from, size_t bytes) {
  if (to <= from || static_cast<char*>(to) >= static_cast<const char*>(from) + bytes)
    return memcpy(to, from, bytes);
  char* out = static_cast<char*>(to);
  const char* in = static_cast<const char*>(from);
  while (bytes--) out[bytes] = in[bytes];
  return to;
}

int memcmp(const void* a, const void* b, size_t bytes) {
  const unsigned char* x = static_cast<const unsigned char*>(a);
  const unsigned char* y = static_cast<const unsigned char*>(b);
  for (size_t i = 0; i < bytes; i++)
    if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
  return 0;
}

}  // extern "C"
