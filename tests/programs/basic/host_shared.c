// SPDX-License-Identifier: Apache-2.0
// The ranks of a host share memory, as MPI programs with a shared-memory level do: POSIX memory of
// the same name on every host, and a window of MPI_Win_allocate_shared. Who shared with whom when
// the job began must stay so, wherever the ranks run later.
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../check.h"

enum { kWords = 1000, kRanksMax = 64 };

struct shared {
  _Atomic uint64_t steps;
  uint64_t words[kRanksMax][kWords];  // by rank among those who share
};

static const char kName[] = "/fermata-test-host-shared";
static MPI_Comm together;
static int place, places;

static struct shared *attach(void) {
  if (place == 0) (void)shm_unlink(kName);
  MPI_Barrier(together);
  const int fd = shm_open(kName, O_RDWR | O_CREAT, 0600);
  CHECK(fd >= 0 && ftruncate(fd, sizeof(struct shared)) == 0);
  struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(s != MAP_FAILED && close(fd) == 0);
  MPI_Barrier(together);
  return s;
}

// Open MPI 4.1 makes no window with a single member.
static uint64_t *own_window(MPI_Win *window) {
  uint64_t *mine = NULL;
  if (places == 1) return calloc(kWords, sizeof *mine);
  MPI_Win_allocate_shared(kWords * sizeof *mine, sizeof *mine, MPI_INFO_NULL, together, &mine,
                          window);
  return mine;
}

static const uint64_t *neighbours_window(MPI_Win window, const uint64_t *mine, int neighbour) {
  uint64_t *theirs = NULL;
  MPI_Aint bytes;
  int unit;
  if (places == 1) return mine;
  MPI_Win_shared_query(window, neighbour, &bytes, &unit, &theirs);
  CHECK(bytes == kWords * (MPI_Aint)sizeof *mine && unit == sizeof *mine);
  return theirs;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &together);
  MPI_Comm_rank(together, &place);
  MPI_Comm_size(together, &places);
  CHECK(places <= kRanksMax);
  int world[kRanksMax];  // of those who share
  MPI_Allgather(&rank, 1, MPI_INT, world, 1, MPI_INT, together);
  struct shared *s = attach();
  MPI_Win window = MPI_WIN_NULL;
  uint64_t *mine = own_window(&window);
  const int neighbour = (place + 1) % places;
  const uint64_t *theirs = neighbours_window(window, mine, neighbour);
  for (int step = 1; step <= o.steps; step++) {
    for (int i = 0; i < kWords; i++) {
      const uint64_t before = step == 1 ? 0 : (uint64_t)((step - 1) * 100000 + rank * kWords + i);
      if (step > 1) CHECK(s->words[place][i] == before && mine[i] == before);
      s->words[place][i] = mine[i] = (uint64_t)(step * 100000 + rank * kWords + i);
    }
    atomic_fetch_add(&s->steps, 1);
    if (window != MPI_WIN_NULL) MPI_Win_fence(0, window);
    MPI_Barrier(together);
    CHECK(s->steps == (uint64_t)(places * step));
    report_step(step, o.step_ms);
    for (int i = 0; i < kWords; i++) {
      const uint64_t wanted = (uint64_t)(step * 100000 + world[neighbour] * kWords + i);
      CHECK(s->words[neighbour][i] == wanted && theirs[i] == wanted);
    }
    mix(s->words[place], sizeof s->words[place]);
    if (window != MPI_WIN_NULL) MPI_Win_fence(0, window);
    MPI_Barrier(together);
  }
  if (window != MPI_WIN_NULL) MPI_Win_free(&window);
  else free(mine);
  // On one host now, another group's rank may have removed the name that both have.
  if (place == 0) (void)shm_unlink(kName);
  MPI_Comm_free(&together);
  finish();
  return 0;
}
