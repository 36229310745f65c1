// SPDX-License-Identifier: Apache-2.0
// Row: SIGALRM every millisecond, in any MPI call, on alternate stacks, nested, changes no result

// The handler may run at any instruction: of MPI, of a system call, of a checkpoint's own doings.
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "../check.h"

#define STACK_BYTES (64 * 1024)

static __thread int who = -1;  // found through the thread register
static __thread char *own_stack;
static volatile sig_atomic_t alarms, nested, wrong, may_jump, others;
static sigjmp_buf way_out;
static pthread_barrier_t meeting;
static int stopping;

static void on_nested(int signal) {
  (void)signal;
  if (who == 0) nested++;
  if (who == 1) others++;
  char here;
  if (&here < own_stack || &here >= own_stack + STACK_BYTES) wrong = 1;
}

static void on_alarm(int signal) {
  (void)signal;
  const int error = errno;
  char here;
  if (who != 0) wrong = 2;  // the other threads block it
  if (&here < own_stack || &here >= own_stack + STACK_BYTES) wrong = 3;
  volatile double x = 2;
  for (int i = 0; i < 50; i++) x = sqrt(x * x + 1);  // uses the vector registers
  if (++alarms % 16 == 0) raise(SIGUSR1);
  errno = error;
  if (may_jump) {
    may_jump = 0;
    siglongjmp(way_out, 1);
  }
}

static void give_stack(int me) {
  who = me;
  own_stack = malloc(STACK_BYTES);
  const stack_t stack = {.ss_sp = own_stack, .ss_size = STACK_BYTES};
  CHECK(sigaltstack(&stack, NULL) == 0);
}

static void *other_thread(void *unused) {
  give_stack(1);
  for (;;) {
    pthread_barrier_wait(&meeting);
    if (stopping) return unused;
  }
}

static void install(int restarting) {
  struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_ONSTACK};
  if (restarting) action.sa_flags |= SA_RESTART;
  CHECK(sigaction(SIGALRM, &action, NULL) == 0);
  action.sa_handler = on_nested;
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
}

static void add(void *in, void *inout, int *count, MPI_Datatype *type) {
  (void)type;
  for (int i = 0; i < *count; i++) ((long *)inout)[i] += ((long *)in)[i];
}

static void point_to_point(int step) {
  enum { MESSAGES = 4, WORDS = 3000 };
  static int out[MESSAGES][WORDS], in[MESSAGES][WORDS];
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  MPI_Request requests[2 * MESSAGES];
  MPI_Status status;
  for (int m = 0; m < MESSAGES; m++) {
    for (int i = 0; i < WORDS; i++) out[m][i] = step * 7 + rank * 13 + m * 17 + i;
    MPI_Irecv(in[m], WORDS, MPI_INT, m % 2 ? before : MPI_ANY_SOURCE, m, MPI_COMM_WORLD,
              &requests[m]);
  }
  for (int m = 0; m < MESSAGES; m++)
    MPI_Isend(out[m], m ? WORDS : 1, MPI_INT, next, m, MPI_COMM_WORLD, &requests[MESSAGES + m]);
  int index;
  MPI_Waitany(2 * MESSAGES, requests, &index, &status);
  MPI_Status statuses[2 * MESSAGES];
  MPI_Waitall(2 * MESSAGES, requests, statuses);
  for (int m = 0; m < MESSAGES; m++) mix(in[m], m == 0 ? sizeof(int) : sizeof in[m]);
  if (rank % 2 == 0) MPI_Send(&step, 1, MPI_INT, next, 99, MPI_COMM_WORLD);
  MPI_Probe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &status);
  int got;
  MPI_Recv(&got, 1, MPI_INT, status.MPI_SOURCE, 99, MPI_COMM_WORLD, &status);
  if (rank % 2) MPI_Send(&got, 1, MPI_INT, next, 99, MPI_COMM_WORLD);
  CHECK(got == step && status.MPI_SOURCE == before);
}

static void collectives(int step, MPI_Op op) {
  long mine[64], sums[64], all[1024];
  for (int i = 0; i < 64; i++) mine[i] = (long)step * i + rank;
  MPI_Allreduce(mine, sums, 64, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  mix(sums, sizeof sums);
  MPI_Reduce(mine, sums, 64, MPI_LONG, op, 0, MPI_COMM_WORLD);
  MPI_Bcast(sums, 64, MPI_LONG, 0, MPI_COMM_WORLD);
  mix(sums, sizeof sums);
  MPI_Request request;
  MPI_Iallgather(mine, 1, MPI_LONG, all, 1, MPI_LONG, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  mix(all, sizeof(long) * (size_t)ranks);
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Barrier(copy);
  MPI_Comm_free(&copy);
}

// Calls that Fermata performs itself, on the caller's stack.
static void system_calls(void) {
  for (int i = 0; i < 20; i++) {
    char *block = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(block != MAP_FAILED);
    block[100] = (char)i;
    CHECK(munmap(block, 1 << 16) == 0);
    sigset_t all, mask;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &mask);
    const int before = alarms;
    CHECK(getpid() > 0 && alarms == before);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
  }
}

static void jump_out(void) {
  volatile double sink = 0;
  if (sigsetjmp(way_out, 1) == 0)
    for (may_jump = 1;;) sink = sink + 1;
}

int main(int argc, char **argv) {
  sigset_t alarm_only;
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarm_only, NULL);  // in the MPI's threads as well
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  pthread_t other;
  pthread_barrier_init(&meeting, NULL, 2);
  CHECK(pthread_create(&other, NULL, other_thread, NULL) == 0);
  give_stack(0);
  install(1);
  MPI_Op op;
  MPI_Op_create(add, 1, &op);
  pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
  const struct timeval ms = {0, 1000};
  CHECK(setitimer(ITIMER_REAL, &(struct itimerval){ms, ms}, NULL) == 0);
  for (int step = 1; step <= o.steps; step++) {
    install(step % 2);
    const double until = now_seconds() + 5e-4 * o.step_ms;
    const int before = alarms;
    pthread_barrier_wait(&meeting);
    CHECK(pthread_kill(other, SIGUSR1) == 0);
    for (int round = 0; round < 5; round++) {
      point_to_point(step * 5 + round);
      collectives(step, op);
      system_calls();
      jump_out();
    }
    while (now_seconds() < until && now_seconds() > until - 1) jump_out();
    CHECK(alarms >= before + 5 && !wrong);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms / 2);
  }
  setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
  CHECK(nested > 0 && others == o.steps);
  stopping = 1;
  pthread_barrier_wait(&meeting);
  CHECK(pthread_join(other, NULL) == 0);
  MPI_Op_free(&op);
  finish();
  return 0;
}
