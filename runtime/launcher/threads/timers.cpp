// SPDX-License-Identifier: Apache-2.0
// Interval timers: setitimer(2), alarm(2), timer_create(2). The kernel tells what is left of each
// and when it comes again, but not what a timer of timer_create was made for; so making one traps
// and is noted here. After a restart they are made again, under the ids that the application knows,
// and continue with what was left when the rank leaves the checkpoint.
#include "launcher/threads/timers.h"

#include <asm/unistd.h>
#include <linux/time.h>

#include "launcher/boundary/guest.h"
#include "launcher/config.h"
#include "launcher/ids/thread.h"
#include "launcher/ids/thread_ids.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

using sys::to_ns, sys::to_spec;
using image::ImageTimer;

constexpr u32 kOfTimerCreate = 3;  // ImageTimer::kind; below it: ITIMER_*

struct Event {  // struct sigevent
  u64 value;
  i32 signal, notify;
  u32 thread;
  u32 pad[11];
};
struct Setting {  // struct itimerspec; struct itimerval with microseconds
  sys::TimeSpec interval, left;
};

constexpr u32 kCapacity = 1024;
ImageTimer known[kCapacity];  // of timer_create; some may have been deleted since
u32 known_count;
u32 lock, overflow;
ImageTimer current[kCapacity + kOfTimerCreate];  // as read last, or as they are to be armed
u32 current_count;
u32 to_arm;  // of those, after a restart
u64 missed[sizeof current / sizeof *current];  // expiries that each pending signal stands for


bool read_setting(const ImageTimer& timer, Setting& out) {
  return bool(sys::call(SYS_timer_gettime, u64(i64(timer.id)), sys::arg(&out)));
}

/// A thread's processor time has a clock id that names the thread: bits 3 up are ~tid.
bool is_thread_clock(i32 clock) {
  return clock == CLOCK_THREAD_CPUTIME_ID || (clock < 0 && clock & 4);
}
u32 thread_of(i32 clock) {
  const u32 id = clock < 0 ? ~u32(clock >> 3) : 0;
  if (id) return id;
  const Thread* const self = find_thread(sys::gettid());
  return self ? self->id : 0;
}
/// The kernel's id of a thread; 0 if it has ended.
u32 live_tid(u32 id) {
  const Thread* const thread = find_thread_by_id(id);
  return thread ? thread->tid : 0;
}
i32 clock_of(u32 tid) { return i32(~tid << 3 | 6 /* CPUCLOCK_PERTHREAD, CPUCLOCK_SCHED */); }

void forget_deleted() {
  u32 kept = 0;
  for (u32 i = 0; i < known_count; i++) {
    Setting setting;
    if (read_setting(known[i], setting)) known[kept++] = known[i];
  }
  known_count = kept;
}

void note(const ImageTimer& timer) {
  while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE)) arch::pause();
  u32 at = 0;
  while (at < known_count && known[at].id != timer.id) at++;  // an id may be given out again
  if (at == kCapacity) forget_deleted(), at = known_count;
  if (at < kCapacity) known[at] = timer;
  else overflow = 1;
  if (at == known_count && at < kCapacity) known_count++;
  __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
}

void read_itimers() {
  for (u32 which = 0; which < kOfTimerCreate; which++) {
    Setting s{};
    if (!sys::call(SYS_getitimer, which, sys::arg(&s))) continue;
    s.interval.nanoseconds *= 1000;
    s.left.nanoseconds *= 1000;
    const u64 interval = to_ns(s.interval), left = to_ns(s.left);
    if (!left && !interval) continue;
    ImageTimer& out = current[current_count++];
    out = {};
    out.kind = which;
    out.left_ns = left ? left : 1000;  // none left, but periodic: it is about to expire
    out.interval_ns = interval;
  }
}

i32 clock_now(const ImageTimer& timer) {
  return is_thread_clock(timer.clock) ? clock_of(live_tid(timer.clock_thread)) : timer.clock;
}

/// Sets a timer to a time so long past that it expires at once, for `count` expiries up to now: the
/// kernel counts them as overruns when the signal is taken.
void arm_in_the_past(const ImageTimer& timer, u64 count) {
  sys::TimeSpec clock{};
  (void)sys::call(SYS_clock_gettime, u64(i64(clock_now(timer))), sys::arg(&clock));
  const u64 next = to_ns(clock) + timer.left_ns, past = count * timer.interval_ns;
  u64 first = timer.interval_ns ? (next > past ? next - past : 1) : to_ns(clock);
  if (first == 0) first = 1;  // 0 would stop it
  Setting s{to_spec(timer.interval_ns), to_spec(first)};
  (void)sys::call(SYS_timer_settime, u64(i64(timer.id)), sys::kTimerAbstime, sys::arg(&s), 0);
}

void arm(const ImageTimer& timer, u64 count) {
  Setting s{to_spec(timer.interval_ns), to_spec(timer.left_ns)};
  if (timer.kind == kOfTimerCreate) {
    if (count) return arm_in_the_past(timer, count);
    (void)sys::call(SYS_timer_settime, u64(i64(timer.id)), 0, sys::arg(&s), 0);
    return;
  }
  s.interval.nanoseconds /= 1000;
  s.left.nanoseconds = (s.left.nanoseconds + 999) / 1000;
  if (s.left.nanoseconds == 1'000'000) s.left = {s.left.seconds + 1, 0};
  (void)sys::call(SYS_setitimer, timer.kind, sys::arg(&s), 0);
}

/// Ids are given out in order, and so they must be asked for.
void sort_by_id() {
  for (u32 i = 1; i < current_count; i++)
    for (u32 j = i; j && current[j].id < current[j - 1].id; j--) {
      const ImageTimer other = current[j];
      current[j] = current[j - 1];
      current[j - 1] = other;
    }
}

