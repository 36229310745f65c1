// SPDX-License-Identifier: Apache-2.0
// What has been begun and is completed in a later step: a list in the order of registration. It is
// the same on all ranks but for what does not concern a rank, so completions have one order.
#include "chaos.h"

struct pending {
  struct pending *next;
  int due;
  const char *kind;
  finisher *finish;
  void *data;
};

static struct pending *first, **last = &first;

void later(int due, finisher *finish, void *data) {
  struct pending *const entry = memory(sizeof *entry);
  *entry = (struct pending){NULL, due, kind, finish, data};
  *last = entry;
  last = &entry->next;
}

// The one to complete next: the earliest due, and of these the one registered first.
static struct pending **next_due(int step) {
  struct pending **found = NULL;
  for (struct pending **at = &first; *at; at = &(*at)->next)
    if ((*at)->due <= step && (!found || (*at)->due < (*found)->due)) found = at;
  return found;
}

// A finisher may register what follows it.
void finish_due(int step) {
  for (struct pending **at; (at = next_due(step));) {
    struct pending *const entry = *at;
    *at = entry->next;
    if (last == &entry->next) last = at;
    kind = entry->kind;
    entry->finish(entry->data);
    free(entry);
  }
}

int draw_due(struct step *step) {
  const int late = !one_in(&step->chance, 2), distance = 1 + below(&step->chance, 8);
  return step->number + (late ? distance : 0);
}
