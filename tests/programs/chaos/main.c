// SPDX-License-Identifier: Apache-2.0
// The interpreter: derives the script from --seed and plays the steps --from to --steps of it.
//
//   --only A,B | --without A,B   kinds of steps; the others are left out, nothing else changes
//   --wrong KIND                 the first value compared for a step of that kind is taken for
//                                another one
//   --rest K                     after every K-th step nothing is left over, and the program, which
//                                can save itself, asks for a checkpoint
//   --serve                      each rank has a thread that answers others' questions
//   --dir DIR                    for files
#include "../check.h"
#include "chaos.h"

int self, world_size;
const char *directory = ".";

const char *kind = "start";

static int now;
static const char *wrong = "";

// How often a kind comes, against the others.
static const struct {
  const char *name;
  step_function *play;
  int weight;
} kinds[] = {
    {"comm_dup", comm_dup, 3},
    {"comm_split", comm_split, 3},
    {"comm_group", comm_group, 3},
    {"comm_cart", comm_cart, 3},
    {"comm_graph", comm_graph, 3},
    {"comm_inter", comm_inter, 3},
    {"comm_part", comm_part, 3},
    {"comm_merge", comm_merge, 2},
    {"comm_free", comm_free, 6},
    {"attributes", attributes, 3},
    {"exchange", exchange, 10},
    {"posted", posted, 10},
    {"unexpected", unexpected, 6},
    {"matched", matched, 5},
    {"persistent", persistent, 4},
    {"shift", shift, 4},
    {"ignored", ignored, 3},
    {"cancelled", cancelled, 2},
    {"packed", packed, 2},
    {"handshake", handshake, 6},
    {"sparse", sparse, 5},
    {"collective", collective, 10},
    {"pending_collective", pending_collective, 8},
    {"persistent_collective", persistent_collective, 4},
    {"neighbours", neighbours, 8},
    {"inter_collective", inter_collective, 5},
    {"window_fence", window_fence, 3},
    {"window_lock", window_lock, 3},
    {"window_groups", window_groups, 3},
    {"window_atomic", window_atomic, 3},
    {"file_blocks", file_blocks, 3},
    {"file_ordered", file_ordered, 2},
    {"file_shared", file_shared, 2},
    {"posix_file", posix_file, 3},
    {"posix_pipe", posix_pipe, 3},
    {"question", question, 6},
    {"compute", compute, 5},
    {"heap", heap, 3},
    {"tight_clocks", tight_clocks, 3},
    {"tight_signals", tight_signals, 2},
    {"tight_memory", tight_memory, 2},
    {"tight_transfers", tight_transfers, 2},
    {"tight_processes", tight_processes, 2},
    {"tight_registers", tight_registers, 2},
    {"tight_exceptions", tight_exceptions, 1},
};
enum { kKinds = sizeof kinds / sizeof kinds[0] };

void expect_at(const char *file, int line, long long found, long long expected) {
  if (!strcmp(kind, wrong)) found++, wrong = "";
  if (found == expected) {
    mix_int(found);
    return;
  }
  printf("FAIL rank %d, step %d (%s): found %lld, expected %lld (%s:%d)\n", rank, now, kind, found,
         expected, file, line);
  fflush(stdout);
  usleep(200000);  // MPICH's launcher drops what it has not passed on when a rank aborts
  MPI_Abort(MPI_COMM_WORLD, 3);
  exit(3);
}

void must_at(const char *file, int line, int error, const char *what) {
  char text[MPI_MAX_ERROR_STRING] = "is not so";
  int length;
  if (error == MPI_SUCCESS) return;
  if (error > 0) MPI_Error_string(error, text, &length);
  printf("FAIL rank %d, step %d (%s): %s: %s (%s:%d)\n", rank, now, kind, what, text, file, line);
  fflush(stdout);
  usleep(200000);  // MPICH's launcher drops what it has not passed on when a rank aborts
  MPI_Abort(MPI_COMM_WORLD, 3);
  exit(3);
}

void *memory(size_t bytes) {
  void *const block = calloc(1, bytes + 1);
  CHECK(block);
  return block;
}

