// SPDX-License-Identifier: Apache-2.0
// What becomes of an error of the MPI library below where no call of the program has asked for
// anything: it is the error of the call that needs the answer, or it fails the checkpoint by name.
#include "base/text.h"
#include "mpi/comms/comms.h"
#include "mpi/gate/clock.h"
#include "mpi/p2p/unexpected.h"
#include "mpi/safepoint/drain.h"
#include "unit/front.h"

static Comm world;
static CommSlot world_slot;
static int broken;  // the error class of what does not work
static bool finishes, is_there;

static int barrier(RealComm) { return broken; }
static int ibarrier(RealComm, RealRequest*) { return broken; }
static int bcast(void*, int, RealDatatype, int, RealComm) { return broken; }
static int allreduce(const void*, void*, int, RealDatatype, RealOp, RealComm) { return broken; }
static int comm_rank(RealComm, int* rank) { return *rank = 0, kSuccess; }
static int comm_size(RealComm, int* size) { return *size = 2, kSuccess; }
static int comm_group(RealComm, RealGroup* group) { return *group = RealGroup{5}, kSuccess; }
static int group_free(RealGroup*) { return broken; }
static int translate(RealGroup, int count, const int* ranks, RealGroup, int* found) {
  for (int i = 0; i < count; i++) found[i] = ranks[i];
  return kSuccess;
}
static int iprobe(int, int, RealComm, int* flag, CanonStatus* status) {
  *flag = is_there;
  status->source = 1;
  status->tag = 3;
  status->set_bytes(8);
  return is_there ? kSuccess : broken;
}
static int irecv(void*, int, RealDatatype, int, int, RealComm, RealRequest* request) {
  return *request = RealRequest{88}, kSuccess;
}
static int imrecv(void*, int, RealDatatype, RealMessage*, RealRequest* request) {
  return *request = RealRequest{88}, broken;
}
static int test(RealRequest*, int* flag, CanonStatus*) { return *flag = finishes, broken; }
static int flush_all(RealWin) { return broken; }
static int position(RealFile, i64* at) { return *at = 7, broken; }

static void start() {
  static MpiCalls mpi{};
  mpi.Barrier = barrier;
  mpi.Ibarrier = ibarrier;
  mpi.Bcast = bcast;
  mpi.Allreduce = allreduce;
  mpi.Comm_rank = comm_rank;
  mpi.Comm_size = comm_size;
  mpi.Comm_group = comm_group;
  mpi.Group_free = group_free;
  mpi.Group_translate_ranks = translate;
  mpi.Iprobe = iprobe;
  mpi.Irecv = irecv;
  mpi.Imrecv = imrecv;
  mpi.Test = test;
  mpi.Win_flush_all = flush_all;
  mpi.File_get_position = position;
  start_rank_of_two(mpi, world, world_slot);
  P2pState& counts = state().p2p;
  counts.sent[0] = counts.sent[1] = counts.received[0] = counts.received[1] = 0;
  world.local_members = world.members;
  world_slot.clock = clock_new(kWorldId);
  world.id = kWorldId;
}

/// Why the checkpoint fails; "" if it does not. Begins another one.
static const char* take_reason() {
  ParkState& park = state().safepoint.park;
  const char* const reason = park.failed ? park.why_failed : "";
  park = ParkState{};
  return reason;
}
static bool fails_with(const char* words) {
  const char* const reason = take_reason();
  if (text_equal(reason, words)) return true;
  fprintf(stderr, "the reason is \"%s\"\n", reason);
  return false;
}

static void test_members_do_not_agree_when_they_cannot_ask() {
  broken = kErrIntern;
  EXPECT(members_agree(&world_slot, kSuccess) == kErrIntern);
  broken = kSuccess;
  EXPECT(members_agree(&world_slot, kErrNoMem) == kErrNoMem);
}

static void test_no_communicator_without_an_agreed_id() {
  const u64 before = arena().live_blocks;
  CommSlot* made = nullptr;
  broken = kErrIntern;
  EXPECT(comm_adopt(RealComm{9}, false, nullptr, &made) == kErrIntern && !made);
  EXPECT(arena().live_blocks == before && state().comms.live == &world);
}

static void test_a_communicator_ends_after_its_barrier() {
  CommSlot* made = nullptr;
  broken = kSuccess;
  EXPECT(comm_adopt(RealComm{9}, false, nullptr, &made) == kSuccess);
  CommSlot* handle = made;
  broken = kErrIntern;
  EXPECT(core::Comm_free(&handle) == kErrIntern);
  EXPECT(handle == made && state().comms.live == comm_of(made) && clock_of(made)->comm_id != 0);
  comm_forget(made);
}

