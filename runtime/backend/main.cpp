// SPDX-License-Identifier: Apache-2.0
// The lower half's program: a real MPI, the shims that speak canonical MPI to it, and the agent
// thread. It is started first; once it is ready it hands its main thread to the launcher, which
// starts (or restores) the application on another stack. main() never returns.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "backend/half_float.h"
#include "backend/completed.h"
#include "halves/crossing.h"

#ifndef FERMATA_LOWER_NAME
#define FERMATA_LOWER_NAME "unnamed"
#endif

namespace fermata::backend {
namespace {

/// MPIs take room for a moment from malloc(3), MPICH for each MPI_Accumulate of 64 KiB. A heap of
/// more than 128 KiB is given back to the kernel each time, and faulted in anew, until something
/// larger has been freed (M_TRIM_THRESHOLD in mallopt(3)): natively the program does so sooner or
/// later, and in this half, whose heap is its own, nobody else.
void keep_what_is_freed() {
  void* volatile block = malloc(1 << 20);
  free(block);
}

/// The upper half runs the application's error handlers; the lower half only reports.
void after_init() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  find_completed();
}

int init_thread(int* argc, char*** argv, int required, int* provided) {
  const int result = Init_thread(argc, argv, required, provided);
  if (result == 0) after_init();
  return result;
}

int init(int* argc, char*** argv) {
  const int result = Init(argc, argv);
  if (result == 0) after_init();
  return result;
}

/// Tells first, so that the coordinator knows whether a peer was lost before. The death of a peer
/// is in the program sooner than it is there, and what mpirun does next must not be: hence the
/// pauses.
int abort(RealComm comm, int code) {
  constexpr timespec kMoment{0, 50'000'000};
  nanosleep(&kMoment, nullptr);
  agent_aborting(code);
  nanosleep(&kMoment, nullptr);
  return Abort(comm, code);
}

constexpr MpiCalls with_own_calls() {
  MpiCalls calls = kCalls;
  calls.Abort = abort;
  calls.Init = init;
  calls.Init_thread = init_thread;
  calls.Isend = isend;
  calls.Test = test;
  calls.Testall = test_all;
  calls.Testsome = test_some;
  calls.Finalize = finalize;
  return calls;
}
constexpr MpiCalls kMpi = with_own_calls();

int report(Report kind, u32 epoch, const void* payload, u64 bytes) {
  return agent_report(kind, epoch, payload, bytes);
}

int gather(const void* mine, u64 bytes, void* all) {
  return MPI_Allgather(mine, int(bytes), MPI_BYTE, all, int(bytes), MPI_BYTE, MPI_COMM_WORLD);
}

void* lend(void*) {
  launcher().lend();
  return nullptr;  // never
}

/// LowerCalls::make_lender.
int make_lender() {
  constexpr u64 kStackBytes = 256 * 1024;
  return start_lower_thread(lend, kStackBytes);
}

static_assert(served_calls_hash(kCrossingVersion) == kMpiCallsHash,
              "the table of MPI calls has changed: spec/crossing.toml says what to do");

LowerCalls lower_calls{kCrossingVersion, kMpiCallsHash, &kMpi, FERMATA_LOWER_NAME,
                       report,           known_object,  gather, make_lender};

[[noreturn]] void refuse(const char* what) {
  dprintf(2, "fermata: back end %s: %s\n", FERMATA_LOWER_NAME, what);
  _exit(kExitLauncher);
}

}  // namespace
}  // namespace fermata::backend

int main() {
  using namespace fermata;
  using namespace fermata::backend;
  if (launcher().version != kCrossingVersion)
    refuse("built for another Fermata; run `fermata mpi add` again");
  agent_start(&lower_calls);
  if (make_lender() != 0) refuse("cannot make a thread; check `ulimit -u`");
  keep_what_is_freed();
  u32 world[2] = {kWorldUnknown, 0};
  if (launcher().config("restore")[0] != 0) {
    const int promised = int(strtol(launcher().config("thread_level"), nullptr, 10));
    int provided = 0, rank = 0, size = 0;
    if (kMpi.Init_thread(nullptr, nullptr, promised, &provided) != 0) refuse("MPI_Init failed");
    if (provided < promised)
      refuse("this MPI provides a lower MPI_THREAD_* level than the saved program was promised");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    world[0] = u32(rank);
    world[1] = u32(size);
  }
  launcher().lower_ready(&lower_calls, world[0], world[1]);
}
