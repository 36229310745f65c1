// SPDX-License-Identifier: Apache-2.0
// Which 0x64 bytes of a library are FS prefixes.
//
// Problem: the lower half runs on GS, so every FS prefix in its code is rewritten to GS in place. A
// missed prefix reads the application's thread block; a rewritten byte that was no prefix (the
// middle of another instruction, a constant) corrupts the library. Neither can be seen afterwards.
//
// Idea: x86 code cannot be decoded from an arbitrary point, but .eh_frame says where each function
// begins and ends. Each one is decoded from its first byte, and the decode must land exactly on its
// end. Code that no FDE bounds (start files, PLTs, old assembly) is decoded gap by gap, under
// stricter rules. A range is left alone, decodable or not, when none of its 0x64 bytes could be a
// prefix: Decoder::may_be_prefix() proves that for each byte on its own, whatever precedes it, so
// constants in the code do no harm as long as they cannot be mistaken.
//
// A range that holds a possible prefix is accepted only if all of these hold:
//   1. The linear decode is clean and lands on the end (frames: of the FDE; gaps: of the gap).
//   2. Each direct branch from the range into itself lands on an instruction of that decode, and so
//      does each FDE that begins inside it. Data that shifted the decode would break this.
//   3. No rip-relative operand names bytes of the range that hold a site before the next branch
//      target: those bytes are a table in the code, read as data, and only look like instructions.
//      (An address taken right behind the nops that a range begins with is that of the function.)
//   4. In a gap every site has a form in which thread-local storage is reached; anything else is
//      more likely a constant.
//      A gap that fails 1, 2 or this one is judged by what leads into it: gaps.cpp.
//   5. No instruction reads or writes the FS base itself (rdfsbase, wrfsbase): rewriting a prefix
//      cannot move those to GS.
//   6. A function that fails 1, 2 or 3 (a table between its instructions) is explored instead, from
//      its entries along every direct branch, and along jump tables: at an address that reached
//      code takes, two or more offsets in a row that lead from there into the function. A call
//      does not return if behind it are less than 64 bytes up to where a branch leads that do not
//      decode exactly up to there and hold no possible prefix: fill (glibc 2.41 has 05 05 05). What
//      control reaches must not overlap (a wrong guess at a table makes it), and every
//      possible prefix must lie in one of them, or in a table, or in a piece that was not reached
//      but decodes cleanly from end to end without any use of FS.
// Otherwise the file is refused with the address and the reason. It is never half rewritten.
#include "sites/finder.h"

#include <stdio.h>
#include <string.h>

#include <algorithm>

#include "sites/decode.h"
#include "sites/frames.h"
#include "sites/gaps.h"

