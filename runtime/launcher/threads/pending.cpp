// SPDX-License-Identifier: Apache-2.0
// Signals that are pending while the job is saved. They lie in the kernel, in a queue for each
// thread and one for the process, and what is queued with a signal (its sender, its value) the
// kernel tells only to who takes it. So each stopped thread takes what waits for it, the main
// thread also what waits for the process, into a table here; the image gets a copy; and before the
// thread continues, in this process or after a restart, it queues all of it again. Nobody can tell:
// everything is blocked in a stopped thread, and no thread continues before the process's signals
// are back and all timers are set again. Only a thread itself may queue again what kill(2), or the
// kernel, had sent to it, and only the main thread what they had sent to the process.
//
// A timer's signal is special: taking it starts the timer's next interval, so the same timer may
// come again at once. What the kernel would have counted or dropped while the first one was pending
// is counted or dropped here; and instead of queueing the signal, the timer is set so that it
// expires at once, with as many overruns (decision 0031).
//
// Invariant: Taken::owner is stored after the entry has been filled, and an entry is touched by its
//            owner only until it is free again. Not checked: a matter of the order of stores.
// Invariant: timers_owed is above 0 from before a timer's signal is taken until it is set again.
//            Checked where one is set again.
#include "launcher/threads/pending.h"

#include "launcher/boundary/guest.h"
#include "launcher/ids/process_ids.h"
#include "launcher/ids/thread.h"
#include "launcher/ids/thread_ids.h"
#include "launcher/threads/held_signals.h"
#include "launcher/threads/stop.h"
#include "launcher/threads/timers.h"
#include "sys/check.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

constexpr u32 kFree = 0, kProcess = ~u32(0);
struct SignalDetails {  // siginfo_t
  i32 signal, error, code, pad;
  union {
    i32 timer;   // of code sys::kSiTimer
    i32 sender;  // of those that name one
  };
  i32 overrun;  // of code sys::kSiTimer
  u64 value;
  u8 rest[96];
};
static_assert(sizeof(SignalDetails) == sizeof image::ImageSignal::info);
constexpr int kFirstQueued = 32;  // signals from here on queue; others are pending once

bool names_sender(const SignalDetails& info) {
  return info.code == sys::kSiUser || info.code == sys::kSiQueue || info.code == sys::kSiMesgq ||
         info.code == sys::kSiTkill;
}

struct Taken {
  u32 owner;  // tid, kProcess or kFree
  SignalDetails info;
};
constexpr u32 kCapacity = 4096;
Taken taken[kCapacity];
u32 taken_count;   // entries in use, in order of arrival within each queue
u32 overflow;      // more wait than there is room for
u32 asked;         // tid of the thread that is to take what waits for it; 0: it has
u32 process_owed;  // futex: 1 until the main thread has queued the process's signals again
u32 timers_owed;   // futex: timers' signals that have been taken and whose timers are not set again

constexpr u64 kTakeable =
    ~(kOurSignals | sys::signal_bit(sys::kSigKill) | sys::signal_bit(sys::kSigStop));

struct Pending {
  u64 of_thread, of_process;
};

/// From /proc: sigpending(2) answers for its caller only, and does not tell the queues apart.
Pending pending_of(u32 tid) {
  Pending found{};
  const u64 takeable = kTakeable & ~held_for_agent();  // those are not the program's
  Text<64> path;
  path << "/proc/self/task/" << tid << "/status";
  const Result<u64> file = sys::open(path.data, sys::kReadOnly | sys::kCloseOnExec);
  if (!file) return found;
  Text<32> line;
  char chunk[256];  // small: this may be a signal stack
  for (;;) {
    const Result<u64> got = sys::read(int(file.value), chunk, sizeof chunk);
    if (!got || got.value == 0) break;
    for (u64 i = 0; i < got.value; i++) {
      if (chunk[i] != '\n') {
        line.put(chunk[i]);
        continue;
      }
      const char* digits = line.data + 8;
      if (text_starts(line.data, "SigPnd:\t")) found.of_thread = parse_hex(digits) & takeable;
      if (text_starts(line.data, "ShdPnd:\t")) found.of_process = parse_hex(digits) & takeable;
      line = {};
    }
  }
  (void)sys::close(int(file.value));
  return found;
}

int lowest(u64 signals) { return __builtin_ctzll(signals) + 1; }

