// SPDX-License-Identifier: Apache-2.0
#include "mpi/handles/table.h"

#include "halves/crossing.h"
#include "halves/layout.h"
#include "mpi/handles/requests.h"
#include "sys/check.h"
#include "sys/sys.h"

namespace fermata::mpi {

void map_tables() {
  Core& core = state();
  if (FERMATA_LIKELY(core.handles.are_mapped)) return;
  core.handles.are_mapped = true;
  arena_start();
  for (u32 kind = 0; kind < kKindCount; kind++) {
    // The front end has mapped (and filled) the predefined part already; what is left is ours.
    const u64 from = page_floor(reinterpret_cast<u64>(slot_at(Kind(kind), kFirstDynamic)));
    const u64 to = kSlots + u64(kind + 1) * kSlotsBytesPerKind;
    const Result<u64> got =
        sys::mmap(from, to - from, sys::kProtRead | sys::kProtWrite,
                  sys::kMapPrivate | sys::kMapAnonymous | sys::kMapFixed | sys::kMapNoReserve);
    if (!got) fatal("cannot map the table of MPI handles");
    core.handles.high[kind] = kFirstDynamic;
  }
  core.gate.unused_clock = arena_new<ClockEntry>();
  core.handles.null_request = front::predefined<kRequest>(kRequestNull);
}

Slot* slot_new(Kind kind, void* object) {
  map_tables();
  Core& core = state();
  Slot* slot = core.handles.free_slot[kind];
  if (slot) {
    core.handles.free_slot[kind] = slot->next_free;
  } else {
    if (core.handles.high[kind] > kMaxIndex) fatal("too many MPI objects of one kind are alive");
    slot = slot_at(kind, core.handles.high[kind]);
    slot->index = core.handles.high[kind]++;
    slot->kind = kind;
  }
  slot->flags = kSlotLive;
  slot->object = object;
  slot->any_real = 0;
  slot->type_size = 0;
  return slot;
}

void slot_free(Slot* slot) {
  Core& core = state();
  slot->flags = 0;
  slot->any_real = 0;
  slot->object = nullptr;
  slot->next_free = core.handles.free_slot[slot->kind];
  core.handles.free_slot[slot->kind] = slot;
}

void check_tables() {
  const HandlesState& handles = state().handles;
  for (u32 kind = 0; kind < kKindCount; kind++) {
    u32 free = 0, live = 0;
    for (u32 index = kFirstDynamic; index < handles.high[kind]; index++) {
      const Slot* const slot = slot_at(Kind(kind), index);
      const bool is_live = slot->flags & kSlotLive;
      (is_live ? live : free)++;
      // The slot of a window's counters has a real handle alone.
      FERMATA_CHECK(!is_live || slot->object || kind == kWin, "a live slot holds an object");
    }
    const Slot* next = kind == kRequest ? handles.free_request : handles.free_slot[kind];
    for (; next && free; free--) next = next->next_free;
    FERMATA_CHECK(!next && !free, "a slot that is not live is on the free list of its kind");
    FERMATA_CHECK(kind != kRequest || live == handles.live_requests, "live requests are counted");
  }
}

RequestSlot* request_slot_first_use() {
  RequestSlot* const slot = slot_new<kRequest>(nullptr);
  slot->object = arena_new<Request>();
  return slot;
}

void set_predefined(Kind kind, u32 canonical, void* object, ClockEntry* clock) {
  struct Given {
    Kind kind;
    u32 canonical;
    void* object;
    ClockEntry* clock;
  } wanted{kind, canonical, object, clock};
  front::for_each_predefined(
      [](Slot* slot, Kind slot_kind, u32 number, void* context) {
        const Given* const w = static_cast<const Given*>(context);
        if (slot_kind != w->kind || number != w->canonical) return;
        slot->object = w->object;
        slot->clock = w->clock;
      },
      &wanted);
}

}  // namespace fermata::mpi
