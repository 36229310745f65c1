// SPDX-License-Identifier: Apache-2.0
// One of the programs of a job: --role N says which it must be, counted from 0. A ring over all
// ranks and a sum among those of one program; which program a rank is stays as it is.
#include "../check.h"

static int role_option(int argc, char **argv) {
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--role")) return atoi(argv[i + 1]);
  return -1;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  int *number = NULL, has_number = 0, token, sum;
  MPI_Comm part;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &has_number);
  CHECK(has_number && *number == role_option(argc, argv));
  MPI_Comm_split(MPI_COMM_WORLD, *number, rank, &part);
  token = rank;
  for (int step = 1; step <= o.steps; step++) {
    int next;
    MPI_Sendrecv(&token, 1, MPI_INT, (rank + 1) % ranks, 0, &next, 1, MPI_INT,
                 (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    token = next + step;
    MPI_Allreduce(&token, &sum, 1, MPI_INT, MPI_SUM, part);
    CHECK(*number == role_option(argc, argv));
    mix_int(sum);
    mix_int(*number);
    report_step(step, o.step_ms);
  }
  MPI_Comm_free(&part);
  finish();
  return 0;
}
