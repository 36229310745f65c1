// SPDX-License-Identifier: Apache-2.0
// Persistent calls of a marked communicator: persistent CALLS DIES. In each round all are started
// before one is waited for, and calls of the MPI come between them. Rank DIES (-1: nobody) kills
// itself in the midst of them; the others have the same results before and after it.
#include <ftcoll_mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { kMany = 20000, kPauseMicros = 200 };

static int rank, size, is_right = 1;

static void expect(int is_so, int round, const char *what) {
  if (is_so) return;
  if (is_right) fprintf(stderr, "rank %d, round %d: %s: %s\n", rank, round, what, ftc_error());
  is_right = 0;
}

static int32_t missing[64];
static ftc_ended ended = {.missing = missing, .room = 64};

// Bits of those whose contributions the last result lacks.
static uint64_t lacks(void) {
  uint64_t bits = 0;
  for (int i = 0; i < ended.processes - ended.contributions; ++i) bits |= 1ull << missing[i];
  return bits;
}

// The later of two in the order of the ranks: neither commutes nor is one of the library's.
static void latest(const void *ahead, void *behind, size_t count, void *context) {
  (void)ahead;
  (void)behind;
  *(int *)context += (int)count;
}

static void exchange(int round, int dies) {
  const int to = rank ^ 1;
  int got = -1;
  if (dies >= 0 || to >= size) return;
  MPI_Sendrecv(&round, 1, MPI_INT, to, 0, &got, 1, MPI_INT, to, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  expect(got == round, round, "a message of the MPI");
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  const int rounds = atoi(argv[1]), dies = atoi(argv[2]);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm marked;
  MPI_Comm_dup(MPI_COMM_WORLD, &marked);
  MPI_Comm_set_errhandler(marked, MPI_ERRORS_RETURN);
  ftc_comm *own = NULL;
  if (ftc_comm_behind(marked, &own) == FTC_OK || ftc_mark(marked) != MPI_SUCCESS) return 3;
  if (ftc_comm_behind(marked, &own) != FTC_OK) return 3;

  const uint64_t all = (1ull << size) - 1, mine = 1ull << rank;
  uint64_t sum = 0, from_root = 0;
  int64_t *const many = malloc(kMany * sizeof *many);
  int last = rank, combined = 0;
  ftc_user_op op = {latest, &combined, sizeof last, 0};
  ftc_call *calls[5] = {0};
  int code = ftc_allreduce_init(own, &mine, &sum, 1, FTC_UINT64, FTC_SUM, &calls[0]);
  code |= ftc_bcast_init(own, &from_root, 1, FTC_UINT64, size - 1, &calls[1]);
  code |= ftc_allreduce_init(own, many, many, kMany, FTC_INT64, FTC_MAX, &calls[2]);
  code |= ftc_allreduce_user_init(own, &rank, &last, 1, &op, &calls[3]);
  code |= ftc_barrier_init(own, &calls[4]);
  expect(code == FTC_OK, 0, "init");
  expect(ftc_wait(calls[0], NULL) == FTC_OK, 0, "what has not been started");

  for (int round = 0; round < rounds && is_right; ++round) {
    if (rank == dies && round == rounds / 2) raise(SIGKILL);
    from_root = rank == size - 1 ? (uint64_t)round : 0;
    for (int i = 0; i < kMany; ++i) many[i] = rank + i + round;
    for (int i = 0; i < 5; ++i) expect(ftc_start(calls[i]) == FTC_OK, round, "start");
    expect(ftc_start(calls[0]) == FTC_BUSY, round, "what is in progress cannot be started");
    exchange(round, dies);
    if (round % 7 == rank) usleep(kPauseMicros);
    int is_over = 0;
    while (!is_over) expect(ftc_test(calls[4], &is_over, NULL) == FTC_OK, round, "barrier");
    expect(ftc_wait(calls[3], &ended) == FTC_OK, round, "own operation");
    const uint64_t lived = all & ~lacks();
    expect(last == 63 - __builtin_clzll(lived), round, "the last one's value");
    expect(ftc_wait(calls[2], &ended) == FTC_OK, round, "large");
    for (int i = 0; i < kMany; ++i) {
      const int most = 63 - __builtin_clzll(all & ~lacks());
      expect(many[i] == most + i + round, round, "the largest value");
    }
    expect(ftc_wait(calls[1], NULL) == FTC_OK, round, "bcast");
    expect(from_root == (uint64_t)round, round, "the root's value");
    expect(ftc_wait(calls[0], &ended) == FTC_OK, round, "sum");
    expect(sum + lacks() == all, round, "the sum of those who live");
    uint64_t also = mine;
    expect(MPI_Allreduce(MPI_IN_PLACE, &also, 1, MPI_UINT64_T, MPI_SUM, marked) == MPI_SUCCESS,
           round, "MPI_Allreduce");
    ftc_last(marked, &ended);
    expect(also + lacks() == all, round, "the sum by the MPI's name");
    if (rank == 0 && round % 100 == 99) printf("round %d\n", round + 1);
    fflush(stdout);
  }
  for (int i = 0; i < 5; ++i) ftc_call_free(calls[i]);
  free(many);
  if (is_right) printf("rank %d is content\n", rank);
  MPI_Comm_free(&marked);
  MPI_Finalize();
  return !is_right;
}
