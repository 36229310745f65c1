// SPDX-License-Identifier: Apache-2.0
// Row: transfers partly done and blocked, which a handler's signal ends, SA_RESTART or not

// A thread sits in each call through all checkpoints. Then its signal comes: natively the call ends
// with what it has moved, and so it must.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../check.h"

enum { LARGE = 1 << 20, FEW = 100, KINDS = 5, SIGNALS = 2, CALLS = KINDS * SIGNALS };
static char block[LARGE];
static struct call {
  int kind, reads, writes, file;
  long moved;
  int error, ended;
} calls[CALLS];

static long transfer(const struct call *c) {
  struct iovec parts[3] = {{block, 5}, {block + 5, LARGE / 2}, {block + 5 + LARGE / 2, LARGE / 4}};
  switch (c->kind) {
    case 0: return write(c->writes, block, LARGE);
    case 1: return writev(c->writes, parts, 3);
    case 2: return send(c->writes, block, LARGE, 0);
    case 3: return sendfile(c->writes, c->file, NULL, LARGE);
    default: return recv(c->reads, malloc(LARGE), LARGE, MSG_WAITALL);
  }
}
static void *run(void *argument) {
  struct call *const c = argument;
  c->moved = transfer(c);
  c->error = errno;
  __atomic_store_n(&c->ended, 1, __ATOMIC_RELEASE);
  return NULL;
}
static void handle(int number) { (void)number; }

static void make(struct call *c, int number) {
  int ends[2];
  c->kind = number % KINDS;
  const int of_sockets = c->kind >= 2;
  CHECK((of_sockets ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)) == 0);
  c->reads = ends[0];
  c->writes = ends[1];
  c->file = -1;
  if (c->kind == 3) CHECK((c->file = memfd_create("file", 0)) >= 0);
  if (c->kind == 3) CHECK(write(c->file, block, LARGE) == LARGE && !lseek(c->file, 0, SEEK_SET));
  if (c->kind == 4) CHECK(write(c->writes, block, FEW) == FEW);
}

// What has been moved lies in the pipe or socket, and nothing more comes.
static void check_ended(const struct call *c) {
  int held = -1;
  if (!(c->moved > 0 && c->moved < LARGE))
    printf("kind %d: %ld, errno %d\n", c->kind, c->moved, c->error);
  CHECK(c->moved > 0 && c->moved < LARGE);
  if (c->kind == 4) CHECK(c->moved == FEW);
  if (c->kind != 4) CHECK(ioctl(c->reads, FIONREAD, &held) == 0 && held == c->moved);
  if (c->kind == 3) CHECK(lseek(c->file, 0, SEEK_CUR) == c->moved);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const struct sigaction restarts = {.sa_handler = handle, .sa_flags = SA_RESTART};
  const struct sigaction ends = {.sa_handler = handle};
  CHECK(sigaction(SIGUSR1, &restarts, NULL) == 0 && sigaction(SIGUSR2, &ends, NULL) == 0);
  pthread_t threads[CALLS];
  for (int i = 0; i < CALLS; i++) make(&calls[i], i);
  for (int i = 0; i < CALLS; i++)
    CHECK(pthread_create(&threads[i], NULL, run, &calls[i]) == 0);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    for (int i = 0; i < CALLS; i++) {
      if (__atomic_load_n(&calls[i].ended, __ATOMIC_ACQUIRE)) printf("kind %d\n", calls[i].kind);
      CHECK(!__atomic_load_n(&calls[i].ended, __ATOMIC_ACQUIRE));
    }
    mix_int(step);
  }
  pause_ms(200);  // a native run has been short
  for (int i = 0; i < CALLS; i++) {
    CHECK(pthread_kill(threads[i], i < KINDS ? SIGUSR1 : SIGUSR2) == 0);
    for (int wait = 0; wait < 3000 && !__atomic_load_n(&calls[i].ended, __ATOMIC_ACQUIRE); wait++)
      pause_ms(1);
    if (!__atomic_load_n(&calls[i].ended, __ATOMIC_ACQUIRE)) printf("kind %d\n", calls[i].kind);
    CHECK(__atomic_load_n(&calls[i].ended, __ATOMIC_ACQUIRE));
    CHECK(pthread_join(threads[i], NULL) == 0);
    check_ended(&calls[i]);
  }
  finish();
  return 0;
}
