// SPDX-License-Identifier: Apache-2.0
// Virtual handles. A handle the application holds names a slot in upper memory; the slot holds the
// real handle. Nothing else in upper memory does, so a restart rebuilds the world by refilling
// slots.
//
//   Open MPI front end   handle == address of the slot (predefined objects: our exported symbols,
//                        whose first bytes are a Slot)
//   MPICH front end      int; predefined values are decoded to an index, dynamic ones carry it
//   MPI-5 standard ABI   handle == index
//
// Index 0..0x3ff are the predefined objects under their standard-ABI numbers, dynamic objects start
// at kFirstDynamic. Slots never move.
#pragma once

#include "halves/handles.gen.h"
#include "halves/layout.h"

namespace fermata {
struct ClockEntry;
}

namespace fermata::mpi {

struct Slot {  // of any kind
  u64 any_real;  // the real handle, see SlotOf; 0 = none in this lower half
  u32 index;     // of this slot in its kind's array (Open MPI's exported objects: canonical number)
  u16 kind;
  u16 flags;     // kSlot* below
  void* object;  // recipe and state in the front end's arena; null for most predefined objects
  union {  // by kind; 0 where it says nothing
    u64 type_size;      // of a datatype: its size in bytes
    ClockEntry* clock;  // of a communicator; of a window or file: that of its communicator
    u64 near_base;      // of Window::counters (rma/near_windows.h)
    RealRequest own;    // of a persistent receive: its real request, while its message is held
    Slot* next_free;    // of a slot on a free list
  };
};
static_assert(sizeof(Slot) == 32);

/// A slot of one kind, so that the compiler tells a communicator from a datatype.
template <Kind its_kind>
struct SlotOf : Slot {
  Real<its_kind>& real() { return reinterpret_cast<Real<its_kind>&>(any_real); }
  const Real<its_kind>& real() const { return reinterpret_cast<const Real<its_kind>&>(any_real); }
};
static_assert(sizeof(SlotOf<kComm>) == sizeof(Slot));

using CommSlot = SlotOf<kComm>;
using DatatypeSlot = SlotOf<kDatatype>;
using RequestSlot = SlotOf<kRequest>;
using OpSlot = SlotOf<kOp>;
using GroupSlot = SlotOf<kGroup>;
using InfoSlot = SlotOf<kInfo>;
using WinSlot = SlotOf<kWin>;
using FileSlot = SlotOf<kFile>;
using ErrhandlerSlot = SlotOf<kErrhandler>;
using SessionSlot = SlotOf<kSession>;
using MessageSlot = SlotOf<kMessage>;

/// A slot that is known to be of this kind, by where it comes from or by Slot::kind.
template <Kind kind>
constexpr SlotOf<kind>* slot_as(Slot* slot) {
  return static_cast<SlotOf<kind>*>(slot);
}

static_assert(kSlots + kSlotsBytesPerKind * kKindCount <= kMpiArena);

inline constexpr u16 kSlotLive = 1;        // holds an object
inline constexpr u16 kSlotPredefined = 2;  // filled by LowerCalls::predefined
inline constexpr u16 kSlotLeft = 4;        // a communicator that the application has freed

inline constexpr u32 kFirstDynamic = 0x1000;
inline constexpr u32 kMaxIndex = (1u << 26) - 1;

inline Slot* slots(Kind kind) {
  return reinterpret_cast<Slot*>(kSlots + u64(kind) * kSlotsBytesPerKind);
}
inline Slot* slot_at(Kind kind, u32 index) { return slots(kind) + index; }
template <Kind kind>
SlotOf<kind>* slot_at(u32 index) {
  return slot_as<kind>(slot_at(kind, index));
}

/// True for a handle that the application has kept of what it has freed.
inline bool is_freed(const Slot* slot) {
  return FERMATA_UNLIKELY((slot->flags & (kSlotLive | kSlotLeft)) != kSlotLive);
}

}  // namespace fermata::mpi
