// SPDX-License-Identifier: Apache-2.0
// Messages whose receives belong to the step of their sends: blocking, non-blocking in all modes,
// matched by a probe, sent and forgotten.
#include "messages.h"

enum { kMost = 10 };

void exchange(struct step *step) {
  struct comm *const comm = draw_comm(step, kIntra | kInter, 1);
  const int count = 1 + below(&step->chance, kMost);
  if (comm->kind != kInter && size_of(comm) < 2) return;
  for (int i = 0; i < count; i++) {
    struct message *const m = draw_message(step, comm, i, 0);
    if (m->mode == kReady) m->mode = kStandard;
    if (is_sender(m)) send_message(m);
    if (is_receiver(m)) receive_message(m);
    free_message(m);
  }
}

// ---- non-blocking -------------------------------------------------------------------------------

struct batch {
  int count;
  struct message *message[kMost];
  MPI_Request request[2 * kMost];
  MPI_Status status[2 * kMost];
  int of[2 * kMost], receives, requests;
};

static void finish_batch(void *data) {
  struct batch *const batch = data;
  wait_for(batch->request, batch->status, batch->requests, batch->message[0]->key);
  for (int i = 0; i < batch->requests; i++) {
    MUST(batch->request[i] == MPI_REQUEST_NULL);
    if (i < batch->receives) expect_message(batch->message[batch->of[i]], &batch->status[i]);
  }
  for (int i = 0; i < batch->count; i++) free_message(batch->message[i]);
  free(batch);
}

/// All receives are posted before the sends; those of mode "ready" need a barrier in between.
void posted(struct step *step) {
  struct comm *const comm = draw_comm(step, kIntra | kInter, 1);
  struct batch *const batch = memory(sizeof *batch);
  const int due = draw_due(step), in_order = one_in(&step->chance, 2);
  int ready = 0;
  batch->count = 1 + below(&step->chance, kMost);
  for (int i = 0; i < batch->count; i++) {
    batch->message[i] = draw_message(step, comm, i, 1);
    if (in_order) give_tag_of_step(batch->message[i], step);
    ready |= batch->message[i]->mode == kReady;
  }
  for (int i = 0; i < batch->count; i++) {
    if (!is_receiver(batch->message[i])) continue;
    batch->of[batch->receives] = i;
    begin_receive(batch->message[i], &batch->request[batch->receives++]);
  }
  batch->requests = batch->receives;
  if (ready && is_member(comm)) DO(MPI_Barrier(comm->handle));
  for (int i = 0; i < batch->count; i++)
    if (is_sender(batch->message[i]))
      begin_send(batch->message[i], &batch->request[batch->requests++]);
  later(due, finish_batch, batch);
}

// ---- matched now, received later ----------------------------------------------------------------

struct found {
  struct message *m;
  MPI_Message message;
  MPI_Request request;
};

static void finish_matched(void *data) {
  struct found *const found = data;
  struct body *const in = &found->m->in;
  MPI_Status status;
  if (is_receiver(found->m)) {
    if (found->m->mode % 2) {
      DO(MPI_Mrecv(in->bytes, in->count, in->layout->type, &found->message, &status));
    } else {
      MPI_Request request;
      DO(MPI_Imrecv(in->bytes, in->count, in->layout->type, &found->message, &request));
      wait_for(&request, &status, 1, found->m->key);
    }
    MUST(found->message == MPI_MESSAGE_NULL);
    expect_message(found->m, &status);
  }
  if (is_sender(found->m)) DO(MPI_Wait(&found->request, MPI_STATUS_IGNORE));
  free_message(found->m);
  free(found);
}

void matched(struct step *step) {
  struct comm *const comm = draw_comm(step, kIntra | kInter, 1);
  const int due = draw_due(step), count = 1 + below(&step->chance, 4);
  if (comm->kind != kInter && size_of(comm) < 2) return;
  hold_comm(comm, due);
  for (int i = 0; i < count; i++) {
    struct found *const found = memory(sizeof *found);
    struct message *const m = found->m = draw_message(step, comm, i, 0);
    MPI_Status status;
    if (m->mode == kReady) m->mode = kSynchronous;
    receive_plainly(m);
    if (is_sender(m)) begin_send(m, &found->request);
    if (is_receiver(m)) {
      DO(MPI_Mprobe(m->any_source ? MPI_ANY_SOURCE : m->from_rank,
                    m->any_tag ? MPI_ANY_TAG : m->tag, m->comm, &found->message, &status));
      EXPECT(status.MPI_SOURCE, m->from_rank);
    }
    later(due, finish_matched, found);
  }
}

// ---- sent and forgotten -------------------------------------------------------------------------

/// The requests of the sends are freed at once; their buffers stay.
void ignored(struct step *step) {
  struct comm *const comm = draw_comm(step, kIntra | kInter, 1);
  const int count = 1 + below(&step->chance, 4);
  if (comm->kind != kInter && size_of(comm) < 2) return;
  for (int i = 0; i < count; i++) {
    struct message *const m = draw_message(step, comm, i, 0);
    MPI_Request request;
    if (m->mode == kReady) m->mode = kStandard;
    if (is_receiver(m)) receive_message(m);
    if (is_sender(m)) {
      begin_send(m, &request);
      DO(MPI_Request_free(&request));
    } else {
      free_message(m);
    }
  }
}
