// SPDX-License-Identifier: Apache-2.0
// The order in which the two halves come. A fresh application is loaded first, and the lower half
// only when the application asks for MPI: the front end's constructor calls load_lower(). So a
// shell, env or numactl on the way to an MPI program never meets an MPI. On a restart the lower
// half comes first, with MPI initialised, and the upper half is restored from its image.
//
// The lower half's program is started on a stack of its own in the middle of the front end's
// constructor, and its main() ends in lower_ready(), which goes back to that constructor.
#include "launcher/start.h"

#include <elf.h>

#include "arch/x86_64/context.h"
#include "base/text.h"
#include "launcher/boundary/guest.h"
#include "launcher/config.h"
#include "launcher/ids/thread.h"
#include "launcher/image/restore.h"
#include "launcher/load/elf.h"
#include "launcher/load/program.h"
#include "launcher/load/stack.h"
#include "launcher/patch/vdso.h"
#include "launcher/process/descriptors.h"
#include "launcher/threads/held_signals.h"
#include "launcher/threads/tls_pool.h"
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

constexpr u64 kLowerStackBytes = 16 << 20;
u64 constructors_stack;  // of the thread in load_lower(), while the lower half starts

/// Returns the lower program's stack pointer and its entry.
arch::GuestStart prepare_lower() {
  const Program program = load_program(config.lower, Half::kLower);
  const Result<u64> stack =
      sys::mmap(0, kLowerStackBytes, sys::kProtRead | sys::kProtWrite,
                sys::kMapPrivate | sys::kMapAnonymous | sys::kMapNoReserve | sys::kMapStack);
  if (!stack)
    die("cannot map the lower half's stack", config.lower, stack.error, "memory is short");
  char* argv[] = {const_cast<char*>(config.lower), nullptr};
  Shown unused;
  const u64 top = build_stack(stack.value + kLowerStackBytes, program, config.lower, 1, argv,
                              config.envp, config.lower_env, config.lower_env_count,
                              lower_vdso(), unused);
  return {top, program.jump};
}

}  // namespace

void start_lower() {
  const arch::GuestStart guest = prepare_lower();
  arch::fermata_enter_guest(guest.stack, guest.entry);
}

void load_lower() {
  if (crossing().lower) return;
  if (!is_own_process()) {  // multiprocessing: a child that fork(2) made asks for MPI
    adopt_process();
    forget_threads();
    adopt_main_thread();
    crossing().main_tid = sys::gettid();
  }
  begin_holding();
  const arch::GuestStart guest = prepare_lower();
  arch::fermata_call_guest(guest.stack, guest.entry, &constructors_stack);
  if (sys::gettid() != crossing().main_tid) leave_tls_to_main_thread();
}

void start_application() {
  map_fixed(kCrossing, kCrossingBytes, "crossing");
  map_fixed(kClocks, kClockBytes, "clocks");
  map_fixed(kMailbox, kMailboxBytes, "mailbox");
  Crossing& shared = crossing();
  shared.magic = kCrossingMagic;
  shared.version = kCrossingVersion;
  shared.main_tid = sys::gettid();
  shared.world_rank = kWorldUnknown;
  shared.thread_level = -1;
  const u64 vdso = install_vdso();
  const char* path = program_path();
  name_process(path, base_name(path));
  const Program program = load_program(path, Half::kUpper);
  map_stack();
  Shown shown;
  const u64 stack = build_stack(kUpperStackEnd, program, path, config.argc, config.argv,
                                config.envp, nullptr, 0, vdso, shown);
  show_program(shown);
  arch::fermata_enter_guest(stack, program.jump);
}

void lower_ready(const LowerCalls* lower, u32 world_rank, u32 world_size) {
  if (lower->version != kCrossingVersion)
    die("the back end was built for another Fermata", config.lower, 0,
        "rebuild it with `fermata mpi add`");
  // The lower half's main stack stays as it is below this frame; nobody returns to it.
  if (config.restore[0]) restore_rank(lower, config.restore, world_rank, world_size);
  crossing().lower = lower;
  arch::fermata_leave_guest(constructors_stack);
}

}  // namespace fermata::launch
