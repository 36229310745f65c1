// SPDX-License-Identifier: Apache-2.0
// Linear decoding with Zydis. Only the instruction itself is decoded, not its operands: whether FS
// is used, where a branch goes and what a rip-relative operand names stand in the raw fields, and
// this is what keeps a 100 MiB library within seconds.
#include "sites/decode.h"

#include <stdio.h>

namespace fermata::sites {
namespace {

bool is_legacy_prefix(u8 byte) {
  switch (byte) {
    case 0x26: case 0x2e: case 0x36: case 0x3e: case 0x64: case 0x65:
    case 0x66: case 0x67: case 0xf0: case 0xf2: case 0xf3: return true;
    default: return false;
  }
}

/// Index of the effective FS prefix inside the instruction, or -1.
int fs_prefix_index(const ZydisDecodedInstruction& instruction) {
  if (!(instruction.attributes & ZYDIS_ATTRIB_HAS_SEGMENT_FS)) return -1;
  for (int i = instruction.raw.prefix_count - 1; i >= 0; i--)
    if (instruction.raw.prefixes[i].value == kFsPrefix) return i;
  return -1;
}

bool touches_fs_base(const ZydisDecodedInstruction& instruction) {
  return instruction.mnemonic == ZYDIS_MNEMONIC_WRFSBASE ||
         instruction.mnemonic == ZYDIS_MNEMONIC_RDFSBASE;
}

std::string at_address(const char* what, u64 address) {
  char text[160];
  snprintf(text, sizeof text, "%s at 0x%llx", what, static_cast<unsigned long long>(address));
  return text;
}

}  // namespace

Decoder::Decoder() {
  ZydisDecoderInit(&decoder_, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
}

bool Decoder::decode(const u8* bytes, u64 count, ZydisDecodedInstruction* out) const {
  return ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder_, nullptr, bytes, count, out));
}

Listing Decoder::list(const u8* bytes, u64 count, u64 begin, bool padded) const {
  Listing out;
  out.boundary.assign(count + 1, false);
  out.body = begin;
  ZydisDecodedInstruction ins;
  u64 i = 0;
  while (i < count) {
    out.boundary[i] = true;
    if (padded && bytes[i] == 0) {
      u64 next = i;
      while (next < count && bytes[next] == 0 && ((begin + next) % 16 != 0 || next == i)) next++;
      if (next == count || (begin + next) % 16 == 0) {
        i = next;
        continue;
      }
    }
    if (!decode(bytes + i, count - i, &ins)) {
      out.error = at_address("bytes that are no instruction", begin + i);
      return out;
    }
    const u64 after = begin + i + ins.length;
    if (ins.mnemonic == ZYDIS_MNEMONIC_NOP && out.body == begin + i) out.body = after;
    if (const int prefix = fs_prefix_index(ins); prefix >= 0)
      out.fs_prefixes.push_back(begin + i + u64(prefix));
    for (const auto& imm : ins.raw.imm)
      if (imm.size && imm.is_relative) out.branch_targets.push_back(after + u64(imm.value.s));
    if ((ins.attributes & ZYDIS_ATTRIB_HAS_MODRM) && ins.raw.modrm.mod == 0 &&
        ins.raw.modrm.rm == 5 && ins.raw.disp.size == 32)
      out.references.push_back({after + u64(ins.raw.disp.value), begin + i,
                                ins.mnemonic != ZYDIS_MNEMONIC_LEA &&
                                    ins.mnemonic != ZYDIS_MNEMONIC_NOP});
    if (touches_fs_base(ins)) {
      out.error = at_address("an instruction that reads or writes the FS base itself", begin + i);
      return out;
    }
    i += ins.length;
  }
  out.boundary[count] = true;
  return out;
}

bool Decoder::may_be_prefix(const u8* bytes, u64 count, u64 position) const {
  ZydisDecodedInstruction ins;
  for (u64 before = 0; before <= 4 && before <= position; before++) {
    if (before && !is_legacy_prefix(bytes[position - before])) return false;
    const u64 start = position - before;
    // The shortest possible FS instruction decides: what follows the range is not ours to read.
    if (decode(bytes + start, count - start, &ins) &&
        (ins.attributes & ZYDIS_ATTRIB_HAS_SEGMENT_FS) && ins.length > before + 1)
      return true;
  }
  return false;
}

bool Decoder::is_fs_base_access(const u8* bytes, u64 count, u64 position) const {
  ZydisDecodedInstruction ins;
  return decode(bytes + position, count - position, &ins) && touches_fs_base(ins);
}

bool Decoder::is_tls_form(const u8* bytes, u64 count, u64 position) const {
  ZydisDecodedInstruction ins;
  if (!decode(bytes + position, count - position, &ins)) return false;
  if (!(ins.attributes & ZYDIS_ATTRIB_HAS_MODRM)) return false;
  const bool no_base = ins.raw.modrm.mod == 0 && ins.raw.modrm.rm == 4 && ins.raw.sib.base == 5;
  if (no_base) return ins.raw.disp.value > -0x10000 && ins.raw.disp.value < 0x10000;
  return ins.raw.modrm.mod != 3;
}

}  // namespace fermata::sites
