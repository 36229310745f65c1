// SPDX-License-Identifier: Apache-2.0
// Row: a SIGSEGV handler on its own stack that opens guard pages as they are touched
#include <signal.h>
#include <sys/mman.h>

#include "../check.h"

#define PAGE 4096
#define PAGES 64

static volatile unsigned char *arena;
static volatile int faults;
static char stack[65536];

static void on_fault(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  const uintptr_t at = (uintptr_t)info->si_addr - (uintptr_t)arena;
  if (at >= PAGES * PAGE || info->si_code != SEGV_ACCERR) _Exit(9);
  mprotect((void *)(arena + at / PAGE * PAGE), PAGE, PROT_READ | PROT_WRITE);
  faults++;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
  CHECK(sigaltstack(&own, NULL) == 0);
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
  arena = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(arena != MAP_FAILED);
  for (int step = 1; step <= o.steps; step++) {
    const int page = step * 5 % PAGES;
    const int before = faults;
    arena[page * PAGE + step] = (unsigned char)step;
    CHECK(faults == before + 1);
    arena[page * PAGE + step + 1] = 1;  // open now
    CHECK(faults == before + 1);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(arena[page * PAGE + step] == (unsigned char)step);
    CHECK(mprotect((void *)(arena + page * PAGE), PAGE, PROT_NONE) == 0);  // contents kept
    mix_int(faults);
  }
  finish();
}
