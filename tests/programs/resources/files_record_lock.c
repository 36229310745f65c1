// SPDX-License-Identifier: Apache-2.0
// Row: records of one file locked with fcntl, by process and by open file description
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "directory.h"

static struct flock record(short type, int first, int bytes) {
  return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = first, .l_len = bytes};
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  parse_directory(argc, argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int file = open(shared_path("records"), O_RDWR | O_CREAT, 0644);
  const int other = open(shared_path("records2"), O_RDWR | O_CREAT, 0644);
  CHECK(file >= 0 && other >= 0);
  // Mapped as well, as databases do: nobody who maps it may close a descriptor of it afterwards.
  CHECK(ftruncate(file, 4096) == 0);
  char *const mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  CHECK(mapped != MAP_FAILED);
  mapped[rank] = 1;
  // Each rank holds its own record for writing; all hold the tail for reading.
  struct flock own = record(F_WRLCK, 100 * rank, 100), tail = record(F_RDLCK, 1000000, 0);
  CHECK(fcntl(file, F_SETLK, &own) == 0 && fcntl(file, F_SETLK, &tail) == 0);
  struct flock mine = record(F_WRLCK, 10 * rank, 10);
  CHECK(fcntl(other, F_OFD_SETLK, &mine) == 0);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int step = 1; step <= o.steps; step++) {
    const int neighbour = (rank + 1) % ranks;
    struct flock ask = record(F_WRLCK, 100 * neighbour, 100);
    CHECK(fcntl(file, F_GETLK, &ask) == 0 && ask.l_type == F_WRLCK);
    CHECK(ask.l_start == 100 * neighbour && ask.l_len == 100);
    ask = record(F_WRLCK, 1000000, 1);
    CHECK(fcntl(file, F_GETLK, &ask) == 0 && ask.l_type == F_RDLCK && ask.l_len == 0);
    ask = record(F_WRLCK, 10 * neighbour, 1);
    CHECK(fcntl(other, F_OFD_SETLK, &ask) == -1 && (errno == EAGAIN || errno == EACCES));
    CHECK(mapped[neighbour] == 1);
    mix_int(step + neighbour);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
  }
  finish();
  return 0;
}