namespace fermata::sites {
namespace {

// A table may lead to code that takes the address of another one; nobody nests them this deeply.
constexpr int kTableRounds = 32;

/// A piece of a code section: one function (or several whose FDEs overlap), or a gap between them.
struct Extent {
  u64 begin, end;
  bool framed;
  std::vector<u64> entries;  // where FDEs begin inside it
};

struct Piece {
  const CodeRange* code;
  Extent extent;
};

std::string text(const char* format, const std::string& name, u64 a, u64 b) {
  char out[320];
  snprintf(out, sizeof out, format, name.c_str(), static_cast<unsigned long long>(a),
           static_cast<unsigned long long>(b));
  return out;
}

/// Cuts one code section into functions and gaps. `next` walks the ascending FDEs along with the
/// ascending sections. Returns an empty string, or which FDE crosses the section's border.
std::string cut(const CodeRange& code, const std::vector<FunctionRange>& frames, size_t* next,
                std::vector<Extent>* out) {
  u64 position = code.begin;
  while (*next < frames.size() && frames[*next].end <= code.begin) (*next)++;
  while (*next < frames.size() && frames[*next].begin < code.end) {
    const u64 begin = frames[*next].begin;
    Extent extent{begin, begin, true, {}};
    for (; *next < frames.size() && (frames[*next].begin < extent.end || extent.entries.empty());
         (*next)++) {
      extent.entries.push_back(frames[*next].begin);
      extent.end = std::max(extent.end, frames[*next].end);
    }
    if (begin < code.begin || extent.end > code.end)
      return text("%s: the function at 0x%llx..0x%llx that .eh_frame lists crosses the section",
                  code.name, begin, extent.end);
    if (begin > position) out->push_back({position, begin, false, {}});
    position = extent.end;
    out->push_back(std::move(extent));
  }
  if (position < code.end) out->push_back({position, code.end, false, {}});
  return "";
}

/// Rule 3 for one address that an instruction names inside an extent: the first of the extent's
/// sites behind it, or 0 if there is none or if a branch target in between (or the address itself
/// being one) shows that the bytes up to the site are code after all. Both lists ascend.
u64 site_behind(u64 address, const std::vector<u64>& sites, const std::vector<u64>& targets) {
  const auto site = std::lower_bound(sites.begin(), sites.end(), address);
  if (site == sites.end()) return 0;
  const auto target = std::lower_bound(targets.begin(), targets.end(), address);
  return target != targets.end() && *target <= *site ? 0 : *site;
}

/// The addresses inside the extent that are known to be code: its entries, its first instruction
/// behind leading nops, and the targets of direct branches. Ascending.
std::vector<u64> known_code(const Extent& extent, const Listing& listing) {
  std::vector<u64> out = extent.entries;
  out.push_back(listing.body);
  for (const u64 target : listing.branch_targets)
    if (target >= extent.begin && target < extent.end) out.push_back(target);
  std::sort(out.begin(), out.end());
  return out;
}

class Finder {
 public:
  explicit Finder(const ElfFile& file) : file_(file) {}
  Findings run();

 private:
  void find_candidates();
  bool holds_candidate(const Extent& extent) const;
  std::string examine(const CodeRange& code, const Extent& extent);
  void survey(const Piece& piece, GapEntries* all) const;
  std::string judge_gaps(const std::vector<Piece>& pieces);
  std::string check_flow(const CodeRange& code, const Extent& extent, const Listing& listing) const;
  bool is_harmless_island(const Extent& extent, const u8* bytes, const std::vector<bool>& known,
                          u64 candidate) const;
  u64 read_table(const Extent& extent, const u8* bytes, const Listing& reached, u64 table,
                 u64 width, std::vector<u64>* targets) const;
  bool check_reached(const Extent& extent, const u8* bytes, bool with_tables,
                     Listing* listing) const;
  std::string check_references() const;
  const u8* bytes_of(const CodeRange& code, u64 address) const {
    return file_.data() + code.file_offset + (address - code.begin);
  }

  struct Accepted {  // one decoded extent: kept until every reference of the file is known
    const CodeRange* code;
    Extent extent;
    std::vector<u64> sites;
    std::vector<u64> targets;  // ascending: entries and direct branch targets inside the extent
  };

