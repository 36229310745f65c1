// SPDX-License-Identifier: Apache-2.0
// Objects: made and freed.
#include "family.h"

#define WORLD MPI_COMM_WORLD

static void comm_dup(int n, int unused) {
  MPI_Comm comm;
  (void)unused;
  for (int i = 0; i < n; i++) MPI_Comm_dup(WORLD, &comm), MPI_Comm_free(&comm);
}
static void comm_split(int n, int colours) {
  MPI_Comm comm;
  for (int i = 0; i < n; i++) {
    MPI_Comm_split(WORLD, rank % colours, 0, &comm);
    MPI_Comm_free(&comm);
  }
}
static void comm_create(int n, int unused) {
  MPI_Comm comm;
  MPI_Group group;
  (void)unused;
  MPI_Comm_group(WORLD, &group);
  for (int i = 0; i < n; i++) MPI_Comm_create(WORLD, group, &comm), MPI_Comm_free(&comm);
  MPI_Group_free(&group);
}
static void cart_create(int n, int unused) {
  MPI_Comm comm;
  const int dimensions[1] = {2}, periods[1] = {1};
  (void)unused;
  for (int i = 0; i < n; i++) {
    MPI_Cart_create(WORLD, 1, dimensions, periods, 0, &comm);
    MPI_Comm_free(&comm);
  }
}
static void comm_group(int n, int unused) {
  MPI_Group group;
  (void)unused;
  for (int i = 0; i < n; i++) MPI_Comm_group(WORLD, &group), MPI_Group_free(&group);
}
static void group_incl(int n, int unused) {
  MPI_Group world, group;
  const int ranks[2] = {1, 0};
  (void)unused;
  MPI_Comm_group(WORLD, &world);
  for (int i = 0; i < n; i++) MPI_Group_incl(world, 2, ranks, &group), MPI_Group_free(&group);
  MPI_Group_free(&world);
}
static void contiguous(int n, int unused) {
  MPI_Datatype type;
  (void)unused;
  for (int i = 0; i < n; i++) {
    MPI_Type_contiguous(3, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&type);
  }
}
static void vector(int n, int unused) {
  MPI_Datatype type;
  (void)unused;
  for (int i = 0; i < n; i++) {
    MPI_Type_vector(10, 2, 5, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&type);
  }
}
static void indexed(int n, int count) {
  MPI_Datatype type;
  int lengths[128], places[128];
  for (int i = 0; i < count; i++) {
    lengths[i] = 1 + i % 2;
    places[i] = i * 4;
  }
  for (int i = 0; i < n; i++) {
    MPI_Type_indexed(count, lengths, places, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&type);
  }
}
static void structure(int n, int unused) {
  MPI_Datatype type;
  const int lengths[3] = {1, 2, 3};
  const MPI_Aint offsets[3] = {0, 16, 64};
  const MPI_Datatype types[3] = {MPI_INT, MPI_DOUBLE, MPI_CHAR};
  (void)unused;
  for (int i = 0; i < n; i++) {
    MPI_Type_create_struct(3, lengths, offsets, types, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&type);
  }
}
static void sum(void *in, void *inout, int *count, MPI_Datatype *type) {
  (void)in, (void)inout, (void)count, (void)type;
}
static void operation(int n, int unused) {
  MPI_Op op;
  (void)unused;
  for (int i = 0; i < n; i++) MPI_Op_create(sum, 1, &op), MPI_Op_free(&op);
}
static void info(int n, int unused) {
  MPI_Info info;
  (void)unused;
  for (int i = 0; i < n; i++) {
    MPI_Info_create(&info);
    MPI_Info_set(info, "key", "value");
    MPI_Info_free(&info);
  }
}
static void win_create(int n, int unused) {
  MPI_Win win;
  (void)unused;
  for (int i = 0; i < n; i++) {
    MPI_Win_create(numbers, 4096, 8, MPI_INFO_NULL, WORLD, &win);
    MPI_Win_free(&win);
  }
}
static void win_allocate(int n, int unused) {
  MPI_Win win;
  void *base;
  (void)unused;
  for (int i = 0; i < n; i++) {
    MPI_Win_allocate(4096, 8, MPI_INFO_NULL, WORLD, &base, &win);
    MPI_Win_free(&win);
  }
}

const struct Case object_cases[] = {
    {"objects", "Comm_dup, free", comm_dup, 0, 1},
    {"objects", "Comm_split into one, free", comm_split, 1, 1},
    {"objects", "Comm_split into two, free", comm_split, 2, 1},
    {"objects", "Comm_create, free", comm_create, 0, 1},
    {"objects", "Cart_create, free", cart_create, 0, 1},
    {"objects", "Comm_group, free", comm_group, 0, 1},
    {"objects", "Group_incl, free", group_incl, 0, 1},
    {"objects", "Type_contiguous, commit, free", contiguous, 0, 1},
    {"objects", "Type_vector, commit, free", vector, 0, 1},
    {"objects", "Type_indexed of 4, commit, free", indexed, 4, 1},
    {"objects", "Type_indexed of 128, commit, free", indexed, 128, 1},
    {"objects", "Type_create_struct, commit, free", structure, 0, 1},
    {"objects", "Op_create, free", operation, 0, 1},
    {"objects", "Info_create, set, free", info, 0, 1},
    {"objects", "Win_create, free", win_create, 0, 1},
    {"objects", "Win_allocate, free", win_allocate, 0, 1},
    {0},
};
