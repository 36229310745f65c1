// SPDX-License-Identifier: Apache-2.0
// Arrays of requests: completed all at once, one after the other, or as they come.
#include "family.h"

static int indices[kMaxRequests];

// Half of the requests receive, the others send.
static void begin(int count) {
  for (int i = 0; i < count / 2; i++)
    MPI_Irecv(receiving + 8 * i, 8, MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[i]);
  for (int i = 0; i < count / 2; i++)
    MPI_Isend(sending, 8, MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[count / 2 + i]);
}

static void waitall(int count, MPI_Status *list) { MPI_Waitall(count, requests, list); }
static void testall(int count, MPI_Status *list) {
  for (int flag = 0; !flag;) MPI_Testall(count, requests, &flag, list);
}
static void waitany(int count, MPI_Status *list) {
  for (int i = 0, index; i < count; i++) MPI_Waitany(count, requests, &index, list);
}
static void testany(int count, MPI_Status *list) {
  for (int left = count, index, flag; left;) {
    MPI_Testany(count, requests, &index, &flag, list);
    left -= flag;
  }
}
static void waitsome(int count, MPI_Status *list) {
  for (int left = count, done; left; left -= done)
    MPI_Waitsome(count, requests, &done, indices, list);
}
static void testsome(int count, MPI_Status *list) {
  for (int left = count, done; left; left -= done)
    MPI_Testsome(count, requests, &done, indices, list);
}

#define EXCHANGE(how, none)                                      \
  static void how##_statuses(int n, int count) {                 \
    for (int i = 0; i < n; i++) begin(count), how(count, statuses); \
  }                                                              \
  static void how##_ignored(int n, int count) {                  \
    for (int i = 0; i < n; i++) begin(count), how(count, none);  \
  }
EXCHANGE(waitall, MPI_STATUSES_IGNORE)
EXCHANGE(testall, MPI_STATUSES_IGNORE)
EXCHANGE(waitany, MPI_STATUS_IGNORE)
EXCHANGE(testany, MPI_STATUS_IGNORE)
EXCHANGE(waitsome, MPI_STATUSES_IGNORE)
EXCHANGE(testsome, MPI_STATUSES_IGNORE)

// Nothing is in progress: what the call itself costs.
static void clear(int count) {
  for (int i = 0; i < count; i++) requests[i] = MPI_REQUEST_NULL;
}
static void null_waitall(int n, int count) {
  clear(count);
  for (int i = 0; i < n; i++) waitall(count, statuses);
}
static void null_testall(int n, int count) {
  clear(count);
  for (int i = 0; i < n; i++) testall(count, statuses);
}
static void null_waitany(int n, int count) {
  clear(count);
  for (int i = 0, index; i < n; i++) MPI_Waitany(count, requests, &index, &status);
}
static void null_testsome(int n, int count) {
  clear(count);
  for (int i = 0, done; i < n; i++) MPI_Testsome(count, requests, &done, indices, statuses);
}

// Receives that nothing comes for.
static void pending(int n, int count, void (*look)(int count)) {
  for (int i = 0; i < count; i++)
    MPI_Irecv(receiving + i, 1, MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[i]);
  for (int i = 0; i < n; i++) look(count);
  for (int i = 0; i < count; i++) {
    MPI_Cancel(&requests[i]);
    MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
  }
}
static void look_all(int count) {
  int flag;
  MPI_Testall(count, requests, &flag, statuses);
}
static void look_any(int count) {
  int index, flag;
  MPI_Testany(count, requests, &index, &flag, &status);
}
static void look_some(int count) {
  int done;
  MPI_Testsome(count, requests, &done, indices, statuses);
}
static void look_one(int count) {
  int flag;
  (void)count;
  MPI_Test(&requests[0], &flag, &status);
}
static void pending_all(int n, int count) { pending(n, count, look_all); }
static void pending_any(int n, int count) { pending(n, count, look_any); }
static void pending_some(int n, int count) { pending(n, count, look_some); }
static void pending_one(int n, int count) { pending(n, count, look_one); }

static void persistent(int n, int count) {
  for (int i = 0; i < count / 2; i++) {
    MPI_Recv_init(receiving + 8 * i, 8, MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[i]);
    MPI_Send_init(sending, 8, MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[count / 2 + i]);
  }
  for (int i = 0; i < n; i++) {
    MPI_Startall(count, requests);
    MPI_Waitall(count, requests, statuses);
  }
  for (int i = 0; i < count; i++) MPI_Request_free(&requests[i]);
}

#define ROW(count, text, run) {"requests", #count " x " text, run, count, count}
#define SIZES(text, run) \
  ROW(2, text, run), ROW(8, text, run), ROW(32, text, run), ROW(128, text, run), ROW(512, text, run)
#define BOTH(text, how) \
  SIZES(text ", statuses", how##_statuses), SIZES(text ", ignored", how##_ignored)

const struct Case request_cases[] = {
    BOTH("Waitall", waitall),
    BOTH("Testall", testall),
    BOTH("Waitany", waitany),
    BOTH("Testany", testany),
    BOTH("Waitsome", waitsome),
    BOTH("Testsome", testsome),
    SIZES("persistent, Waitall", persistent),
    {"requests", "Waitall of 64 null", null_waitall, 64, 1},
    {"requests", "Testall of 64 null", null_testall, 64, 1},
    {"requests", "Waitany of 64 null", null_waitany, 64, 1},
    {"requests", "Testsome of 64 null", null_testsome, 64, 1},
    {"requests", "Test of a pending one", pending_one, 1, 1},
    {"requests", "Testall of 64 pending", pending_all, 64, 1},
    {"requests", "Testany of 64 pending", pending_any, 64, 1},
    {"requests", "Testsome of 64 pending", pending_some, 64, 1},
    {0},
};