  const ElfFile& file_;
  const Decoder decoder_;
  Findings findings_;
  std::vector<u64> candidates_;  // addresses, ascending
  std::vector<Accepted> accepted_;
  std::vector<Reference> references_;  // into code sections
  std::vector<Piece> doubts_;  // gaps that do not decode: judged at the end
};

/// Lists every byte that may be an FS prefix, and every instruction that may touch the FS base.
void Finder::find_candidates() {
  for (const CodeRange& code : file_.code()) {
    const u8* const begin = bytes_of(code, code.begin);
    const u64 count = code.end - code.begin;
    const auto scan = [&](u8 wanted, auto&& accepts) {
      const u8* p = begin;
      while ((p = static_cast<const u8*>(memchr(p, wanted, u64(begin + count - p))))) {
        const u64 i = u64(p - begin);
        if (accepts(i)) candidates_.push_back(code.begin + i);
        if (++p == begin + count) break;
      }
    };
    scan(kFsPrefix, [&](u64 i) { return decoder_.may_be_prefix(begin, count, i); });
    scan(0xf3, [&](u64 i) {
      const u64 opcode = i + (i + 1 < count && (begin[i + 1] & 0xf0) == 0x40 ? 2 : 1);
      return opcode + 2 < count && begin[opcode] == 0x0f && begin[opcode + 1] == 0xae &&
             decoder_.is_fs_base_access(begin, count, i);
    });
  }
  std::sort(candidates_.begin(), candidates_.end());
}

bool Finder::holds_candidate(const Extent& extent) const {
  const auto at = std::lower_bound(candidates_.begin(), candidates_.end(), extent.begin);
  return at != candidates_.end() && *at < extent.end;
}

std::string table_inside(const CodeRange& code, u64 address, u64 site) {
  return text("%s: bytes at 0x%llx are used as data and hold a possible FS prefix at 0x%llx: a "
              "table inside a function", code.name, address, site);
}

std::string Finder::check_flow(const CodeRange& code, const Extent& extent,
                               const Listing& listing) const {
  if (!listing.error.empty())
    return code.name + ": " + listing.error +
           text(", in %s 0x%llx..0x%llx", extent.framed ? "the function" : "code without a frame",
                extent.begin, extent.end);
  for (const u64 target : listing.branch_targets) {
    if (target < extent.begin || target >= extent.end) continue;
    // A lock prefix is jumped over where a program runs on one processor only (old glibc).
    const bool over_lock = target > extent.begin && *bytes_of(code, target - 1) == 0xf0;
    if (!listing.boundary[target - extent.begin] && !over_lock)
      return text("%s: a branch goes to 0x%llx, inside an instruction of the function at 0x%llx: "
                  "data between the code", code.name, target, extent.begin);
  }
  for (const u64 entry : extent.entries)
    if (!listing.boundary[entry - extent.begin])
      return text("%s: a function begins at 0x%llx, inside an instruction of the one at 0x%llx",
                  code.name, entry, extent.begin);
  const std::vector<u64> targets = known_code(extent, listing);
  for (const Reference& reference : listing.references) {
    if (reference.target <= extent.begin || reference.target >= extent.end) continue;
    if (const u64 site = site_behind(reference.target, listing.fs_prefixes, targets))
      return table_inside(code, reference.target, site);
  }
  return "";
}

/// Reads a table of `width`-byte offsets relative to its own address `table` into *targets: from
/// there up to the first entry that leads out of the extent, to code, or to the next address that
/// reached code takes (of another table). Returns its end.
u64 Finder::read_table(const Extent& extent, const u8* bytes, const Listing& reached, u64 table,
                       u64 width, std::vector<u64>* targets) const {
  u64 end = table, limit = extent.end;
  for (const Reference& other : reached.references)
    if (other.target > table) limit = std::min(limit, other.target);
  for (; end + width <= limit; end += width) {
    for (u64 k = 0; k < width; k++)
      if (reached.covered[end + k - extent.begin]) return end;
    i64 offset = 0;
    memcpy(&offset, bytes + (end - extent.begin), width);
    if (width == 4) offset = i32(offset);
    const u64 target = table + u64(offset);
    if (target < extent.begin || target >= extent.end) return end;
    targets->push_back(target);
  }
  return end;
}

/// Whether the bytes around `candidate` that control was not seen to reach, from the last known
/// byte to the next, decode cleanly into instructions none of which uses FS.
bool Finder::is_harmless_island(const Extent& extent, const u8* bytes,
                                const std::vector<bool>& known, u64 candidate) const {
  u64 low = candidate - extent.begin, high = low;
  while (low > 0 && !known[low - 1]) low--;
  while (high < known.size() && !known[high]) high++;
  const Listing island = decoder_.list(bytes + low, high - low, extent.begin + low, true);
  return island.error.empty() && island.fs_prefixes.empty();
}

/// Rule 6. Replaces *listing and returns true if the rule accepts the function, without looking at
/// tables (which are a guess, if a checked one) or with them.
bool Finder::check_reached(const Extent& extent, const u8* bytes, bool with_tables,
                           Listing* listing) const {
  std::vector<u64> entries = extent.entries;
  std::vector<FunctionRange> tables;
  Listing reached;
  for (int round = 0; round < kTableRounds; round++) {
    reached = decoder_.explore(bytes, extent.end - extent.begin, extent.begin, entries);
    if (!reached.error.empty()) return false;
    if (!with_tables) break;
    const size_t known = tables.size();
    for (const Reference& reference : reached.references) {
      const u64 table = reference.target;
      if (reference.loads || table <= extent.begin || table >= extent.end) continue;
      if (std::any_of(tables.begin(), tables.end(),
                      [&](const FunctionRange& t) { return t.begin == table; }))
        continue;
      // Eight-byte entries first: read as four-byte ones, every second is 0 or -1.
      std::vector<u64> targets;
      u64 end = read_table(extent, bytes, reached, table, 8, &targets);
      if (targets.size() < 2) {
        targets.clear();
        end = read_table(extent, bytes, reached, table, 4, &targets);
      }
      tables.push_back({table, targets.size() < 2 ? table : end});
      if (targets.size() >= 2) entries.insert(entries.end(), targets.begin(), targets.end());
    }
    if (tables.size() == known) break;
  }
  std::vector<bool> known = reached.covered;
  for (const FunctionRange& table : tables)
    for (u64 at = table.begin; at < table.end; at++) {
      if (reached.covered[at - extent.begin]) return false;
      known[at - extent.begin] = true;
    }
  auto at = std::lower_bound(candidates_.begin(), candidates_.end(), extent.begin);
  for (; at != candidates_.end() && *at < extent.end; at++)
    if (!known[*at - extent.begin] && !is_harmless_island(extent, bytes, known, *at)) return false;
  // What a table leads to is code for rule 3 as well, like the target of a direct branch.
  reached.branch_targets.insert(reached.branch_targets.end(), entries.begin(), entries.end());
  *listing = std::move(reached);
  return true;
}

/// Decodes one extent under the rules above and keeps what it found for check_references().
std::string Finder::examine(const CodeRange& code, const Extent& extent) {
  const u8* const bytes = bytes_of(code, extent.begin);
  const u64 count = extent.end - extent.begin;
  findings_.decoded += count;
  Listing listing = decoder_.list(bytes, count, extent.begin, !extent.framed);
  std::string error = check_flow(code, extent, listing);
  if (!error.empty() && !(extent.framed && (check_reached(extent, bytes, false, &listing) ||
                                            check_reached(extent, bytes, true, &listing)))) {
    if (extent.framed) return error;
    doubts_.push_back({&code, extent});
    return "";
  }
  for (const u64 site : listing.fs_prefixes) {
    if (extent.framed || decoder_.is_tls_form(bytes, count, site - extent.begin)) continue;
    doubts_.push_back({&code, extent});
    return "";
  }
  for (const Reference& reference : listing.references) {
    for (const CodeRange& other : file_.code())
      if (reference.target >= other.begin && reference.target < other.end)
        references_.push_back(reference);
  }
  if (listing.fs_prefixes.empty()) return "";
  std::vector<u64> targets = known_code(extent, listing);
  accepted_.push_back({&code, extent, std::move(listing.fs_prefixes), std::move(targets)});
  return "";
}

/// Adds to *all where the code of one piece leads to. Where it does not decode, as far as it does.
void Finder::survey(const Piece& piece, GapEntries* all) const {
  const Extent& extent = piece.extent;
  const u8* const bytes = bytes_of(*piece.code, extent.begin);
  const u64 count = extent.end - extent.begin;
  const auto take = [&](const Listing& listing) {
    all->code.insert(all->code.end(), listing.branch_targets.begin(), listing.branch_targets.end());
    for (const Reference& reference : listing.references)
      if (!reference.loads) all->either.push_back(reference.target);
  };
  const Listing listing = decoder_.list(bytes, count, extent.begin, !extent.framed);
  take(listing);
  if (!listing.error.empty() && extent.framed)
    take(decoder_.explore(bytes, count, extent.begin, extent.entries));
}

/// Judges the gaps that do not decode by everything in the file that leads into them. Code of other
/// gaps that do not decode is not asked: where they decode by chance, their branches are noise.
std::string Finder::judge_gaps(const std::vector<Piece>& pieces) {
  if (!file_.has_sections())
    return text("%s: code without a frame at 0x%llx does not decode, and no section headers tell "
                "what leads into it", doubts_[0].code->name, doubts_[0].extent.begin, 0);
  GapEntries all{file_.function_symbols(), file_.named_addresses()};
  for (const Piece& piece : pieces) {
    const auto same = [&](const Piece& doubt) { return doubt.extent.begin == piece.extent.begin; };
    if (std::none_of(doubts_.begin(), doubts_.end(), same)) survey(piece, &all);
  }
  for (std::vector<u64>* list : {&all.code, &all.either}) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  for (const Piece& doubt : doubts_) {
    const Extent& extent = doubt.extent;
    const auto within = [&](const std::vector<u64>& list) {
      return std::vector<u64>(std::lower_bound(list.begin(), list.end(), extent.begin),
                              std::lower_bound(list.begin(), list.end(), extent.end));
    };
    const Gap gap{bytes_of(*doubt.code, extent.begin), extent.begin, extent.end,
                  within(candidates_)};
    GapVerdict verdict = judge_gap(decoder_, gap, {within(all.code), within(all.either)});
    if (!verdict.refused.empty()) return doubt.code->name + ": " + verdict.refused;
    if (!verdict.sites.empty())
      accepted_.push_back({doubt.code, extent, std::move(verdict.sites), within(all.code)});
  }
  std::sort(accepted_.begin(), accepted_.end(), [](const Accepted& a, const Accepted& b) {
    return a.extent.begin < b.extent.begin;
  });
  return "";
}

/// Rule 3 across functions (check_flow() has applied it within each).
std::string Finder::check_references() const {
  for (const Reference& reference : references_) {
    const auto after = std::upper_bound(
        accepted_.begin(), accepted_.end(), reference.target,
        [](u64 target, const Accepted& accepted) { return target < accepted.extent.begin; });
    if (after == accepted_.begin()) continue;
    const Accepted& hit = *(after - 1);
    if (reference.target <= hit.extent.begin || reference.target >= hit.extent.end) continue;
    if (const u64 site = site_behind(reference.target, hit.sites, hit.targets))
      return table_inside(*hit.code, reference.target, site);
  }
  return "";
}

Findings Finder::run() {
  std::vector<FunctionRange> frames;
  findings_.refused = read_frames(file_, &frames);
  if (!findings_.refused.empty()) return findings_;
  find_candidates();
  size_t next = 0;
  std::vector<Piece> pieces;
  for (const CodeRange& code : file_.code()) {
    std::vector<Extent> extents;
    findings_.refused = cut(code, frames, &next, &extents);
    for (const Extent& extent : extents) {
      if (!findings_.refused.empty()) return findings_;
      (extent.framed ? findings_.functions : findings_.gaps)++;
      if (holds_candidate(extent)) findings_.refused = examine(code, extent);
    }
    for (Extent& extent : extents) pieces.push_back({&code, std::move(extent)});
  }
  if (findings_.refused.empty() && !doubts_.empty()) findings_.refused = judge_gaps(pieces);
  if (findings_.refused.empty()) findings_.refused = check_references();
  if (!findings_.refused.empty()) return findings_;
  for (const Accepted& kept : accepted_)
    for (const u64 site : kept.sites)
      findings_.offsets.push_back(kept.code->file_offset + (site - kept.code->begin));
  std::sort(findings_.offsets.begin(), findings_.offsets.end());
  return findings_;
}

}  // namespace

Findings find_sites(const ElfFile& file) { return Finder(file).run(); }

}  // namespace fermata::sites
