// SPDX-License-Identifier: Apache-2.0
// The shared file pointer over checkpoints where one rank alone has used it: the calls that move it
// are local. The others use it after the last step. Option: --dir DIRECTORY.
#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  char name[4096];
  snprintf(name, sizeof name, "%s/alone.%d", directory_option(argc, argv), ranks);
  const int writer = ranks - 1;  // not rank 0, on which some MPIs keep the pointer
  MPI_File file;
  MPI_Offset place = -1;
  if (rank == 0) MPI_File_delete(name, MPI_INFO_NULL);
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                      &file) == MPI_SUCCESS);
  MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
  for (int step = 1; step <= o.steps; step++) {
    if (rank == writer) MPI_File_write_shared(file, &step, 1, MPI_INT, MPI_STATUS_IGNORE);
    report_step(step, o.step_ms);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_File_get_position_shared(file, &place);
  CHECK(place == o.steps);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
  for (int step = 1; step <= o.steps; step++) {
    int back = 0;
    if (rank == 0) MPI_File_read_shared(file, &back, 1, MPI_INT, MPI_STATUS_IGNORE);
    CHECK(rank != 0 || back == step);
    mix_int(back);
  }
  MPI_File_close(&file);
  finish();
  return 0;
}
