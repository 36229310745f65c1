// SPDX-License-Identifier: Apache-2.0
// Linear decoding with Zydis. Only the instruction itself is decoded, not its operands: whether FS
// is used, where a branch goes and what a rip-relative operand names stand in the raw fields, and
// this is what keeps a 100 MiB library within seconds.
#include "sites/decode.h"

#include <stdio.h>

#include <algorithm>

namespace fermata::sites {
namespace {

// What code is aligned to at most within a function, by compilers and by hand.
constexpr u64 kAlignment = 64;

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

/// Whether the memory operand is a displacement alone, not relative to rip.
bool has_no_base(const ZydisDecodedInstruction& ins) {
  return ins.raw.modrm.mod == 0 && ins.raw.modrm.rm == 4 && ins.raw.sib.base == 5;
}

/// Whether control never continues behind the instruction. Interrupts and traps count as such: what
/// follows them is reached in another way or not at all.
bool ends_flow(const ZydisDecodedInstruction& instruction) {
  switch (instruction.mnemonic) {
    case ZYDIS_MNEMONIC_JMP: case ZYDIS_MNEMONIC_RET: case ZYDIS_MNEMONIC_UD0:
    case ZYDIS_MNEMONIC_UD1: case ZYDIS_MNEMONIC_UD2: case ZYDIS_MNEMONIC_HLT:
    case ZYDIS_MNEMONIC_INT3: case ZYDIS_MNEMONIC_IRETQ: return true;
    default: return false;
  }
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

/// Records what one instruction at `address` tells. Returns why it cannot be accepted, or nothing.
std::string Decoder::note(const ZydisDecodedInstruction& ins, u64 address, Listing* out) const {
  const u64 after = address + ins.length;
  if (const int prefix = fs_prefix_index(ins); prefix >= 0)
    out->fs_prefixes.push_back(address + u64(prefix));
  for (const auto& imm : ins.raw.imm)
    if (imm.size && imm.is_relative) out->branch_targets.push_back(after + u64(imm.value.s));
  if ((ins.attributes & ZYDIS_ATTRIB_HAS_MODRM) && ins.raw.modrm.mod == 0 &&
      ins.raw.modrm.rm == 5 && ins.raw.disp.size == 32)
    out->references.push_back({after + u64(ins.raw.disp.value), address,
                               ins.mnemonic != ZYDIS_MNEMONIC_LEA &&
                                   ins.mnemonic != ZYDIS_MNEMONIC_NOP});
  if (!touches_fs_base(ins)) return "";
  return at_address("an instruction that reads or writes the FS base itself", address);
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
    out.error = note(ins, begin + i, &out);
    if (!out.error.empty()) return out;
    i += ins.length;
    if (ins.mnemonic == ZYDIS_MNEMONIC_NOP && out.body == begin + i - ins.length)
      out.body = begin + i;
  }
  out.boundary[count] = true;
  return out;
}

/// Follows control as explore() does, past no call of `last_calls` ([i]: it returns to begin + i).
/// Continues behind what is wrong, so that every branch is known; the first error stays.
Listing Decoder::walk(const u8* bytes, u64 count, u64 begin, std::vector<u64> entries,
                      const std::vector<bool>& last_calls, std::vector<u64>* returns) const {
  Listing out;
  out.boundary.assign(count + 1, false);
  out.covered.assign(count, false);
  out.body = begin;
  const auto fail = [&](std::string why) {
    if (out.error.empty()) out.error = std::move(why);
  };
  ZydisDecodedInstruction ins;
  while (!entries.empty()) {
    u64 i = entries.back() - begin;
    entries.pop_back();
    while (i < count && !out.boundary[i]) {
      if (out.covered[i]) fail(at_address("instructions overlap", begin + i));
      if (!decode(bytes + i, count - i, &ins)) {
        fail(at_address("control goes to bytes that are no instruction", begin + i));
        break;
      }
      out.boundary[i] = true;
      for (u64 k = 0; k < ins.length; k++) {
        // Two instructions that share bytes: one of them is not what it seems.
        if (out.covered[i + k]) fail(at_address("instructions overlap", begin + i + k));
        out.covered[i + k] = true;
      }
      const u64 known = out.branch_targets.size();
      fail(note(ins, begin + i, &out));
      for (u64 k = known; k < out.branch_targets.size(); k++)
        if (out.branch_targets[k] >= begin && out.branch_targets[k] < begin + count)
          entries.push_back(out.branch_targets[k]);
      i += ins.length;
      if (ins.mnemonic == ZYDIS_MNEMONIC_CALL) returns->push_back(i);
      if (ends_flow(ins) || last_calls[i]) break;
    }
  }
  std::sort(out.fs_prefixes.begin(), out.fs_prefixes.end());
  return out;
}

/// Whether bytes[from, to) behind a call are fill, so that the call does not return: less than an
/// alignment's worth, no possible prefix among them, and no instruction ends where code is known to
/// continue.
bool Decoder::is_fill(const u8* bytes, u64 count, u64 from, u64 to) const {
  if (from >= to || to - from >= kAlignment) return false;
  for (u64 i = from; i < to; i++)
    if ((bytes[i] == kFsPrefix && may_be_prefix(bytes, count, i)) ||
        is_fs_base_access(bytes, count, i))
      return false;
  ZydisDecodedInstruction ins;
  u64 i = from;
  while (i < to && decode(bytes + i, count - i, &ins)) {
    i += ins.length;
    if (ends_flow(ins)) return false;
  }
  return i != to;
}

Listing Decoder::explore(const u8* bytes, u64 count, u64 begin,
                         const std::vector<u64>& entries) const {
  std::vector<bool> last_calls(count + 1, false);
  while (true) {
    std::vector<u64> returns;
    Listing out = walk(bytes, count, begin, entries, last_calls, &returns);
    if (out.error.empty()) return out;
    std::vector<u64> known = entries;  // to be code
    known.insert(known.end(), out.branch_targets.begin(), out.branch_targets.end());
    known.push_back(begin + count);
    std::sort(known.begin(), known.end());
    bool changed = false;
    for (const u64 from : returns) {
      const auto to = std::lower_bound(known.begin(), known.end(), begin + from);
      if (last_calls[from] || !is_fill(bytes, count, from, *to - begin)) continue;
      changed = last_calls[from] = true;
    }
    if (!changed) return out;
  }
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

bool Decoder::is_absolute_tls_form(const u8* bytes, u64 count, u64 position) const {
  ZydisDecodedInstruction ins;
  if (!decode(bytes + position, count - position, &ins)) return false;
  return (ins.attributes & ZYDIS_ATTRIB_HAS_MODRM) && has_no_base(ins) &&
         ins.raw.disp.value > -0x10000 && ins.raw.disp.value < 0x10000;
}

bool Decoder::is_tls_form(const u8* bytes, u64 count, u64 position) const {
  ZydisDecodedInstruction ins;
  if (!decode(bytes + position, count - position, &ins)) return false;
  if (!(ins.attributes & ZYDIS_ATTRIB_HAS_MODRM)) return false;
  if (has_no_base(ins)) return is_absolute_tls_form(bytes, count, position);
  return ins.raw.modrm.mod != 3;
}

}  // namespace fermata::sites
