// SPDX-License-Identifier: Apache-2.0
// Row: guard pages by MADV_GUARD_INSTALL
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../check.h"

static sigjmp_buf back;

static void on_fault(int signal) {
  (void)signal;
  siglongjmp(back, 1);
}
static int can_read(volatile char *at) {
  if (sigsetjmp(back, 1)) return 0;
  (void)*at;
  return 1;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  enum { PAGE = 4096, PAGES = 1500, INSTALL = 102 };
  char *const memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct sigaction action = {.sa_handler = on_fault};
  CHECK(memory != MAP_FAILED && sigaction(SIGSEGV, &action, NULL) == 0);
  memset(memory, 1, 10 * PAGE);
  // Kernels before 6.13 do not know the advice.
  const int known = madvise(memory + 5 * PAGE, 2 * PAGE, INSTALL) == 0;
  CHECK(known || errno == EINVAL);
  if (known) CHECK(madvise(memory + 1020 * PAGE, 10 * PAGE, INSTALL) == 0);
  for (int step = 1; step <= o.steps; step++) {
    memory[0] = (char)step;
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(memory[0] == (char)step && memory[4 * PAGE] == 1 && memory[7 * PAGE] == 1);
    for (int page = 0; known && page < PAGES; page++) {
      const int guarded = page == 5 || page == 6 || (page >= 1020 && page < 1030);
      CHECK(can_read(memory + page * PAGE) == !guarded);
    }
    mix_int(step);
  }
  finish();
  return 0;
}
