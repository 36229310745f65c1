// SPDX-License-Identifier: Apache-2.0
// What the items about shared memory do with it. Each rank adds to its own counter many times per
// step and keeps the same count in private memory: the two may never differ, so a checkpoint must
// see shared and private memory of all ranks at one moment. What the other ranks did until the last
// barrier must be there, too.
#include <stdatomic.h>
#include <stddef.h>

#include "../check.h"

#define TICKS 20
#define WORDS 1024

struct shared {
  _Atomic uint64_t ticks[64];  // by rank
  _Atomic uint64_t steps;      // of all ranks together
  uint64_t words[64][WORDS];   // by rank
};

static uint64_t own_ticks;

static inline void tick(struct shared *s, int step_ms) {
  for (int i = 0; i < TICKS; i++) {
    const uint64_t seen = atomic_fetch_add(&s->ticks[rank], 1);
    CHECK(seen == own_ticks);
    own_ticks++;
    pause_ms(step_ms / TICKS);
  }
}

/// One step on memory that `sharers` ranks see (all of them, or only this one).
static inline void shared_step(struct shared *s, int step, struct options o, int sharers) {
  const int first = sharers == 1 ? rank : 0, last = sharers == 1 ? rank : ranks - 1;
  for (int i = 0; i < WORDS; i++) {
    CHECK(s->words[rank][i] == (step == 1 ? 0 : (uint64_t)(step - 1) * 1000 + (uint64_t)i));
    s->words[rank][i] = (uint64_t)step * 1000 + (uint64_t)i;
  }
  atomic_fetch_add(&s->steps, 1);
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK(s->steps == (uint64_t)(sharers * step));
  if (rank == 0) printf("step %d\n", step), fflush(stdout);
  tick(s, o.step_ms);
  for (int r = first; r <= last; r++)
    for (int i = 0; i < WORDS; i += 37)
      CHECK(s->words[r][i] == (uint64_t)step * 1000 + (uint64_t)i);
  mix(s->words[last], 64);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int r = first; r <= last; r++) CHECK(s->ticks[r] == (uint64_t)(step * TICKS));
}
