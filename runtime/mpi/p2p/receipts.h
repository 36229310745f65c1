// SPDX-License-Identifier: Apache-2.0
// Synchronous sends: they end no earlier than their receive, also when their message was kept.
//
// A draining rank takes in messages that its program has not asked for, and the lower half, which
// knows no better, then ends the send. So a synchronous send that a checkpoint finds unfinished is
// announced to its receiver while both drain, and from then on waits for a receipt in its stead: an
// empty message on a communicator of our own. When the receiver has taken in everything, it knows
// for each announced message whether it is among the kept ones. If so, the receipt is sent when the
// program has matched it, else it had been matched, and the receipt is sent when the rank
// continues. Announcements and receipts are messages like all others: counted, drained, and kept in
// images.
//
// Which one of several kept messages is meant is told by how many with the same receiver,
// communicator and tag were sent behind it: such messages are matched in the order they were sent,
// so those that are kept are the last ones.
//
// Source: MPI 4.1, 3.4 (a synchronous send completes only if a matching receive has started).
//
// Invariant: until all have announced theirs no rank receives, unasked by its program, anything of
//            a rank that has used synchronous sends (it waits for a receipt then, not for room;
//            who waits for a message holds the others, unexpected.h). So until it is announced the
//            lower half's word for the end of a synchronous send is true. Not checked: it is
//            of what the receiver does.
#pragma once

#include "base/text.h"
#include "mpi/handles/requests.h"
#include "mpi/handles/slots.h"
#include "mpi/p2p/unexpected.h"

namespace fermata::mpi {

// What a sender tells the receiver of a synchronous send that a checkpoint has found unfinished.
struct Announcement {
  u64 comm_id;
  i32 tag;
  i32 receipt_tag;
  u64 behind;  // messages with the same receiver, communicator and tag that it has sent since
};
// A synchronous send that has not ended.
struct SynchronousSend {
  SynchronousSend* next;
  RequestSlot* slot;
  i32 receiver;  // world rank
  Announcement word;
  RequestSlot* receipt;  // the receive of its receipt, once it has been announced; null: not needed
  u32 epoch;       // the checkpoint at which it was
  bool unfinished;  // announced, and the lower half has not finished it
};
// Receipts for messages that had been matched when their senders asked.
struct OwedReceipt {
  OwedReceipt* next;
  i32 to;
  i32 tag;
};

/// The request is active and has been counted.
void synchronous_begin(RequestSlot* slot, const CommSlot* comm, int tag);

void note_behind(u64 comm_id, i32 receiver, int tag);
void synchronous_end(const Request* request);

/// Of an announced send: looks whether the receipt has come, and records its end.
bool receipt_is_missing(RequestSlot* slot);

/// This rank is about to say how many messages it has sent: nothing more is sent after that.
void announce_synchronous();

/// True if anything has moved.
bool poll_synchronous();

bool synchronous_is_unfinished();

/// The kept message that an announcement means, or null if it has been matched.
UnexpectedMessage* find_announced(i32 sender, const Announcement& word);

/// All messages have come. Blocks until what was announced is whole, which so small messages are at
/// once.
void answer_announcements();

/// The rank continues.
void send_owed_receipts();

/// The checkpoint was given up before anybody knew what the others had announced: nobody will
/// answer, and the lower half's word has to do.
void take_announcements_back();

}  // namespace fermata::mpi
