// SPDX-License-Identifier: Apache-2.0
// Memory made by 32-bit system calls of a 64-bit program (int $0x80), which no filter of ours sees:
// private at a fixed address and shared. Ends with "NONE" where the kernel has no such calls.
#define _GNU_SOURCE
#include <signal.h>
#include <sys/mman.h>

#include "../check.h"

#define BYTES ((size_t)65536)

static void no_such_calls(int signal) {
  (void)signal;
  static const char text[] = "NONE\n";
  (void)!write(1, text, sizeof text - 1);
  _exit(0);
}

static unsigned char *map(unsigned long at, int flags) {
  long result;
  __asm__ volatile(
      "push %%rbp\n\txor %%ebp, %%ebp\n\tint $0x80\n\tpop %%rbp"
      : "=a"(result)
      : "a"(192 /* mmap2 */), "b"(at), "c"(BYTES), "d"(PROT_READ | PROT_WRITE), "S"(flags), "D"(-1)
      : "memory", "cc", "r8", "r9", "r10", "r11");
  CHECK((unsigned)result < 0xfffff000u);
  return (unsigned char *)(unsigned long)(unsigned)result;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  signal(SIGSEGV, no_such_calls);
  unsigned char *placed = map(0x20000000, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED);
  unsigned char *shared = map(0, MAP_SHARED | MAP_ANONYMOUS);
  signal(SIGSEGV, SIG_DFL);
  for (int step = 1; step <= o.steps; step++) {
    for (size_t i = 0; i < BYTES; i++) {
      CHECK(placed[i] == (unsigned char)(step - 1) && shared[i] == (unsigned char)(step - 1));
      placed[i] = shared[i] = (unsigned char)step;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    say_step(step);
    // Both count on: a checkpoint sees them at one moment.
    volatile uint64_t *own = (uint64_t *)(void *)placed, *seen = (uint64_t *)(void *)shared;
    const uint64_t end = 200000ul * (unsigned)o.step_ms;
    for (*own = *seen = 0; *own < end; *own = *own + 1, *seen = *seen + 1)
      CHECK(*own == *seen);
    memset(shared, step, 8);
    memset(placed, step, 8);
    mix(placed, 64);
    mix(shared, 64);
    while (step == last_step && hold_file && access(hold_file, F_OK) == 0) pause_ms(1);
  }
  finish();
}
