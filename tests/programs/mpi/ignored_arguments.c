// SPDX-License-Identifier: Apache-2.0
// Datatypes that a call does not read may be anything: those of MPI_IN_PLACE, and those of the root
// on the others, in all forms of the calls, between two groups as well.
#include "../check.h"
#include "../persistent.h"

enum { kMost = 16 };

static int root_of(int step) { return step % ranks; }

static void finish_one(MPI_Request *request) { MPI_Wait(request, MPI_STATUS_IGNORE); }

static void in_place(int step, MPI_Datatype unset) {
  int all[kMost];
  MPI_Request request;
  for (int form = 0; form < 2; form++) {
    for (int r = 0; r < ranks; r++) all[r] = r == rank ? 10 * step + rank : -1;
    if (form == 0) {
      MPI_Allgather(MPI_IN_PLACE, 0, unset, all, 1, MPI_INT, MPI_COMM_WORLD);
    } else {
      MPI_Iallgather(MPI_IN_PLACE, 0, unset, all, 1, MPI_INT, MPI_COMM_WORLD, &request);
      finish_one(&request);
    }
    for (int r = 0; r < ranks; r++) CHECK(all[r] == 10 * step + r);
  }
}

// To the root and back, `form` 0 blocking, 1 non-blocking.
static void rooted(int step, int form, MPI_Datatype unset) {
  const int root = root_of(step), is_root = rank == root;
  const MPI_Datatype there = is_root ? MPI_INT : unset;
  int all[kMost], mine = 10 * step + rank, back = -1;
  MPI_Request request;
  all[root] = mine;
  if (form == 0) {
    MPI_Gather(is_root ? MPI_IN_PLACE : &mine, 1, is_root ? unset : MPI_INT, all, 1, there, root,
               MPI_COMM_WORLD);
    MPI_Scatter(all, 1, there, is_root ? MPI_IN_PLACE : &back, 1, is_root ? unset : MPI_INT, root,
                MPI_COMM_WORLD);
  } else {
    MPI_Igather(&mine, 1, MPI_INT, all, 1, there, root, MPI_COMM_WORLD, &request);
    finish_one(&request);
    MPI_Iscatter(all, 1, there, &back, 1, MPI_INT, root, MPI_COMM_WORLD, &request);
    finish_one(&request);
  }
  for (int r = 0; r < ranks && is_root; r++) CHECK(all[r] == 10 * step + r);
  CHECK(back == mine || (form == 0 && is_root));
  mix_int(back);
}

static MPI_Request make_persistent(int *all, int *mine, MPI_Datatype unset) {
  MPI_Request request;
  PERSISTENT(Gather_init)(mine, 1, MPI_INT, all, 1, rank == 0 ? MPI_INT : unset, 0,
                          MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  return request;
}

// The first of the lower half is the root; those beside it have no part in it.
static void between(MPI_Comm inter, int lower, int own, int step, MPI_Datatype unset) {
  const int root = !lower ? 0 : own == 0 ? MPI_ROOT : MPI_PROC_NULL;
  int all[kMost], mine = 10 * step + rank, told = own == 0 && lower ? step : -1;
  MPI_Gather(&mine, 1, lower ? unset : MPI_INT, all, 1, root == MPI_ROOT ? MPI_INT : unset, root,
             inter);
  for (int r = ranks / 2; root == MPI_ROOT && r < ranks; r++)
    CHECK(all[r - ranks / 2] == 10 * step + r);
  MPI_Bcast(&told, 1, root == MPI_PROC_NULL ? unset : MPI_INT, root, inter);
  CHECK(told == step || (lower && own != 0));
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  CHECK(ranks >= 2 && ranks <= kMost);
  const int lower = rank < ranks / 2;
  int own = -1, all[kMost], mine = -1;
  MPI_Datatype unset;
  MPI_Comm half, inter;
  memset(&unset, 0x5a, sizeof unset);
  MPI_Comm_split(MPI_COMM_WORLD, lower, rank, &half);
  MPI_Comm_rank(half, &own);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, lower ? ranks / 2 : 0, 11, &inter);
  const int beyond = has_option(argc, argv, "--beyond");  // MPICH 4.0 gets persistent gathers wrong
  MPI_Request kept = MPI_REQUEST_NULL;
  if (beyond) kept = make_persistent(all, &mine, unset);
  for (int step = 1; step <= o.steps; step++) {
    in_place(step, unset);
    rooted(step, 0, unset);
    report_step(step, o.step_ms);
    rooted(step, 1, unset);
    between(inter, lower, own, step, unset);
    if (!beyond) continue;
    mine = 10 * step + rank;
    MPI_Start(&kept);
    finish_one(&kept);
    for (int r = 0; r < ranks && rank == 0; r++) CHECK(all[r] == 10 * step + r);
  }
  if (beyond) MPI_Request_free(&kept);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
  finish();
  return 0;
}
