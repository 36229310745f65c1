// SPDX-License-Identifier: Apache-2.0
// Row: protections that change: read-only data, pages closed with their contents, split and joined
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include "../check.h"

#define PAGE 4096
#define PAGES 12

static sigjmp_buf out;
static void on_fault(int signal) { siglongjmp(out, signal); }

/// What touching the page does: 0 nothing allowed, 1 it can be read, 2 written as well.
static int access_of(volatile unsigned char *page) {
  volatile int allowed = 0;
  if (sigsetjmp(out, 1) == 0) {
    const unsigned char value = *page;
    allowed = 1;
    *page = value;
    allowed = 2;
  }
  return allowed;
}

int main(int argc, char **argv) {
  static const int protections[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  CHECK(signal(SIGSEGV, on_fault) != SIG_ERR);
  unsigned char *arena = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(arena != MAP_FAILED);
  for (int page = 0; page < PAGES; page++) arena[page * PAGE + 9] = (unsigned char)(page + rank);
  for (int step = 1; step <= o.steps; step++) {
    for (int page = 0; page < PAGES; page++)
      CHECK(mprotect(arena + page * PAGE, PAGE, protections[(page + step) % 3]) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    for (int page = 0; page < PAGES; page++) {
      CHECK(access_of(arena + page * PAGE) == (page + step) % 3);
      mix_int((page + step) % 3);
    }
    CHECK(mprotect(arena, PAGES * PAGE, PROT_READ | PROT_WRITE) == 0);
    for (int page = 0; page < PAGES; page++)
      CHECK(arena[page * PAGE + 9] == (unsigned char)(page + rank));
  }
  finish();
}
