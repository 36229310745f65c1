// SPDX-License-Identifier: Apache-2.0
// From a ready lower half to a running application: a fresh one is loaded into the upper window, a
// saved one is restored from its image.
#include "launcher/launcher.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

/// Maps a fixed part of the upper window that the three programs share.
void map_fixed(u64 address, u64 bytes, const char* what) {
  const Result<u64> map =
      sys::mmap(address, bytes, sys::kProtRead | sys::kProtWrite,
                sys::kMapPrivate | sys::kMapAnonymous | sys::kMapNoReserve |
                    sys::kMapFixedNoReplace);
  if (!map) die("cannot map a part of the upper window", what, map.error, "memory may be short");
}

/// The main thread's stack is one that the kernel lets grow, up to RLIMIT_STACK as it is then.
void map_stack() {
  constexpr u64 kFirstBytes = 256 << 10;
  const Result<u64> map = sys::mmap(kUpperStackEnd - kFirstBytes, kFirstBytes,
                                    sys::kProtRead | sys::kProtWrite,
                                    sys::kMapPrivate | sys::kMapAnonymous | sys::kMapNoReserve |
                                        sys::kMapGrowsDown | sys::kMapFixedNoReplace);
  if (!map) die("cannot map a part of the upper window", "stack", map.error, "memory may be short");
}

/// LD_PRELOAD for the application: what the user had, so that a tool which stands before MPI_X and
/// goes on with PMPI_X still does, then our front end. Libraries named here are loaded before any
/// that they need, so the front end serves a tool's own libmpi as well. The front end's constructor
/// puts the user's value back.
const char* preload_variable() {
  static Path text;
  const char* users = environment("LD_PRELOAD");
  text << "LD_PRELOAD=" << users << (users[0] ? ":" : "") << config.front;
  return text.data;
}

const char* saved_preload_variable() {
  static Path text;
  text << "FERMATA_SAVED_LD_PRELOAD=" << environment("LD_PRELOAD");
  return text.data;
}

[[noreturn]] void start_application(const LowerCalls* lower) {
  map_fixed(kCrossing, kCrossingBytes, "crossing");
  map_fixed(kClocks, kClockBytes, "clocks");
  map_fixed(kMailbox, kMailboxBytes, "mailbox");
  Crossing& shared = crossing();
  shared.magic = kCrossingMagic;
  shared.version = kCrossingVersion;
  shared.main_tid = sys::gettid();
  shared.lower = lower;
  shared.world_rank = kWorldUnknown;
  shared.thread_level = -1;
  const u64 vdso = install_vdso();
  const char* path = program_path();
  name_process(path, base_name(path));
  const Program program = load_program(path, Half::kUpper);
  map_stack();
  const char* extra[2];
  int extra_count = 0;
  if (config.front[0]) {
    extra[extra_count++] = preload_variable();
    if (environment("LD_PRELOAD")[0]) extra[extra_count++] = saved_preload_variable();
  }
  const u64 stack = build_stack(kUpperStackEnd, program, path, config.argc, config.argv,
                                config.envp, extra, extra_count, vdso);
  arch::fermata_enter_guest(stack, program.jump);
}

}  // namespace

void lower_ready(const LowerCalls* lower, u32 world_rank, u32 world_size) {
  if (lower->version != kCrossingVersion)
    die("the back end was built for another Fermata", config.lower, 0,
        "rebuild it with `fermata mpi add`");
  note_first_children();
  // The lower half's main stack stays as it is below this frame; nobody returns to it.
  if (config.restore[0] == 0) start_application(lower);
  restore_rank(lower, config.restore, world_rank, world_size);
}

}  // namespace fermata::launch
