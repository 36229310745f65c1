// SPDX-License-Identifier: Apache-2.0
// Four threads that map, write, check and unmap memory without a pause while the main thread
// communicates and the checkpoint comes.
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "../check.h"

enum { kThreads = 4, kBytes = 1 << 18 };
static atomic_int stop, faults;
static atomic_long rounds;

static void *churn(void *argument) {
  const unsigned char own = (unsigned char)(1 + (long)argument);
  while (!stop) {
    unsigned char *const p =
        mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
      faults++;
      break;
    }
    for (int i = 0; i < kBytes; i += 1024) p[i] = own;
    for (int i = 0; i < kBytes; i += 1024) faults += p[i] != own || p[i + 1] != 0;
    faults += munmap(p, kBytes) != 0;
    rounds++;
  }
  return NULL;
}

int main(int argc, char **argv) {
  int provided;
  CHECK(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided) == MPI_SUCCESS);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const struct options o = parse_options(argc, argv, 8, 0);
  pthread_t thread[kThreads];
  for (long i = 0; i < kThreads; i++)
    CHECK(pthread_create(&thread[i], NULL, churn, (void *)i) == 0);
  for (int step = 1; step <= o.steps; step++) {
    const long before = rounds;
    int sum = 0;
    report_step(step, o.step_ms);
    while (rounds == before && !faults) pause_ms(1);
    MPI_Allreduce(&step, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == step * ranks && faults == 0);
    mix_int(sum);
  }
  stop = 1;
  for (int i = 0; i < kThreads; i++) pthread_join(thread[i], NULL);
  CHECK(faults == 0);
  finish();
  return 0;
}
