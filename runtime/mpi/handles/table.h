// SPDX-License-Identifier: Apache-2.0
// Slots given out and taken back.
//
// Dynamic slots are used from kFirstDynamic upwards and recycled through one free list per kind,
// linked through Slot::next_free. Requests come and go by the million, so their slots keep their
// Request for ever and have a list of their own.
//
// Invariant: a slot below `high` is either on a free list (not kSlotLive) or holds an object.
//            Checked where a rank is saved (check_tables).
#pragma once

#include "base/text.h"
#include "frontend/callbacks.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/slots.h"

namespace fermata::mpi {

/// True if `slot` is the null handle of its kind (or no handle at all).
inline bool is_null(const Slot* slot, u32 canonical_null) {
  return slot == nullptr || slot->index == canonical_null;
}

inline Comm* live_comm(CommSlot* slot) {
  return is_null(slot, kCommNull) ? nullptr : comm_of(slot);
}

/// Maps the arrays of slots and the arena. Called before anything else; later calls do nothing.
void map_tables();

Slot* slot_new(Kind kind, void* object);
template <Kind kind>
SlotOf<kind>* slot_new(void* object) {
  return slot_as<kind>(slot_new(kind, object));
}
void slot_free(Slot* slot);

/// Looks at all slots; preconditions: the core lock. Ends the process if the invariant does not
/// hold.
void check_tables();

/// A request's slot; Slot::object is its Request, whose fields are stale.
RequestSlot* request_slot_first_use();
[[gnu::always_inline]] inline RequestSlot* request_slot_new() {
  Core& core = state();
  RequestSlot* slot = core.handles.free_request;
  if (FERMATA_LIKELY(slot != nullptr)) {
    core.handles.free_request = slot_as<kRequest>(slot->next_free);
  } else {
    slot = request_slot_first_use();
  }
  slot->flags = kSlotLive;
  core.handles.live_requests++;
  return slot;
}

[[gnu::always_inline]] inline void request_slot_free(RequestSlot* slot) {
  Core& core = state();
  core.handles.live_requests--;
  slot->flags = 0;
  slot->next_free = core.handles.free_request;
  core.handles.free_request = slot;
}

/// Visits every live dynamic slot of a kind. Where requests were many once, and few are left, it
/// looks no further than the last of these.
template <Kind kind, typename Visit>
void for_each_live(Visit visit) {
  const Core& core = state();
  u32 left = kind == kRequest ? core.handles.live_requests : ~u32{0};
  for (u32 index = kFirstDynamic; index < core.handles.high[kind] && left != 0; index++) {
    SlotOf<kind>* const slot = slot_at<kind>(index);
    if (!(slot->flags & kSlotLive)) continue;
    left--;
    visit(slot);
  }
}

/// The application's handle for a predefined object.
template <Kind kind>
SlotOf<kind>* null_of() {
  constexpr u32 kNull[kKindCount] = {kCommNull, kDatatypeNull, kRequestNull,    kOpNull,
                                     kGroupNull, kInfoNull,    kWinNull,        kFileNull,
                                     kErrhandlerNull, kSessionNull, kMessageNull};
  return front::predefined<kind>(kNull[kind]);
}

inline char* text_copy(const char* text) {
  return arena_copy(text, text_length(text) + 1);
}

/// Gives every slot of one predefined object, aliases included, the same object and clock.
void set_predefined(Kind kind, u32 canonical, void* object, ClockEntry* clock);

}  // namespace fermata::mpi
