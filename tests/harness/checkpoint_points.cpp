// SPDX-License-Identifier: Apache-2.0
// Brings a checkpoint into the k-th MPI call of a rank. Pre-loaded into a test program; it stands
// before every MPI function, counts, and continues with the PMPI one.
//
// At a chosen call it tells the test, by a file, and waits until a checkpoint is pending, with the
// gate held as in a wrapper, so that the quiesce signal finds this thread inside MPI. Then the call
// goes its way and has to deal with the checkpoint that came while it was being entered. A file
// that was taken away is made again as soon as the rank runs: a restarted job tells by itself which
// of the points lie behind it.
//
//   FERMATA_POINTS=RANK:K1,K2,...   the calls, counted from 1 (MPI_Init), of this world rank
//   FERMATA_POINTS_DIR=DIR          where point.1, point.2, ... appear
//   FERMATA_POINTS_HOLD=K           from this call on the rank waits at each until DIR has a file
//                                    "done": on a slow machine it must not end before the last
//                                    point. A checkpoint lets it continue, for it may owe a
//                                    collective call.
//   FERMATA_POINTS_COUNT=PREFIX     instead: write the number of calls to PREFIX.<pid> at the end
//
// The functions are made of one piece of assembly each, which passes all arguments on unseen; so
// one library serves every MPI, natively and under the product.
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "halves/crossing.h"

namespace {

using namespace fermata;

constexpr int kCapacity = 64;
constexpr int kWaitMs = 15'000, kNudgeMs = 500, kHoldMs = 60'000;

u32 calls, hold_at;
u32 chosen[kCapacity];
int chosen_count, chosen_rank, next_point;
bool armed;
const char* directory;

bool is_there(const char* name) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  return access(path, F_OK) == 0;
}

/// All points up to this call. Newest last: where it is there, so are the others. Not by open():
/// a checkpoint before close() would keep a descriptor of a file that the test takes away.
void tell() {
  char path[1024];
  snprintf(path, sizeof path, "point.%d", next_point);
  if (next_point == 0 || is_there(path)) return;
  for (int point = 1; point <= next_point; point++) {
    snprintf(path, sizeof path, "%s/point.%d", directory, point);
    (void)mknod(path, S_IFREG | 0644, 0);
  }
}

void wait_1_ms() {
  tell();
  const timespec pause{0, 1'000'000};
  nanosleep(&pause, nullptr);
}

/// Holds the gate while it waits, as a wrapper does; gives it back before the call.
void wait_for_checkpoint() {
  const Crossing& shared = crossing();
  auto* const gate = reinterpret_cast<volatile Gate*>(
      reinterpret_cast<i64>(__builtin_thread_pointer()) + shared.gate_offset);
  gate->depth = gate->depth + 1;
  next_point++;
  tell();
  for (int ms = 0; ms < kWaitMs && __atomic_load_n(&shared.pending, __ATOMIC_ACQUIRE) == 0; ms++)
    wait_1_ms();
  for (int ms = 0; ms < kNudgeMs && !gate->interrupted; ms++) wait_1_ms();
  gate->depth = gate->depth - 1;
}

void hold() {
  const Crossing& shared = crossing();
  for (int ms = 0; ms < kHoldMs && __atomic_load_n(&shared.pending, __ATOMIC_ACQUIRE) == 0; ms++) {
    if (is_there("done")) {
      hold_at = 0;
      return;
    }
    wait_1_ms();
  }
}

__attribute__((constructor)) void start() {
  const char* plan = getenv("FERMATA_POINTS");
  directory = getenv("FERMATA_POINTS_DIR");
  if (!plan || !directory) return;
  char* at;
  chosen_rank = int(strtol(plan, &at, 10));
  while (*at && chosen_count < kCapacity) chosen[chosen_count++] = u32(strtoul(at + 1, &at, 10));
  if (const char* last = getenv("FERMATA_POINTS_HOLD")) hold_at = u32(strtoul(last, nullptr, 10));
  armed = true;
}

__attribute__((destructor)) void stop() {
  const char* prefix = getenv("FERMATA_POINTS_COUNT");
  if (!prefix || calls == 0) return;
  char path[1024];
  snprintf(path, sizeof path, "%s.%d", prefix, int(getpid()));
  if (FILE* file = fopen(path, "w")) {
    fprintf(file, "%u\n", calls);
    fclose(file);
  }
}

}  // namespace

extern "C" __attribute__((visibility("hidden"))) void points_on_call() {
  const u32 number = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
  if (!armed) return;
  const bool is_chosen = crossing().world_rank == u32(chosen_rank);
  if (is_chosen) tell();
  if (hold_at != 0 && number >= hold_at && is_chosen) hold();
  if (next_point >= chosen_count || number != chosen[next_point]) return;
  if (is_chosen) wait_for_checkpoint();
  else next_point++;
}

// Seven pushes: the stack is aligned at the call, and what holds arguments is kept.
#define CALL(name)                                                                             \
  asm(".weak P" #name "\n.globl " #name "\n.type " #name ", @function\n" #name ":\n"           \
      "push %rdi\npush %rsi\npush %rdx\npush %rcx\npush %r8\npush %r9\npush %rax\n"            \
      "call points_on_call\n"                                                                 \
      "pop %rax\npop %r9\npop %r8\npop %rcx\npop %rdx\npop %rsi\npop %rdi\n"                   \
      "jmp *P" #name "@GOTPCREL(%rip)\n.size " #name ", . - " #name "\n");
#include "names.inc"
