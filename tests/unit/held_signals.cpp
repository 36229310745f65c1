// SPDX-License-Identifier: Apache-2.0
// Held signals against the kernel: one from another process waits until the agent takes it, one of
// the process's own kills it, masks show what the program wants, and a handler is no default.
#include "launcher/boundary/call_restart.cpp"
#include "launcher/ids/thread.cpp"
#include "launcher/threads/held_signals.cpp"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <initializer_list>

namespace fermata::arch {
extern "C" void fermata_restorer();
asm(".globl fermata_restorer\nfermata_restorer: mov $15, %eax\n syscall");
}  // namespace fermata::arch

// What the launcher's other rooms do is not looked at here.
namespace fermata::launch {
Config config;
u64 restart_address = 0x5000;
static u32 nudged;
void nudge(u32) { nudged++; }
void tell_of_handler(int) {}
void restart_call(UserContext*, const CallSample*) {}
void settle_restarted_call(UserContext*) {}
bool ids_differ() { return false; }
u32 kernel_process(u32 id) { return id; }
u32 kernel_task(u32 id) { return id; }
u32 kernel_tid(u32 id) { return id; }
u32 kernel_group(u32 id) { return id; }
u64 trap_id_call(u64, const u64 (&)[6]) { return 0; }
u64 pass_on(u64 number, const u64 (&a)[6]) {
  return u64(arch::raw_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]));
}
}  // namespace fermata::launch

using namespace fermata;
using namespace fermata::launch;

static int failures;
#define EXPECT(condition)                                                        \
  do {                                                                           \
    if (!(condition)) failures++, printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
  } while (0)

