// SPDX-License-Identifier: Apache-2.0
// What only synchronous mode promises: a send that is complete has met its receive.
#include "messages.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <unistd.h>

// ---- one message, and a flag that its receiver raises -------------------------------------------

// A file that exists. A restart goes back behind some that were raised; they stay, and hide nothing
// but a fault that has had its chance.
struct handshake {
  struct message *m;
  MPI_Request request;
  char flag[PATH_MAX];
};

static void raise_flag(const char *path) {
  const int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  MUST(file >= 0);
  close(file);
}

static void finish_handshake(void *data) {
  struct handshake *const h = data;
  const int late_ms = (int)(derive(h->m->key, -3) % 25);
  if (is_receiver(h->m)) {
    sleep_for_ms(late_ms);
    raise_flag(h->flag);
    receive_message(h->m);
  }
  if (is_sender(h->m)) {
    if (h->request == MPI_REQUEST_NULL) send_message(h->m);
    else wait_for(&h->request, MPI_STATUSES_IGNORE, 1, h->m->key);
    EXPECT(access(h->flag, F_OK), 0);
  }
  free_message(h->m);
  free(h);
}

/// MPI_Ssend at the place of its receive, or MPI_Issend at an earlier one.
void handshake(struct step *step) {
  struct comm *const comm = draw_comm(step, kIntra | kInter, 1);
  const int later_due = draw_due(step), blocks = one_in(&step->chance, 2);
  const int due = blocks ? step->number : later_due;
  if (comm->kind != kInter && size_of(comm) < 2) return;
  hold_comm(comm, due);
  if (comm->unreceived < due) comm->unreceived = due;
  struct handshake *const h = memory(sizeof *h);
  h->m = draw_message(step, comm, 0, 0);
  h->m->mode = kSynchronous;
  h->request = MPI_REQUEST_NULL;
  snprintf(h->flag, sizeof h->flag, "%s/flag.%d", directory, step->number);
  receive_plainly(h->m);
  if (is_sender(h->m) && !blocks) begin_send(h->m, &h->request);
  later(due, finish_handshake, h);
}

// ---- an exchange in which nobody knows who will send to it --------------------------------------

// Source: Hoefler, Siebert and Lumsdaine, "Scalable Communication Protocols for Dynamic Sparse Data
// Exchange" (2010), algorithm NBX. It ends with all received only because of synchronous mode.

enum { kMostTo = 3, kItems = 5 };

struct sparse {
  const struct comm *comm;
  uint64_t key;
  int tag, copies[kMostRanks][kMostRanks];  // [from][to], ranks in the communicator
  int out[kMostRanks * kMostTo][kItems], in[kMostRanks][kMostTo][kItems], got[kMostRanks];
  MPI_Request sends[kMostRanks * kMostTo], barrier;
  int count;
};

static int sparse_item(const struct sparse *s, int from, int to, int copy, int i) {
  return value(derive(derive(s->key, from), to), copy * kItems + i);
}

static void send_all(struct sparse *s) {
  for (int to = 0; to < size_of(s->comm); to++) {
    for (int copy = 0; copy < s->copies[s->comm->rank][to]; copy++) {
      int *const out = s->out[s->count];
      for (int i = 0; i < kItems; i++) out[i] = sparse_item(s, s->comm->rank, to, copy, i);
      DO(MPI_Issend(out, kItems, MPI_INT, to, s->tag, s->comm->handle, &s->sends[s->count++]));
    }
  }
}

static void receive_one(struct sparse *s) {
  MPI_Status status;
  int flag = 0;
  DO(MPI_Iprobe(MPI_ANY_SOURCE, s->tag, s->comm->handle, &flag, &status));
  if (!flag) return;
  const int from = status.MPI_SOURCE;
  MUST(from >= 0 && from < size_of(s->comm) && s->got[from] < kMostTo);
  DO(MPI_Recv(s->in[from][s->got[from]++], kItems, MPI_INT, from, s->tag, s->comm->handle,
              &status));
}

// Looks for a message in one turn of `pace`: whoever looks rarely must not lose any.
static void receive_until_all_have(struct sparse *s, int pace) {
  int sent = 0, over = 0;
  for (int turn = 1; !over; turn++, sched_yield()) {
    if (turn % pace == 0) receive_one(s);
    if (sent) {
      DO(MPI_Test(&s->barrier, &over, MPI_STATUS_IGNORE));
      continue;
    }
    DO(MPI_Testall(s->count, s->sends, &sent, MPI_STATUSES_IGNORE));
    if (sent) DO(MPI_Ibarrier(s->comm->handle, &s->barrier));
  }
}

static void expect_all(const struct sparse *s) {
  const int to = s->comm->rank;
  for (int from = 0; from < size_of(s->comm); from++) {
    EXPECT(s->got[from], s->copies[from][to]);
    for (int copy = 0; copy < s->got[from]; copy++)
      for (int i = 0; i < kItems; i++)
        EXPECT(s->in[from][copy][i], sparse_item(s, from, to, copy, i));
  }
}

void sparse(struct step *step) {
  struct comm *const comm = draw_comm(step, kIntra, 2);
  if (!comm) return;
  struct sparse *const s = memory(sizeof *s);
  s->comm = comm, s->key = step->key, s->tag = tag_of_step(step);
  for (int from = 0; from < size_of(comm); from++)
    for (int to = 0; to < size_of(comm); to++)
      if (from != to && one_in(&step->chance, 2))
        s->copies[from][to] = 1 + below(&step->chance, kMostTo);
  if (is_member(comm)) {
    send_all(s);
    const uint64_t own = derive(step->key, self);
    sleep_for_ms((int)(own % 25));
    receive_until_all_have(s, 1 + (int)(derive(own, 0) % 7));
    expect_all(s);
  }
  free(s);
}
