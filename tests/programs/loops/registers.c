// SPDX-License-Identifier: Apache-2.0
// Registers that hold numbers for a while, with nothing in memory to fetch them from again.
#include <string.h>

#include "loops.h"

enum { kSpins = 20000 };

static void fill(unsigned char *bytes, size_t count, const struct worker *w) {
  for (size_t i = 0; i < count; i++)
    bytes[i] = (unsigned char)(i * 37 + w->turn * 11 + (uint64_t)w->id * 101);
}

__attribute__((target("avx"))) static void vectors(struct worker *w) {
  unsigned char in[16][32], out[16][32];
  if (!__builtin_cpu_supports("avx")) return;
  fill(in[0], sizeof in, w);
  memset(out, 0, sizeof out);
  uint64_t left = kSpins;
#define EACH16(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) \
    DO(12) DO(13) DO(14) DO(15)
#define GET(n) "vmovdqu " #n "*32(%1), %%ymm" #n "\n\t"
#define PUT(n) "vmovdqu %%ymm" #n ", " #n "*32(%2)\n\t"
  __asm__ volatile(EACH16(GET) "1: decq %0\n\tjnz 1b\n\t" EACH16(PUT) "vzeroupper"
                   : "+r"(left)
                   : "r"(in), "r"(out)
                   : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                     "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
  EXPECT(memcmp(in, out, sizeof in) == 0);
}

__attribute__((target("avx512f"))) static void wide_vectors(struct worker *w) {
  unsigned char in[16][64], out[16][64];
  uint64_t left = kSpins, mask = w->turn * 2654435761u & 0xffff, kept = 0;
  if (!__builtin_cpu_supports("avx512f")) return;
  fill(in[0], sizeof in, w);
  memset(out, 0, sizeof out);
#define EACH_HIGH(DO) DO(0, 16) DO(1, 17) DO(2, 18) DO(3, 19) DO(4, 20) DO(5, 21) DO(6, 22) \
    DO(7, 23) DO(8, 24) DO(9, 25) DO(10, 26) DO(11, 27) DO(12, 28) DO(13, 29) DO(14, 30) DO(15, 31)
#define GET_HIGH(n, r) "vmovdqu64 " #n "*64(%2), %%zmm" #r "\n\t"
#define PUT_HIGH(n, r) "vmovdqu64 %%zmm" #r ", " #n "*64(%3)\n\t"
  __asm__ volatile("kmovw %k4, %%k3\n\t" EACH_HIGH(GET_HIGH) "1: decq %0\n\tjnz 1b\n\t"
                   EACH_HIGH(PUT_HIGH) "kmovw %%k3, %k1\n\tvzeroupper"
                   : "+r"(left), "=&r"(kept)
                   : "r"(in), "r"(out), "r"(mask)
                   : "memory", "cc", "k3", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21",
                     "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29",
                     "xmm30", "xmm31");
  EXPECT(memcmp(in, out, sizeof in) == 0 && (kept & 0xffff) == mask);
}

// Eight numbers on the stack of the x87, with rounding and precision of their own.
static void stacked(struct worker *w) {
  double in[8], out[8];
  uint64_t left = kSpins;
  uint16_t mode = w->turn % 2 ? 0x0e7f : 0x067f, found = 0, usual = 0;
  uint32_t sse = 0x7f80, sse_found = 0, sse_usual = 0;
  for (int i = 0; i < 8; i++) in[i] = (double)(w->turn % 1000 + 1) / (i + 3);
  __asm__ volatile("fnstcw %0\n\tstmxcsr %1" : "=m"(usual), "=m"(sse_usual));
  __asm__ volatile(
      "fldcw %5\n\tldmxcsr %6\n\t"
      "fldl (%3)\n\tfldl 8(%3)\n\tfldl 16(%3)\n\tfldl 24(%3)\n\t"
      "fldl 32(%3)\n\tfldl 40(%3)\n\tfldl 48(%3)\n\tfldl 56(%3)\n"
      "1:\tdecq %0\n\tjnz 1b\n\t"
      "fstpl 56(%4)\n\tfstpl 48(%4)\n\tfstpl 40(%4)\n\tfstpl 32(%4)\n\t"
      "fstpl 24(%4)\n\tfstpl 16(%4)\n\tfstpl 8(%4)\n\tfstpl (%4)\n\t"
      "fnstcw %1\n\tstmxcsr %2"
      : "+r"(left), "=m"(found), "=m"(sse_found)
      : "r"(in), "r"(out), "m"(mode), "m"(sse)
      : "memory", "cc", "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)");
  __asm__ volatile("fldcw %0\n\tldmxcsr %1" : : "m"(usual), "m"(sse_usual));
  EXPECT(found == mode && (sse_found & ~0x3fu) == sse && memcmp(in, out, sizeof in) == 0);
}

const struct loop register_loops[] = {
    {"avx", vectors, 0, 0, 2, 0},
    {"avx512", wide_vectors, 0, 0, 2, 0},
    {"x87", stacked, 0, 0, 2, 0},
    {0, 0, 0, 0, 0, 0},
};