u32 used() {
  const u32 count = __atomic_load_n(&taken_count, __ATOMIC_ACQUIRE);
  return count < kCapacity ? count : kCapacity;
}

/// An earlier entry that the kernel would have merged this one with, had it still been pending.
Taken* find_same(u32 owner, const SignalDetails& info) {
  const bool of_timer = info.code == sys::kSiTimer;
  if (!of_timer && info.signal >= kFirstQueued) return nullptr;
  for (u32 i = 0; i < used(); i++) {
    Taken& entry = taken[i];
    if (__atomic_load_n(&entry.owner, __ATOMIC_ACQUIRE) != owner) continue;
    if (entry.info.signal != info.signal) continue;
    if ((entry.info.code == sys::kSiTimer) != of_timer) continue;
    if (!of_timer || entry.info.timer == info.timer) return &entry;
  }
  return nullptr;
}

void end_owing_timer() {
  const u32 owed = __atomic_fetch_sub(&timers_owed, 1, __ATOMIC_ACQ_REL);
  FERMATA_CHECK(owed != 0, "a timer that is set again was owed");
  if (owed == 1) sys::futex_wake_all(&timers_owed);
}

enum class Take { kNew, kAgain, kNone };

/// Takes the first `signal` of the caller's queue, or of the process's where that is empty.
Take take_one(int signal, u32 owner) {
  const u32 at = __atomic_fetch_add(&taken_count, 1, __ATOMIC_ACQ_REL);
  if (at >= kCapacity) {
    __atomic_fetch_sub(&taken_count, 1, __ATOMIC_ACQ_REL);
    __atomic_store_n(&overflow, 1, __ATOMIC_RELEASE);
    return Take::kNone;
  }
  const u64 only = sys::signal_bit(signal);
  const sys::TimeSpec at_once{};
  SignalDetails& info = taken[at].info;
  info = {};
  __atomic_add_fetch(&timers_owed, 1, __ATOMIC_ACQ_REL);
  const bool got = bool(sys::call(SYS_rt_sigtimedwait, sys::arg(&only), sys::arg(&info),
                                  sys::arg(&at_once), 8));
  Taken* const same = got ? find_same(owner, info) : nullptr;
  if (!got || same || info.code != sys::kSiTimer) end_owing_timer();
  if (!got) return Take::kNone;
  if (same && info.code == sys::kSiTimer) same->info.overrun += 1 + info.overrun;
  if (same) return Take::kAgain;
  __atomic_store_n(&taken[at].owner, owner, __ATOMIC_RELEASE);
  return Take::kNew;
}

/// Queues are in order of arrival, so when one comes again all older ones have been taken.
void take_waiting(u32 tid, bool of_process) {
  u64 wanted = kTakeable;
  while (const u64 waiting = pending_of(tid).of_thread & wanted)
    if (take_one(lowest(waiting), tid) != Take::kNew) wanted &= ~sys::signal_bit(lowest(waiting));
  if (!of_process) return;
  wanted = kTakeable & ~pending_of(tid).of_thread;
  while (const u64 waiting = pending_of(tid).of_process & wanted)
    if (take_one(lowest(waiting), kProcess) != Take::kNew)
      wanted &= ~sys::signal_bit(lowest(waiting));
}

void queue_again(u32 owner, SignalDetails& info) {
  constexpr u32 kTries = 100;  // a limit that other processes count towards may be reached
  if (info.code == sys::kSiTimer && expire_again(info.timer, 1 + u64(info.overrun))) return;
  const u32 pid = sys::getpid();
  const u64 signal = u64(info.signal);
  for (u32 i = 0; i < kTries; i++) {
    const Result<u64> done =
        owner == kProcess
            ? sys::call(SYS_rt_sigqueueinfo, pid, signal, sys::arg(&info))
            : sys::call(SYS_rt_tgsigqueueinfo, pid, owner, signal, sys::arg(&info));
    if (done) return;
    sys::sleep_ns(1'000'000);
  }
  Message note;
  note << "fermata: the pending signal " << info.signal << " is lost: too many are queued\n";
  sys::say(note.data);
}

bool is_main_thread() { return sys::gettid() == sys::getpid(); }

/// Waits for 0 until the deadline.
void await_paid(const u32& owed, u64 deadline_ns) {
  while (const u32 seen = __atomic_load_n(&owed, __ATOMIC_ACQUIRE)) {
    if (sys::now_ns() >= deadline_ns) return;
    sys::futex_wait(&owed, seen, 10'000'000);
  }
}

}  // namespace

