// SPDX-License-Identifier: Apache-2.0
// What lives behind the slots: for every kind of MPI object its state and its recipe, that is, what
// is needed to make it again in another lower half. (Requests: requests.h, windows: window.h.)
//
// Invariant: nothing here holds a value of the lower half. Real handles live in slots alone.
//            Checked of these where a restart has made them again (check_rebuilt).
#pragma once

#include "frontend/callbacks.h"
#include "halves/mpi_calls.gen.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/window.h"

namespace fermata::mpi {

struct OwnBuffer;
struct Topology;
struct UnexpectedMessage;

inline constexpr u64 kWorldId = 1;
inline constexpr u64 kSelfId = 2;  // + world rank
inline constexpr u64 kOwnId = 0xffff'ffff;
inline constexpr u64 kOutsideId = ~u64{0};

struct Attribute {
  Attribute* next;
  i32 keyval;
  AttributeValue value;
};

struct Keyval {
  Kind kind;
  bool freed;  // by the application; attributes that still use it keep it working
  i32 users;   // attributes: as long as there are any, other holders may free it, too
  void* copy_fn;
  void* delete_fn;
  void* extra_state;
};

struct Errhandler {
  i32 refs;
  Kind kind;  // of the objects it serves
  void* fn;
};

struct Comm {
  u64 id;  // the same number on every member, different from any other communicator's
  CommSlot* slot;
  Comm* next;  // in the list of live communicators
  Comm* previous;
  i32* members;  // world rank of each peer (an intercommunicator's: of the remote group)
  UnexpectedMessage* unexpected_first;
  UnexpectedMessage* unexpected_last;
  i32 rank;
  i32 size;         // of the local group
  i32 remote_size;  // of the remote group; -1: an intracommunicator
  i32* local_members;
  ErrhandlerSlot* errhandler;  // null: MPI_ERRORS_ARE_FATAL
  Attribute* attributes;
  Topology* topology;
  char* name;
  bool dead;    // in CommsState::dead
  bool ending;  // the lower half is freeing it, without the core lock, or makes it (idup.h): not to
                // be looked at
  bool leaving;  // freed by the application; the other members have not all done so (leaving.h)
  // For one persistent collective (persistent_collectives.h): of which communicator it is the
  // duplicate, and whether this rank has freed the request.
  Comm* duplicate_of;
  bool idle;
  bool outside;  // some members belong to another job: connections.cpp
  Window* window;  // whose own communicator this is, or null
  OwnBuffer* buffer;  // of MPI_Comm_attach_buffer
  InfoSlot* info;     // its hints, or null (hints.h)
};

inline i32 peers_of(const Comm* comm) {
  return comm->remote_size >= 0 ? comm->remote_size : comm->size;
}

// What made a type of more elements than an int counts (large_types.h): the arrays of
// MPI_Type_get_contents_c, which has neither integers nor addresses for these. The types are kept
// alive by the blocks that the real one consists of.
struct LargeArguments {
  i32 combiner;
  i32 types_count;
  i64 counts_count;
  i64* counts;
  DatatypeSlot** types;
};

struct Type {
  i32 refs;  // the application's, its parents' and pending requests'
  i32 handles;  // the application's alone; with the last its attributes go
  i32 combiner;
  bool committed;
  bool has_bounds;  // `lower` and `extent` are known
  u32 built;  // == SafepointState::rebuilds once the real type exists in this lower half
  i32 ints_count, aints_count, types_count;
  i32* ints;  // the three arrays are those of MPI_Type_get_contents
  i64* aints;
  DatatypeSlot** types;
  static constexpr i32 kFewInts = 4;
  i32 few_ints[kFewInts];  // where `ints` are, if they fit
  DatatypeSlot* only_type;  // where `types` are, if it is one
  u64* room;               // the block of `aints` and of `types`, if they are several
  i64 lower, extent;  // what the application may have read; see type_keep_extent()
  char* name;
  Attribute* attributes;
  LargeArguments* large;  // null, but for the types of large_types.h
};

struct Op {
  void* fn;
  i32 commute;
  i32 thunk;  // which of the static thunks calls it
  i32 users;  // non-blocking reductions in progress and persistent ones
  bool counts_widely;  // its function takes an MPI_Count (MPI_Op_create_c)
  bool freed;  // by the application; it lasts as long as its users
};

struct Group {
  i32 size;
  i32 rank;  // of this process in it, kUndefined if none
  i32* ranks;  // world ranks
};

struct File {
  FileSlot* slot;
  CommSlot* comm;
  char* name;
  i32 amode;
  bool uses_shared;  // the shared file pointer has been used
  bool split_open;   // between the two calls of a split collective
  i32 atomic;
  InfoSlot* info;
  ErrhandlerSlot* errhandler;  // null: MPI_ERRORS_RETURN
  i64 view_at;       // the view; datarep null: none has been set
  DatatypeSlot* etype;
  DatatypeSlot* filetype;
  char* datarep;
  i64 position, shared;  // file pointers, as of the last checkpoint
  CanonStatus split_status;
  i32 split_error;
};

struct Session {
  ErrhandlerSlot* errhandler;
  i32 thread_level;
  OwnBuffer* buffer;
};

// The name of a data representation that converts nothing: files.h.
struct Datarep {
  Datarep* next;
  char* name;
};

inline constexpr u32 kPredefinedCount = 0x400;

inline Comm* comm_of(CommSlot* slot) { return static_cast<Comm*>(slot->object); }
inline Type* type_of(DatatypeSlot* slot) { return static_cast<Type*>(slot->object); }

inline Group* group_of(GroupSlot* slot) { return static_cast<Group*>(slot->object); }
inline Window* window_of(WinSlot* slot) { return static_cast<Window*>(slot->object); }
inline File* file_of(FileSlot* slot) { return static_cast<File*>(slot->object); }

inline Op* op_of(OpSlot* slot) { return static_cast<Op*>(slot->object); }

/// True if `slot` is the predefined object with this canonical number (compare numbers, never
/// addresses: a front end may have several slots for one object).
inline bool is_predefined(const Slot* slot, u32 canonical) { return slot->index == canonical; }

}  // namespace fermata::mpi