/// Makes a timer that gets the id it had. Linux 6.15 lets one ask for an id; before, ids are given
/// out in order.
bool make(const ImageTimer& timer, bool id_is_taken_as_given) {
  const u32 clock_thread = live_tid(timer.clock_thread), thread = live_tid(timer.thread);
  i32 clock = timer.clock;
  if (is_thread_clock(clock)) clock = clock_thread ? clock_of(clock_thread) : -1;
  Event event{timer.value, timer.signal, timer.notify, thread, {}};
  const bool orphan = clock == -1 || (timer.notify == sys::kSigevThreadId && !thread);
  if (orphan) {  // its thread had ended: it never tells anybody anything, but its id is in use
    event.notify = sys::kSigevNone;
    clock = CLOCK_MONOTONIC;
  }
  for (;;) {
    i32 id = timer.id;
    if (!sys::call(SYS_timer_create, u64(i64(clock)), sys::arg(&event), sys::arg(&id)))
      return false;
    if (id == timer.id) return true;
    (void)sys::call(SYS_timer_delete, u64(i64(id)));
    if (id_is_taken_as_given || id > timer.id) return false;
  }
}

}  // namespace

namespace {

u64 create_by_kernel_ids(const u64 (&a)[6]) {
  if (!a[1]) return pass_on(SYS_timer_create, {kernel_clock(a[0]), 0, a[2]});
  Event event = *reinterpret_cast<const Event*>(a[1]);
  if (event.notify == sys::kSigevThreadId) event.thread = kernel_tid(event.thread);
  return pass_on(SYS_timer_create, {kernel_clock(a[0]), sys::arg(&event), a[2]});
}

}  // namespace

u64 trap_timer_create(const u64 (&a)[6]) {
  const u64 result = ids_differ() ? create_by_kernel_ids(a) : pass_on(SYS_timer_create, a);
  if (result != 0 || is_forked_child()) return result;
  ImageTimer timer{};
  timer.kind = kOfTimerCreate;
  timer.id = *reinterpret_cast<const i32*>(a[2]);
  timer.clock = i32(a[0]);
  if (is_thread_clock(timer.clock)) {
    timer.clock_thread = thread_of(timer.clock);
    timer.clock = CLOCK_THREAD_CPUTIME_ID;
  } else if (timer.clock < 0) {
    timer.clock = CLOCK_PROCESS_CPUTIME_ID;
  }
  const Event standard{u64(timer.id), sys::kSigAlrm, sys::kSigevSignal, 0, {}};
  const Event& event = a[1] ? *reinterpret_cast<const Event*>(a[1]) : standard;
  timer.value = event.value;
  timer.signal = event.signal;
  timer.notify = event.notify;
  if (event.notify == sys::kSigevThreadId) timer.thread = event.thread;
  note(timer);
  return result;
}

u64 clock_of_timer(i32 id) {
  for (u32 i = 0; i < known_count; i++)
    if (known[i].id == id && !is_forked_child()) return u64(i64(known[i].clock));
  return CLOCK_REALTIME;
}

Status read_timers(Message& why) {
  current_count = 0;
  read_itimers();
  forget_deleted();
  for (u32 i = 0; i < known_count; i++) {
    Setting setting{};
    (void)read_setting(known[i], setting);
    ImageTimer& out = current[current_count++];
    out = known[i];
    out.left_ns = to_ns(setting.left);
    out.interval_ns = to_ns(setting.interval);
  }
  if (!overflow) return success();
  why << "the program has made more than " << kCapacity << " timers with timer_create";
  return failure(sys::kEperm);
}

bool any_timer() { return current_count != 0; }

void save_timers(image::Writer& writer) {
  for (u32 i = 0; i < current_count; i++)
    if (ImageTimer* const out = writer.timers.add()) *out = current[i];
}

void restore_timers(const image::Reader& reader) {
  const bool by_id = bool(sys::call(SYS_prctl, sys::kPrTimerCreateRestoreIds, 1));
  for (u64 i = 0; i < reader.header->timers.count && i < sizeof current / sizeof *current; i++)
    current[current_count++] = reader.timers[i];
  sort_by_id();
  to_arm = current_count;
  for (u32 i = 0; i < current_count; i++) {
    ImageTimer& timer = current[i];
    if (timer.kind != kOfTimerCreate) continue;
    if (!make(timer, by_id))
      die("cannot make a timer of the program again", "timer_create", 0,
          "another timer of this process has its id; restart under another MPI");
    note(timer);
  }
  if (by_id) (void)sys::call(SYS_prctl, sys::kPrTimerCreateRestoreIds, 0);
}

bool expire_again(i32 id, u64 count) {
  ImageTimer* const end = known + known_count;
  ImageTimer* timer = known;
  while (timer < end && timer->id != id) timer++;
  Setting setting;
  if (timer == end || !read_setting(*timer, setting)) return false;
  ImageTimer now = *timer;
  now.left_ns = to_ns(setting.left);
  now.interval_ns = to_ns(setting.interval);
  arm_in_the_past(now, count);
  return true;
}

bool expire_when_armed(i32 id, u64 count) {
  for (u32 i = 0; i < to_arm; i++) {
    if (current[i].kind != kOfTimerCreate || current[i].id != id) continue;
    missed[i] = count;
    return true;
  }
  return false;
}

void arm_restored_timers() {
  for (u32 i = 0; i < to_arm; i++) arm(current[i], missed[i]);
  to_arm = 0;
}

}  // namespace fermata::launch
