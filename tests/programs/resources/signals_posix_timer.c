// SPDX-License-Identifier: Apache-2.0
// Row: timers of timer_create, every clock and every kind of notice, keep their ids and continue

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../check.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { CPU_MS = 2 };  // interval of blocked_cpu
enum { PERIODIC, TO_THREAD, CALLS, PROCESS_CPU, THREAD_CPU, THREAD_CPU_OTHER, COUNTED };
static timer_t counted[COUNTED], far, blocked_timer, blocked_cpu;
static int fired[COUNTED];
static pid_t worker_tid;
static clockid_t worker_clock;
static int stopping;

static void count(int which, int more) {
  __atomic_add_fetch(&fired[which], more, __ATOMIC_RELAXED);
}

static void on_timer(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  if (info->si_code == SI_TIMER) count(info->si_value.sival_int, 1 + info->si_overrun);
}

static void on_call(union sigval value) { count(value.sival_int, 1); }

static void *work(void *unused) {
  sigset_t mine;
  sigemptyset(&mine);
  sigaddset(&mine, SIGRTMIN + 2);
  pthread_getcpuclockid(pthread_self(), &worker_clock);
  __atomic_store_n(&worker_tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
  while (!__atomic_load_n(&stopping, __ATOMIC_ACQUIRE)) {
    siginfo_t info;
    compute_ms(2);  // a timer on this thread's processor time counts it
    if (sigtimedwait(&mine, &info, &(struct timespec){0, 5000000}) < 0) continue;
    CHECK(info.si_code == SI_TIMER && info.si_value.sival_int == TO_THREAD);
    count(TO_THREAD, 1);
  }
  return unused;
}

static void make(int which, clockid_t clock, int notify, int signal, long interval_ms) {
  struct sigevent event;
  memset(&event, 0, sizeof event);
  event.sigev_notify = notify;
  event.sigev_signo = signal;
  event.sigev_value.sival_int = which;
  if (notify == SIGEV_THREAD_ID) event.sigev_notify_thread_id = worker_tid;
  if (notify == SIGEV_THREAD) event.sigev_notify_function = on_call;
  CHECK(timer_create(clock, &event, &counted[which]) == 0);
  const struct timespec every = {0, interval_ms * 1000000};
  CHECK(timer_settime(counted[which], 0, &(struct itimerspec){every, every}, NULL) == 0);
}

static void make_all(void) {
  timer_t hole;  // ids need not be dense
  for (int i = 0; i < 3; i++) {
    CHECK(timer_create(CLOCK_REALTIME, NULL, &hole) == 0);
    CHECK(timer_delete(hole) == 0);
  }
  make(PERIODIC, CLOCK_REALTIME, SIGEV_SIGNAL, SIGRTMIN + 1, 10);
  make(TO_THREAD, CLOCK_MONOTONIC, SIGEV_THREAD_ID, SIGRTMIN + 2, 12);
  make(CALLS, CLOCK_MONOTONIC, SIGEV_THREAD, 0, 20);
  make(PROCESS_CPU, CLOCK_PROCESS_CPUTIME_ID, SIGEV_SIGNAL, SIGRTMIN + 1, 6);
  make(THREAD_CPU, CLOCK_THREAD_CPUTIME_ID, SIGEV_SIGNAL, SIGRTMIN + 1, 5);
  make(THREAD_CPU_OTHER, worker_clock, SIGEV_SIGNAL, SIGRTMIN + 1, 7);
  struct sigevent event = {.sigev_notify = SIGEV_NONE};
  CHECK(timer_create(CLOCK_BOOTTIME, &event, &far) == 0);
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGRTMIN + 3;
  event.sigev_value.sival_int = 77;
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &blocked_timer) == 0);
  event.sigev_signo = SIGRTMIN + 4;
  CHECK(timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &blocked_cpu) == 0);
  const struct timespec every = {0, CPU_MS * 1000000};
  CHECK(timer_settime(blocked_cpu, 0, &(struct itimerspec){every, every}, NULL) == 0);
}

