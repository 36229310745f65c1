// SPDX-License-Identifier: Apache-2.0
// Threads that serve: with --serve each rank has one, which waits for questions of any rank and
// answers them, whatever the main threads do meanwhile. An answer waits for nobody, so a question
// is an action that cannot get stuck.
#include "chaos.h"

#include <pthread.h>

enum { kQuestion = 1, kAnswer = 2, kMostAsked = 3 };

static MPI_Comm served = MPI_COMM_NULL;
static pthread_t server;

// Questions are keys; 0 is the last one.
static void *serve(void *unused) {
  for (;;) {
    uint64_t key;
    MPI_Status status;
    DO(MPI_Recv(&key, 1, MPI_UINT64_T, MPI_ANY_SOURCE, kQuestion, served, &status));
    if (key == 0) return unused;
    const int answer = value(key, self);
    DO(MPI_Send(&answer, 1, MPI_INT, status.MPI_SOURCE, kAnswer, served));
  }
}

void start_serving(void) {
  DO(MPI_Comm_dup(MPI_COMM_WORLD, &served));
  MUST(pthread_create(&server, NULL, serve, NULL) == 0);
}

/// All ranks have their answers.
void end_serving(void) {
  const uint64_t none = 0;
  DO(MPI_Send(&none, 1, MPI_UINT64_T, self, kQuestion, served));
  MUST(pthread_join(server, NULL) == 0);
  DO(MPI_Comm_free(&served));
}

struct question {
  int asker, asked, answer;
  uint64_t key;
  MPI_Request request;
};

static void finish_question(void *data) {
  struct question *const q = data;
  if (self == q->asker) {
    wait_for(&q->request, MPI_STATUSES_IGNORE, 1, q->key);
    EXPECT(q->answer, value(q->key, q->asked));
  }
  free(q);
}

/// Some ranks ask others, or themselves. Answers of one server come in the order of its questions.
void question(struct step *step) {
  if (served == MPI_COMM_NULL) return;
  for (int count = 1 + below(&step->chance, kMostAsked), i = 0; i < count; i++) {
    struct question *const q = memory(sizeof *q);
    q->asker = below(&step->chance, world_size);
    q->asked = below(&step->chance, world_size);
    q->key = derive(step->key, i) | 1;
    const int due = draw_due(step);
    if (self == q->asker) {
      DO(MPI_Irecv(&q->answer, 1, MPI_INT, q->asked, kAnswer, served, &q->request));
      DO(MPI_Send(&q->key, 1, MPI_UINT64_T, q->asked, kQuestion, served));
    }
    later(due, finish_question, q);
  }
}
