// SPDX-License-Identifier: Apache-2.0
// The shared file pointer over checkpoints: records written in rank order and in any order, atomic
// mode, an error handler of the program's own. Option: --dir DIRECTORY.
#include "../check.h"

static int handled;
static void handle(MPI_File *file, int *code, ...) {
  (void)file, (void)code;
  handled++;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  char name[4096];
  snprintf(name, sizeof name, "%s/shared.%d", directory_option(argc, argv), ranks);
  MPI_File file, none;
  MPI_Errhandler own;
  MPI_Offset place = -1;
  int atomic = 0;
  if (rank == 0) MPI_File_delete(name, MPI_INFO_NULL);
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK(MPI_File_open(MPI_COMM_WORLD, "/nonexistent/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &none) !=
        MPI_SUCCESS);
  CHECK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                      &file) == MPI_SUCCESS);
  MPI_File_create_errhandler(handle, &own);
  MPI_File_set_errhandler(file, own);
  MPI_File_set_atomicity(file, 1);
  MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
  for (int step = 1; step <= o.steps; step++) {
    const int ordered[2] = {1000 * step + rank, -step};
    MPI_File_write_ordered(file, ordered, 2, MPI_INT, MPI_STATUS_IGNORE);
    report_step(step, o.step_ms);
    MPI_File_write_shared(file, &step, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_get_position_shared(file, &place);
    CHECK(place == 3 * ranks * step);
    MPI_File_get_atomicity(file, &atomic);
    CHECK(atomic);
    MPI_File_call_errhandler(file, MPI_ERR_IO);
    CHECK(handled == step);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
  for (int step = 1; step <= o.steps; step++) {
    int back[2] = {0, 0}, other = 0;
    MPI_File_read_ordered(file, back, 2, MPI_INT, MPI_STATUS_IGNORE);
    CHECK(back[0] == 1000 * step + rank && back[1] == -step);
    MPI_File_read_shared(file, &other, 1, MPI_INT, MPI_STATUS_IGNORE);
    CHECK(other == step);
    mix(back, sizeof back);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_File_close(&file);
  MPI_Errhandler_free(&own);
  finish();
  return 0;
}
