// SPDX-License-Identifier: Apache-2.0
// Calls that ask, and need nobody else.
#include "family.h"

static int number, flag;

#define LOOP(name, call)                     \
  static void name(int n, int unused) {      \
    (void)unused;                            \
    for (int i = 0; i < n; i++) call;        \
  }
LOOP(comm_rank, MPI_Comm_rank(MPI_COMM_WORLD, &number))
LOOP(wtime, MPI_Wtime())
LOOP(type_size, MPI_Type_size(vector_type, &number))
LOOP(get_count, MPI_Get_count(&status, MPI_INT, &number))
LOOP(initialized, MPI_Initialized(&number))

static void attribute(int n, int unused) {
  int key;
  void *value;
  (void)unused;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
  MPI_Comm_set_attr(MPI_COMM_WORLD, key, &number);
  for (int i = 0; i < n; i++) MPI_Comm_get_attr(MPI_COMM_WORLD, key, &value, &flag);
  MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
  MPI_Comm_free_keyval(&key);
}
static void translate(int n, int unused) {
  MPI_Group group;
  int ranks[2] = {0, 1}, translated[2];
  (void)unused;
  MPI_Comm_group(MPI_COMM_WORLD, &group);
  for (int i = 0; i < n; i++) MPI_Group_translate_ranks(group, 2, ranks, group, translated);
  MPI_Group_free(&group);
}
static void pack(int n, int unused) {
  (void)unused;
  for (int i = 0; i < n; i++) {
    int position = 0;
    MPI_Pack(numbers, 1, vector_type, receiving, 4096, &position, MPI_COMM_WORLD);
    position = 0;
    MPI_Unpack(receiving, 4096, &position, results, 1, vector_type, MPI_COMM_WORLD);
  }
}

const struct Case local_cases[] = {
    {"local", "Comm_rank", comm_rank, 0, 1},
    {"local", "Wtime", wtime, 0, 1},
    {"local", "Type_size", type_size, 0, 1},
    {"local", "Get_count", get_count, 0, 1},
    {"local", "Initialized", initialized, 0, 1},
    {"local", "Comm_get_attr", attribute, 0, 1},
    {"local", "Group_translate_ranks of 2", translate, 0, 1},
    {"derived types", "Pack and Unpack of a vector of 64", pack, 0, 1},
    {0},
};
