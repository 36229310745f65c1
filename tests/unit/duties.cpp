// SPDX-License-Identifier: Apache-2.0
// When a rank may park and what it says that it waits for: the runtime's text of the rules against
// the table of what the checked machine decides (control/protocol/tests/duties.rs).
#include <pthread.h>
#include <string.h>

#include "unit/front.h"

struct Situation {
  u64 seq[2], target[2];
  u64 needed, sent;
  char place[16];
  u64 arrived;
  u32 duty;
  u64 need;
};

static Comm world;
static i32 members[] = {0, 1, 2};

static void start() {
  Core& core = state();
  core.world_size = 2;
  core.sent = arena_array<u64>(4);
  core.received = arena_array<u64>(4);
  world.members = members;
  world.size = 2;
  world.remote_size = -1;
}

static void enter(const Situation& s, u64 version) {
  Core& core = state();
  crossing().clocks_count = 2;
  crossing().targets_count = 2;
  for (u64 i = 0; i < 2; i++) {
    clocks()[i] = ClockEntry{i + 1, s.seq[i]};
    mailbox().targets[i] = Count{i + 1, s.target[i]};
  }
  mailbox().needs[0] = Count{need_key(NeedKind::kMessage, 1), s.needed};
  crossing().needs_count = s.needed != 0;
  crossing().targets_version = version;
  core.sent[1] = s.sent;
  core.received[1] = s.arrived;
  core.ending = strcmp(s.place, "ending") == 0;
}

static void test_table() {
  FILE* const table = fopen("tests/fixtures/duties.txt", "r");
  EXPECT(table);
  Slot comm{};
  comm.object = &world;
  Slot* const slot = request_slot_new();
  u64 lines = 0;
  for (Situation s;; lines++) {
    const int read = fscanf(table, "%lu %lu %lu %lu %lu %lu %15s %lu %u %lu", &s.seq[0],
                            &s.target[0], &s.seq[1], &s.target[1], &s.needed, &s.sent, s.place,
                            &s.arrived, &s.duty, &s.need);
    if (read == EOF) break;
    EXPECT(read == 10);
    enter(s, lines + 1);
    const bool receives = strcmp(s.place, "receiving") == 0;
    request_start(request_of(slot), RequestKind::kRecv,
                  receives ? RequestState::kActive : RequestState::kDone);
    request_of(slot)->peer = 1;
    request_of(slot)->comm = &comm;
    EXPECT(refresh_targets() == lines + 1);
    EXPECT(has_duty() == (s.duty != 0));
    Count needs[4];
    const Wanted wanted = new_wanted();
    mark_awaited({&slot, 1}, wanted);
    const u64 found = has_duty() ? list_needs(wanted, needs) : 0;
    arena_free(wanted.senders);
    arena_free(wanted.receivers);
    EXPECT(found == (s.need != 0));
    EXPECT(!found || (rank_of_need(needs[0]) == 1 && needs[0].value == s.need));
  }
  EXPECT(lines == 1296);
  fclose(table);
  request_slot_free(slot);
}

static bool has_duty_by(NeedKind kind, u64 count, u64 version) {
  mailbox().needs[0] = Count{need_key(kind, 1), count};
  crossing().needs_count = 1;
  crossing().targets_count = 0;
  crossing().targets_version = version;
  EXPECT(refresh_targets() == version);
  return has_duty();
}

// Who is asked for a receipt runs on until it has matched so many messages, kept ones left out; who
// is asked for room takes in so many, and has no duty.
static void test_receipts_and_room() {
  u64 version = 10'000;
  state().comms = &world;
  state().ending = false;
  state().received[1] = 3;
  EXPECT(!has_duty_by(NeedKind::kReceipt, 3, ++version));
  EXPECT(has_duty_by(NeedKind::kReceipt, 4, ++version));
  Early kept{};
  kept.comm = &world;
  kept.source = 1;
  kept.counted = true;
  early_append(&kept);
  EXPECT(has_duty_by(NeedKind::kReceipt, 3, ++version));
  EXPECT(!has_duty_by(NeedKind::kReceipt, 2, ++version));
  EXPECT(!takes_from(1, TakeIn::kAsked));
  EXPECT(!has_duty_by(NeedKind::kRoom, 4, ++version));
  EXPECT(takes_from(1, TakeIn::kAsked) && !takes_from(0, TakeIn::kAsked));
  state().received[1] = 4;
  EXPECT(!takes_from(1, TakeIn::kAsked));
  kept.state = EarlyState::kHeld;  // its sender does not see that it has come
  state().early_held = 1;
  EXPECT(takes_from(1, TakeIn::kAsked));
  state().early_held = 0;
  early_unlink(&kept);
  state().comms = nullptr;
}

