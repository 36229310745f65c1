// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "loops.h"

// One byte each way, in this thread: what is written is what is read.
static void exchange(int to, int from, struct worker *w) {
  for (int i = 0; i < 50; i++) {
    const unsigned char out = (unsigned char)(w->turn + (uint64_t)i);
    unsigned char in = (unsigned char)~out;
    EXPECT(write(to, &out, 1) == 1);
    EXPECT(read(from, &in, 1) == 1);
    EXPECT(in == out);
  }
}

static void begin_pipe(struct worker *w) {
  int *const ends = w->own = malloc(2 * sizeof(int));
  EXPECT(pipe(ends) == 0);
}
static void begin_sockets(struct worker *w) {
  int *const ends = w->own = malloc(2 * sizeof(int));
  EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
}
static void through_pipe(struct worker *w) {
  const int *const ends = w->own;
  exchange(ends[1], ends[0], w);
}
static void through_sockets(struct worker *w) {
  const int *const ends = w->own;
  exchange(ends[0], ends[1], w);
  exchange(ends[1], ends[0], w);
}

static void close_ends(struct worker *w) {
  const int *const ends = w->own;
  EXPECT(close(ends[0]) == 0 && close(ends[1]) == 0);
  free(w->own);
}

// Contents of files are not part of a snapshot: no byte is written twice.
static void begin_file(struct worker *w) {
  int *const fd = w->own = malloc(sizeof(int));
  char name[] = "loop.XXXXXX";
  *fd = mkstemp(name);
  EXPECT(*fd >= 0);
}
static void close_file(struct worker *w) {
  EXPECT(close(*(int *)w->own) == 0);
  free(w->own);
}
static void through_file(struct worker *w) {
  const int fd = *(int *)w->own;
  const off_t begin = lseek(fd, 0, SEEK_CUR);
  uint32_t words[2] = {0, 0};
  EXPECT(begin == (off_t)(w->turn - 1) * 8);
  for (uint32_t i = 0; i < 2; i++) {
    const uint32_t word = (uint32_t)w->turn * 2 + i;
    EXPECT(write(fd, &word, 4) == 4);
  }
  EXPECT(pread(fd, words, 8, begin) == 8);
  EXPECT(lseek(fd, 0, SEEK_END) == begin + 8);
  for (uint32_t i = 0; i < 2; i++) EXPECT(words[i] == (uint32_t)w->turn * 2 + i);
}

// Two threads take turns; each waits for the other's in the kernel.
static uint32_t whose;

static void ping_pong(struct worker *w) {
  const uint32_t own = (uint32_t)w->id;
  const struct timespec timeout = {0, 100000000};
  for (int i = 0; i < 20; i++) {
    for (int tries = 0; __atomic_load_n(&whose, __ATOMIC_ACQUIRE) != own; tries++) {
      // At the end the other one is gone.
      if (tries > 3) return;
      (void)syscall(SYS_futex, &whose, FUTEX_WAIT_PRIVATE, !own, &timeout, NULL, 0);
    }
    __atomic_store_n(&whose, !own, __ATOMIC_RELEASE);
    EXPECT(syscall(SYS_futex, &whose, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) >= 0);
  }
}

const struct loop transfer_loops[] = {
    {"pipe", through_pipe, begin_pipe, close_ends, 2, 0},
    {"socketpair", through_sockets, begin_sockets, close_ends, 2, 0},
    {"file", through_file, begin_file, close_file, 2, 0},
    {"futex", ping_pong, NULL, NULL, 2, 0},
    {NULL, NULL, NULL, NULL, 0, 0},
};
