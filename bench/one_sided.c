// SPDX-License-Identifier: Apache-2.0
// What one-sided communication costs, on two ranks: every kind of window, synchronization and
// operation, 8 bytes to a mebibyte. Rank 0 is the origin, rank 1 the target. Each case runs some
// batches of about half a millisecond and reports their lower quartile, for the machine may be
// shared; the outer script interleaves whole runs. One line per case: `name nanoseconds`.
//
// `flush`: within one MPI_Win_lock_all, the operation and MPI_Win_flush (r-variants: MPI_Wait).
// `many`: likewise, 32 operations and one flush; the figure is for one. `lock`, `fence`, `groups`
// (start, complete, post, wait): an epoch for each operation. `made and freed`: the window itself.
// usage: one_sided [KIND [OPERATION TO LEAVE OUT]]
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kBatches = 7, kWarm = 2, kMost = 1 << 20, kMany = 32 };
static const double kBatchNs = 5e5;

static int rank;
static MPI_Win window;
static MPI_Group peer;
static MPI_Aint origin_of_target;  // the displacement of the target's memory
static char *mine, *result;

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

typedef void operation(int bytes);

static void put(int n) {
  MPI_Put(mine, n, MPI_BYTE, 1, origin_of_target, n, MPI_BYTE, window);
}
static void get(int n) {
  MPI_Get(mine, n, MPI_BYTE, 1, origin_of_target, n, MPI_BYTE, window);
}
static void accumulate(int n) {
  MPI_Accumulate(mine, n / 8, MPI_LONG, 1, origin_of_target, n / 8, MPI_LONG, MPI_SUM, window);
}
static void get_accumulate(int n) {
  MPI_Get_accumulate(mine, n / 8, MPI_LONG, result, n / 8, MPI_LONG, 1, origin_of_target, n / 8,
                     MPI_LONG, MPI_SUM, window);
}
static void fetch_and_op(int n) {
  (void)n;
  MPI_Fetch_and_op(mine, result, MPI_LONG, 1, origin_of_target, MPI_SUM, window);
}
static void compare_and_swap(int n) {
  (void)n;
  MPI_Compare_and_swap(mine, result, result + 8, MPI_LONG, 1, origin_of_target, window);
}
static void rput(int n) {
  MPI_Request request;
  MPI_Rput(mine, n, MPI_BYTE, 1, origin_of_target, n, MPI_BYTE, window, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}
static void rget(int n) {
  MPI_Request request;
  MPI_Rget(mine, n, MPI_BYTE, 1, origin_of_target, n, MPI_BYTE, window, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}
static void raccumulate(int n) {
  MPI_Request request;
  MPI_Raccumulate(mine, n / 8, MPI_LONG, 1, origin_of_target, n / 8, MPI_LONG, MPI_SUM, window,
                  &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}
static void rget_accumulate(int n) {
  MPI_Request request;
  MPI_Rget_accumulate(mine, n / 8, MPI_LONG, result, n / 8, MPI_LONG, 1, origin_of_target, n / 8,
                      MPI_LONG, MPI_SUM, window, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}
static void nothing(int n) { (void)n; }

// One iteration of each way to synchronize, in both ranks.
static void flush(operation *run, int n) {
  if (rank) return;
  run(n);
  MPI_Win_flush(1, window);
}
static void wait_only(operation *run, int n) {
  if (rank == 0) run(n);
}
static void many(operation *run, int n) {
  if (rank) return;
  for (int i = 0; i < kMany; i++) run(n);
  MPI_Win_flush(1, window);
}
static void lock(operation *run, int n) {
  if (rank) return;
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window);
  run(n);
  MPI_Win_unlock(1, window);
}
static void lock_shared(operation *run, int n) {
  if (rank) return;
  MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window);
  run(n);
  MPI_Win_unlock(1, window);
}
static void lock_all(operation *run, int n) {
  if (rank) return;
  MPI_Win_lock_all(0, window);
  run(n);
  MPI_Win_unlock_all(window);
}
static void fence(operation *run, int n) {
  if (rank == 0) run(n);
  MPI_Win_fence(0, window);
}
static void groups(operation *run, int n) {
  if (rank == 0) {
    MPI_Win_start(peer, 0, window);
    run(n);
    MPI_Win_complete(window);
  } else {
    MPI_Win_post(peer, 0, window);
    MPI_Win_wait(window);
  }
}

typedef void synchronization(operation *, int bytes);

static void batch(synchronization *sync, operation *run, int n, int count) {
  for (int i = 0; i < count; i++) sync(run, n);
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double measure(synchronization *sync, operation *run, int n) {
  double times[kBatches];
  MPI_Barrier(MPI_COMM_WORLD);
  batch(sync, run, n, kWarm);
  MPI_Barrier(MPI_COMM_WORLD);
  double began = now_ns();
  batch(sync, run, n, kWarm);
  const double one = (now_ns() - began) / kWarm;
  int count = one > 0 ? (int)(kBatchNs / one) : 1;
  count = count < 1 ? 1 : count > 2000 ? 2000 : count;
  MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
  for (int i = 0; i < kBatches; i++) {
    MPI_Barrier(MPI_COMM_WORLD);
    began = now_ns();
    batch(sync, run, n, count);
    times[i] = (now_ns() - began) / count;
  }
  qsort(times, kBatches, sizeof *times, ascending);
  return times[kBatches / 4];
}

static const struct {
  const char *name;
  operation *run;
  int only_small;
} operations[] = {
    {"Put", put, 0},
    {"Get", get, 0},
    {"Accumulate", accumulate, 0},
    {"Get_accumulate", get_accumulate, 0},
    {"Fetch_and_op", fetch_and_op, 1},
    {"Compare_and_swap", compare_and_swap, 1},
    {"Rput", rput, 0},
    {"Rget", rget, 0},
    {"Raccumulate", raccumulate, 0},
    {"Rget_accumulate", rget_accumulate, 0},
};
enum { kPlain = 6, kOperations = sizeof operations / sizeof *operations };
static const int sizes[] = {8, 1024, 65536, kMost};
static const char *const size_names[] = {"8 B", "1 KiB", "64 KiB", "1 MiB"};

static const char *left_out = "";

static void measure_all(const char *kind, const char *how, synchronization *sync, int from, int to,
                        double each) {
  for (int o = from; o < to; o++)
    for (int s = 0; s < (operations[o].only_small ? 1 : 4); s++) {
      if (strcmp(operations[o].name, left_out) == 0) continue;
      const double ns = measure(sync, operations[o].run, sizes[s]) / each;
      if (rank == 0)
        printf("%s, %s, %s %s\t%.1f\n", kind, how, operations[o].name, size_names[s], ns);
    }
}

// --- windows ---------------------------------------------------------------------------------

static char *memory;

static void make_create(int bytes) {
  memory = calloc(1, bytes ? bytes : 1);
  MPI_Win_create(memory, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
}
static void make_allocate(int bytes) {
  MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
}
static void make_shared(int bytes) {
  MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
}
static void make_dynamic(int bytes) {
  memory = calloc(1, bytes ? bytes : 1);
  MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_attach(window, memory, bytes);
  MPI_Get_address(memory, &origin_of_target);
  MPI_Bcast(&origin_of_target, 1, MPI_AINT, 1, MPI_COMM_WORLD);
}

static const struct kind {
  const char *name;
  void (*make)(int bytes);
  int owns_memory;
} kinds[] = {{"create", make_create, 1},
             {"allocate", make_allocate, 0},
             {"allocate_shared", make_shared, 0},
             {"create_dynamic", make_dynamic, 1}};

static void drop(const struct kind *kind) {
  MPI_Win_free(&window);
  if (kind->owns_memory) free(memory);
  origin_of_target = 0;
}

static double made_and_freed(const struct kind *kind) {
  enum { kTimes = 15 };
  double times[kTimes];
  for (int i = 0; i < kTimes; i++) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = now_ns();
    kind->make(4096);
    drop(kind);
    times[i] = now_ns() - began;
  }
  qsort(times, kTimes, sizeof *times, ascending);
  return times[kTimes / 4];
}

static void measure_kind(const struct kind *kind) {
  kind->make(kMost);
  MPI_Win_fence(0, window);
  if (!kind->owns_memory) memset(memory, 0, kMost);
  MPI_Win_fence(0, window);
  MPI_Win_lock_all(0, window);
  measure_all(kind->name, "flush", flush, 0, kPlain, 1);
  measure_all(kind->name, "wait", wait_only, kPlain, kOperations, 1);
  measure_all(kind->name, "many", many, 0, 3, kMany);
  MPI_Win_unlock_all(window);
  MPI_Barrier(MPI_COMM_WORLD);
  measure_all(kind->name, "lock", lock, 0, kPlain, 1);
  measure_all(kind->name, "shared lock", lock_shared, 0, 1, 1);
  measure_all(kind->name, "lock_all", lock_all, 0, 1, 1);
  MPI_Win_fence(0, window);
  measure_all(kind->name, "fence", fence, 0, 3, 1);
  MPI_Win_fence(0, window);
  measure_all(kind->name, "groups", groups, 0, 3, 1);
  const double epoch = measure(lock, nothing, 0), pair = measure(groups, nothing, 0);
  drop(kind);
  const double made = made_and_freed(kind);
  if (rank == 0)
    printf("%s, lock, nothing\t%.1f\n%s, groups, nothing\t%.1f\n%s, made and freed\t%.1f\n",
           kind->name, epoch, kind->name, pair, kind->name, made);
}

// Half a page from where windows begin. On AMD's Zen 3 the memcpy of glibc takes 20 times as long
// if the source is less than 32 bytes before the destination modulo a page, as a window at the
// beginning of a page is before what calloc gives: that would measure where each MPI puts windows.
static char *buffer(void) {
  enum { kPage = 4096 };
  char *pages = aligned_alloc(kPage, kMost + kPage);
  return memset(pages + kPage / 2, 0, kMost);
}

int main(int argc, char **argv) {
  int size;
  MPI_Group world;
  MPI_Init(&argc, &argv);
  setvbuf(stdout, NULL, _IOLBF, 0);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != 2) {
    fprintf(stderr, "one_sided: run me on two ranks\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const int other = 1 - rank;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, 1, &other, &peer);
  mine = buffer();
  result = buffer();
  if (argc > 2) left_out = argv[2];
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    if (argc < 2 || strcmp(argv[1], kinds[k].name) == 0) measure_kind(&kinds[k]);
  MPI_Group_free(&peer);
  MPI_Group_free(&world);
  MPI_Finalize();
  return 0;
}
