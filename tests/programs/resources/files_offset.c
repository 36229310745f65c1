// SPDX-License-Identifier: Apache-2.0
// Row: offsets of their own and shared ones, flags and close-on-exec of every descriptor
#include <fcntl.h>
#include <unistd.h>

#include "directory.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  parse_directory(argc, argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int out = open(own_path("data"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
  const int in = open(own_path("data"), O_RDONLY | O_NONBLOCK);
  const int twin = fcntl(in, F_DUPFD_CLOEXEC, 100);  // shares the offset of `in`
  const int other = open(own_path("data"), O_RDWR | O_SYNC);
  CHECK(out >= 0 && in >= 0 && twin >= 100 && other >= 0);
  const int flags[] = {fcntl(out, F_GETFL), fcntl(in, F_GETFL), fcntl(other, F_GETFL)};
  for (int step = 1; step <= o.steps; step++) {
    long long record[2] = {step, (long long)step * step * (rank + 1)}, got[2];
    CHECK(write(out, record, sizeof record) == sizeof record);
    CHECK(read(step % 2 ? in : twin, got, sizeof got) == sizeof got);
    CHECK(got[0] == step && got[1] == record[1]);
    CHECK(lseek(in, 0, SEEK_CUR) == lseek(twin, 0, SEEK_CUR));
    CHECK(lseek(other, 0, SEEK_CUR) == 0);
    CHECK(fcntl(out, F_GETFL) == flags[0] && fcntl(in, F_GETFL) == flags[1]);
    CHECK(fcntl(other, F_GETFL) == flags[2]);
    CHECK(fcntl(out, F_GETFD) == FD_CLOEXEC && fcntl(twin, F_GETFD) == FD_CLOEXEC);
    CHECK(fcntl(in, F_GETFD) == 0);
    mix(got, sizeof got);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
  }
  finish();
  return 0;
}
