// SPDX-License-Identifier: Apache-2.0
// What a thread is to the kernel beside its registers: its name, nice and scheduling policy, timer
// slack, the signal for its parent's death; and of the process what prctl(2) has set. Nice, policy
// and slack come from whoever started the rank, at a restart again, unless the program has chosen.
#include "launcher/threads/scheduling.h"

#include "base/text.h"
#include "image/reader.h"
#include "image/writer.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

constexpr u32 kChoseItself = 4, kResetOnFork = 8;  // ImageThread::flags
constexpr u32 kNoHugePages = 1, kReaper = 2, kNotDumped = 64, kMerged = 128;  // header.traits

struct Attributes {  // struct sched_attr
  u32 size, policy;
  u64 flags;
  i32 nice;
  u32 priority;
  u64 runtime, deadline, period;
};

Attributes first;  // as the process was started
u64 first_slack_ns;
u32 traits;

Attributes of_thread(u32 tid) {
  Attributes found{};
  (void)sys::call(SYS_sched_getattr, tid, sys::arg(&found), sizeof found, 0);
  return found;
}

bool same(const Attributes& a, const Attributes& b) {
  return a.policy == b.policy && a.nice == b.nice && a.priority == b.priority &&
         ((a.flags ^ b.flags) & sys::kSchedFlagResetOnFork) == 0;
}

}  // namespace

void note_scheduling() {
  first = of_thread(0);
  first_slack_ns = sys::call(SYS_prctl, sys::kPrGetTimerSlack).value;
}

void note_own_traits(Thread& thread) {
  i32 reaper = 0;
  thread.timer_slack_ns = sys::call(SYS_prctl, sys::kPrGetTimerSlack).value;
  (void)sys::call(SYS_prctl, sys::kPrGetPdeathsig, sys::arg(&thread.death_signal));
  if (&thread != &threads[0]) return;
  (void)sys::call(SYS_prctl, sys::kPrGetChildSubreaper, sys::arg(&reaper));
  const Result<u64> plain = sys::call(SYS_prctl, sys::kPrGetThpDisable);
  const Result<u64> dumped = sys::call(SYS_prctl, sys::kPrGetDumpable);
  const Result<u64> merged = sys::call(SYS_prctl, sys::kPrGetMemoryMerge, 0, 0, 0, 0);
  traits = (reaper ? kReaper : 0) | (plain && plain.value == 1 ? kNoHugePages : 0) |
           (dumped && dumped.value == 0 ? kNotDumped : 0) |
           (merged && merged.value == 1 ? kMerged : 0);
}

void save_traits(image::ImageHeader& out) { out.traits |= traits; }

void thread_name(u32 pid, u32 tid, u8 (&out)[16]) {
  Text<64> path;
  path << "/proc/" << pid << "/task/" << tid << "/comm";
  char line[sizeof out + 1];
  const Result<u64> got = sys::read_text(path.data, line, sizeof line);
  if (!got || got.value == 0) return;
  line[got.value - 1] = 0;  // its newline
  __builtin_memcpy(out, line, got.value);
}

void save_scheduling(const Thread& thread, u32 pid, image::ImageThread& out) {
  const Attributes now = of_thread(thread.tid);
  thread_name(pid, thread.tid, out.name);
  out.nice = now.nice;
  out.policy = now.policy;
  out.priority = now.priority;
  if (!same(now, first)) out.flags |= kChoseItself;
  if (now.flags & sys::kSchedFlagResetOnFork) out.flags |= kResetOnFork;
  if (thread.timer_slack_ns != first_slack_ns) out.timer_slack_ns = thread.timer_slack_ns;
  out.death_signal = thread.death_signal;
}

void restore_traits(const image::ImageHeader& header) {
  const u32 saved = header.traits;
  if (saved & kReaper) (void)sys::call(SYS_prctl, sys::kPrSetChildSubreaper, 1);
  if (saved & kNoHugePages) (void)sys::call(SYS_prctl, sys::kPrSetThpDisable, 1);
  if (saved & kNotDumped) (void)sys::call(SYS_prctl, sys::kPrSetDumpable, 0);
  if (saved & kMerged) (void)sys::call(SYS_prctl, sys::kPrSetMemoryMerge, 1, 0, 0, 0);
}

void restore_scheduling(const image::ImageThread& saved) {
  (void)sys::call(SYS_prctl, sys::kPrSetName, sys::arg(saved.name));
  if (saved.timer_slack_ns) (void)sys::call(SYS_prctl, sys::kPrSetTimerSlack, saved.timer_slack_ns);
  if (saved.death_signal) (void)sys::call(SYS_prctl, sys::kPrSetPdeathsig, saved.death_signal);
  if (!(saved.flags & kChoseItself)) return;
  const u64 reset = saved.flags & kResetOnFork ? sys::kSchedFlagResetOnFork : 0;
  const Attributes wanted{sizeof wanted, saved.policy, reset, saved.nice, saved.priority, 0, 0, 0};
  if (sys::call(SYS_sched_setattr, 0, sys::arg(&wanted), 0)) return;
  Message note;
  note << "fermata: thread " << saved.tid << " had nice " << i64(saved.nice) << " and policy "
       << saved.policy << ", which are not allowed here\n";
  sys::say(note.data);
}

}  // namespace fermata::launch
