// SPDX-License-Identifier: Apache-2.0
// Assembly sources put constants between functions that have no unwind information, and such a gap
// does not decode from end to end. What is code in it, something must lead to: a direct branch, a
// symbol, a relocation, or an instruction that takes its address. From each of these addresses
// control is followed.
//   - Where code is certain, it must decode. Its FS prefixes are sites if they have a form in which
//     thread-local storage is reached; another form refuses the file.
//   - An address that is merely taken may be that of a constant: if control cannot be followed from
//     it, it is; if it can, and reaches an FS prefix, nobody can tell, and the file is refused.
//   - A possible prefix that nothing leads to is a constant, unless it reads like
//     fs:[small absolute displacement]: eight bytes that happen to say that are too much of a
//     coincidence. It, and an instruction that touches the FS base, refuse the file.
#include "sites/gaps.h"

#include <stdio.h>

#include <algorithm>

namespace fermata::sites {
namespace {

std::string refusal(const char* what, u64 address) {
  char text[200];
  snprintf(text, sizeof text, "%s at 0x%llx (code without a frame)", what,
           static_cast<unsigned long long>(address));
  return text;
}

class Judge {
 public:
  Judge(const Decoder& decoder, const Gap& gap)
      : decoder_(decoder), gap_(gap), covered_(gap.end - gap.begin, false) {}

  void follow_code(u64 entry) {
    const Listing found = follow(entry);
    if (!found.error.empty()) {
      refuse(found.error + refusal(", reached from the entry", entry));
      return;
    }
    for (const u64 site : found.fs_prefixes) {
      if (!decoder_.is_tls_form(gap_.bytes, size(), site - gap_.begin))
        refuse(refusal("an FS prefix in an unusual form", site));
      verdict_.sites.push_back(site);
    }
    cover(found);
  }

  void follow_either(u64 entry) {
    if (covered_[entry - gap_.begin]) return;
    const Listing found = follow(entry);
    if (!found.error.empty()) return;
    if (!found.fs_prefixes.empty())
      refuse(refusal("a constant or code that uses FS", found.fs_prefixes.front()));
    cover(found);
  }

  void look_at_candidate(u64 candidate) {
    const u64 at = candidate - gap_.begin;
    if (covered_[at]) return;
    if (decoder_.is_absolute_tls_form(gap_.bytes, size(), at))
      refuse(refusal("a use of thread-local storage that nothing leads to", candidate));
    if (decoder_.is_fs_base_access(gap_.bytes, size(), at))
      refuse(refusal("a use of the FS base that nothing leads to", candidate));
  }

  GapVerdict verdict() {
    std::sort(verdict_.sites.begin(), verdict_.sites.end());
    verdict_.sites.erase(std::unique(verdict_.sites.begin(), verdict_.sites.end()),
                         verdict_.sites.end());
    return std::move(verdict_);
  }

 private:
  u64 size() const { return gap_.end - gap_.begin; }
  Listing follow(u64 entry) const {
    return decoder_.explore(gap_.bytes, size(), gap_.begin, {entry});
  }
  void cover(const Listing& found) {
    for (u64 i = 0; i < covered_.size(); i++)
      if (found.covered[i]) covered_[i] = true;
  }
  void refuse(std::string why) {
    if (verdict_.refused.empty()) verdict_.refused = std::move(why);
  }

  const Decoder& decoder_;
  const Gap& gap_;
  std::vector<bool> covered_;  // by instructions
  GapVerdict verdict_;
};

}  // namespace

GapVerdict judge_gap(const Decoder& decoder, const Gap& gap, const GapEntries& entries) {
  Judge judge(decoder, gap);
  for (const u64 entry : entries.code) judge.follow_code(entry);
  for (const u64 entry : entries.either) judge.follow_either(entry);
  for (const u64 candidate : gap.candidates) judge.look_at_candidate(candidate);
  return judge.verdict();
}

}  // namespace fermata::sites
