// SPDX-License-Identifier: Apache-2.0
// A synchronous send ends only when its receive has been matched, also when a checkpoint comes
// between and takes the message in: MPI_Issend, MPI_Ssend_init, MPI_Ssend, each while the receiver
// is still far from its receive, or waits for another message of the sender. With --refuse no
// checkpoint succeeds, but for the program nothing may be different: a receive is pending on a
// communicator that has been freed. With --ask as well, and it asks for them so that one begins as
// soon as another has failed.
#include "../check.h"

#include <fermata.h>

static int is_done(MPI_Request *request) {
  int flag = 0;
  MPI_Test(request, &flag, MPI_STATUS_IGNORE);
  return flag;
}

// In the middle of a step, but not of the last one: held there, it could not be saved, since a rank
// has begun a collective call that the other cannot reach.
static void report_within(int step, struct options o) {
  if (step != last_step) report_step(step, o.step_ms);
}

// Three messages with one tag, the middle one a standard one, and one with another tag.
static void without_waiting(int step, struct options o, MPI_Request *kept) {
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  int out[4], in[4] = {0}, here = 100 * step + 10 * rank, there = 100 * step + 10 * previous;
  MPI_Request first, other;
  for (int i = 0; i < 4; i++) out[i] = here + i;
  static int buffer;
  buffer = out[2];
  if (*kept == MPI_REQUEST_NULL)
    MPI_Ssend_init(&buffer, 1, MPI_INT, next, 1, MPI_COMM_WORLD, kept);
  MPI_Issend(&out[0], 1, MPI_INT, next, 1, MPI_COMM_WORLD, &first);
  MPI_Send(&out[1], 1, MPI_INT, next, 1, MPI_COMM_WORLD);
  MPI_Start(kept);
  MPI_Issend(&out[3], 1, MPI_INT, next, 2, MPI_COMM_WORLD, &other);
  if (step % 2) report_within(step, o);
  CHECK(!is_done(&first) && !is_done(kept) && !is_done(&other));
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Recv(&in[3], 1, MPI_INT, previous, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Recv(&in[0], 1, MPI_INT, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Wait(&first, MPI_STATUS_IGNORE);
  MPI_Wait(&other, MPI_STATUS_IGNORE);
  CHECK(!is_done(kept));
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 1; i < 3; i++)
    MPI_Recv(&in[i], 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Wait(kept, MPI_STATUS_IGNORE);
  for (int i = 0; i < 4; i++) CHECK(in[i] == there + i);
  mix(in, sizeof in);
}

// Who sends takes part in the barrier when its send has ended: before the receive that cannot be.
static void waiting(int step, struct options o) {
  const int sends = rank % 2 == 1, receives = rank % 2 == 0 && rank + 1 < ranks;
  int value = step, over = 0;
  MPI_Request barrier;
  if (sends) MPI_Ssend(&value, 1, MPI_INT, rank - 1, 3, MPI_COMM_WORLD);
  MPI_Ibarrier(MPI_COMM_WORLD, &barrier);
  if (step % 4 == 0) report_within(step, o);
  if (receives) {
    MPI_Test(&barrier, &over, MPI_STATUS_IGNORE);
    CHECK(!over);
    MPI_Recv(&value, 1, MPI_INT, rank + 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(value == step);
  }
  MPI_Wait(&barrier, MPI_STATUS_IGNORE);
}

// Six messages that their receiver does not ask for while it waits for a seventh, and others wait
// for it in a collective call. Three it receives before that call, three behind it, by all ways
// there are.
enum { kLong = 100000, kHalf = 3, kUnasked = 2 * kHalf };
static const int unasked_tag[kHalf] = {4, 6, 7};

static void receive_unasked(const int *expected, MPI_Request *persistent, int *in) {
  MPI_Status status;
  MPI_Message message;
  MPI_Request request;
  MPI_Probe(MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &status);
  CHECK(status.MPI_SOURCE == rank - 1);
  MPI_Irecv(in, kLong, MPI_INT, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, &status);
  CHECK(status.MPI_SOURCE == rank - 1 && status.MPI_TAG == 4);
  CHECK(in[0] == expected[0] && in[kLong - 1] == expected[0]);
  MPI_Mprobe(rank - 1, 6, MPI_COMM_WORLD, &message, &status);
  MPI_Mrecv(in, kLong, MPI_INT, &message, MPI_STATUS_IGNORE);
  CHECK(in[0] == expected[1] && in[kLong - 1] == expected[1]);
  MPI_Start(persistent);
  MPI_Wait(persistent, &status);
  CHECK(status.MPI_SOURCE == rank - 1 && status.MPI_TAG == 7);
  CHECK(in[0] == expected[2] && in[kLong - 1] == expected[2]);
}

static void check_pending(MPI_Request *requests, int count) {
  for (int i = 0; i < count; i++) CHECK(!is_done(&requests[i]));
}

static void owing(int step, struct options o) {
  const int sends = rank % 2 == 0 && rank + 1 < ranks, receives = rank % 2 == 1;
  static int out[kUnasked][kLong], in[kLong];
  int word = step, values[kUnasked];
  MPI_Request requests[kUnasked], persistent, barrier;
  for (int i = 0; i < kUnasked; i++) values[i] = out[i][0] = out[i][kLong - 1] = 10 * step + i;
  for (int i = 0; sends && i < kUnasked; i++)
    MPI_Issend(out[i], kLong, MPI_INT, rank + 1, unasked_tag[i % kHalf], MPI_COMM_WORLD,
               &requests[i]);
  if (receives) {
    MPI_Recv_init(in, kLong, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &persistent);
    MPI_Recv(&word, 1, MPI_INT, rank - 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    receive_unasked(values, &persistent, in);
  }
  MPI_Ibarrier(MPI_COMM_WORLD, &barrier);
  if (!receives) report_within(step, o);
  if (sends) {
    check_pending(requests, kUnasked);
    MPI_Send(&word, 1, MPI_INT, rank + 1, 5, MPI_COMM_WORLD);
    MPI_Waitall(kHalf, requests, MPI_STATUSES_IGNORE);
  }
  MPI_Wait(&barrier, MPI_STATUS_IGNORE);
  if (sends) check_pending(requests + kHalf, kHalf);
  MPI_Barrier(MPI_COMM_WORLD);
  if (receives) {
    receive_unasked(values + kHalf, &persistent, in);
    MPI_Request_free(&persistent);
  }
  if (sends) MPI_Waitall(kHalf, requests + kHalf, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  MPI_Request kept = MPI_REQUEST_NULL, refused = MPI_REQUEST_NULL;
  const int ask = argc > 1 && !strcmp(argv[argc - 1], "--ask");
  const int refuse = ask || (argc > 1 && !strcmp(argv[argc - 1], "--refuse"));
  if (refuse) {
    MPI_Comm freed;
    MPI_Comm_dup(MPI_COMM_WORLD, &freed);
    MPI_Irecv(NULL, 0, MPI_INT, rank, 0, freed, &refused);
    MPI_Comm_free(&freed);
  }
  for (int step = 1; step <= o.steps; step++) {
    for (int i = 0; ask && i < 2; i++) fermata_request();  // the second during the first attempt
    without_waiting(step, o, &kept);
    waiting(step, o);
    if (step % 4 == 2) owing(step, o);
    if (step == last_step) report_step(step, o.step_ms);
  }
  MPI_Request_free(&kept);
  if (refuse) MPI_Cancel(&refused);
  MPI_Wait(&refused, MPI_STATUS_IGNORE);
  finish();
  return 0;
}
