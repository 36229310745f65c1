// SPDX-License-Identifier: Apache-2.0
// Tight loops (tests/programs/loops), by one rank for itself and for some milliseconds: a
// checkpoint that comes then meets it inside of a function of the kernel's vdso, a signal handler,
// a child's birth. Which loop, and for how long, is each rank's own affair.
#include "../loops/loops.h"

#undef EXPECT
#include "chaos.h"

void expect(int good, const char *what, const char *file, int line) {
  must_at(file, line, good ? 0 : -1, what);
}

// The loops of a family that need no second thread and write to no file.
static const struct loop *draw_loop(const struct loop *family, uint64_t key) {
  const struct loop *fit[32];
  int count = 0;
  for (; family->name; family++)
    if (strcmp(family->name, "futex") && strcmp(family->name, "file")) fit[count++] = family;
  return fit[key % (uint64_t)count];
}

static void run_tight(const struct loop *family, const struct step *step) {
  const uint64_t key = derive(step->key, self);
  const struct loop *const loop = draw_loop(family, key);
  struct worker worker = {0, 0, NULL};
  if (loop->begin) loop->begin(&worker);
  const uint64_t begin = ticks(), long_enough = (1 + (key >> 8) % 8) * UINT64_C(2500000);
  const int first = (int)(key >> 16 & 0xffff);
  do {
    worker.turn++;
    loop->turn(&worker);
  } while (ticks() - begin < long_enough);
  if (loop->end) loop->end(&worker);
  EXPECT(worker.id + first, (int)(key >> 16 & 0xffff));
}

void tight_clocks(struct step *step) { run_tight(clock_loops, step); }
void tight_signals(struct step *step) { run_tight(signal_loops, step); }
void tight_memory(struct step *step) { run_tight(memory_loops, step); }
void tight_transfers(struct step *step) { run_tight(transfer_loops, step); }
void tight_processes(struct step *step) { run_tight(process_loops, step); }
void tight_registers(struct step *step) { run_tight(register_loops, step); }
void tight_exceptions(struct step *step) { run_tight(exception_loops, step); }
