// SPDX-License-Identifier: Apache-2.0
// Row: a data file mapped shared and read-only, beginning somewhere in the middle
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../check.h"

#define BYTES ((size_t)6 << 20)
#define SKIP ((size_t)1 << 20)

static uint64_t value_at(size_t i) { return i * 0x9e3779b97f4a7c15u ^ i >> 7; }

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  char path[4096];
  snprintf(path, sizeof path, "%s/data.%d", directory_option(argc, argv), rank);
  FILE *out = fopen(path, "w");
  CHECK(out);
  for (size_t i = 0; i < BYTES / 8; i++) {
    const uint64_t value = value_at(i);
    CHECK(fwrite(&value, 8, 1, out) == 1);
  }
  CHECK(fclose(out) == 0);
  const int fd = open(path, O_RDONLY);
  const uint64_t *data = mmap(NULL, BYTES - SKIP, PROT_READ, MAP_SHARED, fd, SKIP);
  CHECK(fd >= 0 && data != MAP_FAILED && close(fd) == 0);
  for (int step = 1; step <= o.steps; step++) {
    for (size_t i = (size_t)step; i < (BYTES - SKIP) / 8; i += 101)
      CHECK(data[i] == value_at(i + SKIP / 8));
    mix(data + step * 100, 8);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
  }
  finish();
}
