// SPDX-License-Identifier: Apache-2.0
// MPI_Isendrecv and MPI_Isendrecv_replace, several under way over the pause of each step, and
// communicators made from groups alone. With older headers, what these stand for.
#include "../check.h"

enum { kWords = 3000, kUnderWay = 3 };

static int sent[kUnderWay][kWords], got[kUnderWay][kWords], both[kWords];

#if MPI_VERSION >= 4
static int begin(int *from, int *into, int to, int source, int tag, MPI_Request requests[2]) {
  MPI_Isendrecv(from, kWords, MPI_INT, to, tag, into, kWords, MPI_INT, source, tag, MPI_COMM_WORLD,
                requests);
  return 1;
}
static int begin_replace(int *words, int to, int source, MPI_Request requests[2]) {
  MPI_Isendrecv_replace(words, kWords, MPI_INT, to, 9, source, 9, MPI_COMM_WORLD, requests);
  return 1;
}
static void from_groups(MPI_Group own, MPI_Group other, MPI_Group all, MPI_Comm made[2]) {
  MPI_Comm_create_from_group(all, "all", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made[0]);
  MPI_Intercomm_create_from_groups(own, 0, other, 0, "two", MPI_INFO_NULL, MPI_ERRORS_RETURN,
                                   &made[1]);
}
#else
static int begin(int *from, int *into, int to, int source, int tag, MPI_Request requests[2]) {
  MPI_Irecv(into, kWords, MPI_INT, source, tag, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(from, kWords, MPI_INT, to, tag, MPI_COMM_WORLD, &requests[1]);
  return 2;
}
static int begin_replace(int *words, int to, int source, MPI_Request requests[2]) {
  MPI_Sendrecv_replace(words, kWords, MPI_INT, to, 9, source, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  (void)requests;
  return 0;
}
static void from_groups(MPI_Group own, MPI_Group other, MPI_Group all, MPI_Comm made[2]) {
  (void)other, (void)all;
  MPI_Comm local;
  MPI_Comm_dup(MPI_COMM_WORLD, &made[0]);
  MPI_Comm_create(MPI_COMM_WORLD, own, &local);
  MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, (rank + 1) % 2, 7, &made[1]);
  MPI_Comm_free(&local);
}
#endif

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int to = (rank + 1) % ranks, source = (rank + ranks - 1) % ranks;
  MPI_Group all, own, other;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  int ends[2][3] = {{0, ranks - 1, 2}, {1, ranks - 1, 2}};
  MPI_Group_range_incl(all, 1, &ends[rank % 2], &own);
  MPI_Group_range_incl(all, 1, &ends[(rank + 1) % 2], &other);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Request requests[2 * kUnderWay + 2];
    int n = 0;
    for (int k = 0; k < kUnderWay; k++)
      for (int i = 0; i < kWords; i++) sent[k][i] = step * 7 + rank * 1000 + k * 31 + i;
    for (int i = 0; i < kWords; i++) both[i] = step + rank + i;
    for (int k = 0; k < kUnderWay; k++)
      n += begin(sent[k], got[k], to, source, k, &requests[n]);
    n += begin_replace(both, to, source, &requests[n]);
    report_step(step, o.step_ms);
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    mix(got, sizeof got);
    mix(both, sizeof both);
    MPI_Comm made[2];
    from_groups(own, other, all, made);
    int sums[2] = {-1, -1}, size;
    MPI_Allreduce(&rank, &sums[0], 1, MPI_INT, MPI_SUM, made[0]);
    MPI_Allreduce(&rank, &sums[1], 1, MPI_INT, MPI_SUM, made[1]);
    MPI_Comm_remote_size(made[1], &size);
    mix(sums, sizeof sums);
    mix_int(size);
    for (int i = 0; i < 2; i++) MPI_Comm_free(&made[i]);
  }
  MPI_Group_free(&all);
  MPI_Group_free(&own);
  MPI_Group_free(&other);
  finish();
  return 0;
}
