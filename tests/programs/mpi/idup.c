// SPDX-License-Identifier: Apache-2.0
// MPI_Comm_idup does not wait for the other members: one begins it only after all others have, in a
// ring of communicators each waits for both of its own at once and frees them, and one is pending
// over the pause of every step, on some ranks only. Attributes and intercommunicators go with it.
#include "../check.h"

static int copies;

static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag) {
  (void)comm, (void)keyval, (void)extra;
  copies++;
  *(void **)out = (char *)in + 1;
  *flag = 1;
  return MPI_SUCCESS;
}

static int sum_on(MPI_Comm comm, int value) {
  int sum = -1;
  MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
  return sum;
}

// The first member comes last, and hears of each of the others before.
static void one_comes_late(MPI_Comm comm, int keyval) {
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Request request;
  int own, size, from = 0;
  MPI_Comm_rank(comm, &own);
  MPI_Comm_size(comm, &size);
  if (own == 0)
    for (int i = 1; i < size; i++)
      MPI_Recv(&from, 1, MPI_INT, i, 5, comm, MPI_STATUS_IGNORE);
  MPI_Comm_idup(comm, &made, &request);
  if (own != 0) MPI_Ssend(&own, 1, MPI_INT, 0, 5, comm);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  void *value = NULL;
  int found = 0;
  MPI_Comm_get_attr(made, keyval, &value, &found);
  mix_int(found ? (long long)(size_t)value : -1);
  mix_int(sum_on(made, own));
  MPI_Comm_free(&made);
}

// Each rank has a communicator with the one before and one with the one behind it.
static void ring(void) {
  MPI_Comm ahead = MPI_COMM_SELF, behind = MPI_COMM_SELF, made[2];
  MPI_Request requests[2];
  for (int i = 0; i < ranks && ranks > 2; i++) {
    const int is_first = rank == i, is_second = rank == (i + 1) % ranks;
    MPI_Comm pair;
    MPI_Comm_split(MPI_COMM_WORLD, is_first || is_second ? 0 : MPI_UNDEFINED, is_second, &pair);
    if (is_first) ahead = pair;
    if (is_second) behind = pair;
  }
  MPI_Comm_idup(ahead, &made[0], &requests[0]);
  MPI_Comm_idup(behind, &made[1], &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < 2; i++) {
    int size;
    MPI_Comm_size(made[i], &size);
    mix_int(size);
    MPI_Comm_free(&made[i]);
  }
  if (ranks > 2) {
    MPI_Comm_free(&ahead);
    MPI_Comm_free(&behind);
  }
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  int keyval;
  MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
  MPI_Comm world, half, inter, kept = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &world);
  MPI_Comm_set_attr(world, keyval, (void *)(size_t)41);
  MPI_Comm_split(world, rank % 2, rank, &half);
  MPI_Intercomm_create(half, 0, world, (rank + 1) % 2, 3, &inter);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Request request;
    MPI_Comm made;
    // In the last step, which waits for the test, nobody owes a call.
    const int late = rank == step % ranks && step < o.steps;
    one_comes_late(world, keyval);
    if (step % 3 == 0) ring();
    if (!late) MPI_Comm_idup(world, &made, &request);
    report_step(step, o.step_ms);
    if (late) MPI_Comm_idup(world, &made, &request);
    if (rank % 2) pause_ms(o.step_ms / 2);
    for (int done = 0; !done;) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    mix_int(sum_on(made, rank + step));
    MPI_Comm across;
    MPI_Comm_idup(inter, &across, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    mix_int(sum_on(across, rank));
    MPI_Comm_free(&across);
    if (kept != MPI_COMM_NULL) MPI_Comm_free(&kept);
    kept = made;  // alive over the next step
  }
  mix_int(copies);
  mix_int(sum_on(kept, 1));
  MPI_Comm_free(&kept);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
  MPI_Comm_free(&world);
  MPI_Comm_free_keyval(&keyval);
  finish();
  return 0;
}
