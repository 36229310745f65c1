// SPDX-License-Identifier: Apache-2.0
// Row: a program in a memfd, executed by children (execveat), which nothing open for writing stops
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"

static int copy_of(const char *program) {
  static char block[1 << 16];
  const int from = open(program, O_RDONLY), to = memfd_create("program", 0);
  CHECK(from >= 0 && to >= 0);
  for (ssize_t got; (got = read(from, block, sizeof block)) > 0;)
    CHECK(write(to, block, (size_t)got) == got);
  close(from);
  CHECK(fchmod(to, 0700) == 0);
  return to;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int program = copy_of("/bin/true"), duplicate = dup(program);
  char *const arguments[] = {"true", NULL}, *const nothing[] = {NULL};
  CHECK(fcntl(program, F_SETFL, O_APPEND) == 0);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    const pid_t child = vfork();
    if (child == 0) {
      syscall(SYS_execveat, step % 2 ? program : duplicate, "", arguments, nothing, AT_EMPTY_PATH);
      _exit(99);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    if (status) printf("status %x\n", status);
    CHECK(status == 0);
    CHECK(fcntl(program, F_GETFL) & O_APPEND && fcntl(duplicate, F_GETFL) & O_APPEND);
    mix_int(step);
  }
  finish();
  return 0;
}
