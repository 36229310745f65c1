// SPDX-License-Identifier: Apache-2.0
// One-sided communication. Each step makes a window, uses it in epochs of one kind that stay open
// into later steps, and frees it.
#include "chaos.h"

#include <sched.h>

enum { kCounter, kFirst = 8, kSlots = kFirst + 2 * kMostRanks };

struct window {
  MPI_Win win;
  MPI_Comm comm;
  long long *box, *own;  // own: what we have to free
  int rank, size, by;    // by: how far the partner is
  uint64_t key;
  MPI_Group origins, targets;
  MPI_Request request[2];
  long long got[2], put[2];
};

static long long word(const struct window *w, int from, int i) {
  return value(derive(w->key, from), i);
}

static int partner(const struct window *w) { return (w->rank + w->by) % w->size; }
static int opposite(const struct window *w) { return (w->rank - w->by + w->size) % w->size; }

// Draws a communicator, a way to make the window and a partner. Null for those who have no part.
static struct window *open_window(struct step *step, int due) {
  struct comm *const comm = draw_comm(step, kIntra, 2);
  const int form = below(&step->chance, 3), by = below(&step->chance, kMostRanks - 1);
  if (!comm) return NULL;
  hold_comm(comm, due);
  if (!is_member(comm)) return NULL;
  const MPI_Aint bytes = kSlots * sizeof(long long);
  const int unit = sizeof(long long);
  struct window *const w = memory(sizeof *w);
  w->comm = comm->handle, w->rank = comm->rank, w->size = size_of(comm);
  w->by = 1 + by % (w->size - 1), w->key = step->key;
  if (form == 0) DO(MPI_Win_allocate(bytes, unit, MPI_INFO_NULL, w->comm, &w->box, &w->win));
  if (form == 1) DO(MPI_Win_allocate_shared(bytes, unit, MPI_INFO_NULL, w->comm, &w->box, &w->win));
  if (form == 2) {
    MUST(posix_memalign((void **)&w->own, 64, (size_t)bytes) == 0);
    w->box = w->own;
    DO(MPI_Win_create(w->box, bytes, unit, MPI_INFO_NULL, w->comm, &w->win));
  }
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, w->rank, 0, w->win);
  memset(w->box, 0, (size_t)bytes);
  MPI_Win_unlock(w->rank, w->win);
  DO(MPI_Barrier(w->comm));
  for (int i = 0; i < 2; i++) w->put[i] = word(w, w->rank, i);
  return w;
}

static void close_window(struct window *w) {
  DO(MPI_Win_free(&w->win));
  free(w->own);
  free(w);
}

static int slot(int rank) { return kFirst + 2 * rank; }

static void expect_words(const struct window *w, int from, const long long *found) {
  for (int i = 0; i < 2; i++) EXPECT(found[i], word(w, from, i));
}

// ---- fences -------------------------------------------------------------------------------------

static void finish_fence(void *data) {
  struct window *const w = data;
  long long back[2] = {-1, -1};
  DO(MPI_Win_fence(0, w->win));
  expect_words(w, opposite(w), w->box + slot(opposite(w)));
  EXPECT(w->box[kCounter], w->rank == 0 ? w->size : 0);
  DO(MPI_Get(back, 2, MPI_LONG_LONG, partner(w), slot(w->rank), 2, MPI_LONG_LONG, w->win));
  DO(MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win));
  expect_words(w, w->rank, back);
  close_window(w);
}

void window_fence(struct step *step) {
  static const long long one = 1;
  const int due = draw_due(step);
  struct window *const w = open_window(step, due);
  if (!w) return;
  DO(MPI_Win_fence(MPI_MODE_NOPRECEDE, w->win));
  DO(MPI_Put(w->put, 2, MPI_LONG_LONG, partner(w), slot(w->rank), 2, MPI_LONG_LONG, w->win));
  DO(MPI_Accumulate(&one, 1, MPI_LONG_LONG, 0, kCounter, 1, MPI_LONG_LONG, MPI_SUM, w->win));
  later(due, finish_fence, w);
}

// ---- locks --------------------------------------------------------------------------------------

static void finish_lock(void *data) {
  struct window *const w = data;
  long long found[kSlots];
  DO(MPI_Barrier(w->comm));
  DO(MPI_Win_lock(MPI_LOCK_SHARED, partner(w), 0, w->win));
  DO(MPI_Get(found, kSlots, MPI_LONG_LONG, partner(w), 0, kSlots, MPI_LONG_LONG, w->win));
  DO(MPI_Win_unlock(partner(w), w->win));
  EXPECT(found[kCounter], w->size);
  for (int r = 0; r < w->size; r++) expect_words(w, r, found + slot(r));
  DO(MPI_Barrier(w->comm));
  close_window(w);
}

