// SPDX-License-Identifier: Apache-2.0
// Row: a file locked with flock by rank 0, which the others fail to lock
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "directory.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  parse_directory(argc, argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int mine = open(shared_path("lock"), O_RDWR | O_CREAT, 0644);
  CHECK(mine >= 0);
  if (rank == 0) CHECK(flock(mine, LOCK_EX) == 0);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int step = 1; step <= o.steps; step++) {
    // Through an open of its own even rank 0 is another owner.
    const int other = open(shared_path("lock"), O_RDONLY);
    const int refused = flock(other, LOCK_SH | LOCK_NB);
    CHECK(refused == -1 && errno == EWOULDBLOCK);
    close(other);
    mix_int(step * refused);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
  }
  finish();
  return 0;
}