static void test_a_message_that_cannot_be_received() {
  constexpr char kReason[] = "the MPI library cannot receive a message that is in flight";
  for (int round = 0; round < 2; round++) {
    finishes = false;
    broken = kSuccess;
    is_there = true;
    EXPECT(unexpected_take_one(&world, 1));
    UnexpectedMessage* const kept = world.unexpected_first;
    EXPECT(!unexpected_arrived(kept) && fails_with(""));
    finishes = round != 0;  // an error ends a request even where nothing says so
    broken = kErrIntern;
    EXPECT(unexpected_arrived(kept) && fails_with(kReason));
    u64 buffer = 0;
    CanonStatus status{};
    EXPECT(unexpected_deliver(kept, &buffer, 1, {}, &status) == kErrIntern);
    EXPECT(status.source == 1 && status.tag == 3 && !world.unexpected_first);
  }
}

/// Whether a message of so many bytes, which the program has matched, is received for a checkpoint.
static bool fills_matched(u64 bytes) {
  CanonStatus status{};
  status.source = 1;
  status.set_bytes(bytes);
  UnexpectedMessage* const kept = unexpected_new_matched(&world, RealMessage{77}, status);
  MessageSlot* const slot = slot_new<kMessage>(kept);
  const bool filled = unexpected_fill_matched();
  EXPECT(state().p2p.unexpected_matched == (filled ? 0 : 1));
  if (!filled) EXPECT(kept->state == UnexpectedState::kHeld && kept->matched);
  if (!filled) state().p2p.unexpected_matched--;
  slot_free(slot);
  unexpected_free(kept);
  return filled;
}

static void test_a_matched_message_that_cannot_be_received() {
  finishes = true;
  broken = kSuccess;
  EXPECT(fills_matched(8) && fails_with(""));
  EXPECT(!fills_matched(u64(1) << 31));
  EXPECT(fails_with("a message of 2 GiB or more is matched (MPI_Mprobe) and not received"));
  // The MPI library has no memory, or not the function: that does not make the message large.
  const int refusals[] = {kErrNoMem, kErrUnsupportedOperation};
  for (const int refusal : refusals) {
    broken = refusal;
    EXPECT(!fills_matched(8));
    EXPECT(fails_with("the MPI library cannot receive a message that is matched (MPI_Mprobe)"));
  }
}

static void test_messages_that_cannot_be_looked_for() {
  is_there = false;
  broken = kErrIntern;
  EXPECT(!unexpected_take_one(&world, 1));
  EXPECT(fails_with("the MPI library cannot look for messages that are in flight"));
  broken = kSuccess;
  EXPECT(!unexpected_take_one(&world, 1) && fails_with(""));
}

static void test_a_window_that_cannot_be_brought_to_rest() {
  Window window{};
  window.comm = &world_slot;
  WinSlot* const slot = slot_new<kWin>(&window);
  slot->clock = world_slot.clock;
  broken = kErrIntern;
  drain_step();
  EXPECT(!state().safepoint.park.sent_reported);
  EXPECT(fails_with("the MPI library cannot complete one-sided operations"));
  slot_free(slot);
}

static void test_a_file_whose_position_is_unknown() {
  File file{};
  file.comm = &world_slot;
  FileSlot* const slot = slot_new<kFile>(&file);
  slot->clock = world_slot.clock;
  broken = kErrIntern;
  drain_step();
  EXPECT(fails_with("the MPI library does not tell where a file stands"));
  broken = kSuccess;
  drain_step();
  EXPECT(state().safepoint.park.sent_reported && fails_with("") && file.position == 7);
  slot_free(slot);
}

int main() {
  map_slots();
  map_at(&crossing(), kCrossingBytes);
  map_at(clocks(), kClockBytes);
  start();
  test_members_do_not_agree_when_they_cannot_ask();
  test_no_communicator_without_an_agreed_id();
  test_a_communicator_ends_after_its_barrier();
  test_a_message_that_cannot_be_received();
  test_a_matched_message_that_cannot_be_received();
  test_messages_that_cannot_be_looked_for();
  test_a_window_that_cannot_be_brought_to_rest();
  test_a_file_whose_position_is_unknown();
  puts("PASS");
}
