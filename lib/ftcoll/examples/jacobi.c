// SPDX-License-Identifier: Apache-2.0
// -u'' = 1 on (0, 1), u = 0 at both ends, by Jacobi's iteration. Each process computes a run of the
// unknowns, and an allreduce puts the runs together: a process contributes zeros outside of its
// own. The unknowns of who is missing keep their values for one iteration; then those who live
// share all unknowns among themselves, which they can do without a word, for all know the same
// missing ones. The solution is the same in the end.
//
//     ftcoll-run -n 6 --kill 2@0.2 --kill 5@0.4 -- ./jacobi
#include <ftcoll.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { kUnknowns = 63, kIterationsMax = 40000, kProcessesMax = 1024 };
static const double kSmallStep = 1e-10;

static int fail(const char *what) {
  fprintf(stderr, "jacobi: %s: %s\n", what, ftc_error());
  return 1;
}

// The unknowns of the process that is number `index` of `count` living ones: from, to.
static void share(int32_t index, int32_t count, int *from, int *to) {
  *from = 1 + kUnknowns * index / count;
  *to = 1 + kUnknowns * (index + 1) / count;
}

// One iteration: 0, and the largest change is in *change; or what failed.
static int iterate(ftc_comm *comm, double *u, char *is_dead, int32_t *living, double *change) {
  const int32_t size = ftc_comm_size(comm), me = ftc_comm_rank(comm);
  const double h = 1.0 / (kUnknowns + 1);
  double next[kUnknowns + 2] = {0};
  int32_t missing[kProcessesMax];
  ftc_ended ended = {.missing = missing, .room = kProcessesMax};

  int owner[kUnknowns + 2];
  for (int32_t rank = 0, index = 0; rank < size; ++rank) {
    if (is_dead[rank]) continue;
    int from, to;
    share(index++, *living, &from, &to);
    for (int i = from; i < to; ++i) {
      owner[i] = rank;
      if (rank == me) next[i] = (u[i - 1] + u[i + 1] + h * h) / 2;
    }
  }
  const int code =
      ftc_allreduce(comm, next, next, kUnknowns + 2, FTC_DOUBLE, FTC_SUM, &ended);
  if (code != FTC_OK) return code;
  for (int32_t i = 0; i < ended.processes - ended.contributions; ++i) is_dead[missing[i]] = 1;
  *living = ended.contributions;
  *change = 0;
  for (int i = 1; i <= kUnknowns; ++i) {
    if (is_dead[owner[i]]) continue;
    *change = fmax(*change, fabs(next[i] - u[i]));
    u[i] = next[i];
  }
  return FTC_OK;
}

int main(void) {
  ftc_world *world;
  ftc_comm *comm;
  if (ftc_join(&world) != FTC_OK) return fail("join");
  if (ftc_comm_all(world, &comm) != FTC_OK) return fail("communicator");
  const int32_t me = ftc_rank(world), size = ftc_size(world);
  if (size > kProcessesMax || size > kUnknowns) return 1;
  double u[kUnknowns + 2] = {0}, change = 1;
  char is_dead[kProcessesMax] = {0};
  int32_t living = size;
  int count = 0;
  while (count < kIterationsMax && change > kSmallStep) {
    const int32_t before = living;
    if (iterate(comm, u, is_dead, &living, &change) != FTC_OK) return fail("iteration");
    if (living < before) change = 1;  // some unknowns stood still
    ++count;
  }
  double error = 0;
  for (int i = 1; i <= kUnknowns; ++i) {
    const double x = (double)i / (kUnknowns + 1);
    error = fmax(error, fabs(u[i] - x * (1 - x) / 2));
  }
  const char *const first_living = memchr(is_dead, 0, (size_t)size);
  if (first_living - is_dead == me) {
    printf("%d iterations, error %.1e, %d of %d processes to the end\n", count, error, living,
           size);
  }
  ftc_comm_free(comm);
  return ftc_leave(world) == FTC_OK && error < 1e-6 ? 0 : fail("the solution is wrong, or leave");
}
