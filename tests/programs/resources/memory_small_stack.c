// SPDX-License-Identifier: Apache-2.0
// Row: a main thread that computes on a coroutine's stack of 16 KiB, with a guard page below it
#define _GNU_SOURCE
#include <sys/mman.h>
#include <ucontext.h>

#include "../check.h"

enum { kGuard = 4096, kStack = 16384 };

static struct options o;
static ucontext_t main_context, coroutine;
static int step;
static double value;

static void compute(void) {
  volatile unsigned char frame[2048];
  for (;;) {
    for (size_t i = 0; i < sizeof frame; i++) frame[i] = (unsigned char)(step + (int)i);
    value = value * 0.5 + step;
    pause_ms(o.step_ms);
    for (size_t i = 0; i < sizeof frame; i++) CHECK(frame[i] == (unsigned char)(step + (int)i));
    swapcontext(&coroutine, &main_context);
  }
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  o = parse_options(argc, argv, 10, 0);
  char *const stack = mmap(NULL, kGuard + kStack, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(stack != MAP_FAILED && mprotect(stack, kGuard, PROT_NONE) == 0);
  CHECK(getcontext(&coroutine) == 0);
  coroutine.uc_stack.ss_sp = stack + kGuard;
  coroutine.uc_stack.ss_size = kStack;
  makecontext(&coroutine, compute, 0);
  for (step = 1; step <= o.steps; step++) {
    CHECK(swapcontext(&main_context, &coroutine) == 0);
    double sum = 0;
    MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    mix(&sum, sizeof sum);
    report_step(step, 0);
  }
  finish();
}
