// SPDX-License-Identifier: Apache-2.0
// Messages that are received in a later step, so that they lie unexpected meanwhile; requests that
// are used again and again; receives for which nothing ever comes.
#include "messages.h"

enum { kMost = 6 };

struct parcel {
  struct message *m;
  MPI_Request request;
};

static void finish_parcel(void *data) {
  struct parcel *const parcel = data;
  if (is_receiver(parcel->m)) receive_message(parcel->m);
  if (is_sender(parcel->m)) DO(MPI_Wait(&parcel->request, MPI_STATUS_IGNORE));
  free_message(parcel->m);
  free(parcel);
}

/// Of any pairs, or a queue of one pair that only their order tells apart, of which one is received
/// in each step: a snapshot finds queues that it has to keep whole, and begun ones.
void unexpected(struct step *step) {
  struct comm *const comm = draw_comm(step, kIntra | kInter, 1);
  const int due = draw_due(step) + 1, count = 1 + below(&step->chance, kMost);
  const int in_order = !one_in(&step->chance, 3), last = due + (in_order ? count - 1 : 0);
  int from, to;
  if (comm->kind != kInter && size_of(comm) < 2) return;
  hold_comm(comm, last);
  if (comm->unreceived < last) comm->unreceived = last;
  draw_pair(step, comm, 0, &from, &to);
  for (int i = 0; i < count; i++) {
    struct parcel *const parcel = memory(sizeof *parcel);
    struct message *const m = parcel->m = draw_message_between(step, comm, i, from, to);
    if (m->mode >= kBuffered) m->mode -= kBuffered;  // a buffer would have to hold it for long
    receive_plainly(m);
    if (in_order) give_tag_of_step(m, step);
    if (is_sender(m)) begin_send(m, &parcel->request);
    later(in_order ? due + i : due, finish_parcel, parcel);
    if (!in_order) draw_pair(step, comm, 0, &from, &to);
  }
}

// ---- persistent requests ------------------------------------------------------------------------

struct rounds {
  int count, receives, requests, round, last, due, gap;
  struct message *message[kMost];
  MPI_Request request[2 * kMost];
  MPI_Status status[2 * kMost];
  int of[2 * kMost];
};

static void end_round(struct rounds *rounds) {
  const uint64_t key = derive(rounds->message[0]->key, rounds->round);
  wait_for(rounds->request, rounds->status, rounds->requests, key);
  for (int i = 0; i < rounds->requests; i++) {
    MUST(rounds->request[i] != MPI_REQUEST_NULL);
    if (i < rounds->receives) expect_message(rounds->message[rounds->of[i]], &rounds->status[i]);
  }
}

static void begin_round(struct rounds *rounds) {
  for (int i = 0; i < rounds->count; i++) {
    struct message *const m = rounds->message[i];
    if (!is_sender(m) && !is_receiver(m)) continue;
    m->out.key = m->in.key = derive(m->key, rounds->round);
    fill_body(&m->out);
  }
  if (rounds->round % 2)
    DO(MPI_Startall(rounds->requests, rounds->request));
  else
    for (int i = 0; i < rounds->requests; i++) DO(MPI_Start(&rounds->request[i]));
}

static void next_round(void *data) {
  struct rounds *const rounds = data;
  end_round(rounds);
  rounds->due += rounds->gap;
  if (++rounds->round < rounds->last) {
    begin_round(rounds);
    later(rounds->due, next_round, rounds);
    return;
  }
  for (int i = 0; i < rounds->requests; i++) DO(MPI_Request_free(&rounds->request[i]));
  for (int i = 0; i < rounds->count; i++) free_message(rounds->message[i]);
  free(rounds);
}

void persistent(struct step *step) {
  struct comm *const comm = draw_comm(step, kIntra | kInter, 1);
  struct rounds *const rounds = memory(sizeof *rounds);
  rounds->count = 1 + below(&step->chance, kMost), rounds->last = 1 + below(&step->chance, 4);
  rounds->gap = 1 + below(&step->chance, 5), rounds->due = step->number + rounds->gap;
  hold_comm(comm, step->number + rounds->gap * rounds->last);
  for (int i = 0; i < rounds->count; i++)
    rounds->message[i] = draw_message(step, comm, i, 1);
  for (int i = 0; i < rounds->count; i++) {
    struct message *const m = rounds->message[i];
    if (!is_receiver(m)) continue;
    rounds->of[rounds->receives] = i;
    DO(MPI_Recv_init(m->in.bytes, m->in.count, m->in.layout->type,
                     m->any_source ? MPI_ANY_SOURCE : m->from_rank, m->tag, m->comm,
                     &rounds->request[rounds->receives++]));
  }
  rounds->requests = rounds->receives;
  for (int i = 0; i < rounds->count; i++) {
    struct message *const m = rounds->message[i];
    if (!is_sender(m)) continue;
    DO((m->mode % 2 ? MPI_Ssend_init : MPI_Send_init)(
        m->out.bytes, m->out.count, m->out.layout->type, m->to_rank, m->tag, m->comm,
        &rounds->request[rounds->requests++]));
  }
  begin_round(rounds);
  later(rounds->due, next_round, rounds);
}

