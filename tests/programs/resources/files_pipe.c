// SPDX-License-Identifier: Apache-2.0
// Row: pipes inside the process with bytes in them, one end duplicated, one end closed
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  signal(SIGPIPE, SIG_IGN);
  int line[2], half[2], broken[2];
  CHECK(pipe2(line, O_CLOEXEC) == 0 && pipe(half) == 0 && pipe(broken) == 0);
  CHECK(fcntl(line[1], F_SETPIPE_SZ, 1 << 18) == 1 << 18);
  CHECK(fcntl(line[0], F_SETFL, O_NONBLOCK) == 0);
  const int twin = dup(line[1]);
  CHECK(write(half[1], "rest", 4) == 4 && close(half[1]) == 0 && close(broken[0]) == 0);
  long long written = 0, taken = 0;
  for (int step = 1; step <= o.steps; step++) {
    for (int i = 0; i < 1000; i++, written++)  // more than is taken: up to 190 kB stay inside
      CHECK(write(i % 2 ? line[1] : twin, &written, sizeof written) == sizeof written);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    for (long long value; taken < written - 3000 || (step == o.steps && taken < written); taken++) {
      CHECK(read(line[0], &value, sizeof value) == sizeof value && value == taken);
      mix_int(value);
    }
    CHECK(write(broken[1], "x", 1) == -1 && errno == EPIPE);
  }
  long long value;
  CHECK(read(line[0], &value, sizeof value) == -1 && errno == EAGAIN);
  CHECK(fcntl(line[0], F_GETPIPE_SZ) == 1 << 18 && fcntl(line[0], F_GETFD) == FD_CLOEXEC);
  char rest[8];
  CHECK(read(half[0], rest, sizeof rest) == 4 && !memcmp(rest, "rest", 4));
  CHECK(read(half[0], rest, sizeof rest) == 0);
  finish();
  return 0;
}
