// SPDX-License-Identifier: Apache-2.0
// A file opened before the checkpoint, with a view of its own per rank: collective and individual
// writes at the file pointer, explicit offsets, requests pending over the pause, split collectives;
// everything is read back at the end by another rank. Option: --dir DIRECTORY.
#include "../check.h"

enum { kBlock = 8 };

// Reads what another rank wrote, without a view.
static void check_blocks_of(MPI_File plain, int other, int blocks) {
  for (int b = other; b < blocks; b += ranks) {
    int back[kBlock] = {0};
    MPI_File_read_at(plain, (MPI_Offset)sizeof back * b, back, kBlock, MPI_INT, MPI_STATUS_IGNORE);
    const int step = b / ranks / 4 + 1, part_of_step = b / ranks % 4;
    for (int i = 0; i < kBlock; i++)
      CHECK(back[i] == 10000 * step + 100 * other + part_of_step * kBlock + i);
  }
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  char name[4096];
  snprintf(name, sizeof name, "%s/views.%d", directory_option(argc, argv), ranks);
  MPI_File file, plain;
  MPI_Datatype part, mine;
  MPI_Info info;
  MPI_Offset place = -1;
  MPI_Status status;
  int count = -1;
  MPI_Info_create(&info);
  MPI_Info_set(info, "cb_buffer_size", "1048576");
  if (rank == 0) MPI_File_delete(name, MPI_INFO_NULL);
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR, info,
                      &file) == MPI_SUCCESS);
  CHECK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &plain) == MPI_SUCCESS);
  MPI_Info_free(&info);
  // Blocks of kBlock ints go to the ranks in turn.
  MPI_Type_contiguous(kBlock, MPI_INT, &part);
  MPI_Type_create_resized(part, 0, (MPI_Aint)sizeof(int) * kBlock * ranks, &mine);
  MPI_Type_commit(&mine);
  MPI_File_set_view(file, (MPI_Offset)sizeof(int) * kBlock * rank, MPI_INT, mine, "native",
                    MPI_INFO_NULL);
  MPI_Type_free(&part);
  MPI_Type_free(&mine);
  for (int step = 1; step <= o.steps; step++) {
    int out[4 * kBlock], back[kBlock];
    for (int i = 0; i < 4 * kBlock; i++) out[i] = 10000 * step + 100 * rank + i;
    MPI_Request pending;
    MPI_File_write_all(file, out, kBlock, MPI_INT, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == kBlock);
    MPI_File_iwrite_at(file, (MPI_Offset)kBlock * (4 * step - 3), out + kBlock, kBlock, MPI_INT,
                       &pending);
    MPI_File_seek(file, kBlock, MPI_SEEK_CUR);
    MPI_File_write_all_begin(file, out + 2 * kBlock, kBlock, MPI_INT);
    report_step(step, o.step_ms);
    MPI_File_write_all_end(file, out + 2 * kBlock, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == kBlock);
    MPI_Wait(&pending, &status);
    MPI_File_get_position(file, &place);
    CHECK(place == kBlock * (4 * step - 1));
    MPI_File_write(file, out + 3 * kBlock, kBlock, MPI_INT, MPI_STATUS_IGNORE);
    memset(back, 0, sizeof back);
    MPI_File_read_at_all(file, (MPI_Offset)kBlock * (4 * step - 3), back, kBlock, MPI_INT, &status);
    CHECK(!memcmp(back, out + kBlock, sizeof back));
    mix(back, sizeof back);
  }
  MPI_File_sync(file);
  MPI_Barrier(MPI_COMM_WORLD);
  const int blocks = 4 * o.steps * ranks;
  check_blocks_of(plain, (rank + 1) % ranks, blocks);
  MPI_Offset size = -1;
  int mode = 0;
  MPI_File_get_size(file, &size);
  MPI_File_get_amode(file, &mode);
  CHECK(size == (MPI_Offset)sizeof(int) * kBlock * blocks);
  CHECK(mode == (MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR));
  MPI_File_close(&file);
  MPI_File_close(&plain);
  CHECK(file == MPI_FILE_NULL);
  finish();
  return 0;
}
