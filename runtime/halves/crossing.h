// SPDX-License-Identifier: Apache-2.0
// What the three programs of a rank know of each other.
//
// Three parties meet in this header and nowhere else:
//   the upper half  (our front end inside the application),  saved, FS is its thread register
//   the lower half  (back end, real MPI, agent thread),      never saved, GS is its thread register
//   the launcher    (freestanding, no thread register),      owns system calls and memory
//
// They call each other by plain indirect calls through three tables:
//   LauncherCalls   at the fixed address kLauncherCallsAt (never moves)
//   LowerCalls      in lower memory; crossing().lower points at it, re-linked at every start
//   UpperCalls      in upper memory; crossing().upper points at it, valid across a restart
// and share one struct, Crossing, at the fixed upper address kCrossing. It is saved with the image.
//
// An image has its front end with it, so at a restart the upper half may be of the Fermata before
// this one: whatever stands here only grows at its end, and whoever changes it raises the version
// (spec/crossing.toml says how). What an older front end lacks: LowerCalls and LauncherCalls have
// more than it knows of; the end of Crossing is zero; UpperCalls is shorter than here.
//
// Invariant: no upper memory but Crossing::lower and the slots holds a lower address. Not checked:
//            a number does not tell what it is; restarts under another MPI would crash.
// Invariant: the agent thread touches upper memory only by plain loads and stores; it never calls
//            upper code (it has no upper thread register). Not checked: the first call would
//            crash.
#pragma once

#include "base/rank.gen.h"  // NeedKind, Cause, Phase, RankState, Report
#include "base/types.h"
#include "halves/layout.h"
#include "halves/versions.gen.h"

