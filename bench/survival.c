// SPDX-License-Identifier: Apache-2.0
// What collectives cost that survive dead processes: survival CALLS ROUNDS, or survival RANK..
//
// With numbers of calls: for each operation and length the MPI's own calls, the library's along the
// same tree in a communicator that survives nothing, its calls that survive, both once more over
// UCX, and those of the drop-in, in turn, ROUNDS times. Rank 0 prints
// `OPERATION BYTES KIND MICROSECONDS` for each, where the time is that of a call, a mean over CALLS
// in a row.
//
// With ranks (before them a 0, so that one is no number of calls): these die, and those who live
// print how long their next allreduce takes, the longest of all.
#include <ftcoll_mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kAddressBytes = 64, kLongest = 4096, kOperations = 3, kRanksMax = 64 };
enum { kMpi, kPlain, kSurvives, kPlainUcx, kSurvivesUcx, kDropIn, kKinds };

static const char *const kKindNames[kKinds] = {"mpi",       "plain",        "survives",
                                               "plain-ucx", "survives-ucx", "drop-in"};
static const char *const kOperationNames[kOperations] = {"allreduce", "bcast", "barrier"};

typedef struct {
  MPI_Comm mpi, marked;
  ftc_comm *own[kKinds];  // the library's
} Ways;

static void fail(const char *what) {
  fprintf(stderr, "survival: %s: %s\n", what, ftc_error());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

// Connections of this program's own, of which there are two communicators.
static void connect_all(int rank, int size, uint32_t transport, ftc_comm **plain,
                        ftc_comm **survives) {
  // Who connects to that address comes from 127.0.0.1, so UCX takes the others for other hosts'.
  const char *const address = transport == FTC_UCX ? "127.0.0.2" : NULL;
  const ftc_options options = {.transport = transport, .address = address};
  const uint8_t key[32] = "this measures, and hides nothing";
  char mine[kAddressBytes] = {0}, all[kRanksMax][kAddressBytes];
  const char *addresses[kRanksMax];
  ftc_door *door;
  ftc_world *world;
  if (ftc_listen(key, &options, &door, mine, sizeof mine) != FTC_OK) fail("listen");
  MPI_Allgather(mine, kAddressBytes, MPI_CHAR, all, kAddressBytes, MPI_CHAR, MPI_COMM_WORLD);
  for (int i = 0; i < size; ++i) addresses[i] = all[i];
  if (ftc_meet(door, rank, size, addresses, &world) != FTC_OK) fail("meet");
  if (ftc_comm_all(world, plain) != FTC_OK) fail("communicator");
  if (ftc_comm_all(world, survives) != FTC_OK) fail("communicator");
  ftc_comm_survive_nothing(*plain);
  MPI_Barrier(MPI_COMM_WORLD);
}

static void one(const Ways *ways, int kind, int operation, int count) {
  static double buffer[kLongest];
  ftc_comm *const comm = ways->own[kind];
  if (comm) {
    const size_t n = (size_t)count;
    int code = FTC_OK;
    switch (operation) {
      case 0: code = ftc_allreduce(comm, buffer, buffer, n, FTC_DOUBLE, FTC_MAX, NULL); break;
      case 1: code = ftc_bcast(comm, buffer, n, FTC_DOUBLE, 0, NULL); break;
      default: code = ftc_barrier(comm, NULL);
    }
    if (code != FTC_OK) fail("call");
    return;
  }
  const MPI_Comm all = kind == kMpi ? ways->mpi : ways->marked;
  switch (operation) {
    case 0: MPI_Allreduce(MPI_IN_PLACE, buffer, count, MPI_DOUBLE, MPI_MAX, all); break;
    case 1: MPI_Bcast(buffer, count, MPI_DOUBLE, 0, all); break;
    default: MPI_Barrier(all);
  }
}

static void measure(const Ways *ways, int rank, int calls, int rounds) {
  const int counts[] = {1, 128, kLongest};
  for (int round = 0; round < rounds; ++round) {
    for (int operation = 0; operation < kOperations; ++operation) {
      for (int length = 0; length < (operation == 2 ? 1 : 3); ++length) {
        const int count = operation == 2 ? 0 : counts[length];
        // Another one is the first in each round.
        for (int turn = 0; turn < kKinds; ++turn) {
          const int kind = (turn + round) % kKinds;
          one(ways, kind, operation, count);
          MPI_Barrier(ways->mpi);
          const double began = MPI_Wtime();
          for (int call = 0; call < calls; ++call) one(ways, kind, operation, count);
          one(ways, kind, 2, 0);  // who broadcasts waits for nobody
          const double took = (MPI_Wtime() - began) / calls;
          if (rank == 0) {
            printf("%s %zu %s %.3f\n", kOperationNames[operation], (size_t)count * sizeof(double),
                   kKindNames[kind], took * 1e6);
          }
        }
      }
    }
  }
}

static void lose(int rank, int argc, char **argv, MPI_Comm marked) {
  int living = 1, first = rank;
  double took;
  MPI_Barrier(marked);
  for (int i = 2; i < argc; ++i) {
    if (atoi(argv[i]) == rank) raise(SIGKILL);
  }
  const double began = MPI_Wtime();
  MPI_Allreduce(MPI_IN_PLACE, &living, 1, MPI_INT, MPI_SUM, marked);
  took = MPI_Wtime() - began;
  MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, marked);
  MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, marked);
  if (rank == first) printf("living %d took %.6f\n", living, took);
  fflush(stdout);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  Ways ways = {.mpi = MPI_COMM_WORLD};
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_dup(MPI_COMM_WORLD, &ways.marked);
  if (argc < 3 || size > kRanksMax || ftc_mark(ways.marked) != MPI_SUCCESS) return 2;
  if (strcmp(argv[1], "0") == 0) {
    lose(rank, argc, argv, ways.marked);
  } else {
    ftc_comm **const own = ways.own;
    connect_all(rank, size, FTC_TCP, &own[kPlain], &own[kSurvives]);
    connect_all(rank, size, FTC_UCX, &own[kPlainUcx], &own[kSurvivesUcx]);
    measure(&ways, rank, atoi(argv[1]), atoi(argv[2]));
  }
  MPI_Finalize();
  return 0;
}