/// Each adds to a counter at each, by reading and writing it under an exclusive lock.
void window_lock(struct step *step) {
  const int due = draw_due(step);
  struct window *const w = open_window(step, due);
  if (!w) return;
  for (int i = 0; i < w->size; i++) {
    const int to = (w->rank + i) % w->size;
    long long count = -1;
    DO(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, w->win));
    DO(MPI_Get(&count, 1, MPI_LONG_LONG, to, kCounter, 1, MPI_LONG_LONG, w->win));
    DO(MPI_Win_flush(to, w->win));
    MUST(count >= 0 && count < w->size);
    count++;
    DO(MPI_Put(&count, 1, MPI_LONG_LONG, to, kCounter, 1, MPI_LONG_LONG, w->win));
    DO(MPI_Put(w->put, 2, MPI_LONG_LONG, to, slot(w->rank), 2, MPI_LONG_LONG, w->win));
    DO(MPI_Win_unlock(to, w->win));
  }
  later(due, finish_lock, w);
}

// ---- post, start, complete, wait ----------------------------------------------------------------

// On one host Open MPI's MPI_Win_test makes no progress with anything else, such as a forgotten
// send to the one it waits for (seed 31461); an erratum of MPI 4.1 asks for it. MPI_Iprobe does.
static int is_over(const struct window *w) {
  int done = 0, there;
  DO(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, w->comm, &there, MPI_STATUS_IGNORE));
  DO(MPI_Win_test(w->win, &done));
  return done;
}

static void finish_groups(void *data) {
  struct window *const w = data;
  DO(MPI_Win_complete(w->win));
  if (w->rank % 2) DO(MPI_Win_wait(w->win));
  else
    while (!is_over(w)) sched_yield();
  expect_words(w, opposite(w), w->box + slot(opposite(w)));
  MPI_Group_free(&w->origins);
  MPI_Group_free(&w->targets);
  close_window(w);
}

void window_groups(struct step *step) {
  const int due = draw_due(step);
  struct window *const w = open_window(step, due);
  if (!w) return;
  MPI_Group all;
  const int from = opposite(w), to = partner(w);
  DO(MPI_Win_get_group(w->win, &all));
  DO(MPI_Group_incl(all, 1, &from, &w->origins));
  DO(MPI_Group_incl(all, 1, &to, &w->targets));
  DO(MPI_Group_free(&all));
  DO(MPI_Win_post(w->origins, 0, w->win));
  DO(MPI_Win_start(w->targets, 0, w->win));
  DO(MPI_Put(w->put, 2, MPI_LONG_LONG, to, slot(w->rank), 2, MPI_LONG_LONG, w->win));
  later(due, finish_groups, w);
}

// ---- atomic operations under a lock of all ------------------------------------------------------

static void finish_atomic(void *data) {
  struct window *const w = data;
  wait_for(w->request, MPI_STATUSES_IGNORE, 2, w->key);
  EXPECT(w->got[0], 0);
  DO(MPI_Win_flush_all(w->win));
  DO(MPI_Barrier(w->comm));
  DO(MPI_Win_sync(w->win));
  EXPECT(w->box[kCounter], w->rank == 0 ? w->size : 0);
  expect_words(w, opposite(w), w->box + slot(opposite(w)));
  DO(MPI_Barrier(w->comm));
  DO(MPI_Win_unlock_all(w->win));
  close_window(w);
}

void window_atomic(struct step *step) {
  static const long long one = 1;
  const int due = draw_due(step);
  long long before = -1;
  struct window *const w = open_window(step, due);
  if (!w) return;
  DO(MPI_Win_lock_all(0, w->win));
  DO(MPI_Fetch_and_op(&one, &before, MPI_LONG_LONG, 0, kCounter, MPI_SUM, w->win));
  DO(MPI_Win_flush(0, w->win));
  MUST(before >= 0 && before < w->size);
  DO(MPI_Rput(w->put, 2, MPI_LONG_LONG, partner(w), slot(w->rank), 2, MPI_LONG_LONG, w->win,
              &w->request[0]));
  DO(MPI_Rget(w->got, 1, MPI_LONG_LONG, partner(w), 1, 1, MPI_LONG_LONG, w->win, &w->request[1]));
  later(due, finish_atomic, w);
}
