// SPDX-License-Identifier: Apache-2.0
// Clocks that count from the start of the machine: none may ever go back, and what waits for a time
// of theirs wakes up at that time, wherever the program is restarted.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"

enum { kTickers = 4, kTickMs = 50, kPatienceS = 25 };
typedef struct timespec Time;

static const clockid_t kClocks[] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_COARSE,
                                    CLOCK_BOOTTIME};
enum { kClockCount = sizeof kClocks / sizeof *kClocks };
static int64_t latest[kClockCount];
static clock_t latest_ticks;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition;
static int ticks[kTickers], stopping;

static int64_t to_ns(Time t) { return t.tv_sec * 1000000000ll + t.tv_nsec; }
static Time to_time(int64_t ns) { return (Time){ns / 1000000000, ns % 1000000000}; }
static int64_t now(clockid_t clock) {
  Time t;
  CHECK(clock_gettime(clock, &t) == 0);
  return to_ns(t);
}
static int64_t now_by_call(clockid_t clock) {
  Time t;
  CHECK(syscall(SYS_clock_gettime, clock, &t) == 0);
  return to_ns(t);
}

/// Each of these waits again and again for the next of its times, which it has computed at the
/// start: in a condition variable, in sleeps on two clocks, in a semaphore.
static void *tick(void *number) {
  const int me = (int)(intptr_t)number;
  const clockid_t clock = me == 2 ? CLOCK_BOOTTIME : CLOCK_MONOTONIC;
  sem_t semaphore;
  CHECK(sem_init(&semaphore, 0, 0) == 0);
  int64_t next = now(clock);
  while (!__atomic_load_n(&stopping, __ATOMIC_ACQUIRE)) {
    next += kTickMs * 1000000ll;
    const Time until = to_time(next);
    if (me == 0) {
      pthread_mutex_lock(&mutex);
      while (pthread_cond_timedwait(&condition, &mutex, &until) != ETIMEDOUT) {
      }
      pthread_mutex_unlock(&mutex);
    } else if (me == 3) {
      while (sem_clockwait(&semaphore, CLOCK_MONOTONIC, &until) == 0 || errno != ETIMEDOUT) {
      }
    } else {
      while (clock_nanosleep(clock, TIMER_ABSTIME, &until, NULL) == EINTR) {
      }
    }
    CHECK(now(clock) >= next);
    __atomic_fetch_add(&ticks[me], 1, __ATOMIC_RELEASE);
  }
  return NULL;
}

static void look_at_clocks(void) {
  for (int i = 0; i < kClockCount; i++) {
    const int64_t first = now(kClocks[i]);
    if (first < latest[i])
      printf("rank %d: clock %d went back by %.3f s\n", rank, (int)kClocks[i],
             1e-9 * (double)(latest[i] - first));
    CHECK(first >= latest[i]);
    const int64_t second = now_by_call(kClocks[i]);
    CHECK(second >= first);
    latest[i] = now(kClocks[i]);
    CHECK(latest[i] >= second && latest[i] - first < kPatienceS * 1000000000ll);
  }
  struct tms used;
  const clock_t count = times(&used);
  CHECK(count >= latest_ticks);
  latest_ticks = count;
}

/// All threads tick on, within a time that no restart on a busy machine takes.
static void await_ticks(void) {
  int before[kTickers];
  for (int i = 0; i < kTickers; i++) before[i] = __atomic_load_n(&ticks[i], __ATOMIC_ACQUIRE);
  const double until = MPI_Wtime() + kPatienceS;
  for (int i = 0; i < kTickers; i++) {
    while (__atomic_load_n(&ticks[i], __ATOMIC_ACQUIRE) == before[i] && MPI_Wtime() < until)
      pause_ms(2);
    if (MPI_Wtime() >= until) printf("rank %d: thread %d still waits\n", rank, i);
    CHECK(MPI_Wtime() < until);
  }
}

/// A timer of either kind that goes off at an absolute time.
static void use_timers(clockid_t clock) {
  const int64_t first = now(clock) + 20 * 1000000ll;
  const struct itimerspec at = {.it_value = to_time(first)};
  const int fd = timerfd_create(clock, TFD_CLOEXEC);
  uint64_t count = 0;
  const double began = MPI_Wtime();
  CHECK(fd >= 0 && timerfd_settime(fd, TFD_TIMER_ABSTIME, &at, NULL) == 0);
  CHECK(read(fd, &count, sizeof count) == sizeof count && count == 1 && close(fd) == 0);
  CHECK(now(clock) >= first);
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_NONE};
  struct itimerspec left;
  const struct itimerspec far = {.it_value = to_time(now(clock) + 1000000000000ll)};
  CHECK(timer_create(clock, &event, &timer) == 0);
  CHECK(timer_settime(timer, TIMER_ABSTIME, &far, NULL) == 0);
  CHECK(timer_gettime(timer, &left) == 0);
  CHECK(left.it_value.tv_sec <= 1000 && left.it_value.tv_sec > 1000 - kPatienceS);
  CHECK(timer_delete(timer) == 0);
  CHECK(MPI_Wtime() - began < kPatienceS);
}

/// Ranks of one host agree about the time.
static void compare_with_others(void) {
  int64_t told = now(CLOCK_MONOTONIC);
  const int64_t slack = 20000;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Bcast(&told, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  CHECK(now(CLOCK_MONOTONIC) + slack >= told);
  int64_t mine = now(CLOCK_MONOTONIC), most = 0;
  MPI_Allreduce(&mine, &most, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
  CHECK(now(CLOCK_MONOTONIC) + slack >= most);
}

static void have_child(void) {
  const int64_t before = now(CLOCK_MONOTONIC);
  const pid_t child = fork();
  if (child == 0)
    _exit(now(CLOCK_MONOTONIC) < before || now_by_call(CLOCK_MONOTONIC) < before);
  int status = -1;
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  pthread_condattr_t attributes;
  CHECK(pthread_condattr_init(&attributes) == 0);
  CHECK(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0);
  CHECK(pthread_cond_init(&condition, &attributes) == 0);
  pthread_t threads[kTickers];
  for (int i = 0; i < kTickers; i++)
    CHECK(pthread_create(&threads[i], NULL, tick, (void *)(intptr_t)i) == 0);
  for (int step = 1; step <= o.steps; step++) {
    look_at_clocks();
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    look_at_clocks();
    await_ticks();
    use_timers(CLOCK_MONOTONIC);
    use_timers(CLOCK_BOOTTIME);
    compare_with_others();
    have_child();
    mix_int(step);
  }
  __atomic_store_n(&stopping, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < kTickers; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  finish();
  return 0;
}
