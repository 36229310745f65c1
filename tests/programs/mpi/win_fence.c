// SPDX-License-Identifier: Apache-2.0
// Windows over the program's own memory and over memory from MPI_Win_allocate, synchronized by
// fences; the checkpoint comes in the middle of an epoch, after half of its operations.
#include "../check.h"

enum { kRoom = 64 };

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  static int own[kRoom];
  int *given = NULL;
  MPI_Win over_own, allocated;
  MPI_Datatype every_second;
  MPI_Type_vector(4, 1, 2, MPI_INT, &every_second);
  MPI_Type_commit(&every_second);
  MPI_Win_create(own, sizeof own, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &over_own);
  MPI_Win_allocate(kRoom * sizeof(int), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &given, &allocated);
  memset(given, 0, kRoom * sizeof(int));
  MPI_Win_fence(0, over_own);
  MPI_Win_fence(0, allocated);
  for (int step = 1; step <= o.steps; step++) {
    int out[8], got[2] = {-1, -1}, one = 1;
    for (int i = 0; i < 8; i++) out[i] = 100 * step + 10 * rank + i;
    MPI_Win_fence(MPI_MODE_NOPRECEDE, over_own);
    MPI_Win_fence(0, allocated);
    MPI_Put(out, 4, MPI_INT, next, 1, 4, MPI_INT, over_own);
    MPI_Put(out, 1, every_second, next, 16, 1, every_second, over_own);
    MPI_Accumulate(&one, 1, MPI_INT, 0, 40 * sizeof(int), 1, MPI_INT, MPI_SUM, allocated);
    report_step(step, o.step_ms);
    MPI_Put(&out[7], 1, MPI_INT, next, 30, 1, MPI_INT, over_own);
    MPI_Get(&got[0], 1, MPI_INT, previous, 50 * sizeof(int), 1, MPI_INT, allocated);
    MPI_Put(&out[6], 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, over_own);
    MPI_Win_fence(0, over_own);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, allocated);
    const int theirs = 100 * step + 10 * previous;
    for (int i = 0; i < 4; i++) CHECK(own[1 + i] == theirs + i);
    for (int i = 0; i < 8; i += 2) CHECK(own[16 + i] == theirs + i);
    CHECK(own[30] == theirs + 7 && own[17] == 0 && own[0] == 0);
    CHECK(got[0] == (step == 1 ? 0 : 7000 + step - 1 + previous));
    CHECK(rank != 0 || given[40] == step * ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    given[50] = 7000 + step + rank;
    mix(own, sizeof own);
    mix_int(rank == 0 ? given[40] : got[0]);
  }
  int *base = NULL, flag = 0, *unit = NULL, *flavor = NULL, *model = NULL;
  MPI_Aint *size = NULL;
  MPI_Win_get_attr(allocated, MPI_WIN_BASE, &base, &flag);
  CHECK(flag && base == given);
  MPI_Win_get_attr(allocated, MPI_WIN_SIZE, &size, &flag);
  CHECK(flag && *size == kRoom * (MPI_Aint)sizeof(int));
  MPI_Win_get_attr(over_own, MPI_WIN_DISP_UNIT, &unit, &flag);
  CHECK(flag && *unit == sizeof(int));
  MPI_Win_get_attr(allocated, MPI_WIN_CREATE_FLAVOR, &flavor, &flag);
  CHECK(flag && *flavor == MPI_WIN_FLAVOR_ALLOCATE);
  MPI_Win_get_attr(over_own, MPI_WIN_MODEL, &model, &flag);
  CHECK(flag && (*model == MPI_WIN_UNIFIED || *model == MPI_WIN_SEPARATE));
  MPI_Win_free(&over_own);
  MPI_Win_free(&allocated);
  CHECK(allocated == MPI_WIN_NULL);
  MPI_Type_free(&every_second);
  finish();
  return 0;
}
