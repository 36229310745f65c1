// SPDX-License-Identifier: Apache-2.0
// The state of the core beside what lies behind the slots. It is upper memory, so an image holds
// it.
//
// Invariant: no value of the lower half is here, but for Core::lower, which dies with the process
//            that wrote it. Not checked: a number does not tell what it is.
#pragma once

#include <pthread.h>

#include "halves/crossing.h"
#include "mpi/handles/callback_list.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/window.h"

namespace fermata::mpi {

struct Comm;
struct NamedTypeAttributes;
struct OwedReceipt;
struct OwnBuffer;
struct Keyval;
struct Partitioned;
struct Introduced;
struct SynchronousSend;
struct ThreadWait;
struct UserCode;
struct Datarep;

inline constexpr i32 kThunks = 256;
inline constexpr i32 kOutsideRoom = 1024;  // processes outside the job that are told apart

// How far this rank has come in the checkpoint `epoch`; see park.h.
struct ParkState {
  u32 epoch;
  u64 parked_version;
  u64 applied_version;  // of the targets and obligations copied to Core
  u64 told;             // digest of the wait-for edges that the coordinator knows; 0: none
  bool sent_reported;
  bool expected_copied;
  bool drained_reported;
  bool held;
  bool failed;
  const char* why_failed;
  bool held_told;
  u64 sent_in_all;      // messages to ranks of the job, as of what it has said that it has sent
};

// Whether other threads of the application may be inside MPI while one is; see threads.h.
enum class Threads : u8 { kOne, kSerialized, kMultiple };

// Each room's part of the state. They are here, below all rooms, because Core is one object that
// has them all by value.
struct HandlesState {
  bool are_mapped;  // the arrays of slots, and the arena
  u32 high[kKindCount];  // slots used so far, from kFirstDynamic
  Slot* free_slot[kKindCount];
  RequestSlot* free_request;
  u32 live_requests;
  RequestSlot* null_request;  // what the application calls MPI_REQUEST_NULL
};

struct GateState {
  Threads threads;
  u32 lock;             // of the core state: 0 free, 1 taken, 2 taken and awaited
  u32 main_wants_lock;  // 1: the main thread has given up, and is to be nudged
  ClockEntry* unused_clock;  // what the clock pointer of a null or freed communicator names
};

struct P2pState {
  // Messages since the job began, by world rank; behind them kOutsideRoom entries for processes
  // outside the job.
  u64* sent;
  u64* received;
  u64 post_order;
  RequestSlot* completed;  // see RequestKind::kCompleted
  SynchronousSend* synchronous;
  OwedReceipt* owed;
  CommSlot* own_comm;  // of our own messages (own_tags.h): all ranks, no handle of the application
  i32 receipt_tag;  // the last one used
  i32 channel;      // likewise, of partitioned messages (partitioned.h)
  Partitioned* unintroduced;
  Introduced* introductions;
  void* attached_buffer;
  i64 attached_bytes;
  OwnBuffer* own_buffer;  // of MPI_Buffer_attach with MPI_BUFFER_AUTOMATIC
  u64 unexpected_messages, unexpected_bytes;
  u64 unexpected_held, unexpected_filling;
  u64 unexpected_matched;  // held ones that the program has matched (MPI_Mprobe) and not received
  u32 forgotten, forgotten_room;  // freed requests at the last look and since; when to look again
};

struct ObjectsState {
  i32 predefined_attributes[8];
  bool predefined_attribute_set[8];
  NamedTypeAttributes* named_type_attributes;
  Keyval* keyvals;
  i32 keyvals_used, keyvals_room;
  UserCode* user_codes;
  i32 user_codes_used, user_codes_room;
  OpSlot* thunk_ops[kThunks];
};

struct CommsState {
  u64 next_number;
  Comm* live;
  Comm* dead;    // freed while requests needed them
  u32 leaving;   // communicators of which Comm::leaving is true
  bool parent_known;
  CommSlot* parent;  // the communicator with the processes that spawned this world, or null
};

struct WindowsState {
  bool* neighbours;    // by world rank: runs on this host
  i64* door_segments;  // likewise: where its doors are, from LowerValues::doors
  u64 doors_taken[kDoors / 64];  // of this rank, as bits
};

struct FilesState {
  Datarep* datareps;       // of MPI_Register_datarep
  ErrhandlerSlot* null_errhandler;  // of MPI_FILE_NULL: what files yet to be opened get
};

struct SafepointState {
  ParkState park;
  u32 sections;       // critical sections that are open; see sections.h
  u32 sections_shut;  // futex: 1 = none may begin, for the rank is parked
  char section_name[64];
  Callbacks callbacks;
  CallbackRound callback_rounds[2];  // by FERMATA_ON_*
  bool main_may_stop;       // the main thread is where it may stop of its own accord
  bool main_expects_calls;  // and where the lower half may call functions of the application
  u32 own_reductions;  // threads in blocking reductions by functions of the application
  u64* targets;   // by index into clocks()
  u64* expected;  // of a draining rank: how many messages it is to have received in all
  // By world rank, the obligations to it: messages that must have been sent to it and messages of
  // it that must have been matched before this rank parks; and those that are to be taken in.
  u64* to_send;
  u64* to_match;
  u64* to_take;
  ThreadWait* waits;
  u32 rebuilds;
};

struct WorldState {
  bool initialized;  // the lower half has begun, for MPI_Init or for a session
  bool finalized;    // and has ended
  bool begun;        // by MPI_Init
  bool ended;        // by MPI_Finalize
  bool ending;       // entering MPI_Finalize: it sends no more
  pthread_mutex_t begin_mutex;
  u32 session_process;  // the process, once it has opened a session; else 0
  u32 open_sessions;
  const Gate* init_thread;  // the gate of the thread that called MPI_Init
  i32 thread_level;
  i32 granted_level;  // the most that the application may be promised
  i32 rank;
  i32 size;
  double wtime_saved;   // MPI_Wtime when the image was cut
  double wtime_offset;  // added to the lower half's clock, so that the application's never jumps
};

struct UserApiState {
  u32 in_request;  // 1: a thread is in fermata_checkpoint
  int (*self_save)(const char* directory, void* argument);  // the program's; null = none
  void* self_argument;
  u32 asked_restart;  // the newest restart from a checkpoint that all ranks had asked for
  pthread_mutex_t excluded_mutex;  // of the list of excluded memory
};

// Values of this process's lower half, filled by lower_start().
struct LowerValues {
  RealRequest request_null;
  RealComm comm_null;
  RealDatatype byte;
  RealComm self;    // a private duplicate of MPI_COMM_SELF
  RealInfo apart;   // the hint alloc_shared_noncontig
  RealComm bridge;  // a duplicate of MPI_COMM_WORLD, for the messages in group_calls.cpp
  RealGroup everyone;  // while connected to processes outside the job: see lower_everyone()
  u64 doors;     // in this process: where the doors of the first rank of this host are
  RealWin door_window;
};

// The one mutable global of the core.
struct Core {
  HandlesState handles;
  GateState gate;
  P2pState p2p;
  ObjectsState objects;
  CommsState comms;
  WindowsState rma;
  FilesState io;
  SafepointState safepoint;
  WorldState world;
  UserApiState user_api;
  LowerValues lower;
};

inline Core g_core;
inline Core& state() { return g_core; }

inline const MpiCalls& lower() { return *crossing().lower->mpi; }

}  // namespace fermata::mpi
