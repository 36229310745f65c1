// SPDX-License-Identifier: Apache-2.0
// A process manager that ends a job sends a signal to each of its processes, and what is not at
// home for it dies unsaved. The signals of --save-on are *held* where the program has left them at
// their default: the rank runs on, and its agent tells the coordinator, which decides.
//
// Nothing of that is to be seen, EINTR least of all. So such a signal is blocked in every thread of
// the rank and never delivered: it waits in the kernel, and the agent takes it from there
// (heard()). What a thread's mask has because of that is noted with the thread, and taken out of
// whatever the program sees of it: of masks that calls return, of those of its children, of images.
// A thread that has such a signal open all the same gets a handler of ours in place of the default.
//
// What the program does with a signal itself, it continues to do: one that it ignores or handles is
// not held, and the start of its handler leaves a bit in the vdso page (vdso.S), which the agent
// tells. One that all its threads block waits for the program, as it would have, and so does what
// it sends to itself, and what its timers send: that comes as it would have, and kills it.
//
// Invariant: Thread::held is what the thread's mask has beyond what its program wants. It is
//            changed by the thread alone, with all signals blocked. Not checked: nobody else knows
//            what the program wants.
#include "launcher/threads/held_signals.h"

#include "arch/x86_64/context.h"
#include "halves/crossing.h"
#include "launcher/boundary/call_restart.h"
#include "launcher/config.h"
#include "launcher/ids/process_ids.h"
#include "launcher/ids/thread_ids.h"
#include "launcher/patch/vdso.h"
#include "launcher/threads/signals.h"
#include "launcher/threads/stop.h"
#include "launcher/threads/syscall_restart.h"

