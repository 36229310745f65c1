// SPDX-License-Identifier: Apache-2.0
#include "mpi/rma/shared_windows.h"

#include "base/text.h"
#include "frontend/callbacks.h"
#include "mpi/comms/comms.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/lower_errors.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/slots.h"
#include "mpi/objects/infos.h"
#include "mpi/rma/near_windows.h"
#include "mpi/rma/windows.h"
#include "sys/sys.h"

namespace fermata::mpi {
namespace {

constexpr char kSharedPrefix[] = "/dev/shm/fermata-window-";

/// The block's file: the number its creator drew and the window's id make the name unique.
void shared_name(const SharedBlock* block, u64 id, Message* name) {
  *name << kSharedPrefix << Hex{block->creator} << "-" << Hex{id};
}

/// Rank 0 makes the file.
int shared_create(const SharedBlock* block, const char* name) {
  const Result<u64> file =
      sys::open(name, sys::kReadWrite | sys::kCreate | sys::kExcl | sys::kCloseOnExec, 0600);
  if (!file) return kErrNoMem;
  const Result<u64> sized = sys::call(SYS_ftruncate, file.value, block->bytes);
  (void)sys::close(int(file.value));
  return sized ? int(kSuccess) : int(kErrNoMem);
}

int shared_map(SharedBlock* block, const char* name) {
  const Result<u64> file = sys::open(name, sys::kReadWrite | sys::kCloseOnExec);
  if (!file) return kErrNoMem;
  const Result<u64> at = sys::mmap(0, block->bytes, sys::kProtRead | sys::kProtWrite,
                                   sys::kMapShared, int(file.value));
  (void)sys::close(int(file.value));
  if (!at) return kErrNoMem;
  block->address = at.value;
  return kSuccess;
}

/// kErrRmaShared, in all members, if they do not all run on one host. Of processes of other jobs
/// (spawned ones, say) the real MPI is asked.
int refuse_other_hosts(CommSlot* slot) {
  const Comm* const comm = comm_of(slot);
  if (!comm->outside) return are_neighbours(comm) ? kSuccess : kErrRmaShared;
  int size = 0;
  {
    const BlockingCall open;
    RealComm node{};
    if (!lower().Comm_split_type(slot->real(), kCommTypeShared, 0, no_info(), &node)) {
      if (lower().Comm_size(node, &size)) size = 0;
      may_leak(lower().Comm_free(&node));
    }
  }
  return members_agree(slot, size == comm->size ? kSuccess : kErrRmaShared);
}

int tell_creator(SharedBlock* block, RealComm comm) {
  const BlockingCall open;
  return lower().Bcast(&block->creator, sizeof block->creator, state().lower.byte, 0, comm);
}

/// Makes the block of a new window and finds this rank's segment. Every member calls it.
int shared_make(Window* window) {
  const Comm* const comm = comm_of(window->comm);
  const RealComm real = window->comm->real();
  if (const int error = refuse_other_hosts(window->comm)) return error;
  SharedBlock* const block = arena_new<SharedBlock>();
  window->shared = block;
  int error = members_exchange(window);
  for (i32 i = 0; i < comm->size; i++) {
    window->members[i].unaligned = i64(block->bytes) % kWindowAlignment;
    block->bytes += u64(window->members[i].size);
  }
  block->bytes = page_ceil(block->bytes ? block->bytes : 1);
  block->creator = u64(sys::getpid()) << 32 | u32(sys::now_ns());
  if (!error)
    error = tell_creator(block, real);
  if (error) return error;
  Message name;
  shared_name(block, comm->id, &name);
  error = members_agree(window->comm, comm->rank ? kSuccess : shared_create(block, name.data));
  return error ? error : members_agree(window->comm, shared_map(block, name.data));
}

void* shared_segment(const Window* window, i32 rank) {
  u64 at = window->shared->address;
  for (i32 i = 0; i < rank; i++) at += u64(window->members[i].size);
  return reinterpret_cast<void*>(at);
}

}  // namespace

void shared_forget(const Window* window) {
  SharedBlock* const block = window->shared;
  if (!block) return;
  const Comm* const comm = comm_of(window->comm);
  if (block->address) (void)sys::munmap(block->address, block->bytes);
  if (comm->rank == 0) {
    Message name;
    shared_name(block, comm->id, &name);
    (void)sys::call(SYS_unlink, sys::arg(name.data));
  }
  arena_free(block);
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

int Win_allocate_shared(i64 size, int disp_unit, InfoSlot* info, CommSlot* comm, void* baseptr,
                        WinSlot** win) {
  if (size < 0) return kErrSize;
  return window_new(comm, kWinFlavorShared, disp_unit, info, win, [&](Window* window) {
    window->size = size;
    if (const int error = shared_make(window)) return error;
    window->base = shared_segment(window, comm_of(window->comm)->rank);
    *static_cast<void**>(baseptr) = window->base;
    return int(kSuccess);
  });
}

int Win_shared_query(WinSlot* win, int rank, i64* size, int* disp_unit, void* baseptr) {
  const Window* const window = window_of(win);
  if (!window || !window->shared) return window ? kErrRmaFlavor : kErrWin;
  const i32 count = comm_of(window->comm)->size;
  if (rank == kProcNull)  // the lowest rank that has any memory
    for (rank = 0; rank + 1 < count && window->members[rank].size == 0;) rank++;
  if (rank < 0 || rank >= count) return kErrRank;
  *size = window->members[rank].size;
  *disp_unit = int(window->members[rank].disp_unit);
  // Asked for segments that need not follow each other, both MPIs say that an empty one is nowhere.
  const InfoPair* const apart =
      window->info ? info_get(window->info, "alloc_shared_noncontig") : nullptr;
  const bool is_nowhere = *size == 0 && apart && text_equal(apart->value, "true");
  *static_cast<void**>(baseptr) = is_nowhere ? nullptr : shared_segment(window, rank);
  return kSuccess;
}

}  // namespace fermata::mpi::core
