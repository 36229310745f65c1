// SPDX-License-Identifier: Apache-2.0
// What the core state say when a program begins to receive a message that is held: when the lower
// half takes the receive, when it refuses it, when the message does not fit, and when the program
// has freed the request meanwhile. With real MPIs below it, tests/programs/mpi/synchronous.c does
// the first.
#include "mpi/p2p/unexpected.h"
#include "mpi/safepoint/obligations.h"
#include "unit/front.h"

static Comm world, own;
static CommSlot world_slot, own_slot;
static DatatypeSlot byte_slot;
static int outcome;
static i32 receipt_tag;
static u64 freed;

static int improbe(int source, int tag, RealComm, int* flag, RealMessage* message,
                   CanonStatus* status) {
  EXPECT(source == 1 && tag == kAnyTag);
  *flag = 1;
  *message = {77};
  status->source = 1;
  status->tag = 3;
  return kSuccess;
}
static int imrecv(void*, int, RealDatatype, RealMessage* message, RealRequest* request) {
  EXPECT(message->value == 77);
  if (outcome == kSuccess) *request = {88};
  return outcome;
}
static int test(RealRequest* request, int* flag, CanonStatus* status) {
  EXPECT(request->value == 88);
  *flag = 1;
  status->source = 1;
  return kSuccess;
}
static int request_free(RealRequest* request) {
  freed = request->value;
  return kSuccess;
}
static int send(const void*, int count, RealDatatype, int, int tag, RealComm) {
  EXPECT(count == 0);
  receipt_tag = tag;
  return kSuccess;
}

static void start() {
  static MpiCalls mpi{};
  mpi.Improbe = improbe;
  mpi.Imrecv = imrecv;
  mpi.Test = test;
  mpi.Request_free = request_free;
  mpi.Send = send;
  start_rank_of_two(mpi, world, world_slot);
  state().p2p.own_comm = &own_slot;
  own_slot.object = &own;
}

/// One message of rank 1, which waits for the receipt 5.
static UnexpectedMessage* hold() {
  EXPECT(unexpected_hold_one(&world, 1));
  UnexpectedMessage* const kept = world.unexpected_first;
  kept->owed_to = 1;
  kept->owed_tag = 5;
  receipt_tag = 0;
  return kept;
}

static RequestSlot* receive(RequestKind kind) {
  RequestSlot* const slot = request_slot_new();
  Request* const request = request_of(slot);
  request_start(request, kind, RequestState::kActive);
  request->comm = &world_slot;
  request->peer = kAnySource;
  request->tag = 3;
  request->datatype = &byte_slot;
  slot->real() = {99};
  return slot;
}

static bool is_gone() {
  const P2pState& p2p = state().p2p;
  return !world.unexpected_first && p2p.unexpected_held == 0 && p2p.unexpected_messages == 0 &&
         receipt_tag == 5;
}

static void test_taken() {
  UnexpectedMessage* const kept = hold();
  RequestSlot* const slot = receive(RequestKind::kRecv);
  EXPECT(state().p2p.received[1] == 1 && kept_from(1) == 1 && held_from(1) == 1);
  EXPECT(unexpected_match(&world, kAnySource, 3) == kept);
  outcome = kSuccess;
  EXPECT(unexpected_receive(kept, slot) == kSuccess);
  EXPECT(is_gone() && state().p2p.received[1] == 0 && slot->real().value == 88);
  EXPECT(request_of(slot)->receive_mode == ReceiveMode::kHeld);
}

static void test_taken_by_a_persistent_receive() {
  RequestSlot* const slot = receive(RequestKind::kPersistentRecv);
  request_of(slot)->state = RequestState::kInactive;
  outcome = kSuccess;
  EXPECT(unexpected_receive(hold(), slot) == kSuccess);
  EXPECT(is_gone() && slot->real().value == 88);
  EXPECT(request_of(slot)->state == RequestState::kActive);
  RequestSlot* handle = slot;
  release_handle(&handle);
  EXPECT(handle == slot && slot->real().value == 99);
  EXPECT(request_of(slot)->state == RequestState::kInactive);
  EXPECT(request_of(slot)->receive_mode == ReceiveMode::kPosted);
}

static void test_refused() {
  UnexpectedMessage* const kept = hold();
  RequestSlot* const slot = receive(RequestKind::kRecv);
  outcome = kErrType;
  EXPECT(unexpected_receive(kept, slot) == kErrType);
  EXPECT(world.unexpected_first == kept && held_from(1) == 1 && state().p2p.received[1] == 1);
  EXPECT(receipt_tag == 0 && slot->real().value == 99);
  outcome = kErrTruncate;  // it has been received, and is lost
  EXPECT(unexpected_receive(kept, slot) == kErrTruncate);
  EXPECT(is_gone() && state().p2p.received[1] == 1);
}

static void test_freed_while_active() {
  RequestSlot* const slot = receive(RequestKind::kPersistentRecv);
  outcome = kSuccess;
  EXPECT(unexpected_receive(hold(), slot) == kSuccess);
  request_of(slot)->holder = Holder::kNobody;
  EXPECT(complete_if_finished(slot));
  EXPECT(freed == 99 && slot->flags == 0);
}

int main() {
  map_slots();
  map_at(&crossing(), kCrossingBytes);
  start();
  test_taken();
  test_taken_by_a_persistent_receive();
  test_refused();
  test_freed_while_active();
  puts("PASS");
}
