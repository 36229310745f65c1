// SPDX-License-Identifier: Apache-2.0
// What lives behind the slot of a window (see objects.h).
#pragma once

#include "frontend/callbacks.h"
#include "mpi/handles/slots.h"

namespace fermata::mpi {

inline constexpr u64 kDoors = 4096;    // of each rank: lines
inline constexpr u64 kDoorBytes = 64;  // a cache line of its own

struct Attribute;

struct AttachedMemory {  // of a dynamic window
  AttachedMemory* next;
  void* base;
  i64 size;
};

struct WindowMember {  // exchanged as bytes
  i64 size;
  i64 disp_unit;
  i64 unaligned;    // the address of the memory modulo kWindowAlignment
  i64 before;       // bytes from the beginning of the real window to that of the memory
  i64 near_offset;  // to memory that is near, in this process
  i64 door;         // the number of its door; -1: none
  i64 door_offset;  // from LowerValues::doors, in this process
};
struct SharedBlock {  // see shared_windows.h
  u64 creator;
  u64 address;  // of the mapping in this rank
  u64 bytes;
};

enum class LockKind : u8 { kNone, kUnchecked, kShared, kExclusive };

// The peers of an epoch of MPI_Win_start or MPI_Win_post: ranks in the window; null: no epoch.
struct Peers {
  i32* ranks;
  i32 count;
  bool unchecked;  // MPI_MODE_NOCHECK: no message announces the other side
};

struct Window {
  WinSlot* slot;
  WinSlot* counters;  // slot of the second lower window: near_windows.h, epochs.h
  CommSlot* comm;
  i32 flavor;  // canonical
  i32 disp_unit;
  i32 ranks;   // members
  void* base;
  i64 size;
  WindowMember* members;  // by rank in the window
  AttachedMemory* attached;
  SharedBlock* shared;
  ErrhandlerSlot* errhandler;
  InfoSlot* info;
  Attribute* attributes;
  char* name;
  i32 app_flavor, app_model;  // as the application's ABI spells them: attribute values
  alignas(16) i64 counter[2];  // see epochs.h; MPICH 4.0 misses windows that are aligned to 8
  LockKind* locks;             // by rank in the window
  LockKind all_locked;
  i32 access_epochs;           // that are open (epoch_order.h)
  bool fenced;                 // one of them is a fence's
  bool is_new;       // not yet made: its memory holds nothing
  bool has_doors;    // all members have: locks are made of these
  i64 door;          // this rank's: its number, or -1
  u32* heard;        // rings of each member (bells.h), in this process
  u32* kept;         // those of them that are kept for the epochs to come
  i32 direct_ranks;  // members whose memory this process can get at (direct.h): all or 0
  Peers access, exposure;
  i32 own_posts, own_completes;  // of this rank for itself: no message is sent
};

}  // namespace fermata::mpi
