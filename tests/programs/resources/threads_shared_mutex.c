// SPDX-License-Identifier: Apache-2.0
// Row: a mutex and a condition variable in memory that the ranks of a host share
// Robust and error-checking, so that the mutex knows which thread of which rank owns it.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../check.h"

struct shared {
  pthread_mutex_t lock;
  pthread_cond_t turned;
  long turn, trace;
};

static struct shared *map_shared(void) {
  int pid = (int)getpid();
  MPI_Bcast(&pid, 1, MPI_INT, 0, MPI_COMM_WORLD);
  char name[64];
  snprintf(name, sizeof name, "/fermata-test-mutex.%d", pid);
  const int fd = shm_open(name, O_CREAT | O_RDWR, 0600);
  CHECK(fd >= 0 && ftruncate(fd, sizeof(struct shared)) == 0);
  void *map = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(map != MAP_FAILED);
  close(fd);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) CHECK(shm_unlink(name) == 0);
  return map;
}

static void make(struct shared *s) {
  pthread_mutexattr_t mutex;
  pthread_mutexattr_init(&mutex);
  pthread_mutexattr_settype(&mutex, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST);
  pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
  CHECK(pthread_mutex_init(&s->lock, &mutex) == 0);
  pthread_condattr_t condition;
  pthread_condattr_init(&condition);
  pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
  CHECK(pthread_cond_init(&s->turned, &condition) == 0);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  struct shared *const s = map_shared();
  if (rank == 0) make(s);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int step = 1; step <= o.steps; step++) {
    // The rank whose turn it is keeps the mutex for half its time; the others wait for both.
    CHECK(pthread_mutex_lock(&s->lock) == 0);
    while (s->turn % ranks != rank) CHECK(pthread_cond_wait(&s->turned, &s->lock) == 0);
    report_step(step, o.step_ms / 2);
    CHECK(pthread_mutex_lock(&s->lock) == EDEADLK);  // still this thread's
    s->trace = s->trace * 31 + s->turn++;
    mix_int(s->trace);
    CHECK(pthread_cond_broadcast(&s->turned) == 0);
    CHECK(pthread_mutex_unlock(&s->lock) == 0);
    pause_ms(o.step_ms / 2);
    if (step % 4 == 0) MPI_Barrier(MPI_COMM_WORLD);
  }
  finish();
  return 0;
}
