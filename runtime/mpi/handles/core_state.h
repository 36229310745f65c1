// SPDX-License-Identifier: Apache-2.0
// The state of the core beside what lies behind the slots. It is upper memory, so an image holds
// it.
//
// Invariant: no value of the lower half is here, but for `lower_*`, which die with the process that
//            wrote them and are filled by lower_start().
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
  Partitioned* unintroduced;
  Introduced* introductions;
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

}  // namespace fermata::mpi
