// SPDX-License-Identifier: Apache-2.0
// Tight loops: each calls one thing again and again, so that a checkpoint at any moment meets it
// inside. A loop checks itself in every turn; the program prints the usual PASS line.
#ifndef LOOPS_H
#define LOOPS_H

#include <stdint.h>

struct worker {
  int id;        // 0: the main thread, which calls MPI; 1: a second thread
  uint64_t turn;
  void *own;     // what begin() made
};

struct loop {
  const char *name;
  void (*turn)(struct worker *);   // some microseconds to milliseconds
  void (*begin)(struct worker *);  // may be null, as end
  void (*end)(struct worker *);
  int threads;                     // 1 or 2
  int turns;                       // per step, where the ranks must agree; 0: as many as fit
};

extern const struct loop clock_loops[], signal_loops[], memory_loops[], transfer_loops[],
    process_loops[], register_loops[], exception_loops[], mpi_loops[];

// Ends the program, with a message, unless `good`.
void expect(int good, const char *what, const char *file, int line);
#define EXPECT(condition) expect((condition) != 0, #condition, __FILE__, __LINE__)

static inline uint64_t ticks(void) {
  uint32_t low, high;
  __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
  return (uint64_t)high << 32 | low;
}

// Computes for about `us` microseconds, without any call.
static inline void spin(unsigned us) {
  const uint64_t begin = ticks();
  while (ticks() - begin < us * UINT64_C(2500)) __asm__ volatile("pause");
}

#endif
