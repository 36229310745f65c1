// SPDX-License-Identifier: Apache-2.0
// MPI-IO.
#include "family.h"

static MPI_File file, strided;
static const char *name;

static void open_it(MPI_File *it) {
  MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, it);
}
void begin_files(const char *path) {
  MPI_Datatype type;
  name = path;
  open_it(&file);
  open_it(&strided);
  MPI_Type_vector(64, 8, 16, MPI_DOUBLE, &type);
  MPI_Type_commit(&type);
  MPI_File_set_view(strided, rank * 64, MPI_DOUBLE, type, "native", MPI_INFO_NULL);
  MPI_Type_free(&type);
}
void end_files(void) {
  MPI_File_close(&strided);
  MPI_File_close(&file);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) MPI_File_delete(name, MPI_INFO_NULL);
}

#define LOOP(what, call)                        \
  static void what(int n, int bytes) {          \
    const MPI_Offset at = rank * (MPI_Offset)bytes; \
    (void)at;                                   \
    for (int i = 0; i < n; i++) call;           \
  }
LOOP(write_at, MPI_File_write_at(file, at, sending, bytes, MPI_BYTE, &status))
LOOP(read_at, MPI_File_read_at(file, at, receiving, bytes, MPI_BYTE, &status))
LOOP(write_at_all, MPI_File_write_at_all(file, at, sending, bytes, MPI_BYTE, &status))
LOOP(read_at_all, MPI_File_read_at_all(file, at, receiving, bytes, MPI_BYTE, &status))
LOOP(iwrite_at, (MPI_File_iwrite_at(file, at, sending, bytes, MPI_BYTE, requests),
                 MPI_Wait(requests, &status)))
LOOP(strided_all, MPI_File_write_at_all(strided, 0, numbers, bytes / 8, MPI_DOUBLE, &status))
LOOP(seek, (MPI_File_seek(file, at, MPI_SEEK_SET),
            MPI_File_read(file, receiving, bytes, MPI_BYTE, &status)))
static void open_close(int n, int unused) {
  MPI_File it;
  (void)unused;
  for (int i = 0; i < n; i++) {
    open_it(&it);
    MPI_File_close(&it);
  }
}

const struct Case file_cases[] = {
    {"files", "File_write_at 4 KiB", write_at, 4096, 1},
    {"files", "File_read_at 4 KiB", read_at, 4096, 1},
    {"files", "File_seek, read 8 B", seek, 8, 1},
    {"files", "File_write_at 1 MiB", write_at, 1 << 20, 1},
    {"files", "File_write_at_all 4 KiB", write_at_all, 4096, 1},
    {"files", "File_read_at_all 4 KiB", read_at_all, 4096, 1},
    {"files", "File_iwrite_at 4 KiB, Wait", iwrite_at, 4096, 1},
    {"files", "File_write_at_all, strided view", strided_all, 4096, 1},
    {"files", "File_open, close", open_close, 0, 1},
    {0},
};
