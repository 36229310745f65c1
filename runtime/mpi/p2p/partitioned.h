// SPDX-License-Identifier: Apache-2.0
// Partitioned messages: the partitions of one start are one message, sent when all are ready.
//
// Messages are matched by the calls that make their requests, in the order of these, and not by the
// starts; and never with other messages. So each pair has a channel: a tag of its own on the
// communicator of our own messages, which the sender chooses and introduces to the receiver by a
// message. The receiver gives the introductions of a sender, in their order, to its requests with
// the same communicator and tag.
//
// A partitioned request is pending in the core state while it is started. Behind it is a persistent
// request on its channel, a slot like any other: counted, drained, kept, made again after a
// restart. That of a receive is made when its introduction comes.
//
// Source: MPI 4.0, 4.2. docs/decisions/0067-partitioned-messages.md.
//
// Invariant: a receive that awaits its introduction is in P2pState::unintroduced, in the order of
//            the calls, also when it has been freed; an introduction that nobody awaits is in
//            P2pState::introductions, in the order of its coming. Not checked: no other record of
//            these orders is kept.
#pragma once

#include "mpi/handles/requests.h"
#include "mpi/handles/slots.h"
#include "mpi/p2p/awaited_ranks.h"

namespace fermata::mpi {

// What the sender says of a request.
struct ChannelWord {
  u64 comm_id;
  i32 tag;
  i32 channel;
};
struct Introduced {
  Introduced* next;
  i32 from;  // world rank
  ChannelWord word;
};

struct Partitioned {
  Partitioned* next;  // in P2pState::unintroduced
  RequestSlot* request;  // the application's; null: freed
  RequestSlot* message;  // the persistent one; null: none, or none yet
  u64 comm_id;
  i32 tag;
  i32 other;  // world rank of the other side; -1: MPI_PROC_NULL
  bool sends;
  i32 partitions;
  i32 ready;  // of this start
  u64* is_ready;  // of a send: bits
};

/// In MPI_Finalize: takes in what senders have said of receives that were never started, if it
/// comes in time. UCX complains of messages that nobody has received.
void take_last_introductions();

int partitioned_start(RequestSlot* slot);

/// Whether a request that has been started is not at its end yet.
bool partitioned_is_pending(RequestSlot* slot);

void partitioned_free(Request* request);

/// What somebody who waits for it waits for.
void mark_partitioned(const Request* request, const Wanted& wanted);

}  // namespace fermata::mpi
