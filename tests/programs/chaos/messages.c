// SPDX-License-Identifier: Apache-2.0
// The ends of a message, in every mode of sending and every way of receiving.
#include "messages.h"

#include <sched.h>

enum { kBufferBytes = 1 << 20, kMostBuffered = 4096, kTags = 32000 };

static char *buffer;
static int buffered;  // upper bound of what the messages since MPI_Buffer_attach occupy

void start_messages(void) {
  buffer = memory(kBufferBytes);
  DO(MPI_Buffer_attach(buffer, kBufferBytes));
}

// Detaching waits for messages sent at earlier places, whose receives are there.
static void make_room(int bytes) {
  buffered += bytes + MPI_BSEND_OVERHEAD;
  if (buffered < kBufferBytes / 2) return;
  void *had;
  int size = 0;
  DO(MPI_Buffer_detach(&had, &size));
  MUST(had == buffer && size == kBufferBytes);
  DO(MPI_Buffer_attach(buffer, kBufferBytes));
  buffered = bytes + MPI_BSEND_OVERHEAD;
}

void end_messages(void) {
  void *had;
  int size = 0;
  DO(MPI_Buffer_detach(&had, &size));
  MUST(had == buffer && size == kBufferBytes);
}

// Mostly small, sometimes more than an MPI sends eagerly.
static int draw_count(struct chance *chance, const struct layout *layout) {
  const int most = one_in(chance, 12) ? 300000 / layout->extent : one_in(chance, 3) ? 200 : 12;
  return below(chance, most + 1);
}

struct message *draw_message(struct step *step, const struct comm *comm, int index, int to_self) {
  int from, to;
  draw_pair(step, comm, to_self, &from, &to);
  return draw_message_between(step, comm, index, from, to);
}

struct message *draw_message_between(struct step *step, const struct comm *comm, int index,
                                     int from, int to) {
  struct message *const m = memory(sizeof *m);
  const struct layout *const layout = draw_layout(&step->chance);
  const int count = draw_count(&step->chance, layout), mode = below(&step->chance, 4);
  const int plain = one_in(&step->chance, 2);
  m->from = from, m->to = to;
  m->any_source = one_in(&step->chance, 3);
  m->any_tag = one_in(&step->chance, 3) && !m->any_source && comm->unreceived < step->number;
  m->mode = mode == kBuffered && count * layout->extent > kMostBuffered ? kStandard : mode;
  m->tag = (step->number * 16 + index) % kTags;
  m->key = derive(step->key, index);
  m->comm = comm->handle;
  if (!is_member(comm)) return m;
  m->from_rank = address(comm, m->from), m->to_rank = address(comm, m->to);
  if (!is_sender(m) && !is_receiver(m)) return m;
  m->out = make_body(layout, count, m->key);
  m->in = plain ? plain_body(&m->out) : make_body(layout, count, m->key);
  fill_body(&m->out);
  return m;
}

int is_sender(const struct message *m) { return m->comm != MPI_COMM_NULL && m->from == self; }
int is_receiver(const struct message *m) { return m->comm != MPI_COMM_NULL && m->to == self; }

void free_message(struct message *m) {
  free_body(&m->out);
  free_body(&m->in);
  free(m);
}

// For a receive in a later step, when the datatype may have been freed.
void receive_plainly(struct message *m) {
  if (!is_receiver(m)) return;
  free_body(&m->in);
  m->in = plain_body(&m->out);
}

int tag_of_step(const struct step *step) { return step->number * 16 % kTags; }

void give_tag_of_step(struct message *m, const struct step *step) {
  m->tag = tag_of_step(step);
  m->any_source = 0;
}

// ---- sending ------------------------------------------------------------------------------------

typedef int send_call(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int begin_call(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static void provide(struct message *m) {
  int bytes = 0;
  if (m->mode != kBuffered) return;
  DO(MPI_Pack_size(m->out.count, m->out.layout->type, m->comm, &bytes));
  make_room(bytes);
}

void send_message(struct message *m) {
  static send_call *const calls[] = {MPI_Send, MPI_Ssend, MPI_Bsend, MPI_Rsend};
  provide(m);
  DO(calls[m->mode](m->out.bytes, m->out.count, m->out.layout->type, m->to_rank, m->tag, m->comm));
}

void begin_send(struct message *m, MPI_Request *request) {
  static begin_call *const calls[] = {MPI_Isend, MPI_Issend, MPI_Ibsend, MPI_Irsend};
  provide(m);
  DO(calls[m->mode](m->out.bytes, m->out.count, m->out.layout->type, m->to_rank, m->tag, m->comm,
                    request));
}

// ---- receiving ----------------------------------------------------------------------------------

void expect_message(struct message *m, MPI_Status *status) {
  int elements = -1;
  EXPECT(status->MPI_SOURCE, m->from_rank);
  EXPECT(status->MPI_TAG, m->tag);
  DO(MPI_Get_elements(status, m->in.layout->base, &elements));
  EXPECT(elements, body_elements(&m->in));
  expect_body(&m->in);
}

void begin_receive(struct message *m, MPI_Request *request) {
  const int source = m->any_source ? MPI_ANY_SOURCE : m->from_rank;
  DO(MPI_Irecv(m->in.bytes, m->in.count, m->in.layout->type, source,
               m->any_tag ? MPI_ANY_TAG : m->tag, m->comm, request));
}

void receive_message(struct message *m) {
  const int source = m->any_source ? MPI_ANY_SOURCE : m->from_rank;
  const int tag = m->any_tag ? MPI_ANY_TAG : m->tag;
  struct body *const in = &m->in;
  MPI_Status status;
  MPI_Message found = MPI_MESSAGE_NULL;
  MPI_Request request;
  int flag = 0;
  switch (derive(m->key, 1 << 20) % 6) {
    case 0:
      DO(MPI_Probe(source, tag, m->comm, &status));
      DO(MPI_Recv(in->bytes, in->count, in->layout->type, status.MPI_SOURCE, status.MPI_TAG,
                  m->comm, &status));
      break;
    case 1:
      for (; !flag; sched_yield()) DO(MPI_Iprobe(source, tag, m->comm, &flag, &status));
      DO(MPI_Recv(in->bytes, in->count, in->layout->type, source, tag, m->comm, &status));
      break;
    case 2:
      DO(MPI_Mprobe(source, tag, m->comm, &found, &status));
      DO(MPI_Mrecv(in->bytes, in->count, in->layout->type, &found, &status));
      break;
    case 3:
      for (; !flag; sched_yield()) DO(MPI_Improbe(source, tag, m->comm, &flag, &found, &status));
      DO(MPI_Imrecv(in->bytes, in->count, in->layout->type, &found, &request));
      wait_for(&request, &status, 1, m->key);
      break;
    case 4:
      begin_receive(m, &request);
      wait_for(&request, &status, 1, m->key);
      break;
    default:
      DO(MPI_Recv(in->bytes, in->count, in->layout->type, source, tag, m->comm, &status));
  }
  expect_message(m, &status);
}
