// SPDX-License-Identifier: Apache-2.0
// When a rank may park and what it says that it waits for: the runtime's text of the rules against
// the table of what the checked machine decides (control/protocol/tests/obligations.rs).
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "mpi/gate/clock.h"
#include "mpi/p2p/unexpected.h"
#include "mpi/safepoint/wait_edges.h"
#include "mpi/safepoint/obligations.h"
#include "mpi/safepoint/progress.h"
#include "mpi/safepoint/stopping.h"
#include "unit/front.h"

// As control/protocol/tests/obligations.rs says.
struct Situation {
  u64 seq[2], target[2];
  char kind[16];
  u64 wanted, sent, arrived, kept, held;
};
struct Decisions {
  u32 computing;
  u64 receiving;
  u32 ending;
  char sending[16], synchronous[16], entry[16];
  u32 room, own;
};

static constexpr u32 kEpoch = 7;
static Comm world;
static i32 members[] = {0, 1, 2};
static LowerCalls calls{};
static UnexpectedMessage kept_messages[4];

static u64 raised_group, raised_to;
static int note_raise(Report kind, u32 epoch, const void* payload, u64 bytes) {
  EXPECT(kind == Report::kRaise && epoch == kEpoch && bytes == sizeof(Count));
  raised_group = static_cast<const Count*>(payload)->key;
  raised_to = static_cast<const Count*>(payload)->value;
  return 0;
}

// Stands for park(). What the rank stopped with is seen, and the checkpoint is over.
static u32 times_held;
static u64 held_with;
static void hold(int) {
  times_held++;
  held_with = clocks()[0].seq;
  crossing().pending = 0;
}

// A rank that hesitates at the entry of a collective call looks at the network: there is nothing.
static int probe_nothing(int, int, RealComm, int* flag, CanonStatus*) {
  *flag = 0;
  return 0;
}

static void start() {
  static MpiCalls mpi{};
  static CommSlot own_comm{};
  Core& core = state();
  core.p2p.own_comm = &own_comm;
  mpi.Iprobe = probe_nothing;
  calls.mpi = &mpi;
  core.world.size = 2;
  core.p2p.sent = arena_array<u64>(4);
  core.p2p.received = arena_array<u64>(4);
  core.world.initialized = true;
  world.members = members;
  world.size = 2;
  world.remote_size = -1;
  crossing().lower = &calls;
  crossing().state = RankState::kRunning;
  crossing().phase = Phase::kGather;
  crossing().main_tid = u32(sys::gettid());
  signal(kSignalQuiesce, hold);
}

static bool waits_by(const Situation& s, const char* kind) { return !strcmp(s.kind, kind); }

static void enter(const Situation& s, u64 version) {
  Core& core = state();
  crossing().clocks_count = 2;
  crossing().targets_count = 2;
  for (u64 i = 0; i < 2; i++) {
    clocks()[i] = ClockEntry{i + 1, s.seq[i]};
    mailbox().targets[i] = Count{i + 1, s.target[i]};
  }
  const NeedKind kind = waits_by(s, "receipt") ? NeedKind::kReceipt
                        : waits_by(s, "room")  ? NeedKind::kRoom
                                                    : NeedKind::kMessage;
  mailbox().needs[0] = Count{edge_key(kind, 1), s.wanted};
  crossing().needs_count = s.wanted != 0;
  crossing().targets_version = waits_by(s, "unordered") ? 0 : version;
  crossing().pending = kEpoch;
  core.safepoint.park = ParkState{};
  core.safepoint.park.epoch = kEpoch;
  core.p2p.sent[1] = s.sent;
  core.p2p.received[1] = s.arrived;
  core.comms.live = &world;
  core.p2p.unexpected_held = s.held;
  world.unexpected_first = world.unexpected_last = nullptr;
  EXPECT(s.kept <= 4);
  for (u64 i = 0; i < s.kept; i++) {
    UnexpectedMessage& kept = kept_messages[i] = UnexpectedMessage{};
    kept.comm = &world;
    kept.source = 1;
    kept.counted = true;
    kept.state = i < s.held ? UnexpectedState::kHeld : UnexpectedState::kWhole;
    unexpected_append(&kept);
  }
}

// The edge of a rank that waits for this request to rank 1, in the words of the table.
static void word_of_edge(RequestSlot* slot, RequestKind kind, bool synchronous, char* word) {
  Request* const request = request_of(slot);
  request_start(request, kind, RequestState::kActive);
  request->peer = request->receiver = 1;
  crossing().synchronous = synchronous;
  Count edges[4];
  const Wanted wanted = new_wanted();
  mark_awaited({&slot, 1}, wanted);
  const u64 found = list_edges(wanted, edges);
  arena_free(wanted.senders);
  arena_free(wanted.receivers);
  crossing().synchronous = 0;
  EXPECT(found == 1 && peer_of_edge(edges[0]) == 1);
  const NeedKind edge = kind_of_edge(edges[0]);
  snprintf(word, 16, "%s%lu",
           edge == NeedKind::kReceipt ? "receipt" : edge == NeedKind::kRoom ? "room" : "",
           edges[0].value);
}

