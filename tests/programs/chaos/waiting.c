// SPDX-License-Identifier: Apache-2.0
// Completing requests in one of MPI's many ways; which one is each rank's own affair. Polls yield:
// there may be more ranks than cores.
#include "chaos.h"

#include <sched.h>

enum { kMost = 32 };

static void keep(MPI_Status *statuses, int index, const MPI_Status *status) {
  if (statuses != MPI_STATUSES_IGNORE) statuses[index] = *status;
}

static int one_of_them(MPI_Request *requests, MPI_Status *statuses, int count, int poll) {
  MPI_Status status;
  int index = MPI_UNDEFINED, flag = !poll;
  if (poll) DO(MPI_Testany(count, requests, &index, &flag, &status));
  else DO(MPI_Waitany(count, requests, &index, &status));
  if (!flag) return 0;
  MUST(index != MPI_UNDEFINED);
  keep(statuses, index, &status);
  return 1;
}

static int some_of_them(MPI_Request *requests, MPI_Status *statuses, int count, int poll) {
  MPI_Status some[kMost];
  int index[kMost], done = 0;
  if (poll) DO(MPI_Testsome(count, requests, &done, index, some));
  else DO(MPI_Waitsome(count, requests, &done, index, some));
  MUST(done != MPI_UNDEFINED);
  for (int i = 0; i < done; i++) keep(statuses, index[i], &some[i]);
  return done;
}

static void each_of_them(MPI_Request *requests, MPI_Status *statuses, int count, int poll) {
  for (int i = 0; i < count; i++) {
    MPI_Status status;
    int flag = 0;
    for (; poll && !flag; sched_yield()) DO(MPI_Request_get_status(requests[i], &flag, &status));
    if (poll) DO(MPI_Test(&requests[i], &flag, &status));
    else DO(MPI_Wait(&requests[i], &status));
    keep(statuses, i, &status);
  }
}

void wait_for(MPI_Request *requests, MPI_Status *statuses, int count, uint64_t key) {
  const int way = (int)(derive(key, self) % 8), poll = way % 2;
  MUST(count <= kMost);
  int done = 0;
  switch (way / 2) {
    case 0:
      for (; poll && !done; sched_yield()) DO(MPI_Testall(count, requests, &done, statuses));
      if (!poll) DO(MPI_Waitall(count, requests, statuses));
      break;
    case 1:
      for (; done < count; sched_yield()) done += one_of_them(requests, statuses, count, poll);
      break;
    case 2:
      for (; done < count; sched_yield()) done += some_of_them(requests, statuses, count, poll);
      break;
    default:
      each_of_them(requests, statuses, count, poll);
  }
}
