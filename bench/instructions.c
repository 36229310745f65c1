// SPDX-License-Identifier: Apache-2.0
// Instructions of single MPI calls, counted by stepping through them: what else the machine does
// changes nothing. `instructions rank FILE` is a program of one rank; it leaves its process id in
// FILE and is traced by `instructions count FILE`, which prints "NAME<TAB>INSTRUCTIONS" for each
// case, the least of several rounds. A signal marks where a call begins and ends; what the marks
// themselves take is the case "nothing".
#define _GNU_SOURCE
#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 7, MANY = 64, TAG = 5, SECONDS = 100 };

static MPI_Comm self;
static MPI_Request requests[MANY];
static MPI_Status statuses[MANY];
static int indices[MANY + 1];  // a count in front
static long long in[MANY], out[MANY];
static MPI_Win window;
static long long* exposed;

static void receive(int count) {
  for (int i = 0; i < count; ++i)
    MPI_Irecv(&in[i], 1, MPI_LONG_LONG, 0, TAG, self, &requests[i]);
}

static void send(int count) {
  for (int i = 0; i < count; ++i) MPI_Send(&out[i], 1, MPI_LONG_LONG, 0, TAG, self);
}

static void wait_all(int count) { MPI_Waitall(count, requests, MPI_STATUSES_IGNORE); }

static void pending_one(void) { receive(1); }
static void pending_many(void) { receive(MANY); }
static void sent_one(void) { send(1); }
static void finish_one(void) { send(1), wait_all(1); }
static void finish_many(void) { send(MANY), wait_all(MANY); }
static void arrived_one(void) { receive(1), send(1); }
static void arrived_many(void) { receive(MANY), send(MANY); }
static void wait_one(void) { wait_all(1); }
static void isend(void) { MPI_Isend(out, 1, MPI_LONG_LONG, 0, TAG, self, requests); }
static void take(void) { MPI_Recv(&in[0], 1, MPI_LONG_LONG, 0, TAG, self, MPI_STATUS_IGNORE); }
static void taken(void) { take(), wait_all(1); }
static void lock(void) { MPI_Win_lock_all(0, window); }
static void unlock(void) { MPI_Win_unlock_all(window); }

static void persistent(void) {
  for (int i = 0; i < 8; i += 2) {
    MPI_Recv_init(&in[i], 1, MPI_LONG_LONG, 0, i, self, &requests[i]);
    MPI_Send_init(&out[i], 1, MPI_LONG_LONG, 0, i, self, &requests[i + 1]);
  }
}
static void persistent_started(void) { persistent(), MPI_Startall(8, requests); }
static void persistent_end(void) {
  for (int i = 0; i < 8; ++i) MPI_Request_free(&requests[i]);
}
static void persistent_finish(void) { wait_all(8), persistent_end(); }

static void nothing(void) {}
static void comm_rank(void) { MPI_Comm_rank(self, indices); }
static void irecv(void) { MPI_Irecv(in, 1, MPI_LONG_LONG, 0, TAG, self, requests); }
static void test(void) { MPI_Test(requests, indices, statuses); }
static void wait_for_it(void) { MPI_Wait(requests, statuses); }
static void waitall(void) { MPI_Waitall(MANY, requests, statuses); }
static void testall(void) { MPI_Testall(MANY, requests, indices, statuses); }
static void testany(void) { MPI_Testany(MANY, requests, indices, indices + 1, statuses); }
static void testsome(void) { MPI_Testsome(MANY, requests, indices, indices + 1, statuses); }
static void iprobe(void) { MPI_Iprobe(0, TAG, self, indices, statuses); }
static void startall(void) { MPI_Startall(8, requests); }
static void waitall_8(void) { MPI_Waitall(8, requests, MPI_STATUSES_IGNORE); }
static void allreduce(void) { MPI_Allreduce(out, in, 1, MPI_LONG_LONG, MPI_SUM, self); }
static void bcast(void) { MPI_Bcast(in, 1, MPI_LONG_LONG, 0, self); }
static void barrier(void) { MPI_Barrier(self); }
static void put(void) { MPI_Put(out, 1, MPI_LONG_LONG, 0, 0, 1, MPI_LONG_LONG, window); }
static void get(void) { MPI_Get(in, 1, MPI_LONG_LONG, 0, 0, 1, MPI_LONG_LONG, window); }
static void flush(void) { MPI_Win_flush(0, window); }

