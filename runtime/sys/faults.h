// SPDX-License-Identifier: Apache-2.0
// Faults at named points (spec/faults.toml): what FERMATA_FAULT has armed happens when the point is
// met. The names there have been checked by `fermata` before any rank was started.
//
// The launcher and the back end hold a state each; no point is met by both. With nothing armed a
// point costs a load and a test.
#pragma once

#include "sys/faults.gen.h"
#include "sys/sys.h"

namespace fermata::faults {

/// What is left for the caller to do; kill and sleep have been seen to.
struct Effect {
  Action action = Action::kNone;
  i32 value = 0;

  i32 error() const { return action == Action::kError ? value : 0; }
};

struct Armed {
  Fault point;
  Action action;
  i32 value;    // of sleep: ms; of error: the errno
  u32 meetings;  // left until it happens, which it does once
};

struct State {
  static constexpr u32 kCapacity = 8;
  u32 count;
  Armed armed[kCapacity];
};
inline State state;

/// Takes the name that `text` begins with out of a table of names, up to one of the characters that
/// end it. Returns its index, 0 if it is none of them.
template <u64 kNames>
u32 take_name(const char* const (&names)[kNames], const char*& text) {
  u64 length = 0;
  while (text[length] && text[length] != '@' && text[length] != '#' && text[length] != '=' &&
         text[length] != ':' && text[length] != ',')
    length++;
  const char* const begin = text;
  text += length;
  for (u32 i = 1; i < kNames; i++)
    if (text_length(names[i]) == length && text_starts(begin, names[i])) return i;
  return 0;
}

/// Arms what `text` says, POINT[@RANK][#NTH]=ACTION[:VALUE],... , as far as it is this rank's.
inline void arm(const char* text, const char* rank) {
  const u64 own = parse_decimal(rank);
  while (*text && state.count < State::kCapacity) {
    Armed armed{};
    bool ours = true;
    armed.meetings = 1;
    armed.point = Fault(take_name(kFaultNames, text));
    if (*text == '@') ours = parse_decimal(++text) == own;
    if (*text == '#') armed.meetings = u32(parse_decimal(++text));
    if (*text == '=') armed.action = Action(take_name(kActionNames, ++text));
    if (*text == ':') armed.value = i32(parse_decimal(++text));
    if (ours && armed.point != Fault::kNone) state.armed[state.count++] = armed;
    while (*text && *text++ != ',') {}
  }
}

inline Effect happen(const Armed& armed) {
  Text<128> line;
  line << "fermata: fault: " << kFaultNames[u32(armed.point)] << "="
       << kActionNames[u32(armed.action)] << "\n";
  sys::say(line.data);
  if (armed.action == Action::kKill) (void)sys::call(SYS_kill, sys::getpid(), sys::kSigKill);
  if (armed.action == Action::kSleep) return sys::sleep_ns(u64(armed.value) * 1'000'000), Effect{};
  return {armed.action, armed.value};
}

/// To be called at every point: `const Effect effect = fault(Fault::kSomewhere)`.
inline Effect fault(Fault point) {
  if (__builtin_expect(state.count == 0, true)) return {};
  for (u32 i = 0; i < state.count; i++) {
    Armed& armed = state.armed[i];
    if (armed.point == point && __atomic_fetch_sub(&armed.meetings, 1, __ATOMIC_RELAXED) == 1)
      return happen(armed);
  }
  return {};
}

/// A point before a system call, which fails if that is armed.
inline Status failing(Fault point) {
  const i32 error = fault(point).error();
  return error ? failure(error) : success();
}

/// sys::pwrite_full with a point before it. Its first write is the short one, if that is armed: it
/// takes one byte and says so, and the rest is left to the loop.
inline Status pwrite_full(Fault point, int fd, const void* from, u64 bytes, u64 offset) {
  const Effect effect = fault(point);
  if (effect.error()) return failure(effect.error());
  bool is_short = effect.action == Action::kShort;
  const Status put = sys::pwrite_full(
      fd, from, bytes, offset, [&is_short](int to, const void* what, u64 most, u64 at) {
        const u64 taken = is_short ? 1 : most;
        is_short = false;
        return sys::pwrite(to, what, taken, at);
      });
  if (!put || effect.action != Action::kFlip || bytes == 0) return put;
  const char flipped = char(*static_cast<const char*>(from) ^ 0x10);
  return sys::pwrite_full(fd, &flipped, 1, offset);
}

}  // namespace fermata::faults
