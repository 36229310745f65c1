// SPDX-License-Identifier: Apache-2.0
// What the processor offered when the program was saved. Its libraries have chosen their code by
// it (ifunc, -march=native), and the signal frames on its stacks hold registers in the processor's
// own layout: a restart needs every feature again, and the same layout.
#include "launcher/image/cpu.h"

#include "arch/x86_64/context.h"
#include "arch/x86_64/syscall.h"
#include "base/crc32c.h"

namespace fermata::launch {
namespace {

// Which word of cpu_features a feature stands in (spec/image.toml) and how far from its bit 0.
constexpr u8 kXcr0 = 0, kLeaf1c = 1, kLeaf7b = 2, kLeaf7c = 3, kLeaf7d = 4, kExtendedC = 5;

struct Feature {
  u8 place, bit;
  const char* name;  // as /proc/cpuinfo has it
};
constexpr Feature kFeatures[] = {
    {kXcr0, 2, "avx_state"}, {kXcr0, 5, "avx512_state"}, {kXcr0, 17, "amx_state"},
    {kLeaf1c, 0, "pni"}, {kLeaf1c, 1, "pclmulqdq"}, {kLeaf1c, 9, "ssse3"}, {kLeaf1c, 12, "fma"},
    {kLeaf1c, 13, "cx16"}, {kLeaf1c, 19, "sse4_1"}, {kLeaf1c, 20, "sse4_2"},
    {kLeaf1c, 22, "movbe"}, {kLeaf1c, 23, "popcnt"}, {kLeaf1c, 25, "aes"}, {kLeaf1c, 26, "xsave"},
    {kLeaf1c, 28, "avx"}, {kLeaf1c, 29, "f16c"}, {kLeaf1c, 30, "rdrand"},
    {kLeaf7b, 3, "bmi1"}, {kLeaf7b, 5, "avx2"}, {kLeaf7b, 8, "bmi2"}, {kLeaf7b, 9, "erms"},
    {kLeaf7b, 16, "avx512f"}, {kLeaf7b, 17, "avx512dq"}, {kLeaf7b, 18, "rdseed"},
    {kLeaf7b, 19, "adx"}, {kLeaf7b, 21, "avx512ifma"}, {kLeaf7b, 23, "clflushopt"},
    {kLeaf7b, 24, "clwb"}, {kLeaf7b, 26, "avx512pf"}, {kLeaf7b, 27, "avx512er"},
    {kLeaf7b, 28, "avx512cd"}, {kLeaf7b, 29, "sha_ni"}, {kLeaf7b, 30, "avx512bw"},
    {kLeaf7b, 31, "avx512vl"},
    {kLeaf7c, 1, "avx512vbmi"}, {kLeaf7c, 5, "waitpkg"}, {kLeaf7c, 6, "avx512_vbmi2"},
    {kLeaf7c, 8, "gfni"}, {kLeaf7c, 9, "vaes"}, {kLeaf7c, 10, "vpclmulqdq"},
    {kLeaf7c, 11, "avx512_vnni"}, {kLeaf7c, 12, "avx512_bitalg"},
    {kLeaf7c, 14, "avx512_vpopcntdq"}, {kLeaf7c, 22, "rdpid"}, {kLeaf7c, 27, "movdiri"},
    {kLeaf7c, 28, "movdir64b"},
    {kLeaf7d, 2, "avx512_4vnniw"}, {kLeaf7d, 3, "avx512_4fmaps"},
    {kLeaf7d, 8, "avx512_vp2intersect"}, {kLeaf7d, 14, "serialize"}, {kLeaf7d, 22, "amx_bf16"},
    {kLeaf7d, 23, "avx512_fp16"}, {kLeaf7d, 24, "amx_tile"}, {kLeaf7d, 25, "amx_int8"},
    {kExtendedC, 5, "abm"}, {kExtendedC, 6, "sse4a"}, {kExtendedC, 11, "xop"},
    {kExtendedC, 16, "fma4"}, {kExtendedC, 21, "tbm"},
};

bool has(const u64 (&features)[4], const Feature& feature) {
  const u64 word = feature.place <= kLeaf1c ? feature.place : feature.place / 2 + 1;
  const u64 shift = feature.place == kLeaf7c || feature.place == kExtendedC ? 32 : 0;
  return features[word] >> (shift + feature.bit) & 1;
}

}  // namespace

void cpu_features(u64 (&out)[4]) {
  u32 a, b, c, d, extended;
  out[0] = arch::xgetbv0();
  arch::cpuid(1, 0, a, b, c, d);
  out[1] = u64(d) << 32 | c;
  arch::cpuid(0x8000'0001, 0, a, b, extended, d);
  arch::cpuid(7, 0, a, b, c, d);
  out[2] = u64(c) << 32 | b;
  out[3] = u64(extended) << 32 | d;
}

u32 xsave_layout(u64 components) {
  u32 crc = 0;
  for (u32 i = 2; i < 63; i++) {
    if (!(components >> i & 1)) continue;
    u32 place[4];  // size, offset
    arch::cpuid(13, i, place[0], place[1], place[2], place[3]);
    crc = crc32c(place, 8, crc);
  }
  return crc;
}

bool missing_features(const u64 (&saved)[4], Message& names) {
  u64 here[4];
  cpu_features(here);
  bool any = false;
  for (const Feature& feature : kFeatures) {
    if (!has(saved, feature) || has(here, feature)) continue;
    names << (any ? " " : "") << feature.name;
    any = true;
  }
  return any;
}

}  // namespace fermata::launch
