// SPDX-License-Identifier: Apache-2.0
// The agent thread. The coordinator decides; the MPI thread stops, drains and holds; the agent
// stands between them: it turns frames into the few words of struct Crossing that the MPI thread
// watches, and the MPI thread's reports into frames.
//
// It lives in the lower half and is an ordinary thread there, but it must never run upper code and
// never wait for the MPI thread: every step is "write the words, wake, nudge". What goes wrong ends
// in one way, release(): the rank runs on as if nobody had asked.
//
// Invariant: crossing() is touched only once the MPI thread has reported kReady or kRebuilt. On a
//            restart the page does not exist while the agent starts. Not checked: without the page
//            the first touch ends the process.
// Invariant: pending is stored last when a checkpoint begins and cleared first when it ends. Not
//            checked: a matter of the order of stores.
#include "agent/agent.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/leftovers.h"
#include "agent/saving.h"
#include "agent/sending.h"
#include "agent/words.h"
#include "agent/wrappers.h"
#include "sys/check.h"
#include "sys/faults.h"
#include "sys/sys.h"

namespace fermata {

namespace {

using agent::Checkpointer;
using agent::Connection;
using agent::Frame;
using agent::load;
using agent::store;
using agent::store_phase;
using agent::wake_rank;
using agent::wake_waiters;
using faults::Fault;
using faults::fault;
namespace wire = protocol;

constexpr int kIdlePollMs = 1000;
constexpr int kSavingPollMs = 10;
// A coordinator says ALIVE every other second. One whose disk hangs may be silent for long while it
// stores a snapshot; then ranks stand only if the job is to end, or if their program waits for it.
constexpr u64 kSilenceMs = 30'000, kStoringMs = 600'000;
constexpr int kReconnectEveryMs = 2000;
constexpr int kReconnectTries = 30;
constexpr u64 kStackBytes = 256 * 1024;
constexpr u32 kNoRank = 0xffff'ffff;

struct Agent {
  Connection connection;
  const LowerCalls* lower;
  char socket_path[128];
  char job[72];
  u32 rank_hint;
  u32 restart_epoch;
  bool started;
  bool upper_known;  // the MPI thread has reported: crossing() is there
  agent::Saving saving;
  bool asking;       // the rank waits for the answer to ASK
  u32 asked_after;   // the last checkpoint whose SAVE it had obeyed then
  i32 signal;        // that is still to be told, as heard() says
  int signals;       // a signalfd(2) that says when heard() may have something to tell
  u64 heard_ms;      // when the coordinator was last heard, or nothing was waited for
  Count clocks[kClockCapacity];
};
Agent self;

const agent::SaveState& saving() { return self.saving.state(); }

// Of the checkpoint that this rank takes part in, 0 = none.
u32 pending_epoch() { return load(self.upper_known) ? load(crossing().pending) : 0; }

void nudge_rank() {
  const u32 tid = load(crossing().mpi_tid);
  if (tid != 0) launcher().nudge(tid);
}

// Lets the rank run, whatever state the checkpoint was in.
void release() {
  Crossing& shared = crossing();
  self.saving.end_pause();
  store(shared.pending, 0u);
  store(shared.targets_version, u64{0});
  store_phase(Phase::kRun);
  wake_rank();
}

void give_up(u32 epoch, const char* why) {
  self.connection.send(wire::Failed{epoch, wire::text(why)});
}

// ---- frames from the coordinator ------------------------------------------------------------

// After this store either the MPI thread sees `pending` before it enters its next collective, or we
// see that collective counted: membarrier(2) stands for the fence its fast path does without.
u64 read_clocks_after_fence() {
  syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  u64 used = load(crossing().clocks_count);
  if (used > kClockCapacity) used = kClockCapacity;
  u64 found = 0;
  for (u64 i = 0; i < used; i++) {
    const u64 comm_id = load(clocks()[i].comm_id);
    if (comm_id != 0) self.clocks[found++] = Count{comm_id, load(clocks()[i].seq)};
  }
  return found;
}

void on_request(const wire::Request& request) {
  fault(Fault::kAgentAsked);
  if (!load(self.upper_known)) return give_up(request.epoch, "MPI_Init has not returned yet");
  Crossing& shared = crossing();
  if (shared.state != RankState::kRunning)
    return give_up(request.epoch, "the rank is not running: MPI_Finalize has been entered");
  if (load(shared.pending) == request.epoch) return;  // said twice
  if (load(shared.connections) != 0) return give_up(request.epoch, kConnected);
  if (load(shared.pending) != 0 || saving().is_running())
    return give_up(request.epoch, "an earlier checkpoint of this rank is not over yet");
  store(shared.targets_version, u64{0});  // expected_version names its epoch
  store_phase(Phase::kGather);
  if (request.asked) store(shared.asked_epoch, request.epoch);
  store(shared.pending, request.epoch);
  fault(Fault::kAgentPending);
  const u64 found = read_clocks_after_fence();
  self.connection.send(wire::Clocks{request.epoch, wire::Pairs{self.clocks, found}});
  nudge_rank();
}

bool is_pending(u32 epoch) { return epoch != 0 && pending_epoch() == epoch; }

bool is_gathering() { return pending_epoch() != 0 && agent::load_phase() == Phase::kGather; }

void tell_send() {
  u64 count = 0;
  if (agent::send_has_to_be_told(self.clocks, &count))
    self.connection.send(
        wire::Waits{crossing().pending, u32(Cause::kOwn), wire::Pairs{self.clocks, count}});
}

bool copy_pairs(const wire::Pairs& list, Count* out) {
  if (list.count > Mailbox::kCapacity) return false;
  for (u64 i = 0; i < list.count; i++) out[i] = list.at(i);
  return true;
}

void on_targets(const wire::Targets& targets) {
  if (!is_pending(targets.epoch)) return;
  Crossing& shared = crossing();
  // While the list changes no version is valid; a reader that saw the old one looks again.
  store(shared.targets_version, u64{0});
  if (!copy_pairs(targets.list, mailbox().targets) ||
      !copy_pairs(targets.obligations, mailbox().needs))
    return give_up(targets.epoch, "more communicators or ranks than the mailbox holds");
  store(shared.targets_count, targets.list.count);
  store(shared.needs_count, targets.obligations.count);
  store(shared.targets_version, targets.version);
  fault(Fault::kAgentTargets);
  wake_rank();
  nudge_rank();
}

void on_drain(const wire::Drain& drain) {
  if (!is_pending(drain.epoch)) return;
  store_phase(Phase::kDrain);
  fault(Fault::kAgentDraining);
  wake_rank();
}

void on_expected(const wire::Expected& expected) {
  if (!is_pending(expected.epoch)) return;
  if (!copy_pairs(expected.list, mailbox().expected))
    return give_up(expected.epoch, "more senders than the mailbox holds");
  store(crossing().expected_count, expected.list.count);
  store(crossing().expected_version, u64{expected.epoch});
  fault(Fault::kAgentExpected);
  wake_rank();
}

void on_save(const wire::Save& save) {
  const Checkpointer* const checkpointer = agent::find_checkpointer(save.checkpointer);
  if (!checkpointer) return give_up(save.epoch, "it does not know this checkpointer");
  if (checkpointer->parked ? !is_pending(save.epoch) : !load(self.asking)) return;
  if (saving().epoch() != save.epoch)
    self.saving.begin(self.connection, checkpointer, save, self.job);
}

// Until now the rank stood still: a rank that was not yet saved might have taken in what this one
// sent since, or read what it wrote to shared memory and to files.
void on_resume(const wire::Resume& message) {
  if (!is_pending(message.epoch) || !saving().is_standing()) return;
  self.saving.end_pause();
  fault(Fault::kAgentResumed);
  if (!saving().ends_the_run()) release();
}

void on_abort(const wire::Abort& abort) {
  if (saving().owed() == abort.epoch) self.saving.give_up();
  if (is_pending(abort.epoch)) release();
  fault(Fault::kAgentAborted);
}

// Tells which rank this is, once that is known.
int introduce() {
  if (!load(self.upper_known)) return 0;
  const Crossing& shared = crossing();
  if (shared.state == RankState::kRunning)
    return self.connection.send(wire::Ready{shared.world_rank, shared.world_size});
  return self.connection.send(wire::Finalizing{});
}

// A line loses nothing while it holds; if something got lost all the same, either the order is made
// good, or this rank's last word, or the checkpoint fails.
void on_alive(const wire::Alive& alive) {
  const u32 pending = pending_epoch();
  const u32 owed = saving().owed();
  if (!alive.known) introduce();
  if (owed != 0 && owed != alive.epoch) self.saving.give_up();
  if (pending != 0 && pending != alive.epoch) return release();
  if (alive.epoch == 0 || !alive.saving) return;
  if (saving().epoch() != alive.epoch)
    return give_up(alive.epoch, "the word to save got lost");
  if (alive.resumed) on_resume(wire::Resume{alive.epoch});
  self.saving.repeat(self.connection);
}

void on_committed(const wire::Committed& committed) {
  if (load(self.upper_known)) store(crossing().committed_epoch, committed.epoch);
  fault(Fault::kAgentCommitted);
}

void answer(u32 outcome, const char* text, u64 bytes) {
  Crossing& shared = crossing();
  if (!load(self.asking)) return;
  store(self.asking, false);
  const u64 room = sizeof(shared.answer_text) - 1;
  const u64 used = bytes < room ? bytes : room;
  memcpy(shared.answer_text, text, used);
  shared.answer_text[used] = 0;
  store(shared.answer, outcome);
  store(shared.answered, 1u);
  wake_waiters(&shared.answered);
}

void on_asked(const wire::Asked& asked) {
  answer(asked.outcome, asked.message.data, asked.message.bytes);
}

void on_exit(const wire::Exit& exit) {
  agent::remove_library_files();
  launcher().end_helpers();
  self.connection.send(wire::Bye{});
  const char* const first = launcher().config("first");
  if (first[0] != 0) agent::end_wrappers(static_cast<u32>(strtoul(first, nullptr, 10)));
  _exit(exit.code);
}

template <class Message>
bool handle(const Frame& frame, void (*handler)(const Message&)) {
  if (frame.type != Message::kType) return false;
  wire::Reader reader(frame.payload, frame.bytes);
  Message message{};
  if (message.read(reader)) handler(message);
  return true;
}

void dispatch(const Frame& frame) {
  // Frames this agent does not know are a newer coordinator's; the version in the frame's head
  // already vouches for those that matter.
  (void)(handle(frame, on_request) || handle(frame, on_targets) || handle(frame, on_drain) ||
         handle(frame, on_expected) || handle(frame, on_save) || handle(frame, on_resume) ||
         handle(frame, on_abort) || handle(frame, on_alive) || handle(frame, on_committed) ||
         handle(frame, on_asked) || handle(frame, on_exit));
}

// ---- the thread -----------------------------------------------------------------------------

int greet() {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  const int result = self.connection.send(
      wire::Hello{wire::text(self.job), static_cast<u32>(getpid()), self.rank_hint,
                  wire::text(host), self.restart_epoch,
                  wire::text(self.lower->name ? self.lower->name : "")});
  return result ? result : introduce();
}

// Without a coordinator no checkpoint can end well, so the one under way is given up.
void forget_checkpoint(const char* why) {
  self.saving.give_up();
  if (pending_epoch() != 0) release();
  answer(1, why, strlen(why));
}

// Of the checkpoint that the program waits for only the commit is missing, for all this rank knows.
bool asked_is_saved() {
  const u32 saved = saving().saved();
  return load(self.asking) && saved != 0 && saved != self.asked_after;
}

// A coordinator that hangs does not keep the job. When it wakes up it finds that this rank has
// given the checkpoint up, before anything that the rank says later.
void mind_silence() {
  const u32 pending = pending_epoch();
  const u64 now_ms = sys::now_ns() / 1'000'000;
  if (pending == 0 && !load(self.asking)) self.heard_ms = now_ms;
  if (!load(self.asking)) self.asked_after = saving().epoch();
  const bool ends = saving().ends_the_run() && saving().epoch() == pending &&
                    !saving().is_standing();
  const bool is_storing = ends || (pending == 0 && asked_is_saved());
  if (now_ms - self.heard_ms < (is_storing ? kStoringMs : kSilenceMs)) return;
  constexpr char kSilent[] = "it has not heard of the coordinator for long, and continues";
  if (pending != 0) give_up(pending, kSilent);
  if (load(self.asking)) give_up(0, kSilent);
  forget_checkpoint(kSilent);
}

// Those that are to save the job.
int watch_signals() {
  sigset_t set;
  sigemptyset(&set);
  bool any = false;
  char* next = nullptr;
  for (const char* at = launcher().config("save-on"); *at; at = *next ? next + 1 : next) {
    const unsigned long signal = strtoul(at, &next, 10);
    any |= signal != 0 && sigaddset(&set, int(signal)) == 0;
  }
  return any ? signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK) : -1;
}

// Returns whether there may be more at any moment; else a signal waits that the program will take.
bool tell_signals() {
  for (;; self.signal = 0) {
    if (self.signal <= 0) self.signal = launcher().heard();
    if (self.signal <= 0) return self.signal == 0;
    if (self.connection.send(wire::Signalled{u32(self.signal)}) != 0) return false;
  }
}

bool reconnect() {
  for (int i = 0; i < kReconnectTries; i++) {
    const timespec pause{kReconnectEveryMs / 1000, (kReconnectEveryMs % 1000) * 1'000'000L};
    nanosleep(&pause, nullptr);
    if (self.connection.open(self.socket_path) != 0) continue;
    if (greet() == 0) return true;
    self.connection.close();
  }
  return false;
}

// Process managers bind a rank to one core, where it spins. There this thread, and the writer that
// it forks, would only get what the rank leaves over.
void leave_the_ranks_core() {
  cpu_set_t all;
  memset(&all, 0xff, sizeof(all));
  sched_setaffinity(0, sizeof(all), &all);  // the kernel keeps to what this process may use
}

void* agent_main(void*) {
  leave_the_ranks_core();
  self.signals = watch_signals();
  do {
    for (bool watches = self.signals > 0;;) {
      const int timeout = saving().is_cutting()   ? 0
                           : saving().is_running() ? kSavingPollMs
                           : is_gathering()           ? agent::kSendingPollMs
                                                      : kIdlePollMs;
      if (self.connection.receive(timeout, watches ? self.signals : -1) != 0) break;
      for (Frame frame; self.connection.next(&frame); self.heard_ms = sys::now_ns() / 1'000'000)
        dispatch(frame);
      mind_silence();
      watches = tell_signals() && self.signals > 0;
      if (is_gathering()) tell_send();
      self.saving.poll(self.connection);
    }
    self.connection.close();
    forget_checkpoint("the coordinator is gone");
  } while (reconnect());
  launcher().stop_holding();
  return nullptr;
}

// The number at the end of a snapshot directory's path is its epoch.
u32 epoch_of_snapshot(const char* path) {
  const char* name = path;
  for (const char* at = path; *at; at++)
    if (*at == '/' && at[1] != 0) name = at + 1;
  return static_cast<u32>(strtoul(name, nullptr, 10));
}

void say(const char* what, int error) {
  dprintf(2, "fermata: %s: %s; this rank runs without checkpoints\n", what, strerror(error));
  launcher().stop_holding();
}

}  // namespace

