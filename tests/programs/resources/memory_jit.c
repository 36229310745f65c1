// SPDX-License-Identifier: Apache-2.0
// Row: machine code written at run time, kept, patched and called
#include <sys/mman.h>

#include "../check.h"

#define PAGE 4096
typedef uint64_t (*function)(uint64_t);

/// mov $factor,%rax; imul %rdi,%rax; add $term,%rax (imm32); ret
static void emit(unsigned char *at, uint64_t factor, uint32_t term) {
  unsigned char code[] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0x48, 0x0f, 0xaf, 0xc7,
                          0x48, 0x05, 0, 0, 0, 0, 0xc3};
  memcpy(code + 2, &factor, 8);
  memcpy(code + 16, &term, 4);
  memcpy(at, code, sizeof code);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  unsigned char *sealed = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  unsigned char *open = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(sealed != MAP_FAILED && open != MAP_FAILED);
  uint64_t x = 1 + (uint64_t)rank;
  for (int step = 1; step <= o.steps; step++) {
    unsigned char *page = sealed + step % 8 * PAGE;
    CHECK(mprotect(page, PAGE, PROT_READ | PROT_WRITE) == 0);
    emit(page, (uint64_t)step * 2 + 1, (uint32_t)step);
    CHECK(mprotect(page, PAGE, PROT_READ | PROT_EXEC) == 0);
    emit(open, 3, (uint32_t)step * 7);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    for (int past = step > 7 ? step - 7 : 1; past <= step; past++) {
      const uint64_t next = ((function)(void *)(sealed + past % 8 * PAGE))(x);
      CHECK(next == x * ((uint64_t)past * 2 + 1) + (uint64_t)past);
      x = next;
    }
    x = ((function)(void *)open)(x);
    mix(&x, 8);
  }
  finish();
}