// Of several kept messages with one receiver, communicator and tag, the announced one is that which
// has so many behind it; with fewer there it has been matched.
static void test_announcements() {
  Early kept[3]{};
  world.id = 77;
  state().comms = &world;
  for (Early& early : kept) {
    early.comm = &world;
    early.source = 1;
    early.tag = 5;
    early_append(&early);
  }
  kept[1].tag = 6;
  EXPECT(find_announced(1, Announcement{77, 5, 1, 0}) == &kept[2]);
  EXPECT(find_announced(1, Announcement{77, 5, 1, 1}) == &kept[0]);
  EXPECT(find_announced(1, Announcement{77, 5, 1, 2}) == nullptr);
  EXPECT(find_announced(1, Announcement{77, 6, 1, 0}) == &kept[1]);
  EXPECT(find_announced(0, Announcement{77, 5, 1, 0}) == nullptr);
  EXPECT(find_announced(1, Announcement{78, 5, 1, 0}) == nullptr);
  for (Early& early : kept) early_unlink(&early);
  state().comms = nullptr;
}

static u32 reports;
static u64 reported_bytes;
static int count_report(Report kind, u32 epoch, const void*, u64 bytes) {
  EXPECT(kind == Report::kNeeds && epoch == 7);
  reports++;
  reported_bytes = bytes;
  return 0;
}

// A need is told once, after a moment in which nothing has moved; that it is over, at once. It is
// one of the checkpoint that the rank takes part in, though the next is pending already.
static void test_telling() {
  static LowerCalls calls{};
  calls.report = count_report;
  crossing().lower = &calls;
  state().park = ParkState{};
  state().park.epoch = 7;
  crossing().pending = 8;
  tell_needs({nullptr, 0, &world, 1});
  EXPECT(reports == 0);
  own_wait()->since_ns -= kBeforeNeedNs;
  tell_needs({nullptr, 0, &world, 1});
  tell_needs({nullptr, 0, &world, 1});
  EXPECT(reports == 1 && reported_bytes == sizeof(Count));
  state().received[1]++;  // with another tag: not what it waits for
  tell_needs({nullptr, 0, &world, 1});
  EXPECT(reports == 1);
  own_wait()->since_ns -= kBeforeNeedNs;
  tell_needs({nullptr, 0, &world, 1});
  EXPECT(reports == 2);
  tell_needs({});
  EXPECT(reports == 3 && reported_bytes == 0);
  tell_needs({});
  EXPECT(reports == 3);
  crossing().pending = 0;
}

static pthread_barrier_t turn;
static void* wait_for_rank_2(void*) {
  tell_needs({nullptr, 0, &world, 2});
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  tell_needs({nullptr, 0, &world, 2});
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  tell_needs({});
  return nullptr;
}

// Two threads look in turns, each for a sender of its own: neither makes the other begin anew.
static void test_two_threads_tell_together() {
  state().world_size = world.size = 3;
  state().park = ParkState{};
  state().park.epoch = 7;
  state().waits = nullptr;
  pthread_t other;
  pthread_barrier_init(&turn, nullptr, 2);
  EXPECT(pthread_create(&other, nullptr, wait_for_rank_2, nullptr) == 0);
  pthread_barrier_wait(&turn);
  tell_needs({nullptr, 0, &world, 1});
  for (ThreadWait* wait = state().waits; wait; wait = wait->next) wait->since_ns -= kBeforeNeedNs;
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  EXPECT(reported_bytes == 2 * sizeof(Count));
  pthread_barrier_wait(&turn);
  pthread_join(other, nullptr);
  EXPECT(reported_bytes == sizeof(Count));
  tell_needs({});
  EXPECT(reported_bytes == 0);
}

int main() {
  map_slots();
  map_at(&crossing(), kCrossingBytes);
  map_at(clocks(), kClockBytes);
  map_at(&mailbox(), kMailboxBytes);
  start();
  test_table();
  test_receipts_and_room();
  test_announcements();
  test_telling();
  test_two_threads_tell_together();
  puts("PASS");
}
