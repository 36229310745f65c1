// SPDX-License-Identifier: Apache-2.0
// A checkpoint-aware program (fermata.h). --mode says which part of the interface it uses:
//   present    prints the version it runs under
//   section    in step 2 rank 1 computes in a critical section until there is $CHECK_HOLD.leave,
//              and a thread of it waits in one until there is $CHECK_HOLD.leave_thread
//   owed       in step 2 rank 1 waits in a critical section for a message of rank 0, which computes
//   now        all ranks ask for a checkpoint at step 3
//   message    the same, while rank 1 still receives what rank 0 has sent and forgotten
//   thread     the same, by a thread that the main one waits for
//   soon       rank 0 asks for one at step 3, and continues
//   regions    all ask at step 3, with memory excluded, and at step 6, with it included again
//   main, own  callbacks on that thread, which count; all ask at step 3; in step 2 rank 1 computes
//              until there is $CHECK_HOLD.leave, if there is $CHECK_HOLD.late
//   misuse     calls at the wrong time, from the wrong place and with wrong arguments; all ask at
//              step 3, at the right one
#include <fermata.h>
#include <pthread.h>

#include "../check.h"

static const char *mode = "present";
static volatile int inside;  // sections

static int has_come(const char *suffix) {
  char path[4096];
  snprintf(path, sizeof path, "%s.%s", hold_file ? hold_file : "", suffix);
  return access(path, F_OK) == 0;
}

static void say(const char *what, int value) {
  printf("rank %d: %s %d\n", rank, what, value);
  fflush(stdout);
}

static void *thread_section(void *unused) {
  CHECK(fermata_critical_begin("of a thread") == (fermata_version() ? 0 : FERMATA_ABSENT));
  __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
  while (hold_file && !has_come("leave_thread")) pause_ms(1);
  __atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
  fermata_critical_end();
  return unused;
}

// Computes in its sections, so that only a signal can reach it there.
static void sections(void) {
  const int there = fermata_version() ? 0 : FERMATA_ABSENT;
  CHECK(fermata_critical_end() == (there ? there : FERMATA_MISUSE));
  if (rank != 1) return;
  CHECK(fermata_critical_begin("moving the mesh") == there);
  CHECK(fermata_critical_begin("inner") == there);
  CHECK(fermata_critical_end() == there);
  __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
  say("inside", 1);
  while (hold_file && !has_come("leave")) compute_ms(1);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, thread_section, NULL) == 0);
  while (hold_file && inside != 2) pause_ms(1);
  __atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
  CHECK(fermata_critical_end() == there);
  say("left", 1);
  while (inside) compute_ms(1);
  pthread_join(thread, NULL);
}

