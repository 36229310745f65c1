// SPDX-License-Identifier: Apache-2.0
// Memory that is written to all the time, --mib of it in each rank: whoever saves it while the
// program continues needs a copy of every page.
#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 20, 50);
  uint64_t mib = 64;
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--mib")) mib = (uint64_t)atoi(argv[i + 1]);
  const uint64_t words = mib << 17;
  uint64_t *memory = malloc(words * sizeof *memory);
  CHECK(memory);
  for (uint64_t i = 0; i < words; i++) memory[i] = i;
  for (int step = 1; step <= o.steps; step++) {
    report_step(step, o.step_ms);
    for (uint64_t i = 0; i < words; i += 64) memory[i] += (uint64_t)step;
    MPI_Barrier(MPI_COMM_WORLD);
  }
  uint64_t sum = 0;
  for (uint64_t i = 0; i < words; i++) sum = sum * 31 + memory[i];
  mix_int((int)(sum % 1000003));
  free(memory);
  finish();
  return 0;
}
