// SPDX-License-Identifier: Apache-2.0
// Partitioned messages around a ring, over the pause of each step: two with one tag, which the
// order of the calls that made them tells apart, started in the other order, half of whose
// partitions are ready; one of which only the receiver knows yet, one of which only the sender
// does; one that is never started; beside them a receive of any ordinary message. With older
// headers, what arrives.
// Option: --beyond 1 (asks a request that is not started, which Debian's MPICH 4.0 refuses).
#include "../check.h"

enum { kParts = 6, kWords = 400, kAll = kParts * kWords, kTag = 5, kLate = 6, kEarly = 7 };

static int beyond, sent[2][kAll], got[2][kAll];
static int late[kAll], late_got[kAll], early[kAll], early_got[kAll];

static void fill(int *words, int step, int from, int which) {
  for (int i = 0; i < kAll; i++) words[i] = 100000 * step + 10000 * which + 1000 * from + i;
}

#if MPI_VERSION >= 4
static MPI_Request out[2], in[2], out_late, in_late, out_early, in_early;
static int to, source;

static void make(void) {
  for (int k = 0; k < 2; k++) {
    MPI_Psend_init(sent[k], kParts, kWords, MPI_INT, to, kTag, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &out[k]);
    MPI_Precv_init(got[k], kParts / 2, 2 * kWords, MPI_INT, source, kTag, MPI_COMM_WORLD,
                   MPI_INFO_NULL, &in[k]);
  }
}

static void check_status(const MPI_Status *status, int tag) {
  int count = -1;
  MPI_Get_count(status, MPI_INT, &count);
  CHECK(count == kAll && status->MPI_SOURCE == source && status->MPI_TAG == tag);
}

static void before(void) {
  for (int k = 1; k >= 0; k--) {
    CHECK(MPI_Start(&in[k]) == MPI_SUCCESS);
    CHECK(MPI_Start(&out[k]) == MPI_SUCCESS);
  }
  for (int part = kParts - 1; part >= kParts / 2; part--)
    CHECK(MPI_Pready(part, out[1]) == MPI_SUCCESS);
  MPI_Precv_init(late_got, 1, kAll, MPI_INT, source, kLate, MPI_COMM_WORLD, MPI_INFO_NULL,
                 &in_late);
  MPI_Start(&in_late);
  MPI_Psend_init(early, kParts, kWords, MPI_INT, to, kEarly, MPI_COMM_WORLD, MPI_INFO_NULL,
                 &out_early);
  MPI_Start(&out_early);
  MPI_Pready_range(0, kParts - 1, out_early);
}

// Neither of two requests that are never started meets the others with its tag.
static void make_unused(void) {
  MPI_Request unused[2];
  MPI_Psend_init(late, 1, 1, MPI_INT, to, kTag, MPI_COMM_WORLD, MPI_INFO_NULL, &unused[0]);
  MPI_Precv_init(late_got, 1, 1, MPI_INT, source, kTag, MPI_COMM_WORLD, MPI_INFO_NULL, &unused[1]);
  MPI_Request_free(&unused[0]);
  MPI_Request_free(&unused[1]);
}

static void after(void) {
  int rest[] = {4, 0, 2, 5, 1, 3};
  MPI_Status statuses[4];
  int flag = 0;
  MPI_Pready_range(0, kParts / 2 - 1, out[1]);
  MPI_Pready_list(kParts, rest, out[0]);
  for (int part = kParts / 2 - 1; part >= 0; part -= flag)
    CHECK(MPI_Parrived(in[1], part, &flag) == MPI_SUCCESS);
  MPI_Request all[] = {in[0], in[1], out[0], out[1]};
  CHECK(MPI_Waitall(4, all, statuses) == MPI_SUCCESS);
  check_status(&statuses[0], kTag);
  check_status(&statuses[1], kTag);
  if (beyond) CHECK(MPI_Parrived(in[0], 0, &flag) == MPI_SUCCESS && flag);
  MPI_Psend_init(late, kParts, kWords, MPI_INT, to, kLate, MPI_COMM_WORLD, MPI_INFO_NULL,
                 &out_late);
  MPI_Start(&out_late);
  MPI_Pready_range(0, kParts - 1, out_late);
  MPI_Wait(&in_late, statuses);
  check_status(statuses, kLate);
  MPI_Wait(&out_late, MPI_STATUS_IGNORE);
  MPI_Precv_init(early_got, kAll, 1, MPI_INT, source, kEarly, MPI_COMM_WORLD, MPI_INFO_NULL,
                 &in_early);
  MPI_Start(&in_early);
  for (flag = 0; !flag;) MPI_Test(&in_early, &flag, statuses);
  check_status(statuses, kEarly);
  MPI_Wait(&out_early, MPI_STATUS_IGNORE);
  MPI_Request *const made[] = {&in_late, &out_late, &in_early, &out_early};
  for (int i = 0; i < 4; i++) MPI_Request_free(made[i]);
}

static void end(void) {
  for (int k = 0; k < 2; k++) {
    MPI_Request_free(&out[k]);
    MPI_Request_free(&in[k]);
  }
}
#else
static int to, source, made_for;

static void make(void) {}
static void make_unused(void) {}
static void before(void) { made_for++; }
static void after(void) {
  for (int k = 0; k < 2; k++) fill(got[k], made_for, source, k);
  fill(late_got, made_for, source, 2);
  fill(early_got, made_for, source, 3);
}
static void end(void) {}
#endif

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--beyond")) beyond = atoi(argv[i + 1]);
  to = (rank + 1) % ranks;
  source = (rank + ranks - 1) % ranks;
  make();
  for (int step = 1; step <= o.steps; step++) {
    int plain = -1;
    MPI_Request request;
    for (int k = 0; k < 2; k++) fill(sent[k], step, rank, k);
    fill(late, step, rank, 2);
    fill(early, step, rank, 3);
    MPI_Irecv(&plain, 1, MPI_INT, source, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
    before();
    report_step(step, o.step_ms);
    make_unused();
    after();
    MPI_Send(&step, 1, MPI_INT, to, kTag, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(plain == step);
    for (int k = 0; k < 2; k++) {
      int expected[kAll];
      fill(expected, step, source, k);
      CHECK(!memcmp(expected, got[k], sizeof expected));
      mix(got[k], sizeof got[k]);
    }
    mix(late_got, sizeof late_got);
    mix(early_got, sizeof early_got);
  }
  end();
  finish();
}