namespace fermata {

struct MpiCalls;  // generated: halves/mpi_calls.gen.h, one function pointer per MPI function

inline constexpr u32 kWorldUnknown = 0xffff'ffff;
inline constexpr u32 kSendingToAny = 0xffff'ffff;  // to whoever has been sent to

// The signals that belong to us. The boundary hides both from the application: it can neither block
// them nor install a handler.
inline constexpr int kSignalTrap = 31;     // SIGSYS, raised by the seccomp filter
inline constexpr int kSignalQuiesce = 64;  // SIGRTMAX, asks an upper thread to stop

// ---------------------------------------------------------------------------------------------
// One per upper thread, in the front end's initial-exec TLS at FS base + Crossing::gate_offset.
// Written only by its own thread (and by the quiesce handler that runs on it).
struct Gate {
  u32 depth;        // > 0 while the thread is inside the lower half, or parked
  u32 lock_depth;   // the depth at which it took the core lock; 0: it does not hold it
  u32 interrupted;  // a quiesce signal came while inside: see Crossing::pending on the way out
  u32 attention;    // kGate* bits: why entering MPI is more than counting up `depth`
};
inline constexpr u32 kGateNew = 1;     // no thread block of the lower half yet (in this process)
inline constexpr u32 kGateShared = 2;  // other threads may be inside MPI as well


// The collective clock of one communicator. The agent reads these while the MPI thread runs, so the
// MPI thread does `entry.seq++` and then loads Crossing::pending; the agent stores pending, issues
// membarrier(2), and then reads: one of the two always sees the other.
struct ClockEntry {
  u64 comm_id;  // the same number on every member; 0 = free entry
  u64 seq;      // collective calls begun (blocking) or initiated (non-blocking) on it
};
inline constexpr u64 kClockCapacity = kClockBytes / sizeof(ClockEntry);

struct Count {  // one pair of a list in the mailbox
  u64 key;      // targets: comm_id; needs: edge_key(); expected: world rank of the sender
  u64 value;    // targets: seq to reach; needs: how far to come; expected: messages that sender
                // has sent to this rank
};

// A wait-for edge; for the rank that is waited for, an obligation. NeedKind, Cause, kNeeds and
// `needs` are older words for them, which the description of this crossing keeps.
inline u64 edge_key(NeedKind kind, u32 peer) { return u64(kind) << 32 | peer; }
inline NeedKind kind_of_edge(const Count& edge) { return NeedKind(edge.key >> 32); }
inline u32 peer_of_edge(const Count& edge) { return u32(edge.key); }

// Why a rank with Crossing::connections above 0 cannot be saved.
inline constexpr const char* kConnected =
    "the rank is connected to processes outside the job (MPI_Comm_spawn, MPI_Comm_connect, "
    "MPI_Open_port); after MPI_Comm_disconnect and MPI_Close_port it can be saved";

struct Mailbox {  // at kMailbox
  static constexpr u64 kCapacity = kMailboxBytes / 3 / sizeof(Count);
  Count targets[kCapacity];
  Count needs[kCapacity];  // obligations of this rank
  Count expected[kCapacity];
};
static_assert(sizeof(Mailbox) <= kMailboxBytes);

// ---------------------------------------------------------------------------------------------
struct LowerCalls {
  u32 version;       // kCrossingVersion
  u32 mpi_calls_hash_low;  // of the generated table's shape; must equal the front end's, whose
                           // table may be shorter after a restart
  const MpiCalls* mpi;
  const char* name;  // "Open MPI 4.1.4", for messages
  // Sends one report to the coordinator, of the checkpoint `epoch` where it belongs to one. The
  // caller says which: the pending one may be the next already. Blocks at most for a socket write;
  // never allocates.
  // Callable from the MPI thread wherever it may call MPI. Returns 0, or -errno once the
  // coordinator is gone (the job continues without checkpoints).
  int (*report)(Report kind, u32 epoch, const void* payload, u64 bytes);
  // Fills predefined slots: real handle of each canonical constant (MPI-5 standard ABI number).
  // kind: index as in mpi/handles/slots.h. Returns the real handle, 0 if this MPI lacks the object.
  u64 (*predefined)(u32 kind, u32 canonical);
  // Gives every rank the `bytes` bytes of all ranks, by rank. Every rank calls it at the same
  // points of a restart, before there is an upper half. Blocks until all have come. Returns 0 or an
  // MPI error.
  int (*gather)(const void* mine, u64 bytes, void* all);
  // Makes a thread of the lower half that calls LauncherCalls::lend. Runs on any thread whose GS
  // names a thread block of the lower half. Returns 0 or an errno.
  int (*make_lender)();
};

struct UpperCalls {
  // Runs on the MPI thread inside the quiesce handler. `frame` is the handler's ucontext_t*.
  // Takes part in the safe-state protocol until the phase is kRun again or this rank must run on to
  // reach its targets. Calls LauncherCalls::hold(frame) in phase kSave. After a restart hold()
  // returns kHoldRestarted and park() rebuilds every MPI object before it returns.
  void (*park)(void* frame);
  u64 park_stack;  // top of a stack for that, where the thread stands on another than its first one
};

struct Crossing {
  u64 magic;  // kCrossingMagic
  u32 version;               // of the front end: in a restarted rank perhaps an older one
  u32 main_tid;              // id of the upper main thread, as the application knows it
  const LowerCalls* lower;   // re-linked by the launcher at every start
  const UpperCalls* upper;   // set once by the front end's constructor
  i64 gate_offset;           // &tls_gate - FS base; valid once upper != nullptr

