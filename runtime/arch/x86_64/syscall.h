// SPDX-License-Identifier: Apache-2.0
// The system call instruction. Included by sys/ only.
#pragma once

#include "base/types.h"

namespace fermata::arch {

/// Makes system call `number`. Returns what the kernel returned: a value, or -errno in
/// [-4095, -1]. Clobbers rcx and r11 (System V ABI, A.2.1). Blocks as the call does.
inline i64 raw_syscall(u64 number, u64 a = 0, u64 b = 0, u64 c = 0, u64 d = 0, u64 e = 0,
                       u64 f = 0) {
  register u64 r10 asm("r10") = d;
  register u64 r8 asm("r8") = e;
  register u64 r9 asm("r9") = f;
  i64 result;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

inline u64 read_fs_base() {
  u64 base;
  asm volatile("rdfsbase %0" : "=r"(base));
  return base;
}
inline void write_fs_base(u64 base) { asm volatile("wrfsbase %0" : : "r"(base) : "memory"); }
inline void write_gs_base(u64 base) { asm volatile("wrgsbase %0" : : "r"(base) : "memory"); }
inline u64 read_gs_base() {
  u64 base;
  asm volatile("rdgsbase %0" : "=r"(base));
  return base;
}

inline u64 xgetbv0() {
  u32 low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return u64(high) << 32 | low;
}

inline void cpuid(u32 leaf, u32 subleaf, u32& a, u32& b, u32& c, u32& d) {
  asm volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "0"(leaf), "2"(subleaf));
}

inline void pause() { asm volatile("pause"); }

}  // namespace fermata::arch