static bool has_obligation_when(bool ending) {
  state().world.ending = ending;
  const bool has = has_known_obligation();
  EXPECT(may_park() == !has);
  state().world.ending = false;
  return has;
}

// The rank counts a call on the first clock while the checkpoint is pending.
static void word_of_entry(const Situation& s, char* word) {
  const u32 before = times_held;
  raised_group = 0;
  calls.report = note_raise;
  front::tls_gate.depth = 1;
  count_collective(&clocks()[0]);
  front::tls_gate.depth = 0;
  EXPECT(clocks()[0].seq == s.seq[0] + 1);
  if (times_held != before) {
    EXPECT(times_held == before + 1 && held_with == s.seq[0] && raised_group == 0);
    strcpy(word, "hold");
  } else if (raised_group) {
    EXPECT(raised_group == 1);
    snprintf(word, 16, "raise%lu", raised_to);
  } else {
    snprintf(word, 16, "enter%lu", clocks()[0].seq);
  }
}

static void test_table() {
  FILE* const table = fopen("tests/fixtures/obligations.txt", "r");
  EXPECT(table);
  CommSlot comm{};
  comm.object = &world;
  RequestSlot* const slot = request_slot_new();
  request_of(slot)->comm = &comm;
  Situation s;
  Decisions d;
  u64 lines = 0;
  for (;; lines++) {
    const int read = fscanf(
        table, "%lu %lu %lu %lu %15s %lu %lu %lu %lu %lu %u %lu %u %15s %15s %15s %u %u", &s.seq[0],
        &s.target[0], &s.seq[1], &s.target[1], s.kind, &s.wanted, &s.sent, &s.arrived, &s.kept,
        &s.held, &d.computing, &d.receiving, &d.ending, d.sending, d.synchronous, d.entry, &d.room,
        &d.own);
    if (read == EOF) break;
    EXPECT(read == 18);
    enter(s, lines + 1);
    char word[16];
    EXPECT(has_obligation_when(false) == (d.computing != 0));
    EXPECT(has_obligation_when(true) == (d.ending != 0));
    if (d.computing) EXPECT((cause_of_running() == Cause::kOwn) == (d.own != 0));
    word_of_edge(slot, RequestKind::kRecv, false, word);
    EXPECT(d.receiving == (d.computing ? strtoul(word, nullptr, 10) : 0));
    word_of_edge(slot, RequestKind::kSend, false, word);
    EXPECT(strcmp(word, d.sending) == 0);
    word_of_edge(slot, RequestKind::kSend, true, word);
    EXPECT(strcmp(word, d.synchronous) == 0);
    EXPECT(takes_from(1, TakeIn::kAsked) == (d.room != 0));
    request_start(request_of(slot), RequestKind::kSend, RequestState::kDone);
    word_of_entry(s, word);
    EXPECT(strcmp(word, d.entry) == 0);
  }
  EXPECT(lines == 1848);
  fclose(table);
  request_slot_free(slot);
  world.unexpected_first = world.unexpected_last = nullptr;
  state().p2p.unexpected_held = 0;
  state().comms.live = nullptr;
}

static bool has_obligation_by(NeedKind kind, u64 count, u64 version) {
  mailbox().needs[0] = Count{edge_key(kind, 1), count};
  crossing().needs_count = 1;
  crossing().targets_count = 0;
  crossing().targets_version = version;
  EXPECT(refresh_targets() == version);
  return has_obligation();
}

// Who is asked for a receipt runs on until it has matched so many messages, kept ones left out; who
// is asked for room takes in so many, and has no obligation.
static void test_receipts_and_room() {
  u64 version = 10'000;
  state().comms.live = &world;
  state().world.ending = false;
  state().p2p.received[1] = 3;
  EXPECT(!has_obligation_by(NeedKind::kReceipt, 3, ++version));
  EXPECT(has_obligation_by(NeedKind::kReceipt, 4, ++version));
  UnexpectedMessage kept{};
  kept.comm = &world;
  kept.source = 1;
  kept.counted = true;
  unexpected_append(&kept);
  EXPECT(has_obligation_by(NeedKind::kReceipt, 3, ++version));
  EXPECT(!has_obligation_by(NeedKind::kReceipt, 2, ++version));
  EXPECT(!takes_from(1, TakeIn::kAsked));
  EXPECT(!has_obligation_by(NeedKind::kRoom, 4, ++version));
  EXPECT(takes_from(1, TakeIn::kAsked) && !takes_from(0, TakeIn::kAsked));
  state().p2p.received[1] = 4;
  EXPECT(!takes_from(1, TakeIn::kAsked));
  kept.state = UnexpectedState::kHeld;  // its sender does not see that it has come
  state().p2p.unexpected_held = 1;
  EXPECT(takes_from(1, TakeIn::kAsked));
  state().p2p.unexpected_held = 0;
  unexpected_unlink(&kept);
  state().comms.live = nullptr;
}