namespace fermata::launch {
namespace {

constexpr int kSignals = 64;
constexpr int kFirstOfPrograms = 34;  // real-time signals before it are the C library's

/// Those that end a process and come from others: neither what a fault raises nor what a program's
/// own timers and pipes do.
constexpr u64 may_be_held() {
  constexpr int kNamed[] = {sys::kSigHup,  sys::kSigInt,  sys::kSigQuit, sys::kSigUsr1,
                            sys::kSigUsr2, sys::kSigTerm, sys::kSigXcpu, sys::kSigPwr};
  u64 all = 0;
  for (const int signal : kNamed) all |= sys::signal_bit(signal);
  for (int signal = kFirstOfPrograms; signal < kSignalQuiesce; signal++)
    all |= sys::signal_bit(signal);
  return all;
}

u64 chosen;        // by --save-on
bool holds;        // this process is a rank, or may become one without a fork
bool nobody_asks;  // there is no coordinator any more: no further signal is held
u64 held;          // those of `chosen` that are at their default
u64 delivered;     // to the handler here, and not told yet
u64 untold;        // the agent's: it knows of them
bool upper_is_there;  // and with it the vdso page
sys::KernelAction believed[kSignals + 1];  // of the program, while the kernel has ours

u64 held_now() { return __atomic_load_n(&held, __ATOMIC_ACQUIRE); }

struct Sent {  // siginfo_t of kill(2), sigqueue(3)
  i32 signal, error, code, pad;
  u32 sender;
  u8 rest[108];
};
static_assert(sizeof(Sent) == sys::kSiMaxSize);

/// Whether neither the process nor one of its timers has sent it.
bool is_from_outside(const Sent& info) {
  const bool names_sender =
      info.code == sys::kSiUser || info.code == sys::kSiQueue || info.code == sys::kSiTkill;
  return names_sender ? info.sender != sys::getpid() : info.code > 0;
}

/// The default action, now.
[[noreturn]] void die_of(int signal) {
  const sys::KernelAction natural{};
  const u64 only = sys::signal_bit(signal);
  (void)sys::sigaction(signal, &natural, nullptr);
  (void)sys::tgkill(sys::getpid(), sys::gettid(), signal);
  (void)sys::sigprocmask(sys::kSigUnblock, &only, nullptr);
  sys::exit_group(128 + signal);
}

void on_held(int signal, Sent* info, void* frame) {
  UserContext* const context = static_cast<UserContext*>(frame);
  if (is_forked_child() || !is_from_outside(*info)) die_of(signal);
  (void)__atomic_fetch_or(&delivered, sys::signal_bit(signal), __ATOMIC_RELEASE);
  Thread* const thread = holding_thread();
  if (!thread || in_launcher(context->rip)) return;
  renew_held(*thread, context);
  restart_call(context, nullptr);
  renew_held_in_call(context, held_now());
  settle_restarted_call(context);
}

sys::KernelAction own_action() {
  return {sys::arg(&on_held), sys::kSaSigInfo | sys::kSaRestorer | sys::kSaRestart,
          sys::arg(&arch::fermata_restorer), ~sys::signal_bit(kSignalTrap)};
}

bool is_own(const sys::KernelAction& action) { return action.handler == sys::arg(&on_held); }

bool is_chosen(int signal) {
  return signal >= 1 && signal <= kSignals && chosen & sys::signal_bit(signal);
}

bool may_hold(int signal) {
  return holds && !nobody_asks && is_chosen(signal) && !is_forked_child();
}

u64 parse_signals(const char* list) {
  u64 all = 0;
  while (*list) {
    const char* const begin = list;
    const u64 number = parse_decimal(list);
    if (list == begin) list++;
    else if (number >= 1 && number <= u64(kSignals)) all |= sys::signal_bit(int(number));
  }
  return all;
}

/// All other threads come to renew_held() soon.
void renew_others() {
  if (!__atomic_load_n(&upper_is_there, __ATOMIC_ACQUIRE)) return;  // there are none yet
  const u32 self = sys::gettid();
  for (const Thread& thread : threads)
    if (state_of(thread) >= ThreadState::kLive && thread.tid != self) nudge(thread.id);
}

/// Whether something that is sent to a process, or to a group, comes to this process.
bool comes_to_process(u64 number, u64 id) {
  const i32 target = i32(id);
  if (target > 0) return kernel_process(u32(target)) == sys::getpid();
  if (number != SYS_kill) return false;
  if (target == 0 || target == -1) return true;
  return kernel_group(u32(-target)) == sys::call(SYS_getpgid, 0).value;
}

/// Whether a signal that this call sends would come to a thread of this process that holds it back.
bool is_sent_to_self(u64 number, const u64 (&a)[6], int signal) {
  const u64 bit = sys::signal_bit(signal);
  const bool of_process = number == SYS_kill || number == SYS_rt_sigqueueinfo;
  if (of_process) return comes_to_process(number, a[0]) && held_for_agent() & bit;
  if (number != SYS_tkill && !comes_to_process(number, a[0])) return false;
  const Thread* const thread =
      find_thread(number == SYS_tkill ? kernel_task(u32(a[0])) : kernel_tid(u32(a[1])));
  return thread && thread->held & bit;
}

/// The signal is no longer held; where it waits, it comes.
void let_go(int signal, Thread& thread, UserContext* context) {
  const ActionKept kept(signal);
  (void)__atomic_fetch_and(&held, ~sys::signal_bit(signal), __ATOMIC_ACQ_REL);
  (void)sys::sigaction(signal, &believed[signal], nullptr);
  renew_held(thread, context);
  renew_others();
}

/// The action that the process has now becomes one of a process that holds signals.
void take_over(int signal) {
  const ActionKept kept(signal);
  sys::KernelAction action;
  if (!sys::sigaction(signal, nullptr, &action)) return;
  if (is_own(action)) action = believed[signal];
  if (action.handler > sys::kSigIgn) tell_of_handler(signal);
  if (action.handler != sys::kSigDfl) return;
  hide_default(signal, action);
  (void)sys::sigaction(signal, &action, nullptr);
  note_action(signal, sys::kSigDfl, nullptr);
}

/// Signals whose handlers have begun since this was last asked. A handler for one time has put the
/// signal back at its default, which is held then as well.
u64 handled() {
  if (!__atomic_load_n(&upper_is_there, __ATOMIC_ACQUIRE)) return 0;
  u64* const noted = reinterpret_cast<u64*>(kHeardHandlers);
  const u64 found = __atomic_exchange_n(noted, 0, __ATOMIC_ACQUIRE);
  const u64 before = held_now();
  for (u64 rest = found; rest; rest &= rest - 1) take_over(__builtin_ctzll(rest) + 1);
  if (held_now() != before) renew_others();
  return found;
}

/// What is done then no handler interrupts. Returns the mask before.
u64 block_all() {
  const u64 all = ~sys::signal_bit(kSignalTrap);
  u64 before = 0;
  (void)sys::sigprocmask(sys::kSigSetMask, &all, &before);
  return before;
}

/// Takes one signal that waits for the process, if it is still there.
void take(int signal) {
  const u64 only = sys::signal_bit(signal);
  const sys::TimeSpec at_once{};
  Sent info{};
  const bool taken = bool(sys::call(SYS_rt_sigtimedwait, sys::arg(&only), sys::arg(&info),
                                    sys::arg(&at_once), 8));
  if (!taken) return;
  if (!is_from_outside(info)) die_of(signal);
  untold |= only;
}

}  // namespace

void note_held_signals() {
  chosen = parse_signals(config.save_on) & may_be_held();
  upper_is_there = !config.restore[0];
  for (int signal = 1; signal <= kSignals; signal++) {
    sys::KernelAction action;
    if (!is_chosen(signal) || !sys::sigaction(signal, nullptr, &action)) continue;
    const sys::KernelAction natural{};
    if (action.handler == sys::kSigIgn) (void)sys::sigaction(signal, &natural, nullptr);
  }
  const char* first = config.first;
  const bool is_first = !first[0] || parse_decimal(first) == sys::getpid();
  if (config.restore[0] || is_first) begin_holding();
}

u64 signals_to_hold() { return chosen; }

void begin_holding() {
  if (holds || !chosen || !config.socket[0]) return;
  holds = true;
  u64 mask = block_all();
  for (int signal = 1; signal <= kSignals; signal++)
    if (is_chosen(signal)) take_over(signal);
  if (Thread* const thread = holding_thread()) hold_in_mask(*thread, mask);
  (void)sys::sigprocmask(sys::kSigSetMask, &mask, nullptr);
  renew_others();
}

// A lock as in Drepper, "Futexes Are Tricky" (2011), section 5.
enum : u32 { kFree, kKept, kWaitedFor };
static u32 keeping;  // futex

ActionKept::ActionKept(int signal)
    : kept_(holds && is_chosen(signal) && !is_forked_child()) {
  if (!kept_) return;
  u32 was = kFree;
  if (__atomic_compare_exchange_n(&keeping, &was, kKept, false, __ATOMIC_ACQUIRE,
                                  __ATOMIC_RELAXED))
    return;
  while (__atomic_exchange_n(&keeping, kWaitedFor, __ATOMIC_ACQUIRE) != kFree)
    sys::futex_wait(&keeping, kWaitedFor, 10'000'000);
}

ActionKept::~ActionKept() {
  if (kept_ && __atomic_exchange_n(&keeping, kFree, __ATOMIC_RELEASE) == kWaitedFor)
    sys::futex_wake_all(&keeping);
}

u64 shown_mask(const Thread& thread, u64 mask) { return mask & ~thread.held; }

void hold_in_mask(Thread& thread, u64& mask) {
  thread.held = held_now() & ~mask;
  mask |= thread.held;
}

void renew_held(Thread& thread, UserContext* context) {
  u64 mask = shown_mask(thread, context->mask);
  hold_in_mask(thread, mask);
  context->mask = mask;
}

Thread* holding_thread() {
  if (!holds || is_forked_child()) return nullptr;
  return find_thread(sys::gettid());
}

u64 held_in_calls() { return holding_thread() ? held_now() : 0; }

u64 held_for_agent() {
  u64 all = 0;
  if (!holds) return 0;
  for (const Thread& thread : threads)
    if (state_of(thread) >= ThreadState::kLive) all |= thread.held;
  return all & held_now();
}

u64 mask_for_exec(const UserContext* context) {
  if (const Thread* const thread = holding_thread()) return shown_mask(*thread, context->mask);
  // In a child of vfork(2) the table is its parent's, and which thread of it this was nobody knows.
  return holds ? context->mask & ~held_for_agent() : context->mask;
}

bool is_told(int signal) { return may_hold(signal); }

void hide_default(int signal, sys::KernelAction& action) {
  if (!may_hold(signal) || action.handler != sys::kSigDfl) return;
  believed[signal] = action;
  action = own_action();
}

bool hides_default(const sys::KernelAction& action) { return is_own(action); }

const sys::KernelAction& hidden_default(int signal) { return believed[signal]; }

void note_action(int signal, u64 handler, UserContext* context) {
  if (!may_hold(signal)) return;
  const u64 bit = sys::signal_bit(signal);
  const u64 before = handler == sys::kSigDfl ? __atomic_fetch_or(&held, bit, __ATOMIC_ACQ_REL)
                                             : __atomic_fetch_and(&held, ~bit, __ATOMIC_ACQ_REL);
  if (before == held_now() || !context) return;
  if (Thread* const thread = holding_thread()) renew_held(*thread, context);
  renew_others();
}

u64 trap_fork(u64 number, const u64 (&a)[6], UserContext* context) {
  const Thread* const thread = holding_thread();
  const u64 mask = thread ? shown_mask(*thread, context->mask) : context->mask;
  const u64 result = pass_on(number, a);
  if (result != 0) return result;
  holds = false;  // of the child: until it asks for MPI itself
  keeping = kFree;  // by whom is not there
  context->mask = mask;
  return 0;
}

u64 trap_sending_call(Half half, u64 number, const u64 (&a)[6], UserContext* context) {
  const bool to_thread = number == SYS_tgkill || number == SYS_rt_tgsigqueueinfo;
  const int signal = int(to_thread ? a[2] : a[1]);
  Thread* const thread = is_chosen(signal) ? holding_thread() : nullptr;
  if (thread && held_now() & sys::signal_bit(signal) && is_sent_to_self(number, a, signal))
    let_go(signal, *thread, context);
  return half == Half::kUpper && ids_differ() ? trap_id_call(number, a) : pass_on(number, a);
}

void show_masks() {
  for (Thread& thread : threads) {
    if (!stands(thread)) continue;
    UserContext* const frame = reinterpret_cast<UserContext*>(thread.frame);
    if (thread.held) frame->mask = shown_mask(thread, frame->mask);
    renew_held_in_call(frame, 0);
  }
}

void restore_held(const image::Reader& reader) {
  if (!holds) return;
  u64& noted = *reinterpret_cast<u64*>(kHeardHandlers);
  __atomic_store_n(&noted, 0, __ATOMIC_RELEASE);  // of the life that was saved
  __atomic_store_n(&upper_is_there, true, __ATOMIC_RELEASE);
  for (u64 i = 0; i < reader.header->threads.count; i++) {
    const image::ImageThread& saved = reader.threads[i];
    Thread* const thread = find_thread_by_id(saved.tid);
    UserContext* const frame = reinterpret_cast<UserContext*>(saved.frame);
    if (thread) hold_in_mask(*thread, frame->mask);
    if (thread) renew_held_in_call(frame, held_now());
  }
}

i32 heard() {
  if (!holds) return 0;
  untold |= __atomic_exchange_n(&delivered, 0, __ATOMIC_ACQUIRE) | handled();
  u64 pending = 0;
  (void)sys::call(SYS_rt_sigpending, sys::arg(&pending), sizeof pending);
  pending &= chosen;
  const u64 ours = pending ? pending & held_for_agent() : 0;
  for (int signal = 1; signal <= kSignals; signal++)
    if (ours & sys::signal_bit(signal)) take(signal);
  if (!untold) return pending & ~ours ? -1 : 0;
  const int signal = __builtin_ctzll(untold) + 1;
  untold &= ~sys::signal_bit(signal);
  return signal;
}

void stop_holding() {
  u64 mask = block_all();
  nobody_asks = true;
  for (int signal = 1; signal <= kSignals; signal++) {
    if (!is_chosen(signal)) continue;
    const ActionKept kept(signal);
    (void)__atomic_fetch_and(&held, ~sys::signal_bit(signal), __ATOMIC_ACQ_REL);
    sys::KernelAction action;
    if (sys::sigaction(signal, nullptr, &action) && is_own(action))
      (void)sys::sigaction(signal, &believed[signal], nullptr);
  }
  if (Thread* const thread = holding_thread()) {
    mask = shown_mask(*thread, mask);
    thread->held = 0;
  }
  (void)sys::sigprocmask(sys::kSigSetMask, &mask, nullptr);
  renew_others();
}

}  // namespace fermata::launch
