// SPDX-License-Identifier: Apache-2.0
// One ELF file, mapped read-only, with every access checked against its length.
//
// Input files are whatever an MPI installation ships, so no offset in them is trusted: a table that
// points outside the file makes parse() fail by name instead of making the finder read elsewhere.
#pragma once

#include <string>
#include <vector>

#include "base/types.h"

namespace fermata::sites {

/// A half-open range of virtual addresses as linked, with the file offset of its first byte.
struct CodeRange {
  u64 begin, end;
  u64 file_offset;
  std::string name;  // section name, or "segment" for a file without section headers
};

class ElfFile {
 public:
  ElfFile() = default;
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;
  ~ElfFile();  // unmaps the file

  /// Returns an empty string, or what is wrong with the file.
  std::string open(const char* path);

  const u8* data() const { return data_; }
  u64 bytes() const { return bytes_; }

  /// Executable bytes that the file itself provides, ascending, not overlapping.
  const std::vector<CodeRange>& code() const { return code_; }

  /// The GNU build-id, cut to 20 bytes; empty when the file has none.
  const std::vector<u8>& build_id() const { return build_id_; }

  /// Virtual address of .eh_frame, 0 if there is none. frame_bytes is an upper bound.
  u64 frame_address() const { return frame_address_; }
  u64 frame_bytes() const { return frame_bytes_; }

  /// Whether the file has section headers, which the next two need.
  bool has_sections() const;
  /// Addresses that the file's symbol tables call functions.
  std::vector<u64> function_symbols() const;
  /// Addresses that its relative relocations write into data, and its other symbols.
  std::vector<u64> named_addresses() const;

  /// The file bytes behind virtual address `address`; *left tells how many follow in its segment.
  /// nullptr when no segment provides that address.
  const u8* at(u64 address, u64* left) const;

 private:
  struct Segment {
    u64 address, offset, bytes;
    bool executable;
  };
  std::string parse();
  std::string parse_segments();
  std::string parse_sections();
  template <typename Entry, typename Take>
  void each_entry(u32 type_a, u32 type_b, Take take) const;
  void add_packed(std::vector<u64>* out) const;
  void parse_notes(u64 offset, u64 bytes);
  void parse_frame_header(u64 address);
  bool inside(u64 offset, u64 count) const { return offset <= bytes_ && count <= bytes_ - offset; }

  const u8* data_ = nullptr;
  u64 bytes_ = 0;
  std::vector<Segment> segments_;
  std::vector<CodeRange> code_;
  std::vector<u8> build_id_;
  u64 frame_address_ = 0, frame_bytes_ = 0;
};

}  // namespace fermata::sites