Status take_signals(u64 deadline_ns, Message& why) {
  for (Thread& thread : threads) {
    if (!stands(thread)) continue;
    const Pending pending = pending_of(thread.tid);
    if (!pending.of_thread && !(pending.of_process && &thread == &threads[0])) continue;
    __atomic_store_n(&asked, thread.tid, __ATOMIC_RELEASE);
    while (__atomic_load_n(&asked, __ATOMIC_ACQUIRE)) {
      if (sys::now_ns() > deadline_ns) {
        __atomic_store_n(&asked, 0, __ATOMIC_RELEASE);
        why << "thread " << thread.tid << " did not answer in time";
        return failure(sys::kEtimedout);
      }
      wake_stopped();
      sys::sleep_ns(20'000);
    }
  }
  if (!overflow) return success();
  why << "more than " << kCapacity << " signals are pending: let the program take them first";
  return failure(sys::kEperm);
}

void forget_taken_signals() {
  for (u32 i = 0; i < used(); i++) taken[i].owner = kFree;
  taken_count = overflow = timers_owed = 0;
}

bool signals_wait() {
  for (const Thread& thread : threads) {
    if (!stands(thread)) continue;
    const Pending pending = pending_of(thread.tid);
    if (pending.of_thread || pending.of_process) return true;
  }
  return false;
}

void take_own_signals(u32 tid) {
  if (__atomic_load_n(&asked, __ATOMIC_ACQUIRE) != tid) return;
  const bool is_main = is_main_thread();
  if (is_main) __atomic_store_n(&process_owed, 1, __ATOMIC_RELEASE);
  take_waiting(tid, is_main);
  __atomic_store_n(&asked, 0, __ATOMIC_RELEASE);
}

void return_signals() {
  constexpr u64 kAllWithinNs = 30'000'000'000;
  const u32 tid = sys::gettid();
  const bool is_main = is_main_thread();
  const auto is_mine = [&](const Taken& entry) {
    const u32 owner = __atomic_load_n(&entry.owner, __ATOMIC_ACQUIRE);
    return owner == tid || (is_main && owner == kProcess);
  };
  bool any = false;
  for (u32 i = 0; i < used() && !any; i++) any = is_mine(taken[i]);
  if (any) take_waiting(tid, is_main);  // what came since has its place behind these
  for (u32 i = 0; any && i < used(); i++) {
    if (!is_mine(taken[i])) continue;
    queue_again(taken[i].owner, taken[i].info);
    if (taken[i].info.code == sys::kSiTimer) end_owing_timer();
    __atomic_store_n(&taken[i].owner, kFree, __ATOMIC_RELEASE);
  }
  if (is_main && __atomic_exchange_n(&process_owed, 0, __ATOMIC_ACQ_REL))
    sys::futex_wake_all(&process_owed);
  const u64 deadline = sys::now_ns() + kAllWithinNs;
  await_paid(process_owed, deadline);
  await_paid(timers_owed, deadline);
}

void save_signals(image::Writer& writer) {
  for (u32 i = 0; i < taken_count; i++) {
    if (taken[i].owner == kFree) continue;
    image::ImageSignal* const out = writer.signals.add();
    const Thread* const thread = find_thread(taken[i].owner);
    out->thread = thread ? thread->id : 0;
    SignalDetails info = taken[i].info;
    if (names_sender(info)) info.sender = i32(known_process(u32(info.sender)));
    __builtin_memcpy(out->info, &info, sizeof out->info);
  }
}

void restore_signals(const image::Reader& reader) {
  for (u64 i = 0; i < reader.header->signals.count && taken_count < kCapacity; i++) {
    const image::ImageSignal& saved = reader.signals[i];
    Taken& entry = taken[taken_count];
    __builtin_memcpy(&entry.info, saved.info, sizeof entry.info);
    if (entry.info.code == sys::kSiTimer &&
        expire_when_armed(entry.info.timer, 1 + u64(entry.info.overrun)))
      continue;
    taken_count++;
    if (entry.info.code == sys::kSiTimer) timers_owed++;
    entry.owner = saved.thread ? kernel_tid(saved.thread) : kProcess;
  }
  process_owed = 1;
}

}  // namespace fermata::launch
