// SPDX-License-Identifier: Apache-2.0
// Row: ids of the process, its parent, group, session and threads, in calls that take or tell
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/kcmp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "directory.h"

static pid_t own, parent, group, session, worker_id;
static volatile sig_atomic_t signals, sender;
static int stopping;

static void on_signal(int number, siginfo_t *info, void *context) {
  (void)context;
  signals += number == SIGUSR1;
  sender = info->si_pid;
}

static int same_path(const char *link, const char *wanted) {
  char found[256];
  const ssize_t bytes = readlink(link, found, sizeof found - 1);
  if (bytes < 0) return 0;
  found[bytes] = 0;
  return !strcmp(found, wanted);
}

static void expect_signal(int before, pid_t from) {
  while (signals == before) pause_ms(1);
  CHECK(signals == before + 1 && sender == from);
}

static void *work(void *ready) {
  worker_id = (pid_t)syscall(SYS_gettid);
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  __atomic_store_n((int *)ready, 1, __ATOMIC_RELEASE);
  while (!__atomic_load_n(&stopping, __ATOMIC_ACQUIRE)) {
    CHECK(getpid() == own && (pid_t)syscall(SYS_gettid) == worker_id);
    usleep(2000);
  }
  return NULL;
}

static void *send_one(void *unused) {
  CHECK(kill(own, SIGUSR1) == 0);
  return unused;
}

static void ask_numbers(void) {
  CHECK(getpid() == own && (pid_t)syscall(SYS_gettid) == own);
  CHECK(getppid() == parent && getpgrp() == group && getpgid(0) == group);
  CHECK(getpgid(own) == group && getpgid(worker_id) == group);
  CHECK(getsid(0) == session && getsid(own) == session && getsid(worker_id) == session);
}

static void send_signals(void) {
  int before = signals;
  CHECK(kill(own, SIGUSR1) == 0);
  expect_signal(before, own);
  CHECK(raise(SIGUSR1) == 0);
  expect_signal(before + 1, own);
  CHECK(sigqueue(own, SIGUSR1, (union sigval){.sival_int = 7}) == 0);
  expect_signal(before + 2, own);
  CHECK(syscall(SYS_tgkill, own, own, SIGUSR1) == 0);
  expect_signal(before + 3, own);
  CHECK(kill(worker_id, SIGUSR1) == 0);
  expect_signal(before + 4, own);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, send_one, NULL) == 0 && pthread_join(thread, NULL) == 0);
  expect_signal(before + 5, own);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR2);
  siginfo_t info = {0};
  CHECK(sigprocmask(SIG_BLOCK, &one, NULL) == 0 && raise(SIGUSR2) == 0);
  CHECK(sigwaitinfo(&one, &info) == SIGUSR2 && info.si_pid == own && info.si_code == SI_USER);
}

static void use_calls(pid_t id) {
  struct timespec time;
  CHECK(sched_rr_get_interval(id, &time) == 0);
  long value = 42, copy = 0;
  struct iovec here = {&copy, sizeof copy}, there = {&value, sizeof value};
  CHECK(process_vm_readv(id, &here, 1, &there, 1, 0) == sizeof copy && copy == 42);
  copy = 43;
  CHECK(process_vm_writev(id, &here, 1, &there, 1, 0) == sizeof copy && value == 43);
  CHECK(syscall(SYS_kcmp, id, own, KCMP_VM, 0, 0) == 0);
  void *page = &value;
  int status = -1;
  CHECK(syscall(SYS_move_pages, id, 1L, &page, NULL, &status, 0) == 0 || errno == ENOSYS);
  errno = 0;
  CHECK(getpriority(PRIO_PROCESS, (id_t)id) != -1 || errno == 0);
  CHECK(syscall(SYS_ioprio_get, 1, id) >= 0 && sched_getscheduler(id) == SCHED_OTHER);
  struct rlimit limit;
  CHECK(prlimit(id, RLIMIT_NOFILE, NULL, &limit) == 0);
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, id};
  struct __user_cap_data_struct data[2];
  CHECK(syscall(SYS_capget, &header, data) == 0);
  char path[64], line[64];
  snprintf(path, sizeof path, "/proc/%d/comm", id);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  CHECK(file >= 0 && read(file, line, sizeof line) > 0 && close(file) == 0);
}

