// SPDX-License-Identifier: Apache-2.0
#include "memory/forks.h"

#include "sys/sys.h"

namespace fermata::memory {
namespace {


struct Note {
  u64 start, end;
  u32 attributes;
};
constexpr u64 kCapacity = 4096;
Note notes[kCapacity];  // by address, as the kernel lists mappings
u64 note_count;
bool advice_seen;

/// True if anything is locked: the line VmLck of /proc/self/status.
bool anything_locked() {
  static char text[4096];
  (void)sys::read_text("/proc/self/status", text, sizeof text);
  for (const char* p = text; *p; p++) {
    if (!text_starts(p, "VmLck:")) continue;
    p += 6;
    while (*p == ' ' || *p == '\t') p++;
    return parse_decimal(p) != 0;
  }
  return false;
}

/// Lifts or gives advice that was noted. False: the kernel does not allow it, for this is memory
/// of a driver.
bool advise(const Note& note, u32 bit, u64 advice) {
  if (!(note.attributes & bit)) return true;
  return bool(sys::call(SYS_madvise, note.start, note.end - note.start, advice));
}

}  // namespace

void note_fork_advice() { advice_seen = true; }

Status lift_fork_advice(Message& why) {
  note_count = 0;
  if (!advice_seen && !anything_locked()) return success();
  char* const text = read_mappings(Detail::kAttributes);
  Status done = text ? success() : failure(sys::kEio);
  for (char* next = text; next && *next && done;) {
    Mapping mapping;
    next = parse_mapping(next, mapping);
    if (!next || !is_saved(mapping) || !(mapping.attributes & kLostInForks)) continue;
    if (note_count == kCapacity) {
      why << "more than " << kCapacity << " mappings are locked or kept from children";
      done = failure(sys::kEnomem);
      break;
    }
    const Note& note = notes[note_count++] = {mapping.start, mapping.end,
                                              mapping.attributes & kLostInForks};
    if (!advise(note, kNotInForks, sys::kMadvDoFork)) {
      why << "memory of a device cannot be saved: " << mapping.path << ", mapped at "
          << Hex{mapping.start};
      done = failure(sys::kEperm);
    }
    (void)advise(note, kWipedInForks, sys::kMadvKeepOnFork);
  }
  if (text) free_mappings(text);
  if (done) return done;
  renew_fork_advice();
  note_count = 0;
  return done;
}

void renew_fork_advice() {
  for (u64 i = 0; i < note_count; i++)
    for (const AttributeName& known : kAttributeNames)
      if (known.advice) (void)advise(notes[i], known.bit & kLostInForks, known.advice);
}

Mapping first_noted_part(const Mapping& mapping) {
  Mapping part = mapping;
  for (u64 i = 0; i < note_count; i++) {
    const Note& note = notes[i];
    if (note.end <= part.start) continue;
    if (note.start > part.start) {
      if (note.start < part.end) part.end = note.start;
    } else {
      if (note.end < part.end) part.end = note.end;
      part.attributes |= note.attributes;
    }
    break;
  }
  return part;
}

}  // namespace fermata::memory
