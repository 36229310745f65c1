// SPDX-License-Identifier: Apache-2.0
// What lies behind the slot of a request: its recipe, its state, and how it has ended.
#pragma once

#include "halves/layout.h"
#include "halves/mpi_calls.gen.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/slots.h"

namespace fermata::mpi {

struct Generalized;
struct KeptCollective;

enum class RequestKind : u8 {
  kSend, kRecv, kCollective, kOther, kGeneralized,
  // Not given back when they complete:
  kPersistentSend, kPersistentRecv, kPersistentCollective, kPartitioned,
  kCompleted,  // P2pState::completed, which all sends share that were complete when they were begun
};
enum class SendMode : u8 { kStandard, kBuffered, kSynchronous, kReady };
enum class ReceiveMode : u8 {
  kPosted,
  kHeld,  // its message was held, and its real request is that of MPI_Imrecv; a persistent one's
          // own is in Slot::own meanwhile
};
// Who sees to a request that has finished.
enum class Holder : u8 {
  kProgram,  // has its handle, and will ask
  kThread,   // a thread waits for it in the lower half, with the core lock released
  kNobody,   // the program has freed it (MPI_Request_free), or never had it: whoever finds it
             // finished releases it
};
enum class RequestState : u8 {
  kActive,    // its slot's real() is a real request in progress
  kDone,      // finished in the core state; `status` and `error` wait for the application
  kInactive,  // persistent and not started
  kPending,   // generalized: the application has yet to complete it; a synchronous send: its
              // message was kept, its receipt has yet to come (receipts.h); a partitioned one that
              // has been started (partitioned.h)
};

struct Request {
  RequestKind kind;
  RequestState state;
  SendMode mode;             // of a send
  ReceiveMode receive_mode;  // of a receive
  Holder holder;
  bool wants_status;  // the core state needs it: who sent the message, or whether it was cancelled
  bool owns;  // counted references: `datatype`, the operation, `kept_until_done`, SynchronousSend
  bool polled;  // tested in vain during a checkpoint
  i32 error;  // of a finished request
  i32 count;
  i32 peer;
  i32 tag;
  i32 receiver;       // world rank a send is for; -1: nobody
  void* buffer;
  DatatypeSlot* datatype;
  Slot* object;  // of a non-blocking reduction: the application's operation, or null; of a
                 // duplication or the end of a communicator: that one; where there is no
                 // `comm`: the window or file, or null
  CommSlot* comm;
  u64 order;  // posted as the n-th; receives are re-posted in this order
  union {  // by kind
    void* kept_until_done;  // arena memory of a collective, or of a send of its own packed bytes
    Generalized* generalized;
    KeptCollective* kept_collective;  // of a persistent one
    Partitioned* partitioned;
  };
  CanonStatus status;  // of a finished request
};

/// Begins the life of a request: sets all that is not recipe or outcome, with one store.
[[gnu::always_inline]] inline void request_start(Request* request, RequestKind kind,
                                                 RequestState state) {
  request->kind = kind;
  request->state = state;
  request->mode = SendMode::kStandard;
  request->receive_mode = ReceiveMode::kPosted;
  request->holder = Holder::kProgram;
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

inline Request* request_of(RequestSlot* slot) { return static_cast<Request*>(slot->object); }

}  // namespace fermata::mpi