// Of several kept messages with one receiver, communicator and tag, the announced one is that which
// has so many behind it; with fewer there it has been matched.
static void test_announcements() {
  UnexpectedMessage kept[3]{};
  world.id = 77;
  state().comms.live = &world;
  for (UnexpectedMessage& one : kept) {
    one.comm = &world;
    one.source = 1;
    one.tag = 5;
    unexpected_append(&one);
  }
  kept[1].tag = 6;
  EXPECT(find_announced(1, Announcement{77, 5, 1, 0}) == &kept[2]);
  EXPECT(find_announced(1, Announcement{77, 5, 1, 1}) == &kept[0]);
  EXPECT(find_announced(1, Announcement{77, 5, 1, 2}) == nullptr);
  EXPECT(find_announced(1, Announcement{77, 6, 1, 0}) == &kept[1]);
  EXPECT(find_announced(0, Announcement{77, 5, 1, 0}) == nullptr);
  EXPECT(find_announced(1, Announcement{78, 5, 1, 0}) == nullptr);
  for (UnexpectedMessage& one : kept) unexpected_unlink(&one);
  state().comms.live = nullptr;
}

static u32 reports;
static u64 reported_bytes;
static Cause reported_cause;
static int count_report(Report kind, u32 epoch, const void* payload, u64 bytes) {
  EXPECT(kind == Report::kNeeds && epoch == kEpoch && bytes >= sizeof(Cause));
  reports++;
  reported_cause = *static_cast<const Cause*>(payload);
  reported_bytes = bytes;
  return 0;
}

// An edge is reported once, after a moment in which nothing has moved; that it is over, or that its
// rank has another cause, at once. It is one of the checkpoint that the rank takes part in, though
// the next is pending already.
static void test_telling() {
  calls.report = count_report;
  state().safepoint.park = ParkState{};
  state().safepoint.park.epoch = kEpoch;
  crossing().pending = 8;
  report_edges({nullptr, 0, &world, 1});
  EXPECT(reports == 0);
  own_wait()->since_ns -= kBeforeReportNs;
  report_edges({nullptr, 0, &world, 1});
  report_edges({nullptr, 0, &world, 1});
  EXPECT(reports == 1 && reported_bytes == sizeof(Cause) + sizeof(Count));
  state().p2p.received[1]++;  // with another tag: not what it waits for
  report_edges({nullptr, 0, &world, 1});
  EXPECT(reports == 1);
  own_wait()->since_ns -= kBeforeReportNs;
  report_edges({nullptr, 0, &world, 1});
  EXPECT(reports == 2 && reported_cause == Cause::kOthers);
  state().safepoint.park.held_told = true;
  state().safepoint.sections = 1;
  report_edges({nullptr, 0, &world, 1});
  EXPECT(reports == 3 && reported_cause == Cause::kOwn);
  state().safepoint.sections = 0;
  report_edges({});
  EXPECT(reports == 4 && reported_bytes == sizeof(Cause));
  report_edges({});
  EXPECT(reports == 4);
  crossing().pending = 0;
}

static pthread_barrier_t turn;
static void* wait_for_rank_2(void*) {
  report_edges({nullptr, 0, &world, 2});
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  report_edges({nullptr, 0, &world, 2});
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  report_edges({});
  return nullptr;
}

// Two threads look in turns, each for a sender of its own: neither makes the other begin anew.
static void test_two_threads_tell_together() {
  state().world.size = world.size = 3;
  state().safepoint.park = ParkState{};
  state().safepoint.park.epoch = kEpoch;
  state().safepoint.waits = nullptr;
  pthread_t other;
  pthread_barrier_init(&turn, nullptr, 2);
  EXPECT(pthread_create(&other, nullptr, wait_for_rank_2, nullptr) == 0);
  pthread_barrier_wait(&turn);
  report_edges({nullptr, 0, &world, 1});
  for (ThreadWait* wait = state().safepoint.waits; wait; wait = wait->next)
    wait->since_ns -= kBeforeReportNs;
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  EXPECT(reported_bytes == sizeof(Cause) + 2 * sizeof(Count));
  pthread_barrier_wait(&turn);
  pthread_join(other, nullptr);
  EXPECT(reported_bytes == sizeof(Cause) + sizeof(Count));
  report_edges({});
  EXPECT(reported_bytes == sizeof(Cause));
}

/// A section that held this rank back may end while it is about to say so.
static void test_nothing_is_owed_before_the_targets_come() {
  u64* const targets = state().safepoint.targets;
  state().safepoint.targets = nullptr;
  crossing().clocks_count = 1;
  clocks()[0] = ClockEntry{kWorldId, 0};
  EXPECT(cause_of_running() == Cause::kOthers);
  clocks()[0] = ClockEntry{};
  crossing().clocks_count = 0;
  state().safepoint.targets = targets;
}

int main() {
  map_slots();
  map_at(&crossing(), kCrossingBytes);
  map_at(clocks(), kClockBytes);
  map_at(&mailbox(), kMailboxBytes);
  start();
  test_nothing_is_owed_before_the_targets_come();
  test_table();
  test_receipts_and_room();
  test_announcements();
  test_telling();
  test_two_threads_tell_together();
  puts("PASS");
}