static const struct Case {
  const char* name;
  void (*before)(void);
  void (*body)(void);
  void (*after)(void);
} cases[] = {
    {"nothing", nothing, nothing, nothing},
    {"Comm_rank", nothing, comm_rank, nothing},
    {"Isend 8 B", nothing, isend, taken},
    {"Irecv 8 B", nothing, irecv, finish_one},
    {"Send 8 B", pending_one, sent_one, wait_one},
    {"Recv 8 B", isend, take, wait_one},
    {"Test, pending", pending_one, test, finish_one},
    {"Test, finished", arrived_one, test, wait_one},
    {"Wait, finished", arrived_one, wait_for_it, nothing},
    {"Waitall of 64, finished", arrived_many, waitall, nothing},
    {"Testall of 64, pending", pending_many, testall, finish_many},
    {"Testany of 64, pending", pending_many, testany, finish_many},
    {"Testsome of 64, pending", pending_many, testsome, finish_many},
    {"Testsome of 64, finished", arrived_many, testsome, nothing},
    {"Iprobe, nothing there", nothing, iprobe, nothing},
    {"Startall of 8 persistent", persistent, startall, persistent_finish},
    {"Waitall of 8 persistent", persistent_started, waitall_8, persistent_end},
    {"Allreduce 8 B", nothing, allreduce, nothing},
    {"Bcast 8 B", nothing, bcast, nothing},
    {"Barrier", nothing, barrier, nothing},
    {"Put 8 B", lock, put, unlock},
    {"Get 8 B", lock, get, unlock},
    {"Win_flush", lock, flush, unlock},
};
enum { CASES = sizeof(cases) / sizeof(cases[0]) };

static void mark(void) { syscall(SYS_tgkill, getpid(), getpid(), SIGUSR1); }

static bool is_traced(void) {
  char line[256];
  int tracer = 0;
  FILE* status = fopen("/proc/self/status", "r");
  while (status && fgets(line, sizeof line, status)) sscanf(line, "TracerPid: %d", &tracer);
  if (status) fclose(status);
  return tracer != 0;
}

static int rank(const char* file) {
  char shown[4096];
  MPI_Init(NULL, NULL);
  MPI_Comm_dup(MPI_COMM_WORLD, &self);
  MPI_Win_allocate(sizeof(long long), sizeof(long long), MPI_INFO_NULL, self, &exposed, &window);
  snprintf(shown, sizeof shown, "%s.new", file);
  FILE* to = fopen(shown, "w");
  if (!to || fprintf(to, "%d\n", (int)getpid()) < 0 || fclose(to) || rename(shown, file))
    MPI_Abort(MPI_COMM_WORLD, 1);
  for (int waited = 0; !is_traced(); ++waited) {
    if (waited > SECONDS * 1000) MPI_Abort(MPI_COMM_WORLD, 1);
    usleep(1000);
  }
  for (int i = 0; i < CASES; ++i) {
    for (int round = 0; round < ROUNDS; ++round) {
      cases[i].before();
      mark();
      cases[i].body();
      mark();
      cases[i].after();
    }
  }
  MPI_Win_free(&window);
  MPI_Comm_free(&self);
  MPI_Finalize();
  return 0;
}

/// Lets the process run on in the given way (PTRACE_CONT or PTRACE_SINGLESTEP) until it stops, and
/// says why: the signal. Other signals than marks reach the program.
static int go(pid_t pid, int how) {
  static int pass;
  int status = 0;
  if (ptrace(how, pid, 0, pass) != 0 || waitpid(pid, &status, __WALL) != pid ||
      !WIFSTOPPED(status)) {
    fprintf(stderr, "instructions: the rank ended, status %#x\n", status);
    exit(1);
  }
  int signal = WSTOPSIG(status);
  pass = signal == SIGUSR1 || signal == SIGTRAP ? 0 : signal;
  return signal;
}

static long steps(pid_t pid) {
  long count = 0;
  while (go(pid, PTRACE_CONT) != SIGUSR1) continue;
  while (go(pid, PTRACE_SINGLESTEP) != SIGUSR1) ++count;
  return count;
}

static int count(const char* file) {
  int pid = 0, status;
  for (int waited = 0; pid == 0; ++waited) {
    FILE* from = fopen(file, "r");
    if (from && fscanf(from, "%d", &pid) != 1) pid = 0;
    if (from) fclose(from);
    if (waited > SECONDS * 1000) return fprintf(stderr, "instructions: no %s\n", file), 1;
    usleep(1000);
  }
  alarm(SECONDS);
  if (ptrace(PTRACE_SEIZE, pid, 0, 0) != 0 || ptrace(PTRACE_INTERRUPT, pid, 0, 0) != 0 ||
      waitpid(pid, &status, __WALL) != pid)
    return fprintf(stderr, "instructions: process %d: %s\n", pid, strerror(errno)), 1;
  long marks = 0;
  for (int i = 0; i < CASES; ++i) {
    long least = steps(pid);
    for (int round = 1; round < ROUNDS; ++round) {
      long now = steps(pid);
      if (now < least) least = now;
    }
    if (i == 0)
      marks = least;
    else
      printf("%s\t%ld\n", cases[i].name, least - marks);
  }
  return ptrace(PTRACE_DETACH, pid, 0, 0) != 0;
}

int main(int argc, char** argv) {
  if (argc == 3 && strcmp(argv[1], "rank") == 0) return rank(argv[2]);
  if (argc == 3 && strcmp(argv[1], "count") == 0) return count(argv[2]);
  fprintf(stderr, "usage: instructions rank|count FILE\n");
  return 2;
}