static void owed(int step) {
  if (rank == 0) {
    compute_ms(500);
    MPI_Send(&step, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
  }
  if (rank != 1) return;
  fermata_critical_begin("receiving the mesh");
  say("inside", 1);
  MPI_Recv(&step, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  fermata_critical_end();
}

static void ask_now(void) {
  char why[200] = "?";
  if (rank == 1 && hold_file && has_come("late"))
    while (!has_come("leave")) pause_ms(1);
  const int result = fermata_checkpoint(why, sizeof why);
  say(result == FERMATA_COMMITTED   ? "committed"
      : result == FERMATA_RESTARTED ? "restarted"
      : result == FERMATA_FAILED    ? "failed"
                                    : "absent",
      result);
  printf("rank %d because: %s\n", rank, why);
  fflush(stdout);
  CHECK(fermata_version() ? result != FERMATA_ABSENT : result == FERMATA_ABSENT && !why[0]);
}

static void ask_with_a_message_under_way(void) {
  enum { kInts = 1 << 20 };
  int *const ints = calloc(2 * kInts, sizeof *ints);
  MPI_Datatype gaps;  // whose sender has to pack it
  MPI_Request request;
  MPI_Type_vector(kInts, 1, 2, MPI_INT, &gaps);
  MPI_Type_commit(&gaps);
  if (rank == 0) {
    ints[2 * kInts - 2] = 42;
    MPI_Isend(ints, 1, gaps, 1, 0, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
  }
  if (rank == 1) {
    pause_ms(100);
    MPI_Recv(ints, kInts, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(ints[kInts - 1] == 42);
  }
  MPI_Type_free(&gaps);
  ask_now();
}

static void start_for_threads(int *argc, char ***argv) {
  int level;
  CHECK(MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &level) == MPI_SUCCESS);
  CHECK(level >= MPI_THREAD_SERIALIZED);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
}

static void *ask_in_thread(void *unused) {
  ask_now();
  return unused;
}

static void ask_by_thread(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, ask_in_thread, NULL) == 0);
  pthread_join(thread, NULL);
}

// The contents of excluded memory after a checkpoint: as they were, or zero in whole pages.
static void check_region(unsigned char *at, size_t bytes, int zeroes) {
  const size_t page = 4096;
  for (size_t i = 0; i < bytes; i++) {
    const int inner = i >= page && i < bytes - page;
    CHECK(at[i] == (zeroes && inner ? 0 : 0xa5));
  }
}

static void regions(int step) {
  static unsigned char *at;
  static const size_t bytes = 16 << 20;
  char why[200];
  if (step == 3) {
    CHECK((at = aligned_alloc(4096, bytes)) != NULL);
    memset(at, 0xa5, bytes);
    CHECK(fermata_include(at + 1, bytes - 2) == FERMATA_MISUSE || !fermata_version());
    fermata_exclude(at + 1, bytes - 2);
    // Overlapping and neighbouring ones are as good as one.
    fermata_exclude(at + 8192, 8192);
    fermata_exclude(at + 4096, 8192);
    const int result = fermata_checkpoint(why, sizeof why);
    check_region(at, bytes, result == FERMATA_RESTARTED);
    say("first", result);
  }
  if (step == 6) {
    memset(at, 0xa5, bytes);
    fermata_include(at + 1, bytes - 2);
    const int result = fermata_checkpoint(why, sizeof why);
    for (size_t i = 4096; i < 16384; i++) CHECK(at[i] == (result == FERMATA_RESTARTED ? 0 : 0xa5));
    for (size_t i = 16384; i < bytes; i++) CHECK(at[i] == 0xa5);
    say("second", result);
  }
}

static volatile int calls[3];
static pthread_t caller;
static volatile int order;  // 1: between the first callback's BEFORE and its end

static void inner_callback(int when, void *argument) {
  CHECK(when >= FERMATA_BEFORE && argument == &order && order == 1);
}

static void count_call(int when, void *argument) {
  CHECK(argument == &caller);
  order = when == FERMATA_BEFORE;
  const int is_main = pthread_equal(pthread_self(), caller) != 0;
  CHECK(is_main == !strcmp(mode, "main"));
  free(malloc(100000));
  if (is_main) MPI_Barrier(MPI_COMM_SELF);  // the other ranks may be anywhere
  calls[when]++;
}

static void ask_now(void);

static void callbacks(int step) {
  const int where = !strcmp(mode, "main") ? FERMATA_ON_MAIN_THREAD : FERMATA_ON_OWN_THREAD;
  const int there = fermata_version() ? 0 : FERMATA_ABSENT;
  if (step == 1) {
    caller = pthread_self();
    CHECK(fermata_no_callback(where, count_call, &caller) == (there ? there : FERMATA_MISUSE));
    CHECK(fermata_callback(where, count_call, &caller) == there);
    CHECK(fermata_callback(where, inner_callback, (void *)&order) == there);
  }
  if (step == 2 && rank == 1 && hold_file && has_come("late")) {
    say("computes", 1);
    while (!has_come("leave")) compute_ms(1);
  }
  if (step == 3) ask_now();
  if (step > 3) {
    // Nobody waits for what the thread does at the end; what the main one does comes in MPI calls.
    while (where == FERMATA_ON_OWN_THREAD && calls[0] != calls[1] + calls[2]) pause_ms(1);
    printf("rank %d: calls %d %d %d\n", rank, calls[0], calls[1], calls[2]);
    fflush(stdout);
  }
  if (step == last_step) {  // a checkpoint may still come, so the second one, which needs it, first
    CHECK(fermata_no_callback(where, inner_callback, (void *)&order) == there);
    CHECK(fermata_no_callback(where, count_call, &caller) == there);
  }
}

// True if a checkpoint is refused with these words, or there is no Fermata.
static int refuses(const char *words) {
  char why[200] = "?";
  const int result = fermata_checkpoint(why, sizeof why);
  if (!fermata_version()) return result == FERMATA_ABSENT;
  return result == FERMATA_FAILED && strstr(why, words) != NULL;
}

static void before_init(void) {
  static char memory[10000];
  const int there = fermata_version() ? 0 : FERMATA_ABSENT;
  const int misuse = there ? there : FERMATA_MISUSE;
  CHECK(refuses("MPI_Init"));
  CHECK(fermata_request() == (there ? there : FERMATA_FAILED));
  CHECK(fermata_critical_end() == misuse);
  CHECK(fermata_critical_begin(NULL) == there && fermata_critical_end() == there);
  CHECK(fermata_exclude(memory, 0) == misuse && fermata_exclude(memory, (size_t)-1) == misuse);
  CHECK(fermata_exclude(memory, sizeof memory) == there);
  CHECK(fermata_include(memory, sizeof memory) == there);
  CHECK(fermata_include(memory, sizeof memory) == misuse);
  CHECK(fermata_callback(2, count_call, NULL) == misuse);
  CHECK(fermata_callback(FERMATA_ON_MAIN_THREAD, NULL, NULL) == misuse);
}

static void misusing_callback(int when, void *argument) {
  const int where = *(int *)argument;
  CHECK(refuses("callback") && fermata_request() == FERMATA_FAILED);
  CHECK(fermata_callback(where, misusing_callback, argument) == FERMATA_MISUSE);
  CHECK(fermata_no_callback(where, misusing_callback, argument) == FERMATA_MISUSE);
  CHECK(fermata_critical_begin("callback") == 0 && fermata_critical_end() == 0);
  __atomic_add_fetch(&calls[when], 1, __ATOMIC_SEQ_CST);
}

// Many regions from threads that know nothing of MPI.
static void *exclude_many(void *memory) {
  const int there = fermata_version() ? 0 : FERMATA_ABSENT;
  for (size_t i = 0; i < 1000; i++) {
    CHECK(fermata_exclude((char *)memory + i, 1) == there);
    CHECK(fermata_include((char *)memory + i, 1) == there);
  }
  return NULL;
}

static void misuse(void) {
  static int places[2] = {FERMATA_ON_MAIN_THREAD, FERMATA_ON_OWN_THREAD};
  static char memory[2][1000];
  const int there = fermata_version() ? 0 : FERMATA_ABSENT;
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) {
    CHECK(fermata_callback(places[i], misusing_callback, &places[i]) == there);
    CHECK(pthread_create(&threads[i], NULL, exclude_many, memory[i]) == 0);
  }
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  fermata_critical_begin("asking");
  CHECK(refuses("in a critical section"));
  fermata_critical_end();
  ask_now();
  while (calls[0] != calls[1] + calls[2]) MPI_Barrier(MPI_COMM_SELF);
  CHECK(there || calls[0] >= 2);
}

