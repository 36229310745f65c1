// SPDX-License-Identifier: Apache-2.0
// Row: long transfers (write, send, MSG_WAITALL, getrandom) and waits by SO_RCVTIMEO

// A thread sits in each call while a checkpoint comes. Natively none of them is ever cut short.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../check.h"

enum { LARGE = 1 << 20, RANDOM = 8 << 20 };
static int line[2], parts_line[2], bytes[2], whole[2], silent[2];
static int stopping;
static struct {
  const char *name;
  long got;
  int error;
} wrong;

static int running(void) { return !__atomic_load_n(&stopping, __ATOMIC_ACQUIRE); }

static void expect(const char *name, long got, long wanted) {
  if (got == wanted || wrong.name) return;
  wrong.error = errno;
  wrong.got = got;
  wrong.name = name;
}

static void *write_blocks(void *unused) {
  static char block[LARGE];
  for (int i = 0; i < LARGE; i++) block[i] = (char)(i >> 8);
  while (running()) expect("write", write(line[1], block, LARGE), LARGE);
  close(line[1]);
  return unused;
}
static void *write_parts(void *unused) {
  static char first[LARGE / 4], second[LARGE / 2];
  struct iovec parts[2] = {{first, sizeof first}, {second, sizeof second}};
  const long all = sizeof first + sizeof second;
  while (running()) expect("writev", writev(parts_line[1], parts, 2), all);
  close(parts_line[1]);
  return unused;
}
static void *send_blocks(void *unused) {
  static char block[LARGE];
  while (running()) expect("send", send(bytes[1], block, LARGE, 0), LARGE);
  shutdown(bytes[1], SHUT_WR);
  return unused;
}
// Takes what comes at such a pace that the other side always waits.
static void *take_slowly(void *fd) {
  char block[4096];
  while (read(*(int *)fd, block, sizeof block) > 0) usleep(running() ? 300 : 0);
  return NULL;
}
static void *take_checked(void *unused) {
  static unsigned char block[4096];
  long at = 0;
  for (;;) {
    const long got = read(line[0], block, sizeof block);
    if (got <= 0) return unused;
    for (long i = 0; i < got; i++)
      if (block[i] != (unsigned char)((at + i) % LARGE >> 8)) expect("bytes in order", i, -1);
    at += got;
    usleep(running() ? 300 : 0);
  }
}
static void *receive_whole(void *unused) {
  static char block[LARGE / 16];
  for (;;) {
    const long got = recv(whole[0], block, sizeof block, MSG_WAITALL);
    if (got == 0) return unused;
    expect("recv, MSG_WAITALL", got, sizeof block);
  }
}
static void *send_pieces(void *unused) {
  static char block[LARGE / 256];
  for (int i = 0; running() || i % 16; i++) {
    expect("send of a piece", send(whole[1], block, sizeof block, 0), sizeof block);
    usleep(2000);
  }
  shutdown(whole[1], SHUT_WR);
  return unused;
}
static void *take_random(void *unused) {
  static char block[RANDOM];
  while (running()) {
    expect("getrandom", getrandom(block, sizeof block, 0), sizeof block);
    usleep(20000);  // two processors are few
  }
  return unused;
}
static void *wait_in_vain(void *unused) {
  char byte;
  while (running()) {
    const double began = now_seconds();
    const long got = recv(silent[0], &byte, 1, 0);
    expect("recv, SO_RCVTIMEO", got, -1);
    expect("errno of recv", errno, EAGAIN);
    expect("SO_RCVTIMEO, short", now_seconds() - began < 0.39, 0);
    expect("SO_RCVTIMEO, long", now_seconds() - began > 20, 0);
  }
  return unused;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  CHECK(pipe(line) == 0 && pipe(parts_line) == 0);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, bytes) == 0);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, whole) == 0);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, silent) == 0);
  const struct timeval limit = {0, 400000};
  CHECK(setsockopt(silent[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
  void *(*const bodies[])(void *) = {write_blocks, write_parts,   send_blocks, take_checked,
                                     take_slowly,  take_slowly,   send_pieces, receive_whole,
                                     take_random,  wait_in_vain};
  enum { THREADS = sizeof bodies / sizeof *bodies };
  void *const arguments[THREADS] = {[4] = &parts_line[0], [5] = &bytes[0]};
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    CHECK(pthread_create(&threads[i], NULL, bodies[i], arguments[i]) == 0);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    if (wrong.name) printf("%s: %ld, errno %d\n", wrong.name, wrong.got, wrong.error);
    CHECK(!wrong.name);
    mix_int(step);
  }
  __atomic_store_n(&stopping, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(!wrong.name);
  finish();
  return 0;
}
