// SPDX-License-Identifier: Apache-2.0
// A long loop without a single MPI call, then one Allreduce: a checkpoint must stop the loop in its
// middle, without waiting for it.
#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 5, 2000);
  uint64_t x = 88172645463325252u + (uint64_t)rank;
  double field[4096];
  for (int i = 0; i < 4096; i++) field[i] = i * 0.001 + rank;
  for (int step = 1; step <= o.steps; step++) {
    // The amount of work is fixed, so the result is; --step-ms only stretches it.
    for (int round = 0; round < o.size; round++) {
      for (int i = 1; i < 4095; i++)
        field[i] = 0.25 * (field[i - 1] + 2 * field[i] + field[i + 1]) + 1e-9 * (double)(x & 1023);
      x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    }
    compute_ms(o.step_ms);
    double sum = 0, total = 0, all[64];
    for (int i = 0; i < 4096; i++) sum += field[i];
    CHECK(ranks <= 64);
    MPI_Allgather(&sum, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, MPI_COMM_WORLD);
    for (int i = 0; i < ranks; i++) total += all[i];  // a fixed order of addition
    mix(&total, sizeof total);
    mix(&x, sizeof x);
    report_step(step, 0);
  }
  finish();
  return 0;
}
