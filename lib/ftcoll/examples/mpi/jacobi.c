// SPDX-License-Identifier: Apache-2.0
// -u'' = 1 on (0, 1), u = 0 at both ends, by Jacobi's iteration, as an MPI program that loses
// processes and finishes. Each process computes a run of the unknowns, and an allreduce puts the
// runs together. The unknowns of who is missing keep their values for one iteration; then those who
// live share all of them among themselves, which they can do without a word, for ftc_last() tells
// all the same missing ones.
//
//     mpirun.mpich -disable-auto-cleanup -n 6 .../ftcoll/survive ./jacobi
#include <ftcoll_mpi.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { kUnknowns = 31, kIterationsMax = 40000, kProcessesMax = 31 };
static const double kSmallStep = 1e-10;

typedef struct {
  MPI_Comm comm;
  int rank, size, living;
  char is_dead[kProcessesMax];
  double u[kUnknowns + 2];
} Solver;

// The unknowns of the process that is number `index` of the living ones: from, to.
static void share(const Solver *s, int index, int *from, int *to) {
  *from = 1 + kUnknowns * index / s->living;
  *to = 1 + kUnknowns * (index + 1) / s->living;
}

// One iteration; the largest change of an unknown.
static double iterate(Solver *s) {
  const double h = 1.0 / (kUnknowns + 1);
  double next[kUnknowns + 2] = {0};
  int owner[kUnknowns + 2];
  for (int rank = 0, index = 0; rank < s->size; ++rank) {
    if (s->is_dead[rank]) continue;
    int from, to;
    share(s, index++, &from, &to);
    for (int i = from; i < to; ++i) {
      owner[i] = rank;
      if (rank == s->rank) next[i] = (s->u[i - 1] + s->u[i + 1] + h * h) / 2;
    }
  }
  MPI_Allreduce(MPI_IN_PLACE, next, kUnknowns + 2, MPI_DOUBLE, MPI_SUM, s->comm);
  int32_t missing[kProcessesMax];
  ftc_ended ended = {.missing = missing, .room = kProcessesMax};
  ftc_last(s->comm, &ended);
  const int before = s->living;
  for (int i = 0; i < ended.processes - ended.contributions; ++i) s->is_dead[missing[i]] = 1;
  s->living = ended.contributions;
  double change = s->living < before ? 1 : 0;  // some unknowns stood still
  for (int i = 1; i <= kUnknowns; ++i) {
    if (s->is_dead[owner[i]]) continue;
    change = fmax(change, fabs(next[i] - s->u[i]));
    s->u[i] = next[i];
  }
  return change;
}

static int is_first(const Solver *s) {
  return (const char *)memchr(s->is_dead, 0, (size_t)s->size) - s->is_dead == s->rank;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  Solver s = {.comm = MPI_COMM_WORLD};
  MPI_Comm_rank(s.comm, &s.rank);
  MPI_Comm_size(s.comm, &s.size);
  if (s.size > kProcessesMax || ftc_mark(s.comm) != MPI_SUCCESS) MPI_Abort(s.comm, 1);
  s.living = s.size;
  int count = 0;
  while (count < kIterationsMax && iterate(&s) > kSmallStep) {
    if (++count % 250 == 0 && is_first(&s)) {
      printf("%d iterations\n", count);
      fflush(stdout);
    }
  }
  double error = 0;
  for (int i = 1; i <= kUnknowns; ++i) {
    const double x = (double)i / (kUnknowns + 1);
    error = fmax(error, fabs(s.u[i] - x * (1 - x) / 2));
  }
  if (is_first(&s)) {
    printf("%d iterations, error %.1e, %d of %d processes to the end\n", count, error, s.living,
           s.size);
  }
  MPI_Finalize();
  return error < 1e-6 ? 0 : 1;
}
