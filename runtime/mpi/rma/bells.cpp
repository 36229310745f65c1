// SPDX-License-Identifier: Apache-2.0
#include "mpi/rma/bells.h"

#include "base/backoff.h"
#include "halves/mpi_calls.gen.h"
#include "mpi/gate/hooks.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/slots.h"
#include "mpi/p2p/p2p.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/unexpected.h"
#include "mpi/rma/near_windows.h"

namespace fermata::mpi {
namespace {

/// Place of a member's rings of a kind in the arrays of a window.
u64 bell_index(const Window* window, int tag, i32 from) {
  return u64(tag - kTagPost) * u64(window->ranks) + u64(from);
}

u32* bell_of(const Window* window, i32 target, int tag, i32 from) {
  return reinterpret_cast<u32*>(door_of(window, target) + 1) + bell_index(window, tag, from);
}

/// Hears one ring of a member that has not been heard yet, if there is one.
bool bell_hear(const Window* window, int tag, i32 from) {
  if (!window->has_doors) return false;
  const Comm* const comm = comm_of(window->comm);
  u32& heard = window->heard[bell_index(window, tag, from)];
  if (__atomic_load_n(bell_of(window, comm->rank, tag, from), __ATOMIC_ACQUIRE) == heard)
    return false;
  heard++;
  count_received(comm, from);
  return true;
}

/// Takes one that has been kept, or is heard now.
bool bell_take(const Window* window, int tag, i32 from) {
  u32& kept = window->kept[bell_index(window, tag, from)];
  if (kept == 0) return bell_hear(window, tag, from);
  kept--;
  return true;
}

}  // namespace

bool bell_keep(const Comm* comm, i32 from) {
  const Window* const window = comm->window;
  if (!window) return false;
  for (int tag = kTagPost; tag <= kTagComplete; tag++) {
    if (!bell_hear(window, tag, from)) continue;
    window->kept[bell_index(window, tag, from)]++;
    return true;
  }
  return false;
}

int tell_member(const Window* window, int tag, i32 to) {
  if (!window->has_doors)
    return send_blocking(nullptr, 0, slot_at<kDatatype>(kByte), to, tag, window->comm);
  u32* const bell = bell_of(window, to, tag, comm_of(window->comm)->rank);
  __atomic_store_n(bell, *bell + 1, __ATOMIC_RELEASE);
  count_sent(window->comm, to, tag);
  return kSuccess;
}

int await_member(const Window* window, int tag, i32 from) {
  constexpr u32 kLooks = 16, kPokes = 64;
  Comm* const comm = comm_of(window->comm);
  Backoff backoff;
  for (u32 poll = 1; !bell_take(window, tag, from); poll++) {
    // A restart may take a window from several hosts to one, where bells ring: so no receive is
    // posted before its message is there.
    int there = comm->unexpected_first && unexpected_match(comm, from, tag);
    if (!there && !window->has_doors) {
      UnexpectedMessage* kept;
      CanonStatus status;
      if (const int error = probe_once(from, tag, window->comm, &there, &kept, &status))
        return error;
    }
    if (there)
      return receive_blocking(nullptr, 0, slot_at<kDatatype>(kByte), from, tag, window->comm,
                              nullptr);
    if (poll % kPokes == 0) poke_lower();  // its one-sided calls may need answers
    if (checkpoint_wanted()) safe_point({nullptr, 0, comm, from});
    if (poll % kLooks == 0) between_polls(backoff);
  }
  return kSuccess;
}

bool member_has_told(const Window* window, int tag, i32 from) {
  const u64 index = bell_index(window, tag, from);
  if (window->kept[index]) return true;
  if (bell_hear(window, tag, from)) {
    window->kept[index]++;
    return true;
  }
  int flag = 0;
  UnexpectedMessage* kept;
  CanonStatus status;  // this also lets the lower half get on with its work
  return !probe_once(from, tag, window->comm, &flag, &kept, &status) && flag;
}

}  // namespace fermata::mpi
