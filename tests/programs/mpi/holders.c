// SPDX-License-Identifier: Apache-2.0
// What a program may look at after an error, and what two parts of it may both do: a copy function
// that fails leaves the null handle, a keyval is freed by each of its holders, a predefined type
// gets a name. --beyond: what one of the real MPIs gets wrong.
#include "../check.h"

static int fails;

static int copy_comm(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag) {
  (void)comm, (void)keyval, (void)extra;
  *(void **)out = in;
  *flag = 1;
  return fails ? MPI_ERR_OTHER : MPI_SUCCESS;
}
static int copy_type(MPI_Datatype type, int keyval, void *extra, void *in, void *out, int *flag) {
  (void)type, (void)keyval, (void)extra;
  *(void **)out = in;
  *flag = 1;
  return fails ? MPI_ERR_OTHER : MPI_SUCCESS;
}
// Every attribute is a holder of its keyval.
static int delete_comm(MPI_Comm comm, int keyval, void *value, void *extra) {
  (void)comm, (void)value, (void)extra;
  return MPI_Comm_free_keyval(&keyval);
}

static void copies_that_fail(MPI_Comm comm) {
  int comm_key, type_key;
  MPI_Comm made = comm;
  MPI_Datatype pair, other = MPI_INT;
  MPI_Comm_create_keyval(copy_comm, MPI_COMM_NULL_DELETE_FN, &comm_key, NULL);
  MPI_Type_create_keyval(copy_type, MPI_TYPE_NULL_DELETE_FN, &type_key, NULL);
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Comm_set_attr(comm, comm_key, &fails);
  MPI_Type_set_attr(pair, type_key, &fails);
  fails = 1;
  CHECK(MPI_Comm_dup(comm, &made) != MPI_SUCCESS && made == MPI_COMM_NULL);
  CHECK(MPI_Type_dup(pair, &other) != MPI_SUCCESS && other == MPI_DATATYPE_NULL);
  fails = 0;
  CHECK(MPI_Comm_dup(comm, &made) == MPI_SUCCESS && made != MPI_COMM_NULL);
  CHECK(MPI_Type_dup(pair, &other) == MPI_SUCCESS && other != MPI_DATATYPE_NULL);
  MPI_Comm_free(&made);
  MPI_Type_free(&other);
  MPI_Comm_delete_attr(comm, comm_key);
  MPI_Type_free(&pair);
  MPI_Comm_free_keyval(&comm_key);
  MPI_Type_free_keyval(&type_key);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int beyond = has_option(argc, argv, "--beyond");
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int held = MPI_KEYVAL_INVALID, again = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_comm, &held, NULL);
  again = held;
  MPI_Comm_set_attr(MPI_COMM_SELF, held, NULL);
  MPI_Comm_set_attr(comm, held, NULL);
  MPI_Type_set_name(MPI_SHORT, "narrow");
  for (int step = 1; step <= o.steps; step++) {
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = 0;
    if (beyond) copies_that_fail(comm);
    MPI_Type_get_name(MPI_SHORT, name, &length);
    mix(name, (size_t)length);
    MPI_Type_get_name(MPI_INT, name, &length);
    mix(name, (size_t)length);
    report_step(step, o.step_ms);
  }
  MPI_Comm_free(&comm);
  CHECK(MPI_Comm_free_keyval(&held) == MPI_SUCCESS);
  if (beyond) CHECK(MPI_Comm_free_keyval(&again) == MPI_SUCCESS);
  finish();
  return 0;
}
