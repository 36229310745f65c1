// SPDX-License-Identifier: Apache-2.0
// Resource limits. What the program has changed it finds again after a restart, as far as that is
// allowed there; for the rest it has what it is given anew.
//
// A restart makes the MPI and its objects anew, in memory of which the program may have had enough
// when it set its limits, and in files of shared memory. So some limits hold from there on only.
#include "launcher/process/limits.h"

#include "base/text.h"
#include "launcher/config.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

constexpr u32 kNofile = sys::kRlimitNofile, kStack = sys::kRlimitStack;
constexpr const char* kLimitNames[kLimits] = {
    "CPU",     "FSIZE", "DATA",  "STACK",      "CORE",     "RSS",  "NPROC",  "NOFILE",
    "MEMLOCK", "AS",    "LOCKS", "SIGPENDING", "MSGQUEUE", "NICE", "RTPRIO", "RTTIME"};

u64 first_limits[2 * kLimits];  // what this process was started with
u32 own_limits;                 // set by the application before a restart or an exec

constexpr u32 kLate[] = {sys::kRlimitFsize, sys::kRlimitData, sys::kRlimitAs};
u64 late_limits[2 * kLimits];  // soft and hard of each in kLate
u32 late;                      // futex: 1 while they wait for set_late_limits()

bool is_late(u32 which) {
  for (const u32 each : kLate)
    if (each == which) return true;
  return false;
}

/// Sets a limit as far as the hard one allows, and says so if that is less.
void set_limit(u32 which, const u64* saved) {
  u64 here[2] = {0, 0};
  (void)sys::call(SYS_prlimit64, 0, which, 0, sys::arg(here));
  u64 wanted[2] = {saved[0], saved[1]};
  for (u64& value : wanted)
    if (value > here[1]) value = here[1];
  (void)sys::call(SYS_prlimit64, 0, which, sys::arg(wanted), 0);
  if (wanted[0] >= saved[0]) return;
  Message note;
  note << "fermata: the program had the limit " << kLimitNames[which] << " at " << saved[0]
       << "; here at most " << wanted[0] << " is allowed\n";
  sys::say(note.data);
}

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
    if (is_late(i) || (!(changed >> i & 1) && !(i == kStack && larger))) continue;
    set_limit(i, &saved[2 * i]);
  }
  for (const u32 i : kLate) {
    const u64* const from = changed >> i & 1 ? saved : first_limits;
    late_limits[2 * i] = from[2 * i];
    late_limits[2 * i + 1] = from[2 * i + 1];
  }
  __atomic_store_n(&late, 1, __ATOMIC_RELEASE);
}

void set_late_limits() {
  if (!__atomic_load_n(&late, __ATOMIC_ACQUIRE)) return;
  for (const u32 i : kLate) set_limit(i, &late_limits[2 * i]);
  __atomic_store_n(&late, 0, __ATOMIC_RELEASE);
  sys::futex_wake_all(&late);
}

void await_late_limits() {
  constexpr u64 kLookAgainNs = 10'000'000;
  while (__atomic_load_n(&late, __ATOMIC_ACQUIRE)) sys::futex_wait(&late, 1, kLookAgainNs);
}

void lift_limits() {
  for (const u32 which : kLate) {
    u64 limit[2] = {0, 0};
    if (!sys::call(SYS_prlimit64, 0, which, 0, sys::arg(limit))) continue;
    limit[0] = limit[1];
    (void)sys::call(SYS_prlimit64, 0, which, sys::arg(limit), 0);
  }
}

void lift_limits_for_mpi() {
  // One rank of Open MPI makes a file of this size; the limit of address space has been looked at
  // before ranks were started.
  constexpr u64 kFileOfMpi = 4 << 20;
  lift_limits();
  const u64 most = first_limits[2 * sys::kRlimitFsize + 1];
  if (most >= kFileOfMpi) return;
  Message where;
  where << "at most " << most << " bytes";
  die("the size of files is limited, and the MPI's shared memory is in larger ones", where.data, 0,
      "ulimit -f unlimited");
}

void undo_lift() {
  for (const u32 which : kLate)
    (void)sys::call(SYS_prlimit64, 0, which, sys::arg(&first_limits[2 * which]), 0);
}

}  // namespace fermata::launch
