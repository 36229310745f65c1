// SPDX-License-Identifier: Apache-2.0
// Row: event counters, an ordinary one and a semaphore
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int counter = eventfd(0, EFD_NONBLOCK);
  const int semaphore = eventfd(2, EFD_SEMAPHORE | EFD_NONBLOCK);
  CHECK(counter >= 0 && semaphore >= 0);
  uint64_t value;
  for (int step = 1; step <= o.steps; step++) {
    const uint64_t much = 0x500000000u + (uint64_t)step;
    CHECK(write(counter, &much, 8) == 8);
    CHECK(write(semaphore, &(uint64_t){1}, 8) == 8);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(read(counter, &value, 8) == 8 && value == much);
    CHECK(read(counter, &value, 8) == -1 && errno == EAGAIN);
    CHECK(read(semaphore, &value, 8) == 8 && value == 1);
    mix_int((long long)much);
  }
  for (int i = 0; i < 2; i++) CHECK(read(semaphore, &value, 8) == 8 && value == 1);
  CHECK(read(semaphore, &value, 8) == -1 && errno == EAGAIN);
  finish();
  return 0;
}
