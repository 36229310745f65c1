// SPDX-License-Identifier: Apache-2.0
// What lives behind the slots: for every kind of MPI object its state and its recipe, that is, what
// is needed to make it again in another lower half.
//
// Invariant: nothing here holds a value of the lower half. Real handles live in Slot::real alone.
// (The exceptions die with the process that wrote them and are listed in `Core`: `lower_*`.)
#pragma once

#include <pthread.h>

#include "halves/mpi_calls.gen.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/callback_list.h"
#include "mpi/handles/constants.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/window.h"

namespace fermata::mpi {

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

enum class UnexpectedState : u8 {
  kFound,    // by a probe; the lower half has it yet
  kHeld,     // out of the lower half's queue, but not received: its sender does not see that
  kFilling,  // being received
  kWhole,
};

// A message that a probe has found, and that is kept for its receive (unexpected.h).
struct UnexpectedMessage {
  UnexpectedMessage* next;
  UnexpectedMessage* previous;
  struct Comm* comm;
  UnexpectedState state;
  bool counted;  // in Core::received
  bool matched;  // held for a message handle of the program; in no queue
  u64 real;      // the message, if held; the request that fills `data`, if filling
  u8* data;
  u64 bytes;
  i32 source;  // rank in the communicator
  i32 tag;
  i32 owed_to;  // world rank whose synchronous send waits until it is matched, if owed_tag
  i32 owed_tag;
};

struct Topology {
  i32 kind;  // kCart, kGraph, kDistGraph
  i32 count[2];     // ndims | nnodes, nedges | indegree, outdegree
  i32* numbers[2];  // dims, periods | index, edges | sources, destinations
  i32* weights[2];  // of a distributed graph; null: unweighted
};

// What MPI_Bsend has put into a buffer that is no lower half's: buffers.h.
struct BufferedMessage {
  Slot* request;
  i64 bytes;
};
struct OwnBuffer {
  void* base;  // the application's, or MPI_BUFFER_AUTOMATIC
  i64 bytes, used;
  i32 count, room;
  BufferedMessage* messages;
};

struct Comm {
  u64 id;  // the same number on every member, different from any other communicator's
  Slot* slot;
  Comm* next;  // in the list of live communicators
  Comm* previous;
  i32* members;  // world rank of each peer (an intercommunicator's: of the remote group)
  UnexpectedMessage* unexpected_first;
  UnexpectedMessage* unexpected_last;
  i32 rank;
  i32 size;         // of the local group
  i32 remote_size;  // of the remote group; -1: an intracommunicator
  i32* local_members;
  Slot* errhandler;  // null: MPI_ERRORS_ARE_FATAL
  Attribute* attributes;
  Topology* topology;
  char* name;
  bool dead;    // in Core::dead_comms
  bool ending;  // the lower half is freeing it, without the core lock, or makes it (idup.h): not to
                // be looked at
  bool leaving;  // freed by the application; the other members have not all done so (leaving.h)
  // For one persistent collective (persistent_collectives.h): of which communicator it is the
  // duplicate, and whether this rank has freed the request.
  Comm* duplicate_of;
  bool idle;
  bool outside;  // some members belong to another job: connections.h
  Window* window;  // whose own communicator this is, or null
  OwnBuffer* buffer;  // of MPI_Comm_attach_buffer
  Slot* info;         // its hints, or null (hints.h)
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
  Slot** types;
};

struct Type {
  i32 refs;  // the application's, its parents' and pending requests'
  i32 handles;  // the application's alone; with the last its attributes go
  i32 combiner;
  bool committed;
  bool has_bounds;  // `lower` and `extent` are known
  u32 built;  // == Core::rebuilds once the real type exists in this lower half
  i32 ints_count, aints_count, types_count;
  i32* ints;  // the three arrays are those of MPI_Type_get_contents
  i64* aints;
  Slot** types;
  static constexpr i32 kFewInts = 4;
  i32 few_ints[kFewInts];  // where `ints` are, if they fit
  Slot* only_type;         // where `types` are, if it is one
  u64* room;               // the block of `aints` and of `types`, if they are several
  i64 lower, extent;  // what the application may have read; see type_keep_extent()
  char* name;
  Attribute* attributes;
  LargeArguments* large;  // null, but for the types of large_types.h
};

// Attributes of a predefined type, which has no Type.
struct NamedTypeAttributes {
  NamedTypeAttributes* next;
  u32 canonical;
  Attribute* list;
  char* name;  // null: the lower half's
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
  Slot* slot;
  Slot* comm;
  char* name;
  i32 amode;
  bool uses_shared;  // the shared file pointer has been used
  bool split_open;   // between the two calls of a split collective
  i32 atomic;
  Slot* info;
  Slot* errhandler;  // null: MPI_ERRORS_RETURN
  i64 view_at;       // the view; datarep null: none has been set
  Slot* etype;
  Slot* filetype;
  char* datarep;
  i64 position, shared;  // file pointers, as of the last checkpoint
  CanonStatus split_status;
  i32 split_error;
};

struct Session {
  Slot* errhandler;
  i32 thread_level;
  OwnBuffer* buffer;
};

// The name of a data representation that converts nothing: files.h.
struct Datarep {
  Datarep* next;
  char* name;
};

// An error class (error_class is its own number) or code of the application.
struct UserCode {
  bool used;
  i32 error_class;
  char* text;
  i32 codes = 0;  // of a class: those that are there
};

// The application's callbacks of a generalized request.
struct Generalized {
  void* query_fn;
  void* free_fn;
  void* cancel_fn;
  void* extra_state;
};

struct InfoPair {
  InfoPair* next;
  char* key;
  char* value;
};
struct Info {
  InfoPair* first;
};

enum class RequestKind : u8 {
  kSend, kRecv, kCollective, kOther, kGeneralized,
  // Not given back when they complete:
  kPersistentSend, kPersistentRecv, kPersistentCollective, kPartitioned,
  kCompleted,  // Core::completed, which all sends share that were complete when they were begun
};
enum class SendMode : u8 {
  kStandard, kBuffered, kSynchronous, kReady,
  kMatched,  // of a receive: its message was held, and its real request is that of MPI_Imrecv; a
             // persistent one's own is in Slot::spare meanwhile
};
enum class RequestState : u8 {
  kActive,    // Slot::real is a real request in progress
  kDone,      // finished in the core state; `status` and `error` wait for the application
  kInactive,  // persistent and not started
  kPending,   // generalized: the application has yet to complete it; a synchronous send: its
              // message was kept, its receipt has yet to come (receipts.h); a partitioned one that
              // has been started (partitioned.h)
};

struct Request {
  RequestKind kind;
  RequestState state;
  SendMode mode;
  bool forgotten;  // the application called MPI_Request_free
  bool cancelled;  // the application called MPI_Cancel; the status tells whether that worked
  bool wants_status;  // the core state needs it: who sent the message, or whether it was cancelled
  bool owns;  // counted references: `datatype`, the operation, `kept_until_done`, SynchronousSend
  bool polled;        // tested in vain during a checkpoint
  bool in_lower;      // its thread waits for it in the lower half, with the core lock released
  i32 error;  // of a finished request
  i32 count;
  i32 peer;
  i32 tag;
  i32 receiver;       // world rank a send is for; -1: nobody
  void* buffer;
  Slot* datatype;
  Slot* object;  // of a non-blocking reduction: the application's operation, or null; of a
                 // duplication or the end of a communicator: that one; where there is no
                 // `comm`: the window or file, or null
  Slot* comm;
  u64 order;  // posted as the n-th; receives are re-posted in this order
  void* kept_until_done;  // arena memory of a collective, a Generalized, a KeptCollective,
                          // a Partitioned
  CanonStatus status;     // of a finished request
};

/// Begins the life of a request: sets all that is not recipe or outcome, with one store.
[[gnu::always_inline]] inline void request_start(Request* request, RequestKind kind,
                                                 RequestState state) {
  request->kind = kind;
  request->state = state;
  request->mode = SendMode::kStandard;
  request->forgotten = false;
  request->cancelled = false;
  request->wants_status = false;
  request->owns = false;
  request->polled = false;
}

inline bool is_persistent(const Request* request) {
  return request->kind >= RequestKind::kPersistentSend && request->kind != RequestKind::kCompleted;
}
inline bool is_collective(const Request* request) {
  return request->kind == RequestKind::kCollective ||
         request->kind == RequestKind::kPersistentCollective;
}
/// True if its real request is a persistent one as well, which exists while it is inactive.
inline bool has_persistent_real(const Request* request) {
  return request->kind == RequestKind::kPersistentSend ||
         request->kind == RequestKind::kPersistentRecv;
}
inline bool is_receive(const Request* request) {
  return request->kind == RequestKind::kRecv || request->kind == RequestKind::kPersistentRecv;
}
inline bool is_send(const Request* request) {
  return request->kind == RequestKind::kSend || request->kind == RequestKind::kPersistentSend;
}
/// True if a file's read or write, collective ones among them.
inline bool is_of_file(const Request* request) {
  return (request->kind == RequestKind::kOther || request->kind == RequestKind::kCollective) &&
         request->object && request->object->kind == kFile;
}
/// True if it is, or can be, begun on its communicator after a restart.
inline bool needs_comm(const Request* request) {
  return has_persistent_real(request) ||
         (is_receive(request) && request->state == RequestState::kActive);
}

// What a sender tells the receiver of a synchronous send that a checkpoint has found unfinished.
struct Announcement {
  u64 comm_id;
  i32 tag;
  i32 receipt_tag;
  u64 behind;  // messages with the same receiver, communicator and tag that it has sent since
};
// A synchronous send that has not ended; see receipts.h.
struct SynchronousSend {
  SynchronousSend* next;
  Slot* slot;
  i32 receiver;  // world rank
  Announcement word;
  Slot* receipt;   // the receive of its receipt, once it has been announced; null: not needed
  u32 epoch;       // the checkpoint at which it was
  bool unfinished;  // announced, and the lower half has not finished it
};
// Receipts for messages that had been matched when their senders asked.
struct OwedReceipt {
  OwedReceipt* next;
  i32 to;
  i32 tag;
};

inline constexpr i32 kThunks = 256;
inline constexpr i32 kOutsideRoom = 1024;  // processes outside the job that are told apart
inline constexpr u32 kPredefinedCount = 0x400;

// How far this rank has come in the checkpoint `epoch`; see park.h.
struct ParkState {
  u32 epoch;
  u64 parked_version;
  u64 applied_version;  // of the targets and needs copied to Core
  u64 told;             // digest of the needs that the coordinator knows; 0: none
  bool sent_reported;
  bool expected_copied;
  bool drained_reported;
  bool held;
  bool failed;
  const char* why_failed;
  bool held_told;
};

// What a call waits for, by world rank; see needs.h.
struct Wanted {
  bool* senders;   // a message of it
  bool* receivers;  // that it takes what has been sent to it
};

// What one thread of the application waits for, with a duty of its rank; see needs.h.
struct ThreadWait {
  ThreadWait* next;
  const Gate* of;  // whose; a gate is used again with the memory it is in
  u32 epoch;       // the checkpoint during which it was noted
  Wanted wanted;
  u64 digest;      // 0: for nobody
  u64 since_ns;    // the digest has been the same
};

// Whether other threads of the application may be inside MPI while one is; see threads.h.
enum class Threads : u8 { kOne, kSerialized, kMultiple };

// The one mutable global of the core.
struct Core {
  bool slots_mapped;
  bool initialized;  // the lower half has begun, for MPI_Init or for a session
  bool finalized;    // and has ended
  bool world_begun;  // by MPI_Init
  bool world_ended;  // by MPI_Finalize
  pthread_mutex_t begin_mutex;
  u32 session_process;  // the process, once it has opened a session; else 0
  u32 open_sessions;
  bool ending;  // at the door of MPI_Finalize: it sends no more
  Threads threads;
  u32 sections;             // critical sections that are open; see sections.h
  u32 sections_shut;        // futex: 1 = none may begin, for the rank is parked
  char section_name[64];
  u32 asking;               // 1: a thread is in fermata_checkpoint
  int (*self_save)(const char* directory, void* argument);  // the program's; null = none
  void* self_argument;
  u32 asked_restart;        // the newest restart from a checkpoint that all ranks had asked for
  pthread_mutex_t excluded_mutex;  // of the list of excluded memory
  Callbacks callbacks;
  CallbackRound callback_rounds[2];  // by FERMATA_ON_*
  bool main_may_stop;       // the main thread is where it may stop of its own accord
  bool main_expects_calls;  // and where the lower half may call functions of the application
  u32 core_lock;           // 0 free, 1 taken, 2 taken and awaited
  u32 main_wants_core;     // 1: the main thread has given up, and is to be nudged
  u32 own_reductions;       // threads in blocking reductions by functions of the application
  const Gate* init_thread;  // the gate of the thread that called MPI_Init
  i32 thread_level;
  i32 granted_level;  // the most that the application may be promised
  i32 world_rank;
  i32 world_size;
  u64 everyone;  // while it is connected to processes outside the job: see lower_everyone(); else 0
  // Messages since the job began, by world rank; behind them kOutsideRoom entries for processes
  // outside the job.
  u64* sent;
  u64* received;
  u64* expected;  // of a draining rank: how many it is to have received in all
  u64 post_order;
  u64 next_comm_number;
  Comm* comms;
  Comm* dead_comms;  // freed while requests needed them
  u32 leaving;       // communicators of which Comm::leaving is true
  bool parent_known;
  Slot* parent;  // the communicator with the processes that spawned this world, or null
  Slot* free_request;
  u32 live_requests;
  Slot* null_request;  // what the application calls MPI_REQUEST_NULL
  Slot* completed;       // see RequestKind::kCompleted
  u32 high[kKindCount];       // slots used so far, from kFirstDynamic
  Slot* free_slot[kKindCount];
  u64* targets;  // by index into clocks()
  // By world rank, what it needs of this one: messages that must have been sent to it and messages
  // of it that must have been matched before this rank parks; and those that are to be taken in.
  u64* needed;
  u64* to_match;
  u64* to_take;
  ThreadWait* waits;
  SynchronousSend* synchronous;
  OwedReceipt* owed;
  Slot* own_comm;   // of our own messages (own_tags.h): all ranks, no handle of the application
  i32 receipt_tag;  // the last one used
  i32 channel;      // likewise, of partitioned messages (partitioned.h)
  struct Partitioned* unintroduced;
  struct Introduced* introductions;
  ClockEntry* unused_clock;  // what the clock pointer of a null or freed communicator names
  i32 predefined_attributes[8];
  bool predefined_attribute_set[8];
  NamedTypeAttributes* named_type_attributes;
  Keyval* keyvals;
  i32 keyvals_used, keyvals_room;
  UserCode* user_codes;
  i32 user_codes_used, user_codes_room;
  Datarep* datareps;      // of MPI_Register_datarep
  Slot* file_errhandler;  // of MPI_FILE_NULL: what files yet to be opened get
  Slot* thunk_ops[kThunks];
  void* attached_buffer;
  OwnBuffer* own_buffer;  // of MPI_Buffer_attach with MPI_BUFFER_AUTOMATIC
  i64 attached_bytes;
  u64 unexpected_messages, unexpected_bytes;
  u64 unexpected_held, unexpected_filling;
  u64 unexpected_matched;  // held ones that the program has matched (MPI_Mprobe) and not received
  u32 forgotten, forgotten_room;  // freed requests at the last look and since; when to look again
  u32 rebuilds;
  double wtime_saved;   // MPI_Wtime when the image was cut
  double wtime_offset;  // added to the lower half's clock, so that the application's never jumps
  ParkState park;
  // Values of this process's lower half, filled by lower_start().
  u64 lower_request_null;
  u64 lower_comm_null;
  u64 lower_byte;
  u64 lower_self;    // a private duplicate of MPI_COMM_SELF
  u64 lower_apart;   // the hint alloc_shared_noncontig
  u64 lower_doors;   // in this process: where the doors of the first rank of this host are
  u64 lower_door_window;
  bool* neighbours;    // by world rank: runs on this host
  i64* door_segments;  // likewise: where its doors are, from lower_doors
  u64 doors_taken[kDoors / 64];  // of this rank, as bits
  u64 lower_bridge;  // one of MPI_COMM_WORLD, for the lower half's messages in group_calls.h
};

inline Core g_core;
inline Core& state() { return g_core; }

inline const MpiCalls& lower() { return *crossing().lower->mpi; }

inline Comm* comm_of(Slot* slot) { return static_cast<Comm*>(slot->object); }
inline Type* type_of(Slot* slot) { return static_cast<Type*>(slot->object); }
inline Request* request_of(Slot* slot) { return static_cast<Request*>(slot->object); }
inline Group* group_of(Slot* slot) { return static_cast<Group*>(slot->object); }
inline Window* window_of(Slot* slot) { return static_cast<Window*>(slot->object); }
inline File* file_of(Slot* slot) { return static_cast<File*>(slot->object); }
inline Info* info_of(Slot* slot) { return static_cast<Info*>(slot->object); }
inline Op* op_of(Slot* slot) { return static_cast<Op*>(slot->object); }

/// True if `slot` is the predefined object with this canonical number (compare numbers, never
/// addresses: a front end may have several slots for one object).
inline bool is_predefined(const Slot* slot, u32 canonical) { return slot->index == canonical; }

}  // namespace fermata::mpi
