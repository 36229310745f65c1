// SPDX-License-Identifier: Apache-2.0
// Attributes and names of communicators. A duplicate gets the attribute plus one, by a callback.
#include "chaos.h"

static int keyval = MPI_KEYVAL_INVALID, deleted;

static int copy(MPI_Comm from, int key, void *extra, void *old, void *new, int *flag) {
  (void)from, (void)key, (void)extra;
  *(void **)new = (char *)old + 1;
  *flag = 1;
  return MPI_SUCCESS;
}

static int forget(MPI_Comm comm, int key, void *old, void *count) {
  (void)comm, (void)key, (void)old;
  ++*(int *)count;
  return MPI_SUCCESS;
}

void start_attributes(void) { DO(MPI_Comm_create_keyval(copy, forget, &keyval, &deleted)); }

void expect_attribute(const struct comm *comm) {
  if (!is_member(comm)) return;
  void *found = NULL;
  int flag = -1;
  DO(MPI_Comm_get_attr(comm->handle, keyval, &found, &flag));
  EXPECT(flag, comm->attribute != 0);
  if (flag) EXPECT((intptr_t)found, comm->attribute);
}

void inherit_attribute(struct comm *copy, const struct comm *original) {
  copy->attribute = original->attribute ? original->attribute + 1 : 0;
  expect_attribute(copy);
}

// Open MPI 4.1 hands attributes on in MPI_Comm_create_group.
void drop_attribute(MPI_Comm fresh) {
  void *found;
  int flag = 0;
  DO(MPI_Comm_get_attr(fresh, keyval, &found, &flag));
  if (flag) DO(MPI_Comm_delete_attr(fresh, keyval));
}

void attributes(struct step *step) {
  struct comm *const comm = draw_comm(step, kIntra | kInter, 1);
  const int fresh = 1 + below(&step->chance, 1000), remove = one_in(&step->chance, 3);
  if (is_member(comm)) {
    char wanted[MPI_MAX_OBJECT_NAME], found[MPI_MAX_OBJECT_NAME] = "";
    const int before = deleted;
    int length = -1;
    expect_attribute(comm);
    if (remove && comm->attribute) DO(MPI_Comm_delete_attr(comm->handle, keyval));
    if (!remove) DO(MPI_Comm_set_attr(comm->handle, keyval, (void *)(intptr_t)fresh));
    EXPECT(deleted - before, comm->attribute != 0);
    snprintf(wanted, sizeof wanted, "of step %d", step->number);
    DO(MPI_Comm_set_name(comm->handle, wanted));
    DO(MPI_Comm_get_name(comm->handle, found, &length));
    EXPECT(strcmp(wanted, found), 0);
    EXPECT(length, (long long)strlen(wanted));
  }
  comm->attribute = remove ? 0 : fresh;
}
