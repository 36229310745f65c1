// SPDX-License-Identifier: Apache-2.0
// Row: a file that is mapped shared and grows by appending: what came later is cut off
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "directory.h"

#define PART 8192
#define MOST 64

int main(int argc, char **argv) {
  start(&argc, &argv);
  parse_directory(argc, argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int fd = open(own_path("grows"), O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0644);
  CHECK(fd >= 0 && o.steps <= MOST);
  // Room for all that will come: only what the file has may be touched.
  unsigned char *block = mmap(NULL, PART * MOST, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(block != MAP_FAILED);
  unsigned char part[PART];
  for (int step = 1; step <= o.steps; step++) {
    memset(part, step + rank, PART);
    CHECK(write(fd, part, PART) == PART);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    struct stat now;
    CHECK(fstat(fd, &now) == 0 && now.st_size == (off_t)PART * step);
    for (int past = 1; past <= step; past++) {
      const unsigned char *there = block + PART * (past - 1);
      CHECK(there[0] == (unsigned char)(past == step ? past + rank : 1));
      CHECK(there[PART - 1] == (unsigned char)(past + rank));
    }
    block[PART * (step - 1)] = 1;  // through the mapping
    mix(block, (size_t)step * 100);
  }
  finish();
}