void agent_start(const LowerCalls* lower) {
  const char* path = launcher().config("socket");
  if (path[0] == 0 || self.started) return;
  faults::arm(launcher().config("faults"), launcher().config("rank"));
  self.lower = lower;
  snprintf(self.socket_path, sizeof(self.socket_path), "%s", path);
  snprintf(self.job, sizeof(self.job), "%s", launcher().config("job"));
  const char* rank = launcher().config("rank");
  self.rank_hint = rank[0] ? static_cast<u32>(strtoul(rank, nullptr, 10)) : kNoRank;
  sys::checked_rank = self.rank_hint;
  agent::lock_rank(launcher().config("ranks"), self.rank_hint);
  self.restart_epoch = epoch_of_snapshot(launcher().config("restore"));
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0)
    return say("membarrier(2) is missing", errno);
  const int error = self.connection.open(self.socket_path);
  if (error != 0) return say("cannot reach the coordinator", -error);
  if (greet() != 0 || start_lower_thread(agent_main, kStackBytes) != 0) {
    self.connection.close();
    return say("cannot start the agent", errno);
  }
  self.started = true;
}

void agent_aborting(int code) {
  (void)self.connection.send(wire::Aborting{code});
}

int agent_report(Report kind, u32 epoch, const void* payload, u64 bytes) {
  const auto* words = static_cast<const u8*>(payload);
  Connection& out = self.connection;
  if (kind == Report::kReady) {
    store(self.upper_known, true);
    u32 world[2] = {crossing().world_rank, crossing().world_size};
    if (bytes >= sizeof(world)) memcpy(world, payload, sizeof(world));
    return out.send(wire::Ready{world[0], world[1]});
  }
  if (kind == Report::kRebuilt) {
    // The image was cut in the middle of a checkpoint, and so it woke up in one: end it here.
    release();
    store(self.upper_known, true);
    const int sent = out.send(wire::Rebuilt{crossing().world_rank, crossing().world_size});
    fault(Fault::kAgentRebuilt);
    return sent;
  }
  Count pair{};
  u64 version = 0;
  Cause cause{};
  switch (kind) {
    case Report::kFinalizing:
      agent::note_end(self.rank_hint);
      return out.send(wire::Finalizing{});
    case Report::kRaise:
      if (bytes < sizeof(pair)) return -EINVAL;
      memcpy(&pair, payload, sizeof(pair));
      return out.send(wire::Raise{epoch, pair.key, pair.value});
    case Report::kParked:
      if (bytes < sizeof(version)) return -EINVAL;
      memcpy(&version, payload, sizeof(version));
      return out.send(wire::Parked{
          epoch, version,
          wire::Pairs{words + sizeof(version), (bytes - sizeof(version)) / sizeof(Count)}});
    case Report::kNeeds:
      if (bytes < sizeof(cause)) return -EINVAL;
      memcpy(&cause, payload, sizeof(cause));
      return out.send(
          wire::Waits{epoch, u32(cause),
                      wire::Pairs{words + sizeof(cause), (bytes - sizeof(cause)) / sizeof(Count)}});
    case Report::kSent:
      return out.send(wire::Sent{epoch, wire::Pairs{payload, bytes / sizeof(Count)}});
    case Report::kDrained:
      if (bytes >= sizeof(pair)) memcpy(&pair, payload, sizeof(pair));
      return out.send(wire::Drained{epoch, pair.key, pair.value});
    case Report::kHeld:
      return out.send(
          wire::Held{epoch, wire::Text{static_cast<const char*>(payload), u32(bytes)}});
    case Report::kAsk: {
      u32 ask[2] = {};  // with_all, saves_itself
      if (bytes >= sizeof(ask)) memcpy(ask, payload, sizeof(ask));
      if (ask[0]) store(self.asking, true);
      const int sent = out.send(wire::Ask{ask[0], ask[1]});
      if (sent != 0) store(self.asking, false);
      return sent;
    }
    case Report::kFailed:
      return out.send(wire::Failed{
          epoch, wire::Text{reinterpret_cast<const char*>(words), static_cast<u32>(bytes)}});
    default:
      return -EINVAL;
  }
}

}  // namespace fermata
