// SPDX-License-Identifier: Apache-2.0
// Linked at a fixed address (-no-pie): the program's code, data and brk heap keep their place. Copy
// relocations and absolute addresses in data must still be right after a restart.
#include <unistd.h>

#include "../check.h"

static int numbers[] = {3, 1, 4, 1, 5, 9, 2, 6};
static int *const places[] = {&numbers[7], &numbers[0], &numbers[4]};
static MPI_Comm kept_world;

static int add_one(int x) { return x + 1; }
static int twice(int x) { return 2 * x; }
static int (*const functions[])(int) = {add_one, twice};

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  CHECK((uintptr_t)&numbers < 0x100000000u);
  kept_world = MPI_COMM_WORLD;
  char *const heap_before = (char *)sbrk(0);
  int *heap = (int *)malloc(sizeof(int) * 1000);
  for (int i = 0; i < 1000; i++) heap[i] = i;
  for (int step = 1; step <= o.steps; step++) {
    int value = functions[step % 2](*places[step % 3]) + heap[step % 1000], sum = 0;
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, kept_world);
    CHECK(sum == value * ranks);
    heap[step % 1000] += sum;
    mix_int(sum);
    report_step(step, o.step_ms);
  }
  CHECK((char *)sbrk(0) >= heap_before);
  free(heap);
  finish();
  return 0;
}