static void all_count(void) {
  int before[COUNTED];
  for (int i = 0; i < COUNTED; i++) before[i] = __atomic_load_n(&fired[i], __ATOMIC_RELAXED);
  const double began = now_seconds();
  for (int i = 0; i < COUNTED; i++)
    while (__atomic_load_n(&fired[i], __ATOMIC_RELAXED) == before[i]) {
      compute_ms(1);
      if (now_seconds() > began + 20) printf("timer %d does not fire\n", i);
      CHECK(now_seconds() <= began + 20);
    }
}

// Its signal is blocked: what expires meanwhile is counted as overruns of the one that waits.
static void fetch_blocked(void) {
  sigset_t one;
  siginfo_t info;
  sigemptyset(&one);
  sigaddset(&one, SIGRTMIN + 3);
  const struct itimerspec stop = {{0, 0}, {0, 0}};
  int expired = 0;
  CHECK(sigtimedwait(&one, &info, &(struct timespec){5, 0}) == SIGRTMIN + 3);
  CHECK(timer_settime(blocked_timer, 0, &stop, NULL) == 0);
  do {
    CHECK(info.si_code == SI_TIMER && info.si_value.sival_int == 77);
    expired += 1 + info.si_overrun;
  } while (sigtimedwait(&one, &info, &(struct timespec){0, 0}) > 0);
  CHECK(expired >= 4);
}

// Its signal waits over checkpoints, too. A thread computes no longer than the clock runs, so there
// are no more overruns than that allows.
static void fetch_blocked_cpu(void) {
  static double before;
  sigset_t one;
  siginfo_t info;
  sigemptyset(&one);
  sigaddset(&one, SIGRTMIN + 4);
  const int taken = sigtimedwait(&one, &info, &(struct timespec){0, 0});
  const double now = now_seconds();
  if (taken > 0 && before > 0)
    CHECK(info.si_overrun <= 1 + (now - before) * 1000 / CPU_MS);
  before = now;
}

int main(int argc, char **argv) {
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGRTMIN + 1);
  sigaddset(&blocked, SIGRTMIN + 2);
  sigaddset(&blocked, SIGRTMIN + 3);
  sigaddset(&blocked, SIGRTMIN + 4);
  pthread_sigmask(SIG_BLOCK, &blocked, NULL);  // before MPI makes threads of its own
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  pthread_t worker;
  CHECK(pthread_create(&worker, NULL, work, NULL) == 0);
  while (!__atomic_load_n(&worker_tid, __ATOMIC_ACQUIRE)) compute_ms(1);
  struct sigaction action = {.sa_sigaction = on_timer, .sa_flags = SA_RESTART | SA_SIGINFO};
  CHECK(sigaction(SIGRTMIN + 1, &action, NULL) == 0);
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGRTMIN + 1);
  make_all();
  pthread_sigmask(SIG_UNBLOCK, &blocked, NULL);
  const struct itimerspec later = {{0, 0}, {1000, 0}}, often = {{0, 5000000}, {0, 5000000}};
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(timer_settime(far, 0, &later, NULL) == 0);
    CHECK(timer_settime(blocked_timer, 0, &often, NULL) == 0);
    report_step(step, o.step_ms);
    // In parts: the clock continues while the job is stopped, the timer does not.
    for (int part = 0; part < 10; part++) compute_ms(3);
    struct itimerspec left;
    CHECK(timer_gettime(far, &left) == 0 && left.it_value.tv_sec >= 800 &&
          left.it_value.tv_sec <= 1000 && left.it_interval.tv_nsec == 0);
    fetch_blocked();
    fetch_blocked_cpu();
    all_count();
    mix_int(step);
  }
  for (int i = 0; i < COUNTED; i++) CHECK(timer_delete(counted[i]) == 0);
  CHECK(timer_delete(blocked_cpu) == 0);
  __atomic_store_n(&stopping, 1, __ATOMIC_RELEASE);
  CHECK(pthread_join(worker, NULL) == 0);
  finish();
  return 0;
}
