// SPDX-License-Identifier: Apache-2.0
// Slots given out and taken back.
//
// Dynamic slots are used from kFirstDynamic upwards and recycled through one free list per kind,
// linked through Slot::spare. Requests come and go by the million, so their slots keep their
// Request for ever and have a list of their own.
//
// Invariant: a slot below `high` is either on a free list (not kSlotLive) or holds an object.
#pragma once

#include "mpi/handles/objects.h"

namespace fermata::mpi {

/// Maps the arrays of slots and the arena. Called before anything else; later calls do nothing.
inline void map_tables() {
  Core& core = state();
  if (FERMATA_LIKELY(core.slots_mapped)) return;
  core.slots_mapped = true;
  arena_start();
  for (u32 kind = 0; kind < kKindCount; kind++) {
    // The front end has mapped (and filled) the predefined part already; what is left is ours.
    const u64 from = page_floor(reinterpret_cast<u64>(slot_at(Kind(kind), kFirstDynamic)));
    const u64 to = kSlots + u64(kind + 1) * kSlotsBytesPerKind;
    const Result<u64> got =
        sys::mmap(from, to - from, sys::kProtRead | sys::kProtWrite,
                  sys::kMapPrivate | sys::kMapAnonymous | sys::kMapFixed | sys::kMapNoReserve);
    if (!got) fatal("cannot map the table of MPI handles");
    core.high[kind] = kFirstDynamic;
  }
  core.unused_clock = arena_new<ClockEntry>();
  core.null_request = front::predefined(kRequest, kRequestNull);
}

inline Slot* slot_new(Kind kind, void* object) {
  map_tables();
  Core& core = state();
  Slot* slot = core.free_slot[kind];
  if (slot) {
    core.free_slot[kind] = reinterpret_cast<Slot*>(slot->spare);
  } else {
    if (core.high[kind] > kMaxIndex) fatal("too many MPI objects of one kind are alive");
    slot = slot_at(kind, core.high[kind]);
    slot->index = core.high[kind]++;
    slot->kind = kind;
  }
  slot->flags = kSlotLive;
  slot->object = object;
  slot->real = 0;
  slot->spare = 0;
  return slot;
}

inline void slot_free(Slot* slot) {
  Core& core = state();
  slot->flags = 0;
  slot->real = 0;
  slot->object = nullptr;
  slot->spare = reinterpret_cast<u64>(core.free_slot[slot->kind]);
  core.free_slot[slot->kind] = slot;
}

/// A request's slot; Slot::object is its Request, whose fields are stale.
[[gnu::noinline]] inline Slot* request_slot_first_use() {
  Slot* const slot = slot_new(kRequest, nullptr);
  slot->object = arena_new<Request>();
  return slot;
}
[[gnu::always_inline]] inline Slot* request_slot_new() {
  Core& core = state();
  Slot* slot = core.free_request;
  if (FERMATA_LIKELY(slot != nullptr)) {
    core.free_request = reinterpret_cast<Slot*>(slot->spare);
  } else {
    slot = request_slot_first_use();
  }
  slot->flags = kSlotLive;
  core.live_requests++;
  return slot;
}

[[gnu::always_inline]] inline void request_slot_free(Slot* slot) {
  Core& core = state();
  core.live_requests--;
  slot->flags = 0;
  slot->spare = reinterpret_cast<u64>(core.free_request);
  core.free_request = slot;
}

/// Visits every live dynamic slot of a kind. Where requests were many once, and few are left, it
/// looks no further than the last of these.
template <typename Visit>
void for_each_live(Kind kind, Visit visit) {
  const Core& core = state();
  u32 left = kind == kRequest ? core.live_requests : ~u32{0};
  for (u32 index = kFirstDynamic; index < core.high[kind] && left != 0; index++) {
    Slot* const slot = slot_at(kind, index);
    if (!(slot->flags & kSlotLive)) continue;
    left--;
    visit(slot);
  }
}

/// The application's handle for a predefined object.
inline Slot* null_of(Kind kind) {
  constexpr u32 kNull[kKindCount] = {kCommNull, kDatatypeNull, kRequestNull,    kOpNull,
                                     kGroupNull, kInfoNull,    kWinNull,        kFileNull,
                                     kErrhandlerNull, kSessionNull, kMessageNull};
  return front::predefined(kind, kNull[kind]);
}

/// True if `slot` is the null handle of its kind (or no handle at all).
inline bool is_null(const Slot* slot, u32 canonical_null) {
  return slot == nullptr || slot->index == canonical_null;
}

inline char* text_copy(const char* text) {
  return arena_copy(text, text_length(text) + 1);
}

/// Gives every slot of one predefined object, aliases included, the same object and spare word.
inline void set_predefined(Kind kind, u32 canonical, void* object, u64 spare) {
  struct Wanted {
    Kind kind;
    u32 canonical;
    void* object;
    u64 spare;
  } wanted{kind, canonical, object, spare};
  front::for_each_predefined(
      [](Slot* slot, Kind slot_kind, u32 number, void* context) {
        const Wanted* const w = static_cast<const Wanted*>(context);
        if (slot_kind != w->kind || number != w->canonical) return;
        slot->object = w->object;
        slot->spare = w->spare;
      },
      &wanted);
}

}  // namespace fermata::mpi
