// SPDX-License-Identifier: Apache-2.0
// State that lives outside plain memory: signal handlers and masks, an interval timer's handler
// that interrupts MPI, thread-local variables, and threads blocked on a condition variable, in a
// computation and in a sleep.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "../check.h"

static __thread int tls_value = 41;
static __thread char tls_text[64];
static volatile sig_atomic_t user_signals;
static int handler_tls_good = 1;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int round_wanted, rounds_done[3], stopping;

static void on_user(int signal) {
  (void)signal;
  user_signals++;
  if (tls_value != 1000) handler_tls_good = 0;  // only the main thread takes SIGUSR1
}

struct worker {
  int index;
  uint64_t result;
};

static void *work(void *argument) {
  struct worker *me = (struct worker *)argument;
  tls_value = me->index;
  snprintf(tls_text, sizeof tls_text, "worker %d", me->index);
  uint64_t x = 0x9e3779b97f4a7c15u * (uint64_t)(me->index + 1);
  pthread_mutex_lock(&lock);
  for (int round = 0;;) {
    while (round == round_wanted && !stopping) pthread_cond_wait(&changed, &lock);
    if (stopping) break;
    round++;
    pthread_mutex_unlock(&lock);
    if (me->index == 2) pause_ms(3);
    for (int i = 0; i < 100000; i++) x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    char expected[64];
    snprintf(expected, sizeof expected, "worker %d", me->index);
    CHECK(tls_value == me->index && !strcmp(tls_text, expected));
    pthread_mutex_lock(&lock);
    rounds_done[me->index] = round;
    me->result = x;
    pthread_cond_broadcast(&changed);
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}

static void one_round(int step, const struct worker *workers) {
  pthread_mutex_lock(&lock);
  round_wanted = step;
  pthread_cond_broadcast(&changed);
  for (int i = 0; i < 3; i++)
    while (rounds_done[i] < step) pthread_cond_wait(&changed, &lock);
  for (int i = 0; i < 3; i++) mix(&workers[i].result, sizeof workers[i].result);
  pthread_mutex_unlock(&lock);
}

int main(int argc, char **argv) {
  int provided = -1;
  CHECK(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided) == MPI_SUCCESS);
  CHECK(provided >= MPI_THREAD_FUNNELED);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const struct options o = parse_options(argc, argv, 10, 0);
  tls_value = 1000;

  struct worker workers[3];
  pthread_t threads[3];
  sigset_t blocked, was;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  sigaddset(&blocked, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &blocked, &was);
  for (int i = 0; i < 3; i++) {
    workers[i] = (struct worker){i, 0};
    CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
  }
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_user;
  sigaction(SIGUSR1, &action, NULL);
  sigdelset(&blocked, SIGUSR1);
  pthread_sigmask(SIG_UNBLOCK, &(sigset_t){{1ul << (SIGUSR1 - 1)}}, NULL);

  for (int step = 1; step <= o.steps; step++) {
    pthread_kill(pthread_self(), SIGUSR1);
    pthread_kill(pthread_self(), SIGUSR2);  // blocked: stays pending to the end
    one_round(step, workers);
    CHECK(user_signals == step && handler_tls_good && tls_value == 1000);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
  }
  sigset_t pending, mask;
  struct sigaction now;
  sigpending(&pending);
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  sigaction(SIGUSR1, NULL, &now);
  CHECK(sigismember(&pending, SIGUSR2) && sigismember(&mask, SIGUSR2));
  CHECK(now.sa_handler == on_user && !sigismember(&mask, SIGUSR1));
  pthread_mutex_lock(&lock);
  stopping = 1;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  for (int i = 0; i < 3; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  finish();
  return 0;
}
