// SPDX-License-Identifier: Apache-2.0
// The linear decode of one range of code, and what the finder wants to know of it.
#pragma once

#include <Zydis/Zydis.h>

#include <string>
#include <vector>

#include "base/types.h"

namespace fermata::sites {

inline constexpr u8 kFsPrefix = 0x64;

struct Reference {
  u64 target;
  u64 from;
  bool loads;  // reads or writes memory there (true), or only takes the address (lea)
};

/// What one linear decode saw. Addresses are virtual, as linked.
struct Listing {
  std::vector<bool> boundary;       // [i]: an instruction begins at begin + i
  std::vector<bool> covered;        // [i]: byte i belongs to an instruction (explore() only)
  u64 body = 0;                     // first byte after the nops that the range begins with
  std::vector<u64> fs_prefixes;     // effective 0x64 prefixes of FS memory operands, ascending
  std::vector<u64> branch_targets;  // of direct calls and jumps
  std::vector<Reference> references;  // rip-relative memory operands
  std::string error;                // empty, or why the range is not clean code
};

class Decoder {
 public:
  Decoder();

  /// Decodes bytes[0, count) linked at `begin` from the first to the last byte. `padded` skips runs
  /// of zero bytes up to the next multiple of 16, which separate hand-written pieces of code.
  /// Invariant: without an error, the last instruction ends exactly at begin + count. Not checked:
  /// the decoder is given no byte beyond it.
  Listing list(const u8* bytes, u64 count, u64 begin, bool padded) const;

  /// Decodes what control reaches from `entries` by falling through and by direct branches, for
  /// functions that linear decoding cannot cross. `covered` of the result marks the bytes of those
  /// instructions. A call does not return if what follows it is fill up to where a branch leads.
  /// An error means that two instructions overlap, or that one cannot be decoded.
  Listing explore(const u8* bytes, u64 count, u64 begin, const std::vector<u64>& entries) const;

  /// Whether bytes[position] (a 0x64) could act as an FS prefix, whatever precedes it. False is a
  /// proof: no instruction that begins there, or up to four prefix bytes earlier, would use FS.
  bool may_be_prefix(const u8* bytes, u64 count, u64 position) const;

  /// Whether an instruction that begins at bytes[position] reads or writes the FS base itself.
  bool is_fs_base_access(const u8* bytes, u64 count, u64 position) const;

  /// Whether the FS operand after the prefix at bytes[position] has a form that thread-local
  /// storage is reached by: an absolute displacement below 64 KiB (of either sign), or a register.
  bool is_tls_form(const u8* bytes, u64 count, u64 position) const;

  /// Whether it is the first of those: an absolute displacement below 64 KiB.
  bool is_absolute_tls_form(const u8* bytes, u64 count, u64 position) const;

 private:
  Listing walk(const u8* bytes, u64 count, u64 begin, std::vector<u64> entries,
               const std::vector<bool>& last_calls, std::vector<u64>* returns) const;
  bool is_fill(const u8* bytes, u64 count, u64 from, u64 to) const;
  std::string note(const ZydisDecodedInstruction& instruction, u64 address, Listing* out) const;
  bool decode(const u8* bytes, u64 count, ZydisDecodedInstruction* out) const;
  ZydisDecoder decoder_;
};

}  // namespace fermata::sites