/// Another process sends it to this one.
static void send_from_outside(int signal) {
  const pid_t target = getpid(), child = fork();
  if (child == 0) _exit(kill(target, signal));
  int status = 1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

/// How a child ends in which this is done.
template <typename Do>
static int end_of(Do act) {
  const pid_t child = fork();
  if (child == 0) {
    threads[0].tid = sys::gettid();  // not a fork, but a rank
    act();
    _exit(0);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  return status;
}

static bool dies_of(int status, int signal) {
  return WIFSIGNALED(status) && WTERMSIG(status) == signal;
}

static u64 kernel_mask() {
  u64 mask = 0;
  (void)sys::sigprocmask(sys::kSigSetMask, nullptr, &mask);
  return mask;
}

static void test_choice() {
  EXPECT(parse_signals("10,15") == (sys::signal_bit(10) | sys::signal_bit(15)));
  EXPECT(parse_signals("x,0,65,,3,") == sys::signal_bit(3));
  for (const int signal : {SIGKILL, SIGSEGV, SIGSTOP, SIGCHLD, SIGALRM, SIGPIPE, 31, 33, 64})
    EXPECT(!(may_be_held() & sys::signal_bit(signal)));
  EXPECT(signals_to_hold() == (sys::signal_bit(SIGTERM) | sys::signal_bit(SIGUSR1)));
}

static void test_from_outside() {
  EXPECT(heard() == 0);
  send_from_outside(SIGTERM);
  send_from_outside(SIGTERM);
  EXPECT(heard() == SIGTERM);
  EXPECT(heard() == 0);
  EXPECT(kernel_mask() & sys::signal_bit(SIGTERM));
  EXPECT(!(shown_mask(threads[0], kernel_mask()) & sys::signal_bit(SIGTERM)));
}

/// What all threads block is the program's, and what it blocks it sees.
static void test_blocked_by_the_program() {
  u64 mask = shown_mask(threads[0], kernel_mask()) | sys::signal_bit(SIGTERM);
  hold_in_mask(threads[0], mask);
  (void)sys::sigprocmask(sys::kSigSetMask, &mask, nullptr);
  EXPECT(shown_mask(threads[0], kernel_mask()) & sys::signal_bit(SIGTERM));
  EXPECT(!(held_for_agent() & sys::signal_bit(SIGTERM)));
  send_from_outside(SIGTERM);
  EXPECT(heard() == -1);
  mask = shown_mask(threads[0], kernel_mask()) & ~sys::signal_bit(SIGTERM);
  hold_in_mask(threads[0], mask);
  (void)sys::sigprocmask(sys::kSigSetMask, &mask, nullptr);
  EXPECT(heard() == SIGTERM);
}

/// What has it open all the same survives it, and the agent is told.
static void test_open() {
  const u64 only = sys::signal_bit(SIGUSR1);
  (void)sys::sigprocmask(sys::kSigUnblock, &only, nullptr);
  send_from_outside(SIGUSR1);
  EXPECT(heard() == SIGUSR1);
  EXPECT(kernel_mask() & only);  // its frame's mask holds it again
}

static void test_own() {
  UserContext context{};
  const auto send = [&](u64 number, u64 a, u64 b, u64 c) {
    context.mask = kernel_mask();
    (void)trap_sending_call(Half::kUpper, number, {a, b, c}, &context);
    (void)sys::sigprocmask(sys::kSigSetMask, &context.mask, nullptr);
  };
  EXPECT(dies_of(end_of([&] { send(SYS_kill, u64(getpid()), SIGTERM, 0); }), SIGTERM));
  EXPECT(dies_of(end_of([&] { send(SYS_tgkill, u64(getpid()), sys::gettid(), SIGUSR1); }),
                 SIGUSR1));
  EXPECT(dies_of(end_of([&] { send(SYS_tkill, sys::gettid(), SIGUSR1, 0); }), SIGUSR1));
  // Which no trap has seen: the agent finds who has sent it.
  EXPECT(dies_of(end_of([] { kill(getpid(), SIGTERM), (void)heard(); }), SIGTERM));
  EXPECT(end_of([&] { send(SYS_kill, u64(getpid()), SIGWINCH, 0); }) == 0);
}

static void test_handlers() {
  sys::KernelAction action;
  EXPECT(sys::sigaction(SIGTERM, nullptr, &action) && is_own(action));
  EXPECT(hides_default(action) && hidden_default(SIGTERM).handler == sys::kSigDfl);
  UserContext context{};
  context.mask = kernel_mask();
  note_action(SIGTERM, 0x1234, &context);
  EXPECT(!(context.mask & sys::signal_bit(SIGTERM)));
  EXPECT(context.mask & sys::signal_bit(SIGUSR1));
  note_action(SIGTERM, sys::kSigDfl, &context);
  EXPECT(context.mask & sys::signal_bit(SIGTERM));
  EXPECT(nudged == 0);  // there is one thread
}

/// The program has installed a handler of its own.
static void handle(int signal) {
  UserContext context{};
  context.mask = kernel_mask();
  note_action(signal, 0x1234, &context);
  (void)sys::sigprocmask(sys::kSigSetMask, &context.mask, nullptr);  // as the trap returns
}

/// The kernel has put the default in the place of a handler for one time, which has run.
static void test_handler_for_one_time() {
  handle(SIGTERM);
  const sys::KernelAction natural{};
  (void)sys::sigaction(SIGTERM, &natural, nullptr);
  *reinterpret_cast<u64*>(kHeardHandlers) = sys::signal_bit(SIGTERM);
  EXPECT(heard() == SIGTERM);
  sys::KernelAction action;
  EXPECT(sys::sigaction(SIGTERM, nullptr, &action) && hides_default(action));
  send_from_outside(SIGTERM);
  EXPECT(heard() == SIGTERM && heard() == 0);
  EXPECT(kernel_mask() & sys::signal_bit(SIGTERM));
}

static void* hear(void* told) {
  *static_cast<int*>(told) = heard();
  return nullptr;
}

/// It installs itself again while the agent looks: the agent does not put ours in its place.
static void test_handler_that_comes_back() {
  handle(SIGTERM);
  const sys::KernelAction natural{}, ignored{sys::kSigIgn, 0, 0, 0};
  (void)sys::sigaction(SIGTERM, &natural, nullptr);  // as the kernel does for one time
  pthread_t agent;
  int told = 0;
  {
    const ActionKept kept(SIGTERM);
    *reinterpret_cast<u64*>(kHeardHandlers) = sys::signal_bit(SIGTERM);
    EXPECT(pthread_create(&agent, nullptr, hear, &told) == 0);
    for (int i = 0; i < 20'000 && __atomic_load_n(&keeping, __ATOMIC_ACQUIRE) != kWaitedFor; i++)
      usleep(1000);
    EXPECT(keeping == kWaitedFor);
    (void)sys::sigaction(SIGTERM, &ignored, nullptr);
  }
  EXPECT(pthread_join(agent, nullptr) == 0 && told == SIGTERM && keeping == kFree);
  sys::KernelAction action;
  EXPECT(sys::sigaction(SIGTERM, nullptr, &action) && action.handler == sys::kSigIgn);
  EXPECT(!(held_now() & sys::signal_bit(SIGTERM)));
  (void)sys::sigaction(SIGTERM, &natural, nullptr);
  take_over(SIGTERM);
  send_from_outside(SIGTERM);
  EXPECT(heard() == SIGTERM && heard() == 0);
}

/// A thread waits by a call with a mask while a handler is installed: the mask lets it in.
static void test_masks_of_calls() {
  struct Frame {
    UserContext context;
    u8 info[sys::kSiMaxSize];
  } frame{};
  const u64 hup = sys::signal_bit(SIGHUP), term = sys::signal_bit(SIGTERM), wanted = hup;
  for (const int call : {SYS_rt_sigsuspend, SYS_ppoll, SYS_pselect6, SYS_epoll_pwait}) {
    const u64 number = u64(call);
    frame.context = {};
    struct {
      u64 mask, bytes;
    } sized{sys::arg(&wanted), 8};
    const bool of_pselect = number == SYS_pselect6;
    *mask_register(number, &frame.context) = of_pselect ? sys::arg(&sized) : sized.mask;
    (void)trap_masked_call(number, &frame.context, term);
    const u64 place = *mask_register(number, &frame.context);
    const u64& mask = **reinterpret_cast<u64**>(of_pselect ? place : sys::arg(&place));
    EXPECT(mask == (hup | term));
    renew_held_in_call(&frame.context, 0);
    EXPECT(mask == hup);
    renew_held_in_call(&frame.context, term | hup);
    EXPECT(mask == (hup | term));
    renew_held_in_call(&frame.context, 0);
    EXPECT(mask == hup);  // that is the program's own
    frame.context.rip = 0;
    renew_held_in_call(&frame.context, term);
    EXPECT(mask == hup);  // it is not in the call
  }
  frame.context = {};
  (void)trap_masked_call(SYS_ppoll, &frame.context, term);
  renew_held_in_call(&frame.context, term);
  EXPECT(frame.context.r10 == 0);
}

/// Forks have what the program has, and end as they would.
static void test_fork() {
  UserContext context{};
  context.mask = kernel_mask();
  const u64 child = trap_fork(SYS_fork, {}, &context);
  if (child == 0) {
    if (holds || context.mask & signals_to_hold()) _exit(1);
    (void)sys::sigprocmask(sys::kSigSetMask, &context.mask, nullptr);
    for (;;) pause();
  }
  usleep(10'000);
  EXPECT(kill(pid_t(child), SIGTERM) == 0);
  int status = 0;
  EXPECT(waitpid(pid_t(child), &status, 0) == pid_t(child) && dies_of(status, SIGTERM));
}

static void test_nobody_asks() {
  EXPECT(dies_of(end_of([] {
    send_from_outside(SIGTERM);
    stop_holding();
  }), SIGTERM));
  EXPECT(end_of([] {
    stop_holding();
    sys::KernelAction action;
    if (!sys::sigaction(SIGTERM, nullptr, &action) || action.handler) _exit(1);
    if (kernel_mask() & signals_to_hold()) _exit(2);
  }) == 0);
}

int main() {
  const u64 page = kVdsoTable;
  if (mmap(reinterpret_cast<void*>(page), 4096, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED)
    return perror("mmap"), 1;
  signal(SIGTERM, SIG_IGN);  // as mpirun's guard leaves it
  adopt_main_thread();
  config.save_on = "10,15,9,11";
  config.socket = "s";
  note_held_signals();
  test_choice();
  test_from_outside();
  test_blocked_by_the_program();
  test_open();
  test_own();
  test_handlers();
  test_handler_for_one_time();
  test_handler_that_comes_back();
  test_masks_of_calls();
  test_fork();
  test_nobody_asks();
  if (failures == 0) puts("held signals: as expected");
  return failures != 0;
}