void compute_for_ms(int ms) { compute_ms(ms); }
void sleep_for_ms(int ms) { pause_ms(ms); }

// Is this name in the list "A,B,..."?
static int names(const char *list, const char *name) {
  const size_t length = strlen(name);
  for (const char *at = list; (at = strstr(at, name)); at += length)
    if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == 0)) return 1;
  return 0;
}

static int draw_kind(struct chance *chance) {
  int total = 0, k = 0;
  for (int i = 0; i < kKinds; i++) total += kinds[i].weight;
  for (int left = below(chance, total); left >= kinds[k].weight; k++) left -= kinds[k].weight;
  return k;
}

// Completes what is pending and frees what has been made, as if the program had just begun.
static void come_to_rest(void) {
  finish_due(1 << 30);
  kind = "rest";
  free_all_comms();
  forget_layouts();
}

// Looks for messages now and then: while a reduction by a function of the program's own is under
// way, a rank is saved in its MPI calls only (docs/reference/limits.md).
static void wait_while_held(const char *hold_file) {
  for (int turn = 1, flag; hold_file && access(hold_file, F_OK) == 0; turn++) {
    sleep_for_ms(1);
    if (turn % 256 == 0)
      DO(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE));
  }
}

// The options that choose the script, and what of it is played.
struct script {
  const char *only, *without;
  uint64_t seed;
  int first, rest, serves;
};

static struct script parse_script(int argc, char **argv) {
  struct script script = {NULL, "", 1, 1, 0, 0};
  for (int i = 1; i < argc; i++) {
    const char *const next = i + 1 < argc ? argv[i + 1] : "";
    if (!strcmp(argv[i], "--seed")) script.seed = strtoull(next, NULL, 10);
    if (!strcmp(argv[i], "--from")) script.first = atoi(next);
    if (!strcmp(argv[i], "--only")) script.only = next;
    if (!strcmp(argv[i], "--without")) script.without = next;
    if (!strcmp(argv[i], "--wrong")) wrong = next;
    if (!strcmp(argv[i], "--rest")) script.rest = atoi(next);
    if (!strcmp(argv[i], "--serve")) script.serves = 1;
    if (!strcmp(argv[i], "--dir")) directory = next;
  }
  return script;
}

// Plays step `now`. Of one that is left out only the rest happens.
static void play_step(const struct script *script, int step_ms) {
  struct step step = {now, derive(script->seed, now), {derive(~script->seed, now)}};
  const int k = draw_kind(&step.chance);
  finish_due(now);
  free_old_layouts();
  kind = kinds[k].name;
  if ((!script->only || names(script->only, kind)) && !names(script->without, kind))
    kinds[k].play(&step);
  report_step(now, below(&step.chance, step_ms + 1));
}

int main(int argc, char **argv) {
  const struct options o = parse_options(argc, argv, 60, 0);
  const struct script script = parse_script(argc, argv);
  if (script.serves) start_threads(&argc, &argv);
  else start(&argc, &argv);
  self = rank, world_size = ranks;
  CHECK(ranks <= kMostRanks);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // and all that come from it
  start_attributes();
  start_messages();
  if (script.serves) start_serving();
  struct place place = {script.first - 1, state_hash};
  const char *const hold = hold_file;
  hold_file = NULL;
  if (script.rest) start_saving(&place);
  state_hash = place.hash;
  for (now = place.step + 1; now <= o.steps; now++) {
    play_step(&script, o.step_ms);
    if (!script.rest && now == o.steps) wait_while_held(hold);
    if (script.rest && now % script.rest == 0) {
      come_to_rest();
      place = (struct place){now, state_hash};
      ask_for_checkpoint();
    }
  }
  come_to_rest();
  place = (struct place){o.steps, state_hash};
  if (script.rest) rest_while_held(hold);
  end_messages();
  printf("rank %d %016llx\n", rank, (unsigned long long)state_hash);
  fflush(stdout);
  // Sends that were freed must have been received before MPI_Finalize.
  MPI_Barrier(MPI_COMM_WORLD);
  if (script.serves) end_serving();
  finish();
  return 0;
}
