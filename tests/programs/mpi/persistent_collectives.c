// SPDX-License-Identifier: Apache-2.0
// Persistent collective calls, inactive, in progress and finished when the checkpoint comes; one is
// freed and made anew in every step. In the last one, in which a test may keep the program, all are
// inactive.
//
// --beyond 1: what the standard allows and the real MPIs of Debian 12 get wrong. Ranks start them
// in different orders; a communicator, a datatype and an operation are freed before the requests
// that use them (Open MPI 4.1 crashes); a gather sends what is in the buffer when it is started
// (MPICH 4.0: when it was made).
#include "../check.h"
#include "../persistent.h"

enum { kCalls = 9 };

static void add(void *in, void *inout, int *count, MPI_Datatype *type) {
  int size = 0;
  MPI_Type_size(*type, &size);
  CHECK(size == 2 * (int)sizeof(int));
  for (int i = 0; i < 2 * *count; i++) ((int *)inout)[i] += ((int *)in)[i];
}

static int told[2], sum[2], own[2], all[64], prefix, row[64], column[64], from_all[64], to_all[64];
static int around[2], share;
static MPI_Request request[kCalls];
static int beyond;

static void make(MPI_Comm comm, MPI_Comm ring) {
  static int ones[64], places[64];
  static MPI_Datatype ints[64];
  MPI_Datatype pair;
  MPI_Op op;
  MPI_Comm brief = comm;
  for (int i = 0; i < ranks; i++) ones[i] = 1, places[i] = i * (int)sizeof(int), ints[i] = MPI_INT;
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  MPI_Op_create(add, 1, &op);
  if (beyond) MPI_Comm_dup(comm, &brief);
  PERSISTENT(Bcast_init)(told, 2, MPI_INT, ranks - 1, comm, MPI_INFO_NULL, &request[0]);
  PERSISTENT(Allreduce_init)(own, sum, 1, pair, op, brief, MPI_INFO_NULL, &request[1]);
  PERSISTENT(Gather_init)(own, 1, MPI_INT, all, 1, MPI_INT, 0, comm, MPI_INFO_NULL, &request[2]);
  PERSISTENT(Scan_init)(own, &prefix, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request[3]);
  PERSISTENT(Alltoall_init)(row, 1, MPI_INT, column, 1, MPI_INT, comm, MPI_INFO_NULL,
                            &request[4]);
  PERSISTENT(Alltoallw_init)(to_all, ones, places, ints, from_all, ones, places, ints, comm,
                             MPI_INFO_NULL, &request[5]);
  PERSISTENT(Barrier_init)(comm, MPI_INFO_NULL, &request[6]);
  PERSISTENT(Neighbor_allgather_init)(own, 1, MPI_INT, around, 1, MPI_INT, ring, MPI_INFO_NULL,
                                      &request[7]);
  PERSISTENT(Reduce_scatter_block_init)(row, &share, 1, MPI_INT, MPI_MAX, comm, MPI_INFO_NULL,
                                        &request[8]);
  if (!beyond) return;
  MPI_Comm_free(&brief);
  MPI_Op_free(&op);
  MPI_Type_free(&pair);
}

static void check_results(int step) {
  int total = 0;
  for (int i = 0; i < ranks; i++) total += 10 * step + i;
  CHECK(told[0] == step && told[1] == -step);
  CHECK(sum[0] == total && sum[1] == ranks * step);
  for (int i = 0; beyond && rank == 0 && i < ranks; i++) CHECK(all[i] == 10 * step + i);
  int before = 0;
  for (int i = 0; i <= rank; i++) before += 10 * step + i;
  CHECK(prefix == before);
  for (int i = 0; i < ranks; i++)
    CHECK(column[i] == 100 * i + rank + step && from_all[i] == -(100 * i + rank + step));
  CHECK(around[0] == 10 * step + (rank + ranks - 1) % ranks);
  CHECK(around[1] == 10 * step + (rank + 1) % ranks);
  CHECK(share == 100 * (ranks - 1) + rank + step);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  int periodic = 1;
  MPI_Comm comm, ring;
  beyond = has_option(argc, argv, "--beyond");
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &periodic, 0, &ring);
  make(comm, ring);
  for (int step = 1; step <= o.steps; step++) {
    int flag = 0;
    if (rank == ranks - 1) told[0] = step, told[1] = -step;
    own[0] = 10 * step + rank, own[1] = step;
    for (int i = 0; i < ranks; i++) row[i] = 100 * rank + i + step, to_all[i] = -row[i];
    if (step == o.steps) report_step(step, o.step_ms);
    for (int i = 0; i < kCalls - 1; i++)
      MPI_Start(&request[beyond && rank % 2 ? kCalls - 2 - i : i]);
    if (step != o.steps) report_step(step, o.step_ms);  // some have finished
    MPI_Start(&request[kCalls - 1]);
    MPI_Test(&request[2], &flag, MPI_STATUS_IGNORE);
    MPI_Waitall(kCalls, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < kCalls; i++) CHECK(request[i] != MPI_REQUEST_NULL);
    check_results(step);
    mix(sum, sizeof sum);
    mix(column, (size_t)ranks * sizeof column[0]);
    MPI_Request_free(&request[3]);
    CHECK(request[3] == MPI_REQUEST_NULL);
    PERSISTENT(Scan_init)(own, &prefix, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request[3]);
  }
  if (beyond) MPI_Comm_free(&comm);
  for (int i = 0; i < kCalls; i++) MPI_Request_free(&request[i]);
  if (!beyond) MPI_Comm_free(&comm);
  MPI_Comm_free(&ring);
  finish();
  return 0;
}