// ---- the others ---------------------------------------------------------------------------------

static void cancel(void *data) {
  MPI_Request *const request = data;
  MPI_Status status;
  int flag = 0;
  DO(MPI_Cancel(request));
  DO(MPI_Wait(request, &status));
  DO(MPI_Test_cancelled(&status, &flag));
  EXPECT(flag, 1);
  free(request);
}

void cancelled(struct step *step) {
  static int nothing;
  struct comm *const comm = draw_comm(step, kIntra | kInter, 1);
  const int due = draw_due(step);
  hold_comm(comm, due);
  if (!is_member(comm)) return;
  MPI_Request *const request = memory(sizeof *request);
  DO(MPI_Irecv(&nothing, 1, MPI_INT, MPI_ANY_SOURCE, step->number * 16 + 15, comm->handle,
               request));
  later(due, cancel, request);
}

static struct body draw_body(struct step *step, uint64_t key) {
  const struct layout *const layout = draw_layout(&step->chance);
  return make_body(layout, below(&step->chance, 20), key);
}

/// Everybody to the next but k; at the end of the line perhaps nobody.
void shift(struct step *step) {
  struct comm *const comm = draw_comm(step, kIntra, 1);
  const int size = size_of(comm), by = below(&step->chance, size);
  const int replace = one_in(&step->chance, 2);
  const int open = one_in(&step->chance, 3), rank = comm->rank, tag = step->number * 16;
  struct body shape = draw_body(step, 0);
  free_body(&shape);
  if (!is_member(comm)) return;
  const int to = open && rank + by >= size ? MPI_PROC_NULL : (rank + by) % size;
  const int from = open && rank < by ? MPI_PROC_NULL : (rank - by + size) % size;
  struct body out = make_body(shape.layout, shape.count, derive(step->key, rank));
  struct body in = make_body(shape.layout, shape.count, derive(step->key, from));
  const MPI_Datatype type = shape.layout->type;
  MPI_Status status;
  fill_body(&out);
  if (replace) {
    DO(MPI_Sendrecv_replace(out.bytes, out.count, type, to, tag, from, tag, comm->handle, &status));
    if (from != MPI_PROC_NULL) out.key = in.key;
    expect_body(&out);
  } else {
    DO(MPI_Sendrecv(out.bytes, out.count, type, to, tag, in.bytes, in.count, type, from, tag,
                    comm->handle, &status));
    if (from != MPI_PROC_NULL) expect_body(&in);
  }
  EXPECT(status.MPI_SOURCE == from, 1);  // MPIs have their own MPI_PROC_NULL
  free_body(&in);
  free_body(&out);
}

/// Two bodies in one packed message.
void packed(struct step *step) {
  struct comm *const comm = draw_comm(step, kIntra | kInter, 1);
  int from, to, size[2] = {0}, place = 0;
  struct body body[2];
  draw_pair(step, comm, 0, &from, &to);
  for (int b = 0; b < 2; b++) body[b] = draw_body(step, derive(step->key, b));
  if (is_member(comm) && from != to && (self == from || self == to)) {
    for (int b = 0; b < 2; b++)
      DO(MPI_Pack_size(body[b].count, body[b].layout->type, comm->handle, &size[b]));
    char *const text = memory((size_t)(size[0] + size[1]));
    for (int b = 0; b < 2 && self == from; b++) {
      fill_body(&body[b]);
      DO(MPI_Pack(body[b].bytes, body[b].count, body[b].layout->type, text, size[0] + size[1],
                  &place, comm->handle));
    }
    if (self == from)
      DO(MPI_Send(text, place, MPI_PACKED, address(comm, to), step->number * 16, comm->handle));
    if (self == to)
      DO(MPI_Recv(text, size[0] + size[1], MPI_PACKED, address(comm, from), step->number * 16,
                  comm->handle, MPI_STATUS_IGNORE));
    for (int b = 0; b < 2 && self == to; b++) {
      DO(MPI_Unpack(text, size[0] + size[1], &place, body[b].bytes, body[b].count,
                    body[b].layout->type, comm->handle));
      expect_body(&body[b]);
    }
    free(text);
  }
  for (int b = 0; b < 2; b++) free_body(&body[b]);
}
