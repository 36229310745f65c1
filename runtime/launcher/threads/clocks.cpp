// SPDX-License-Identifier: Apache-2.0
// Clocks that never go back. CLOCK_MONOTONIC and its kin count from the start of the machine; on a
// host that started later a restarted program would see them go back, and its deadlines would lie
// in a far future. There the application's clocks are the kernel's and an offset, in what reads
// them and in absolute times of calls that wait. Where the kernel's clock is ahead of the saved one
// there is no offset: time has passed, as it does while a process is stopped. Nothing of this traps
// or costs anything without an offset.
//
// The offset makes a clock continue as the time of day has since the save, so ranks that were on
// one host and are again agree about the time, though each has its own image.
//
// Deadlines that a restarted call waits for (call_restart.h) are the kernel's: they are changed
// here, before the call is made again.
#include "launcher/threads/clocks.h"

#include <asm/unistd.h>
#include <linux/time.h>

#include "base/text.h"
#include "halves/layout.h"
#include "image/reader.h"
#include "launcher/boundary/call_restart.h"
#include "launcher/ids/thread_ids.h"
#include "launcher/patch/vdso.h"
#include "launcher/threads/timers.h"

namespace fermata::launch {
namespace {

using sys::TimeSpec, sys::to_ns, sys::to_spec;

constexpr u32 kMonotonic = 0, kRaw = 1, kBoot = 2, kRealTime = 3, kCount = 3, kNone = 4;
constexpr u64 kIds[] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME, CLOCK_REALTIME};

struct Offsets {
  u64 ns[kCount];
  u64 ticks;  // of times(2)
};
Offsets planned;        // of this process; 0 for a clock that needs none
u64 boot_shift;         // from the kernel's boot clock of the image to this one, in the wait calls
constexpr u64 kOffsets = kVdsoTable + 0x400;  // in upper memory: those in force when it was saved
struct Shift {  // vdso.S knows this layout
  u64 restarts;  // changes with the rest
  u64 seconds[16], nanoseconds[16];  // to be added, by number of the clock
};
constexpr u64 kShift = kVdsoTable + 0x500;
Offsets& in_force() { return *reinterpret_cast<Offsets*>(kOffsets); }


u64 read_clock(u64 id) {
  TimeSpec time{};
  (void)sys::call(SYS_clock_gettime, id, sys::arg(&time));
  return to_ns(time);
}
u64 read_ticks() { return sys::call(SYS_times, 0).value; }

/// All of them at one moment, the kernel's: the best of a few readings.
void read_clocks(u64 (&out)[4]) {
  constexpr u32 kRounds = 5;
  u64 shortest = ~u64(0);
  for (u32 round = 0; round < kRounds; round++) {
    u64 now[4];
    for (u32 i = 0; i < 4; i++) now[i] = read_clock(kIds[i]);
    const u64 took = read_clock(CLOCK_MONOTONIC) - now[kMonotonic];
    if (took >= shortest) continue;
    shortest = took;
    __builtin_memcpy(out, now, sizeof now);
  }
}

/// Index of the offset that a clock has; kNone if it is none of these.
u32 kind_of(u64 clock) {
  switch (clock) {
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE: return kMonotonic;
    case CLOCK_MONOTONIC_RAW: return kRaw;
    case CLOCK_BOOTTIME:
    case CLOCK_BOOTTIME_ALARM: return kBoot;
    default: return kNone;
  }
}
u64 offset_of(u64 clock) {
  const u32 kind = kind_of(clock);
  return kind == kNone ? 0 : planned.ns[kind];
}

/// The application's time to the kernel's. What is no time stays as it is: the kernel refuses it.
TimeSpec to_kernel(const TimeSpec& time, u64 offset) {
  constexpr i64 kMost = i64(1) << 33;  // seconds; longer waits end with the machine
  if (time.seconds < 0 || time.seconds > kMost) return time;
  if (time.nanoseconds < 0 || time.nanoseconds >= 1'000'000'000) return time;
  const u64 ns = to_ns(time);
  return to_spec(ns > offset ? ns - offset : 0);
}

/// CLOCK_* of a timerfd; kNone's value of kind_of() if it is none.
u64 clock_of_descriptor(u64 fd) {
  constexpr const char* kKey = "clockid: ";
  char text[512];
  Text<64> path;
  path << "/proc/self/fdinfo/" << u64(u32(fd));
  (void)sys::read_text(path.data, text, sizeof text);
  for (const char* at = text; *at; at++) {
    if (!text_starts(at, kKey)) continue;
    at += text_length(kKey);
    return parse_decimal(at);
  }
  return CLOCK_REALTIME;
}

struct Setting {  // struct itimerspec
  TimeSpec interval, first;
};

u64 set_timer(u64 number, const u64 (&a)[6], u64 clock) {
  const u64 offset = offset_of(clock);
  if (!offset || !is_readable(a[2], sizeof(Setting))) return pass_on(number, a);
  Setting setting = *reinterpret_cast<const Setting*>(a[2]);
  const bool armed = setting.first.seconds || setting.first.nanoseconds;
  if (armed) setting.first = to_kernel(setting.first, offset);
  const bool at_once = armed && !setting.first.seconds && !setting.first.nanoseconds;
  if (at_once) setting.first.nanoseconds = 1;  // 0 would stop it
  return pass_on(number, {a[0], a[1], sys::arg(&setting), a[3]});
}

/// The call is to be made with this register's timeout in the kernel's time.
void change_deadline(UserContext* context, u64& pointer, u64 offset) {
  if (!pointer || !is_readable(pointer, sizeof(TimeSpec))) return;
  restart_timeout(context) = to_kernel(*reinterpret_cast<const TimeSpec*>(pointer), offset);
  pointer = sys::arg(&restart_timeout(context));
}

}  // namespace

void plan_clocks(const image::ImageHeader& saved) {
  u64 now[4];
  read_clocks(now);
  const u64 passed = now[kRealTime] > saved.clocks[kRealTime]
                         ? now[kRealTime] - saved.clocks[kRealTime] : 0;
  for (u32 i = 0; i < kCount; i++)
    if (saved.clocks[i] > now[i]) planned.ns[i] = saved.clocks[i] - now[i] + passed;
  const u64 ticks = read_ticks();
  if (saved.ticks > ticks) planned.ticks = saved.ticks - ticks;
}

bool clocks_shifted() {
  return planned.ns[kMonotonic] || planned.ns[kRaw] || planned.ns[kBoot] || planned.ticks;
}

void save_clocks(image::ImageHeader& out) {
  u64 now[4];
  read_clocks(now);
  for (u32 i = 0; i < 4; i++) out.clocks[i] = now[i] + (i < kCount ? planned.ns[i] : 0);
  out.ticks = read_ticks() + planned.ticks;
}

void begin_clocks() {
  boot_shift = in_force().ns[kBoot] - planned.ns[kBoot];
  in_force() = planned;
  Shift& shift = *reinterpret_cast<Shift*>(kShift);
  shift.restarts++;
  for (u64 clock = 0; clock < sizeof shift.seconds / sizeof *shift.seconds; clock++) {
    const TimeSpec offset = to_spec(offset_of(clock));
    shift.seconds[clock] = u64(offset.seconds);
    shift.nanoseconds[clock] = u64(offset.nanoseconds);
  }
}

bool is_boot_clock(u64 clock) { return kind_of(clock) == kBoot; }

TimeSpec to_new_boot_clock(const TimeSpec& deadline) {
  const i64 ns = i64(to_ns(deadline) + boot_shift);
  return to_spec(ns > 0 ? u64(ns) : 0);
}

u64 trap_clock_call(u64 number, const u64 (&a)[6]) {
  if (number == SYS_times) {
    const u64 result = pass_on(number, a);
    return i64(result) < 0 && i64(result) > -4096 ? result : result + planned.ticks;
  }
  if (number == SYS_timer_settime) return set_timer(number, a, clock_of_timer(i32(a[0])));
  if (number == SYS_timerfd_settime) return set_timer(number, a, clock_of_descriptor(a[0]));
  const u64 result = pass_on(number, {kernel_clock(a[0]), a[1]});
  const u64 offset = offset_of(a[0]);
  if (result != 0 || !offset) return result;
  TimeSpec& told = *reinterpret_cast<TimeSpec*>(a[1]);
  told = to_spec(to_ns(told) + offset);
  return 0;
}

u64 trap_timed_wait(u64 number, UserContext* context) {
  const u64 result = restart_trapped_call(number, context);
  if (number == SYS_clock_nanosleep) {
    const u64 offset = context->rsi & sys::kTimerAbstime ? offset_of(context->rdi) : 0;
    context->rdi = kernel_clock(context->rdi);
    if (offset) change_deadline(context, context->rdx, offset);
  } else if (number == sys::kSysFutexWaitv) {
    change_deadline(context, context->r10, offset_of(context->r8));
  } else {
    change_deadline(context, context->r10, planned.ns[kMonotonic]);
  }
  return result;
}

}  // namespace fermata::launch
