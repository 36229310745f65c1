// SPDX-License-Identifier: Apache-2.0
// Every rank has --size MiB of shared memory, which takes a while to save and must all be saved
// before the job continues. Each step changes a little of it everywhere.
#include <sys/mman.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 20, 256);
  const size_t words = ((size_t)o.size << 20) / 8;
  uint64_t *block =
      mmap(NULL, words * 8, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(block != MAP_FAILED);
  for (size_t i = 0; i < words; i++) block[i] = i + 1;
  for (int step = 1; step <= o.steps; step++) {
    int sum = 0;
    for (size_t i = (size_t)step; i < words; i += 1 << 16) block[i] += (uint64_t)step;
    MPI_Allreduce(&step, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    mix_int(sum);
    report_step(step, o.step_ms);
  }
  for (size_t i = 0; i < words; i += 100) mix(block + i, 8);
  finish();
  return 0;
}