static void use_own(int lock) {
  clockid_t clock;
  struct timespec used;
  CHECK(clock_getcpuclockid(own, &clock) == 0 && clock_gettime(clock, &used) == 0);
  CHECK(clock_getres(clock, &used) == 0);
  const int pidfd = (int)syscall(SYS_pidfd_open, own, 0);
  const int before = signals;
  CHECK(pidfd >= 0 && syscall(SYS_pidfd_send_signal, pidfd, SIGUSR1, NULL, 0) == 0);
  expect_signal(before, own);
  CHECK(close(pidfd) == 0);
  int pair[2];
  struct ucred peer;
  socklen_t bytes = sizeof peer;
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  CHECK(fcntl(pair[0], F_SETOWN, own) == 0 && fcntl(pair[0], F_GETOWN) == own);
  struct f_owner_ex owner = {F_OWNER_TID, worker_id}, found = {0, 0};
  CHECK(fcntl(pair[0], F_SETOWN_EX, &owner) == 0 && fcntl(pair[0], F_GETOWN_EX, &found) == 0);
  CHECK(found.type == F_OWNER_TID && found.pid == worker_id);
  CHECK(fcntl(pair[0], F_SETOWN, -group) == 0 && fcntl(pair[0], F_GETOWN_EX, &found) == 0);
  CHECK(found.type == F_OWNER_PGRP && found.pid == group);
  CHECK(getsockopt(pair[1], SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.pid == own);
  CHECK(close(pair[0]) == 0 && close(pair[1]) == 0);
  char path[64], wanted[64];
  snprintf(wanted, sizeof wanted, "%d", own);
  CHECK(same_path("/proc/self", wanted));
  snprintf(wanted, sizeof wanted, "%d/task/%d", own, own);
  CHECK(same_path("/proc/thread-self", wanted));
  snprintf(path, sizeof path, "/proc/%d/exe", own);
  char exe[256];
  const ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
  CHECK(length > 0);
  exe[length] = 0;
  CHECK(same_path(path, exe));
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  CHECK(fcntl(lock, F_SETLK, &whole) == 0);
}

static void child(int lock) {
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  if (getppid() != own || getpid() == own) _exit(1);
  if (fcntl(lock, F_GETLK, &whole) != 0 || whole.l_pid != own) _exit(2);
  if (getpgrp() != group || getsid(0) != session) _exit(3);
  if (kill(getppid(), SIGUSR1) != 0 || getpgid(own) != group) _exit(4);
  if (signal(SIGUSR1, SIG_DFL) == SIG_ERR) _exit(5);
  _exit(0);
}

static void have_child(int lock) {
  const int before = signals;
  fflush(stdout);
  const pid_t made = fork();
  if (made == 0) child(lock);
  int status = -1;
  CHECK(made > 0 && waitpid(-group, &status, 0) == made && status == 0);
  expect_signal(before, made);
  const pid_t other = fork();
  if (other == 0) _exit(3);
  siginfo_t info = {0};
  CHECK(waitid(P_PGID, (id_t)group, &info, WEXITED) == 0 && info.si_pid == other);
  const pid_t leader = fork();
  if (leader == 0) _exit(setpgid(0, 0) || getpgrp() != getpid());
  CHECK(waitpid(leader, &status, 0) == leader && status == 0);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  parse_directory(argc, argv);
  own = getpid(), parent = getppid(), group = getpgrp(), session = getsid(0);
  const int lock = open(own_path("lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  CHECK(lock >= 0);
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_RESTART | SA_SIGINFO};
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  pthread_t thread;
  int ready = 0;
  CHECK(pthread_create(&thread, NULL, work, &ready) == 0);
  while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE)) usleep(1000);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    struct sigaction found;
    CHECK(sigaction(SIGUSR1, NULL, &found) == 0 && found.sa_sigaction == on_signal);
    ask_numbers();
    send_signals();
    use_calls(own);
    use_calls(worker_id);
    use_own(lock);
    have_child(lock);
    mix_int(step);
  }
  __atomic_store_n(&stopping, 1, __ATOMIC_RELEASE);
  CHECK(pthread_join(thread, NULL) == 0);
  finish();
  return 0;
}
