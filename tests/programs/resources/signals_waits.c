// SPDX-License-Identifier: Apache-2.0
// Row: waits without a timeout (pause, sigsuspend, sigwait, poll, epoll, read, futex) wake up once

// A thread sits in each wait while a checkpoint comes. Nobody installs a handler that returns EINTR
// but for pause and sigsuspend, which must return for their own signal and for nothing else.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../check.h"

struct waiter {
  const char *name;
  int (*wait)(struct waiter *);  // 0, or what went wrong
  void (*wake)(struct waiter *);
  pthread_t thread;
  int channel[2], epoll, word;
  int ready, done, error;  // rounds begun and ended
  int again;               // waking it may fail, natively as well
};

static __thread volatile sig_atomic_t caught;

static void on_signal(int signal) {
  (void)signal;
  caught++;
}

static int take_byte(int fd) {
  char byte;
  return read(fd, &byte, 1) == 1 && byte == 'x' ? 0 : errno + 1000;
}
static int by_read(struct waiter *me) { return take_byte(me->channel[0]); }
static int by_poll(struct waiter *me) {
  struct pollfd fd = {.fd = me->channel[0], .events = POLLIN};
  return poll(&fd, 1, -1) == 1 ? take_byte(fd.fd) : errno;
}
static int by_ppoll(struct waiter *me) {
  sigset_t all;
  sigfillset(&all);
  struct pollfd fd = {.fd = me->channel[0], .events = POLLIN};
  return ppoll(&fd, 1, NULL, &all) == 1 ? take_byte(fd.fd) : errno;
}
static int by_select(struct waiter *me) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(me->channel[0], &set);
  return select(me->channel[0] + 1, &set, NULL, NULL, NULL) == 1 ? take_byte(me->channel[0])
                                                                 : errno;
}
static int by_epoll(struct waiter *me) {
  struct epoll_event event;
  return epoll_wait(me->epoll, &event, 1, -1) == 1 ? take_byte(me->channel[0]) : errno;
}
static int by_epoll_pwait(struct waiter *me) {
  struct epoll_event event;
  sigset_t none;
  sigemptyset(&none);
  return epoll_pwait(me->epoll, &event, 1, -1, &none) == 1 ? take_byte(me->channel[0]) : errno;
}
static int by_futex(struct waiter *me) {
  while (__atomic_load_n(&me->word, __ATOMIC_ACQUIRE) == 0)
    if (syscall(SYS_futex, &me->word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0) && errno != EAGAIN)
      return errno;
  me->word = 0;
  return 0;
}
static sigset_t only(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  return set;
}
static int by_sigwait(struct waiter *me) {
  (void)me;
  const sigset_t set = only(SIGUSR2);
  int signal = 0;
  const int error = sigwait(&set, &signal);
  return error ? error : signal == SIGUSR2 ? 0 : 1000;
}
static int by_sigwaitinfo(struct waiter *me) {
  const sigset_t set = only(SIGRTMIN + 3);
  siginfo_t info;
  const int signal = sigwaitinfo(&set, &info);
  if (signal != SIGRTMIN + 3) return errno;
  return info.si_value.sival_int == me->ready ? 0 : 1001;
}
static int by_sigsuspend(struct waiter *me) {
  (void)me;
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, SIGUSR1);
  const int before = caught;
  if (sigsuspend(&all) != -1 || errno != EINTR) return 1002;
  return caught == before + 1 ? 0 : 1003;
}
static int by_pause(struct waiter *me) {
  (void)me;
  const sigset_t set = only(SIGUSR1);
  const int before = caught;
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  // A signal just before the pause is a wake-up that the program itself loses: it is sent again.
  if (pause() != -1 || errno != EINTR) return 1004;
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  return caught > before ? 0 : 1005;
}

static void write_byte(struct waiter *w) { CHECK(write(w->channel[1], "x", 1) == 1); }
static void set_word(struct waiter *w) {
  __atomic_store_n(&w->word, 1, __ATOMIC_RELEASE);
  syscall(SYS_futex, &w->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
static void send_user1(struct waiter *w) { CHECK(pthread_kill(w->thread, SIGUSR1) == 0); }
static void send_user2(struct waiter *w) { CHECK(pthread_kill(w->thread, SIGUSR2) == 0); }
static void send_value(struct waiter *w) {
  CHECK(pthread_sigqueue(w->thread, SIGRTMIN + 3, (union sigval){.sival_int = w->ready}) == 0);
}

static struct waiter waiters[] = {
    {.name = "read", .wait = by_read, .wake = write_byte},
    {.name = "poll", .wait = by_poll, .wake = write_byte},
    {.name = "ppoll", .wait = by_ppoll, .wake = write_byte},
    {.name = "select", .wait = by_select, .wake = write_byte},
    {.name = "epoll_wait", .wait = by_epoll, .wake = write_byte},
    {.name = "epoll_pwait", .wait = by_epoll_pwait, .wake = write_byte},
    {.name = "futex", .wait = by_futex, .wake = set_word},
    {.name = "sigwait", .wait = by_sigwait, .wake = send_user2},
    {.name = "sigwaitinfo", .wait = by_sigwaitinfo, .wake = send_value},
    {.name = "sigsuspend", .wait = by_sigsuspend, .wake = send_user1},
    {.name = "pause", .wait = by_pause, .wake = send_user1, .again = 1},
};
#define WAITERS (sizeof waiters / sizeof *waiters)

static int stopping;

static void *wait_on(void *argument) {
  struct waiter *me = argument;
  while (!__atomic_load_n(&stopping, __ATOMIC_ACQUIRE)) {
    __atomic_add_fetch(&me->ready, 1, __ATOMIC_ACQ_REL);
    const int error = me->wait(me);
    if (error) me->error = error;
    __atomic_add_fetch(&me->done, 1, __ATOMIC_ACQ_REL);
  }
  return NULL;
}

static void begin(struct waiter *w) {
  CHECK(pipe(w->channel) == 0);
  w->epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  CHECK(epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->channel[0], &event) == 0);
  CHECK(pthread_create(&w->thread, NULL, wait_on, w) == 0);
}

static void wake_and_await(struct waiter *w, int round) {
  const double began = now_seconds();
  CHECK(w->done == round - 1);  // has not been woken by anything else
  while (__atomic_load_n(&w->ready, __ATOMIC_ACQUIRE) < round) usleep(100);
  if (w->again) usleep(5000);
  w->wake(w);
  for (int slept = 1; __atomic_load_n(&w->done, __ATOMIC_ACQUIRE) < round; slept++) {
    usleep(1000);
    if (w->again && slept % 1000 == 0) w->wake(w);
    if (now_seconds() > began + 20) printf("%s does not wake up\n", w->name);
    CHECK(now_seconds() <= began + 20);
  }
  if (w->error) printf("%s: %d\n", w->name, w->error);
  CHECK(w->error == 0);
}

int main(int argc, char **argv) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  struct sigaction action = {.sa_handler = on_signal};
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  for (unsigned i = 0; i < WAITERS; i++) begin(&waiters[i]);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    __atomic_store_n(&stopping, step == o.steps, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < WAITERS; i++) wake_and_await(&waiters[i], step);
    mix_int(step);
  }
  for (unsigned i = 0; i < WAITERS; i++) CHECK(pthread_join(waiters[i].thread, NULL) == 0);
  finish();
  return 0;
}
