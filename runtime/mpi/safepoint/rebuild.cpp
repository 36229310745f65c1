// SPDX-License-Identifier: Apache-2.0
#include "mpi/safepoint/rebuild.h"

#include "base/rank.gen.h"
#include "base/text.h"
#include "halves/crossing.h"
#include "halves/mpi_calls.gen.h"
#include "mpi/comms/topology.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/lower_errors.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/requests.h"
#include "mpi/handles/table.h"
#include "mpi/handles/window.h"
#include "mpi/io/files.h"
#include "mpi/objects/datatypes.h"
#include "mpi/objects/groups.h"
#include "mpi/objects/ops.h"
#include "mpi/p2p/persistent.h"
#include "mpi/rma/epochs.h"
#include "mpi/rma/near_windows.h"
#include "mpi/rma/windows.h"
#include "mpi/safepoint/lower_start.h"
#include "mpi/safepoint/sections.h"
#include "sys/check.h"
#include "sys/sys.h"

namespace fermata::mpi {
namespace {

[[noreturn]] void rebuild_failed(const char* what, int error) {
  Message text;
  text << "fermata: restart of rank " << state().world.rank << " under " << crossing().lower->name
       << ": cannot make " << what << " again (MPI error class " << error << ")\n";
  (void)sys::write(2, text.data, text.size);
  sys::exit_group(kExitRebuild);
}

void rebuild_comm(Comm* comm) {
  // These tags serve all: at any time a rank is in one such call, and its members are in the same.
  constexpr int kPlain = 1, kInter = 2;
  RealComm plain{};
  int error = lower_comm(comm->local_members, comm->size, kPlain, &plain);
  RealComm real = plain;
  if (!error && comm->remote_size >= 0) {
    error = lower().Intercomm_create(plain, 0, state().lower.bridge, comm->members[0], kInter,
                                     &real);
  } else if (!error && comm->topology) {
    error = make_topology(comm->topology, plain, &real);
  }
  if (error) rebuild_failed("a communicator", error);
  if (real != plain) may_leak(lower().Comm_free(&plain));
  comm->slot->real() = real;
  int rank = -1;
  if (lower().Comm_rank(real, &rank) || rank != comm->rank)
    rebuild_failed("a communicator with the same ranks", kErrIntern);
}

void rebuild_comms() {
  u64 last = 0;
  for (;;) {
    Comm* next = nullptr;
    for (Comm* comm = state().comms.live; comm; comm = comm->next)
      if (comm->id > last && (!next || comm->id < next->id)) next = comm;
    if (!next) return;
    last = next->id;
    if (!(next->slot->flags & kSlotPredefined)) rebuild_comm(next);
  }
}

void rebuild_type(DatatypeSlot* slot) {
  Type* const type = type_of(slot);
  if (!type || type->built == state().safepoint.rebuilds) return;
  for (i32 i = 0; i < type->types_count; i++) rebuild_type(type->types[i]);
  slot->real() = {};
  int error = type_make(*type, &slot->real());
  if (!error) error = type_keep_extent(*type, &slot->real());
  if (!error && type->committed) error = lower().Type_commit(&slot->real());
  if (error) rebuild_failed("a datatype", error);
  type->built = state().safepoint.rebuilds;
}

/// After rebuild_comms(), and one window after the other in the whole job: Open MPI 4.1 calls the
/// memory behind a window after the host, the job and the communicator's number, which may be the
/// same for communicators without a common member. All ranks call it.
void rebuild_windows() {
  constexpr u64 kNone = ~u64(0) >> 1;  // both MPIs take the least of unsigned numbers as if signed
  for (u64 last = 0; last != kNone;) {
    Window* const own = next_window(last);
    const u64 id = own ? window_id(own) : kNone;
    int error =
        lower().Allreduce(&id, &last, 1, slot_at<kDatatype>(abi::kInt64T)->real(),
                          slot_at<kOp>(abi::kMin)->real(), slot_at<kComm>(kCommWorld)->real());
    bool agreed;
    if (!error && own && last == id) error = window_make(own, &agreed);
    if (!error && own && last == id) error = locks_take_again(own);
    if (error) rebuild_failed("a window", error);
  }
}

[[noreturn]] void reopen_failed(const File* file, int error) {
  char text[kMaxErrorString + 1] = "";
  int length = 0;
  if (lower().Error_string(error, text, &length)) text[0] = 0;
  Message message;
  message << "the file " << file->name << " (" << text << ")";
  rebuild_failed(message.data, error);
}

/// Like rebuild_windows(), and after it.
void rebuild_files() {
  for (u64 last = 0;;) {
    File* next = nullptr;
    for_each_live<kFile>([&](FileSlot* slot) {
      const u64 id = comm_of(file_of(slot)->comm)->id;
      if (id > last && (!next || id < comm_of(next->comm)->id)) next = file_of(slot);
    });
    if (!next) return;
    last = comm_of(next->comm)->id;
    if (const int error = file_reopen(next)) reopen_failed(next, error);
  }
}

int repost(RequestSlot* slot) {
  const Request* const r = request_of(slot);
  if (is_persistent(r)) return lower().Start(&slot->real());
  return lower().Irecv(r->buffer, r->count, r->datatype->real(), r->peer, r->tag, r->comm->real(),
                       &slot->real());
}

void rebuild_requests() {
  u32 receives = 0;
  for_each_live<kRequest>([&](RequestSlot* slot) {
    const Request* const request = request_of(slot);
    slot->real() = state().lower.request_null;
    if (has_persistent_real(request))
      if (const int error = make_persistent(slot)) rebuild_failed("a persistent request", error);
    if (request->state == RequestState::kActive) receives++;
  });
  RequestSlot** const posted = arena_array<RequestSlot*>(receives);
  receives = 0;
  for_each_live<kRequest>([&](RequestSlot* slot) {
    if (request_of(slot)->state == RequestState::kActive) posted[receives++] = slot;
  });
  sort_by_order(posted, receives);
  // Kept messages are not looked at: whatever could match one of these receives would have been
  // given to it by the old lower half before it became a kept message.
  for (u32 i = 0; i < receives; i++)
    if (const int error = repost(posted[i])) rebuild_failed("a posted receive", error);
  arena_free(posted);
}

/// Visits every live dynamic slot of the kinds that a restart makes again before requests.
template <typename Visit>
void for_each_rebuilt(Visit visit) {
  for_each_live<kComm>(visit);
  for_each_live<kDatatype>(visit);
  for_each_live<kOp>(visit);
  for_each_live<kWin>(visit);
  for_each_live<kFile>(visit);
}

/// So that one that has not been made again is found, and not taken for one of this lower half.
void forget_real_handles() {
  for_each_rebuilt([](Slot* slot) { slot->any_real = 0; });
}

/// True of what has no real handle: a communicator that was freed before its messages came, and
/// the counters of a window that has doors instead.
bool has_no_real(Slot* slot) {
  if (slot->kind == kComm) return comm_of(slot_as<kComm>(slot))->dead;
  return slot->kind == kWin && !slot->object;
}

void check_rebuilt() {
  for_each_rebuilt([](Slot* slot) {
    FERMATA_CHECK(slot->any_real || has_no_real(slot), "a restart has made every MPI object again");
  });
  for_each_live<kWin>([](WinSlot* slot) {
    const Window* const window = window_of(slot);
    FERMATA_CHECK(!window || window->has_doors || window->counters->real(),
                  "a restart has made the counters of every window again");
  });
}

}  // namespace

void sort_by_order(RequestSlot** slots, u32 count) {
  const auto order = [&](u32 i) { return request_of(slots[i])->order; };
  const auto sift = [&](u32 root, u32 end) {
    for (u32 child; (child = 2 * root + 1) < end; root = child) {
      if (child + 1 < end && order(child) < order(child + 1)) child++;
      if (order(root) >= order(child)) return;
      RequestSlot* const kept = slots[root];
      slots[root] = slots[child];
      slots[child] = kept;
    }
  };
  for (u32 i = count / 2; i-- > 0;) sift(i, count);
  for (u32 end = count; end-- > 1;) {
    RequestSlot* const largest = slots[0];
    slots[0] = slots[end];
    slots[end] = largest;
    sift(0, end);
  }
}

void rebuild() {
  Core& core = state();
  core.safepoint.rebuilds++;
  core.world.wtime_offset = core.world.wtime_saved - lower().Wtime();
  forget_real_handles();
  lower_start();
  int rank = -1, size = -1;
  const RealComm world = slot_at<kComm>(kCommWorld)->real();
  const bool is_known = !lower().Comm_rank(world, &rank) && !lower().Comm_size(world, &size);
  if (!is_known || rank != core.world.rank || size != core.world.size)
    rebuild_failed("MPI_COMM_WORLD with the same ranks", kErrRank);
  if (const int error = find_neighbours()) rebuild_failed("the ranks' shared memory", error);
  rebuild_comms();
  for_each_live<kDatatype>([](DatatypeSlot* slot) { rebuild_type(slot); });
  for (i32 i = 0; i < kThunks; i++) {
    OpSlot* const slot = core.objects.thunk_ops[i];
    if (!slot) continue;
    if (const int error = make_op(slot)) rebuild_failed("a reduction operation", error);
  }
  rebuild_windows();
  rebuild_files();
  for_each_live<kInfo>([](InfoSlot* slot) { slot->real() = slot_at<kInfo>(kInfoNull)->real(); });
  if (core.p2p.attached_buffer)
    if (const int error =
            lower().Buffer_attach(core.p2p.attached_buffer, int(core.p2p.attached_bytes)))
      rebuild_failed("the attached buffer", error);
  rebuild_requests();
  check_rebuilt();
  (void)report(Report::kRebuilt, nullptr, 0);
  __atomic_store_n(&crossing().rebuilding, 0u, __ATOMIC_RELEASE);
  sys::futex_wake_all(&crossing().rebuilding);
}

}  // namespace fermata::mpi
