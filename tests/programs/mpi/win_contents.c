// SPDX-License-Identifier: Apache-2.0
// What lies in windows of MPI_Win_allocate, seen by loads and stores of their owner and by
// one-sided calls of the others, plain ones and ones with a layout: sizes that differ from rank to
// rank, one of zero, and hints about how to allocate.
//
// --beyond 1: the ranks are on one host, so the memory is shared, as it natively is.
#include "../check.h"

enum { kOwn = 2, kSlots = 8, kTail = 300 };

struct box {
  MPI_Win win;
  int *memory;
  int words;
};

static int words_of(int r) { return 4000 * (r + 1) + kTail; }
static int kept(int r, int i) { return 7 * i + 1000003 * r; }

static struct box make(int words, const char *key, const char *value) {
  struct box box = {MPI_WIN_NULL, NULL, words};
  MPI_Info info = MPI_INFO_NULL;
  if (key) {
    MPI_Info_create(&info);
    MPI_Info_set(info, key, value);
  }
  MPI_Win_allocate((MPI_Aint)words * 4, 4, info, MPI_COMM_WORLD, &box.memory, &box.win);
  if (key) MPI_Info_free(&info);
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, box.win);
  for (int i = 0; i < words; i++) box.memory[i] = kept(rank, i);
  MPI_Win_unlock(rank, box.win);
  MPI_Barrier(MPI_COMM_WORLD);
  return box;
}

// True if the page at `address` is mapped and shared with other processes.
static int is_shared(const void *address) {
  char line[4096], kind = 'p';
  FILE *maps = fopen("/proc/self/maps", "r");
  unsigned long from, to;
  char flags[8];
  while (maps && fgets(line, sizeof line, maps))
    if (sscanf(line, "%lx-%lx %7s", &from, &to, flags) == 3 && (unsigned long)address >= from &&
        (unsigned long)address < to)
      kind = flags[3];
  if (maps) fclose(maps);
  return kind == 's';
}

// Every rank writes into the others' first words; the rest must stay what it was.
static void use(struct box box, int target_words, int step, int step_ms) {
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  const int one = 1, mine = 100000 * step + rank;
  int pair[2] = {mine + 1, mine + 2}, got[3] = {-1, -1, -1}, before = -1;
  MPI_Datatype apart;
  MPI_Type_vector(2, 1, 2, MPI_INT, &apart);
  MPI_Type_commit(&apart);
  MPI_Win_fence(0, box.win);
  if (target_words) {
    MPI_Put(&mine, 1, MPI_INT, next, 0, 1, MPI_INT, box.win);
    MPI_Put(pair, 2, MPI_INT, next, 1, 1, apart, box.win);  // words 1 and 3
    MPI_Accumulate(&one, 1, MPI_INT, next, 4, 1, MPI_INT, MPI_SUM, box.win);
    MPI_Fetch_and_op(&one, &before, MPI_INT, next, 5, MPI_SUM, box.win);
  }
  if (box.words) box.memory[kOwn] = -mine;
  pause_ms(step_ms / 2);
  MPI_Win_fence(0, box.win);
  if (target_words) {
    MPI_Get(&got[0], 1, MPI_INT, next, kOwn, 1, MPI_INT, box.win);
    MPI_Get(&got[1], 2, MPI_INT, next, 1, 1, apart, box.win);
    MPI_Win_fence(0, box.win);
    CHECK(got[0] == -(100000 * step + next) && got[1] == mine + 1 && got[2] == mine + 2);
    CHECK(before == kept(next, 5) + step - 1);
  } else {
    MPI_Win_fence(0, box.win);
  }
  if (box.words) {
    const int theirs = 100000 * step + previous;
    CHECK(box.memory[0] == theirs && box.memory[1] == theirs + 1 && box.memory[3] == theirs + 2);
    CHECK(box.memory[4] == kept(rank, 4) + step && box.memory[5] == kept(rank, 5) + step);
    for (int i = kSlots; i < box.words; i++) CHECK(box.memory[i] == kept(rank, i));
    mix(box.memory, (size_t)kSlots * 4);
  }
  MPI_Win_fence(0, box.win);
  MPI_Type_free(&apart);
}

// It is shared, and yet no window of MPI_Win_allocate_shared.
static void ask_where(struct box box) {
  void *memory;
  MPI_Aint size;
  int unit, class = MPI_SUCCESS;
  MPI_Win_set_errhandler(box.win, MPI_ERRORS_RETURN);
  const int error = MPI_Win_shared_query(box.win, 0, &size, &unit, &memory);
  MPI_Error_class(error, &class);
  CHECK(class == MPI_ERR_RMA_FLAVOR);
  MPI_Win_set_errhandler(box.win, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const int next = (rank + 1) % ranks;
  int beyond = 0;
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--beyond")) beyond = atoi(argv[i + 1]);
  const struct box differ = make(words_of(rank), NULL, NULL);
  const struct box same = make(words_of(0), "same_size", "true");
  const struct box alone = make(kTail, "alloc_shm", "false");
  const struct box some = make(rank ? kTail : 0, "alloc_shm", "true");
  ask_where(differ);
  for (int step = 1; step <= o.steps; step++) {
    use(differ, words_of(next), step, o.step_ms);
    use(same, words_of(0), step, 0);
    use(alone, kTail, step, 0);
    use(some, next ? kTail : 0, step, o.step_ms);
    CHECK(!beyond || (is_shared(differ.memory) && is_shared(&differ.memory[differ.words - 1])));
    report_step(step, o.step_ms);
  }
  struct box all[] = {differ, same, alone, some};
  for (int i = 0; i < 4; i++) MPI_Win_free(&all[i].win);
  finish();
  return 0;
}
