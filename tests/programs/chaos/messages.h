// SPDX-License-Identifier: Apache-2.0
// One message of the script, and its two ends.
#ifndef MESSAGES_H
#define MESSAGES_H

#include "chaos.h"

enum { kStandard, kSynchronous, kBuffered, kReady };

/// Wildcards have one possible match: a tag belongs to one step, and a receive for any tag names
/// its source, all of whose earlier messages on that communicator have had their receives.
struct message {
  MPI_Comm comm;
  int from, to, from_rank, to_rank;  // world ranks, and as the other end addresses them
  int tag, mode, any_source, any_tag;
  uint64_t key;
  struct body out, in;
};

/// Drawn alike by all; bodies are there for those that need them.
struct message *draw_message(struct step *step, const struct comm *comm, int index, int to_self);
/// Of this pair, in world ranks.
struct message *draw_message_between(struct step *step, const struct comm *comm, int index,
                                     int from, int to);
void receive_plainly(struct message *m);
int tag_of_step(const struct step *step);
/// One tag for several messages: only the order tells those of one sender apart.
void give_tag_of_step(struct message *m, const struct step *step);
int is_sender(const struct message *m);
int is_receiver(const struct message *m);
void send_message(struct message *m);                        // blocks
void begin_send(struct message *m, MPI_Request *request);
void begin_receive(struct message *m, MPI_Request *request);
void receive_message(struct message *m);                     // blocks; checks
void expect_message(struct message *m, MPI_Status *status);
void free_message(struct message *m);

#endif
