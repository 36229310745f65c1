// SPDX-License-Identifier: Apache-2.0
// Resource limits. What the program has changed it finds again after a restart, as far as that is
// allowed there; for the rest it has what it is given anew.
#include "launcher/process/limits.h"

#include "base/text.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

constexpr u32 kNofile = sys::kRlimitNofile, kStack = sys::kRlimitStack;
constexpr const char* kLimitNames[kLimits] = {
    "CPU",     "FSIZE", "DATA",  "STACK",      "CORE",     "RSS",  "NPROC",  "NOFILE",
    "MEMLOCK", "AS",    "LOCKS", "SIGPENDING", "MSGQUEUE", "NICE", "RTPRIO", "RTTIME"};

u64 first_limits[2 * kLimits];  // what this process was started with
u32 own_limits;                 // set by the application before a restart or an exec

}  // namespace

void note_limits(u32 changed) {
  for (u32 i = 0; i < kLimits; i++)
    (void)sys::call(SYS_prlimit64, 0, i, 0, sys::arg(&first_limits[2 * i]));
  own_limits = changed;
}

void save_limits(u64 (&out)[32], u32& changed, u32 pid) {
  changed = own_limits;
  for (u32 i = 0; i < kLimits; i++) {
    (void)sys::call(SYS_prlimit64, pid, i, 0, sys::arg(&out[2 * i]));
    if (out[2 * i] != first_limits[2 * i] || out[2 * i + 1] != first_limits[2 * i + 1])
      changed |= 1u << i;
  }
}

u64 soft_descriptors() {
  u64 limit[2] = {0, 0};
  (void)sys::call(SYS_prlimit64, 0, kNofile, 0, sys::arg(limit));
  return limit[0];
}

u64 most_descriptors() { return first_limits[2 * kNofile + 1]; }

u64 soft_descriptors(const u64 (&saved)[32], u32 changed) {
  const u64 most = most_descriptors();
  u64 soft = first_limits[2 * kNofile];
  if ((changed >> kNofile & 1) && saved[2 * kNofile] > soft) soft = saved[2 * kNofile];
  return soft < most ? soft : most;
}

void allow_descriptors(u64 count) {
  u64 limit[2] = {count, first_limits[2 * kNofile + 1]};
  if (count <= first_limits[2 * kNofile]) return;
  if (limit[0] > limit[1]) limit[0] = limit[1];
  (void)sys::call(SYS_prlimit64, 0, kNofile, sys::arg(limit), 0);
}

void restore_limits(const u64 (&saved)[32], u32 changed) {
  own_limits = changed;
  (void)sys::call(SYS_prlimit64, 0, kNofile, sys::arg(&first_limits[2 * kNofile]), 0);
  // A program that was given a large stack may have come to need it.
  const bool larger = saved[2 * kStack] > first_limits[2 * kStack];
  for (u32 i = 0; i < kLimits; i++) {
    if (!(changed >> i & 1) && !(i == kStack && larger)) continue;
    u64 here[2] = {0, 0};
    (void)sys::call(SYS_prlimit64, 0, i, 0, sys::arg(here));
    u64 wanted[2] = {saved[2 * i], saved[2 * i + 1]};
    for (u64& value : wanted)
      if (value > here[1]) value = here[1];
    (void)sys::call(SYS_prlimit64, 0, i, sys::arg(wanted), 0);
    if (wanted[0] >= saved[2 * i]) continue;
    Message note;
    note << "fermata: the program had the limit " << kLimitNames[i] << " at " << saved[2 * i]
         << "; here at most " << wanted[0] << " is allowed\n";
    sys::say(note.data);
  }
}

}  // namespace fermata::launch
