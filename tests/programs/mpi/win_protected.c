// SPDX-License-Identifier: Apache-2.0
// Pages of a window that its owner has protected: one closed, one that may only be read. What is in
// them and what the owner may do with them stays. With --beyond the others read the closed one as
// well, which they natively cannot where the MPI answers in the owner's process.
#include "../check.h"

#include <sys/mman.h>

enum { kPage = 4096, kPages = 5, kClosed = 1, kReadOnly = 2, kWordsOfPage = kPage / sizeof(int) };

static int kept(int r, int page, int step) { return 100000 * r + 1000 * page + step; }

// The first whole page of the own memory, and which word of the window that is.
static int *first_page(int *base, MPI_Aint *at) {
  int *page = (int *)(((uintptr_t)base + kPage - 1) & ~(uintptr_t)(kPage - 1));
  *at = page - base;
  return page;
}

// As /proc/self/maps tells it: "rw-" for the page at `address`.
static const char *permissions(const void *address) {
  static char line[4096], flags[8];
  FILE *maps = fopen("/proc/self/maps", "r");
  unsigned long from, to;
  CHECK(maps != NULL);
  while (fgets(line, sizeof line, maps))
    if (sscanf(line, "%lx-%lx %3s", &from, &to, flags) == 3 && (unsigned long)address >= from &&
        (unsigned long)address < to)
      break;
  fclose(maps);
  return flags;
}

static void protect(int *pages) {
  CHECK(mprotect(pages + kClosed * kWordsOfPage, kPage, PROT_NONE) == 0);
  CHECK(mprotect(pages + kReadOnly * kWordsOfPage, kPage, PROT_READ) == 0);
}

static int beyond;

static void use(MPI_Win win, int *pages, const MPI_Aint *at, int step, int step_ms) {
  const int next = (rank + 1) % ranks;
  MPI_Win_lock_all(0, win);
  for (int page = 0; page < kPages - 1; page++) {
    int found = -1;
    if (page == kClosed && !beyond) continue;
    const MPI_Aint place = at[next] + page * kWordsOfPage;
    MPI_Get(&found, 1, MPI_INT, next, place, 1, MPI_INT, win);
    MPI_Win_flush(next, win);
    CHECK(found == kept(next, page, step - 1));
  }
  MPI_Win_unlock_all(win);
  pause_ms(step_ms / 2);
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK(!strcmp(permissions(pages + kClosed * kWordsOfPage), "---"));
  CHECK(!strcmp(permissions(pages + kReadOnly * kWordsOfPage), "r--"));
  CHECK(!strcmp(permissions(pages), "rw-"));
  CHECK(mprotect(pages, kPage * (kPages - 1), PROT_READ | PROT_WRITE) == 0);
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
  for (int page = 0; page < kPages - 1; page++) {
    CHECK(pages[page * kWordsOfPage] == kept(rank, page, step - 1));
    pages[page * kWordsOfPage] = kept(rank, page, step);
    mix_int(pages[page * kWordsOfPage]);
  }
  MPI_Win_unlock(rank, win);
  protect(pages);
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  beyond = has_option(argc, argv, "--beyond");
  enum { kWindows = 2, kMostRanks = 8 };
  MPI_Win wins[kWindows];
  MPI_Aint own, at[kWindows][kMostRanks];
  int *pages[kWindows];
  for (int i = 0; i < kWindows; i++) {
    int *base = NULL;
    if (i)
      MPI_Win_allocate_shared(kPages * kPage, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &base,
                              &wins[i]);
    else
      MPI_Win_allocate(kPages * kPage, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &base,
                       &wins[i]);
    pages[i] = first_page(base, &own);
    MPI_Allgather(&own, 1, MPI_AINT, at[i], 1, MPI_AINT, MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, wins[i]);
    for (int page = 0; page < kPages - 1; page++)
      pages[i][page * kWordsOfPage] = kept(rank, page, 0);
    MPI_Win_unlock(rank, wins[i]);
    protect(pages[i]);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  for (int step = 1; step <= o.steps; step++) {
    for (int i = 0; i < kWindows; i++) use(wins[i], pages[i], at[i], step, o.step_ms);
    report_step(step, o.step_ms);
  }
  for (int i = 0; i < kWindows; i++) {
    CHECK(mprotect(pages[i], kPage * (kPages - 1), PROT_READ | PROT_WRITE) == 0);
    MPI_Win_free(&wins[i]);
  }
  finish();
  return 0;
}