  // Checkpoint control, written by the agent (pending, phase, versions), read by the MPI thread.
  // The MPI thread waits with futex(FUTEX_WAIT) on `wake`; the agent adds 1 to it and wakes.
  u32 pending;           // epoch of the checkpoint being taken; 0 = none
  Phase phase;
  u32 wake;
  u32 mpi_tid;           // id of the thread that parks, the main one; 0: no MPI_Init yet
  u64 targets_version;   // 0 = not known yet; targets[0..targets_count) and
  u64 targets_count;     // needs[0..needs_count) belong to it
  u64 needs_count;
  u64 expected_version;  // == pending once expected[0..expected_count) is filled for this epoch
  u64 expected_count;
  RankState state;       // written by the front end
  u32 world_rank;        // kWorldUnknown before MPI_Init
  u32 world_size;
  u32 clocks_count;      // entries in use at kClocks (high-water mark), written by the front end
  u32 committed_epoch;   // newest epoch whose snapshot is committed, written by the agent
  u32 restarts;          // how often this image has been restarted, written by the launcher
  u32 rebuilding;        // 1 from a restart until the front end has rebuilt every MPI object;
                         // futex: the other upper threads wait for 0
  i32 thread_level;      // canonical MPI_THREAD_* the application was promised; -1 before MPI_Init
  u32 two_phase;         // 1: --collectives 2pc; written by the front end
  u32 connections;       // communicators with processes outside the job and open ports: none may
                         // exist when an image is cut; written by the front end
  // A send that the MPI thread is in, for which the lower half may wait: the receiver's world rank
  // + 1, kSendingToAny, or 0. The same handshake as with ClockEntry: `sending` is stored, then
  // `pending` loaded. `sent` are the counts of messages by receiver.
  u32 sending;
  u32 sending_told;      // the agent has told what it waits for
  u32 synchronous;       // 1: the program has used synchronous sends
  const u64* sent;
  // fermata_checkpoint: the answer to Report::kAsk, written by the agent, `answered` last.
  u32 asked_epoch;       // newest checkpoint that all ranks have asked for
  u32 answered;          // futex: 1 = there is an answer
  u32 answer;            // 0 = committed, else failed
  char answer_text[256]; // where the snapshot is, or why there is none
  // A program that saves itself. The agent writes the directory and then save_epoch, and wakes
  // `answered`; the thread in fermata_checkpoint writes the rest, saved_epoch last.
  u32 save_epoch;        // newest checkpoint for which the program has been told to save itself
  u32 saved_epoch;       // == save_epoch once it has
  i32 saved_code;        // what its function returned
  i32 saved_error;       // errno of flushing what it wrote
  char save_directory[4096];
};
inline constexpr u64 kCrossingMagic = 0x4154414d'52454678;  // "xFERMATA"
static_assert(kCrossing + sizeof(Crossing) <= kInterface);

// Memory whose contents the application does not need again, written by the front end.
struct ExcludedRegion {
  u64 address, bytes;
};
struct Excluded {
  static constexpr u64 kCapacity = 1024;
  u64 count;
  ExcludedRegion regions[kCapacity];
};
static_assert(kExcluded + sizeof(Excluded) <= kCrossing + kCrossingBytes);

// The accessors. All are constants to the compiler: no load, no GOT.
inline Crossing& crossing() { return *reinterpret_cast<Crossing*>(kCrossing); }
inline ClockEntry* clocks() { return reinterpret_cast<ClockEntry*>(kClocks); }
inline Excluded& excluded() { return *reinterpret_cast<Excluded*>(kExcluded); }
inline Mailbox& mailbox() { return *reinterpret_cast<Mailbox*>(kMailbox); }

// ---------------------------------------------------------------------------------------------
enum HoldResult : i32 {
  kHoldResumed = 0,    // same process: the image was cut (or the save failed); continue
  kHoldRestarted = 1,  // a new process, perhaps another MPI: rebuild, then continue
};

struct SaveRequest {   // agent -> launcher; times in nanoseconds, sizes in bytes
  const char* path;    // image file to create; its directory exists
  u32 epoch;
  u32 world_rank, world_size;
  u32 deadline_ms;     // for quiescing all upper threads
  const char* job;     // job name, recorded in the image
};

struct SaveOutcome {
  i32 error;           // 0, or errno
  char message[240];   // what, where, what to do; empty when error == 0
  u64 image_bytes;
  u32 image_crc;       // CRC32C of the image's header block
  u32 reserved;
};

struct LauncherCalls {
  u32 version;  // kCrossingVersion
  u32 bytes;    // of this table; since crossing 16
  // lower main -> launcher, once, when the back end is ready and (on a restart) MPI is initialised.
  // Continues in load_lower(), or restores the rank `world_rank` of the snapshot. Does not return.
  void (*lower_ready)(const LowerCalls* lower, u32 world_rank, u32 world_size)
      __attribute__((noreturn));
  // front end constructor -> launcher: the upper half has a front end. Blocks: no. Allocates: no.
  void (*register_upper)(const UpperCalls* upper, i64 gate_offset);
  // MPI thread in phase kSave: stay here until the agent's save() is over. frame: ucontext_t*.
  HoldResult (*hold)(void* frame);
  // Agent, phase kSave, MPI thread in hold() or on its way: quiesce the other upper threads, fork,
  // and return the writer's pid (> 0) or -errno with outcome filled. The image is written by the
  // child; after a pid the rank stands still until resume(). Runs on the agent thread.
  // Signal-safe: no.
  i32 (*save)(const SaveRequest* request, SaveOutcome* outcome);
  // Agent: wait for the writer. Blocks at most timeout_ms; returns 1 done (outcome filled), 0 not
  // yet.
  i32 (*save_finish)(i32 writer_pid, u32 timeout_ms, SaveOutcome* outcome);
  // Agent: wait until the writer has what the job would change by continuing, or has failed. Blocks
  // at most timeout_ms; returns 1 so, 0 not yet.
  i32 (*save_described)(i32 writer_pid, u32 timeout_ms);
  // Agent: ask the MPI thread to stop at its next safe point (tgkill of kSignalQuiesce).
  void (*nudge)(u32 tid);
  // Configuration given on the launcher's command line; "" if absent. Keys: "socket", "job",
  // "rank", "collectives", "restore" (snapshot directory), "state" (directory of what the program
  // has saved itself), "thread_level" (of the saved program), "front" (front-end library), "lower"
  // (back-end program), "fermata" (the command of that name), "first" (see launch::Config).
  const char* (*config)(const char* key);
  // MPI thread, at the end of park(): the thread goes back to `frame` next. Signal-safe: yes.
  void (*leave)(void* frame);
  // Agent: the images of all ranks have been cut, or the checkpoint is given up: the rank
  // continues. Returns how long it stood still, from the first thread's stop, in ns.
  u64 (*resume)();
  // MPI thread in park(): asks all other upper threads to stop. Returns how many still run; call
  // again until that is 0. release_others lets them continue.
  u32 (*stop_others)();
  void (*release_others)();
  // Upper thread other than the main one: from now on GS names a thread block of the lower half,
  // this thread's own until it ends. Returns 0 or -errno. Blocks until the lower half has made one.
  i32 (*borrow)();
  // A thread of the lower half gives its thread block away and sleeps for ever.
  void (*lend)() __attribute__((noreturn));
  // front end constructor -> launcher, first of all: the application has asked for MPI. Loads the
  // lower half; returns when crossing().lower is there. Ends the process if it cannot.
  void (*load_lower)();
  // Agent: the job ends to be restarted. Ends the children that the restart will start again.
  void (*end_helpers)();
  // Maps the pages of a shared mapping at `from` at `to` as well, in place of what is there. In the
  // upper window they stay the lower half's: an image has their contents as private memory. Returns
  // 0; -EINVAL: the memory at `from` is private, nothing has changed; or another -errno, and then
  // `to` may have become fresh private memory. All whole pages.
  i32 (*share)(u64 from, u64 to, u64 bytes);
  // Likewise in the upper window after a restart: what is at `to` comes to `from` first, and what
  // the program may do with its pages stays.
  i32 (*share_again)(u64 from, u64 to, u64 bytes);
  // Unmaps upper memory that the above has mapped.
  void (*unshare)(u64 at, u64 bytes);
  // Puts fresh pages in place of memory of the lower half's that only this process has: shared
  // ones, so that `share` can map them, or private ones again. False: nothing has changed.
  bool (*renew_lower)(u64 at, u64 bytes, bool shared);
  // Agent: the next signal that is to save the job, that has come to this process and that nobody
  // has been told of. 0: there is none. -1: likewise, and one waits that the program will take.
  i32 (*heard)();
  // Agent: there is nobody to be told. Such signals act as they would have.
  void (*stop_holding)();
};

inline const LauncherCalls& launcher() {
  return *reinterpret_cast<const LauncherCalls*>(kLauncherCallsAt);
}

/// The shape of the table of MPI calls of a crossing that is served; 0 of any other.
constexpr u32 served_calls_hash(u32 version) {
  for (const ServedCrossing& served : kServedCrossings)
    if (served.version == version) return served.calls_hash;
  return 0;
}

}  // namespace fermata
