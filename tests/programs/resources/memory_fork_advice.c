// SPDX-License-Identifier: Apache-2.0
// Row: pages that children do not get (MADV_DONTFORK) or get empty (MADV_WIPEONFORK)
// With --size 1 a component of Open MPI's gives the advice, for mapped files of the name advised.*.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"

#define BYTES ((size_t)64 << 10)

static unsigned char *map(int advice) {
  unsigned char *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(p != MAP_FAILED);
  CHECK(madvise(p, BYTES, advice) == 0);
  return p;
}

// Exit code of a child that looks: 2 if it has `absent`.
static int as_child_sees(const unsigned char *wiped, unsigned char *absent) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) _exit(wiped[0] != 0 ? 1 : msync(absent, BYTES, MS_ASYNC) == 0 ? 2 : 0);
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
  return WEXITSTATUS(status);
}

static unsigned char *map_for_others(const char *directory, const unsigned char *wiped) {
  char path[4096];
  snprintf(path, sizeof path, "%s/advised.%d", directory, rank);
  const int fd = open(path, O_RDWR | O_CREAT, 0644);
  CHECK(fd >= 0 && ftruncate(fd, BYTES) == 0);
  unsigned char *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  CHECK(p != MAP_FAILED && close(fd) == 0);
  while (as_child_sees(wiped, p) == 2) pause_ms(5);
  return p;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  static unsigned char nothing[BYTES];
  unsigned char *wiped = o.size ? nothing : map(MADV_WIPEONFORK);
  unsigned char *absent =
      o.size ? map_for_others(directory_option(argc, argv), wiped) : map(MADV_DONTFORK);
  for (int step = 1; step <= o.steps; step++) {
    memset(absent, step + rank, BYTES);
    if (!o.size) memset(wiped, step - rank, BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    for (size_t at = 0; at < BYTES; at += 100) {
      CHECK(absent[at] == (unsigned char)(step + rank));
      CHECK(wiped[at] == (unsigned char)(o.size ? 0 : step - rank));
    }
    if (step % 6 == 0) CHECK(as_child_sees(wiped, absent) == 0);  // it is still in force
    mix(absent, 16);
  }
  finish();
}