static void step_of_mode(int step) {
  if (!strcmp(mode, "misuse") && step == 3) misuse();
  if (!strcmp(mode, "regions")) regions(step);
  if (!strcmp(mode, "main") || !strcmp(mode, "own")) callbacks(step);
  if (!strcmp(mode, "section") && step == 2) sections();
  if (!strcmp(mode, "owed") && step == 2) owed(step);
  if (!strcmp(mode, "now") && step == 3) ask_now();
  if (!strcmp(mode, "message") && step == 3) ask_with_a_message_under_way();
  if (!strcmp(mode, "thread") && step == 3) ask_by_thread();
  if (!strcmp(mode, "soon") && step == 3 && rank == 0)
    CHECK(fermata_request() == (fermata_version() ? 0 : FERMATA_ABSENT));
}

int main(int argc, char **argv) {
  const struct options o = parse_options(argc, argv, 10, 1000);
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--mode")) mode = argv[i + 1];
  if (!strcmp(mode, "misuse")) before_init();
  if (!strcmp(mode, "thread")) {
    start_for_threads(&argc, &argv);
  } else {
    start(&argc, &argv);
  }
  if (rank == 0) printf("version %s\n", fermata_version() ? fermata_version() : "none");
  double *const values = malloc(sizeof *values * (size_t)o.size);
  for (int i = 0; i < o.size; i++) values[i] = rank + i;
  for (int step = 1; step <= o.steps; step++) {
    step_of_mode(step);
    MPI_Allreduce(MPI_IN_PLACE, values, o.size, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    for (int i = 0; i < o.size; i++) values[i] += rank + step;
    report_step(step, o.step_ms);
  }
  mix(values, sizeof *values * (size_t)o.size);
  finish();
  if (!strcmp(mode, "misuse")) CHECK(refuses("MPI_Finalize"));
  return 0;
}
