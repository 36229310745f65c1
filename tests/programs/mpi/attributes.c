// SPDX-License-Identifier: Apache-2.0
// What hangs on a communicator and on a datatype: attributes with their callbacks, names, error
// handlers; and the predefined attributes, which must not change after they have been read.
#include "../check.h"

static int copies, deletes, handled;

static int copy_value(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag) {
  (void)comm, (void)keyval;
  copies++;
  *(void **)out = (char *)in + *(int *)extra;
  *flag = 1;
  return MPI_SUCCESS;
}

static int delete_value(MPI_Comm comm, int keyval, void *value, void *extra) {
  (void)comm, (void)keyval, (void)value, (void)extra;
  deletes++;
  return MPI_SUCCESS;
}

static int delete_type_value(MPI_Datatype type, int keyval, void *value, void *extra) {
  (void)type, (void)keyval, (void)value, (void)extra;
  deletes++;
  return MPI_SUCCESS;
}

static char order[8];

static int note_delete(MPI_Comm comm, int keyval, void *value, void *extra) {
  (void)comm, (void)keyval, (void)extra;
  strncat(order, (const char *)value, 1);
  return MPI_SUCCESS;
}

// The last attribute set is the first one deleted, on a duplicate as well.
static void check_order(void) {
  static const char *const values[] = {"a", "b", "c"};
  int keys[3];
  MPI_Comm first, second;
  MPI_Comm_dup(MPI_COMM_SELF, &first);
  for (int i = 0; i < 3; i++) {
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, note_delete, &keys[i], NULL);
    MPI_Comm_set_attr(first, keys[i], (void *)values[i]);
  }
  order[0] = 0;
  MPI_Comm_dup(first, &second);
  MPI_Comm_free(&second);
  CHECK(!strcmp(order, "cba"));
  MPI_Comm_free(&first);
  CHECK(!strcmp(order, "cbacba"));
  for (int i = 0; i < 3; i++) MPI_Comm_free_keyval(&keys[i]);
}

static int inner_key;

static int delete_another(MPI_Comm comm, int keyval, void *value, void *extra) {
  (void)keyval, (void)value, (void)extra;
  strcat(order, "o");
  return MPI_Comm_delete_attr(comm, inner_key);
}

// A delete callback deletes another attribute of the object that is being freed.
static void check_nested(void) {
  int outer_key;
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_SELF, &comm);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, note_delete, &inner_key, NULL);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_another, &outer_key, NULL);
  MPI_Comm_set_attr(comm, inner_key, (void *)"i");
  MPI_Comm_set_attr(comm, outer_key, NULL);
  order[0] = 0;
  MPI_Comm_free(&comm);
  CHECK(!strcmp(order, "oi"));
  MPI_Comm_free_keyval(&inner_key);
  MPI_Comm_free_keyval(&outer_key);
}

// A handle from MPI_Type_get_contents is one more: freeing it leaves the attributes alone.
static void check_contents(int type_key) {
  MPI_Datatype type, row, same;
  int integers[1], flag = 0, before = deletes;
  void *value = NULL;
  MPI_Type_vector(2, 1, 3, MPI_INT, &type);
  MPI_Type_set_attr(type, type_key, &deletes);
  MPI_Type_contiguous(2, type, &row);
  MPI_Type_get_contents(row, 1, 0, 1, integers, NULL, &same);
  MPI_Type_free(&same);
  MPI_Type_get_attr(type, type_key, &value, &flag);
  CHECK(flag && value == &deletes && deletes == before);
  MPI_Type_free(&row);
  MPI_Type_free(&type);
  CHECK(deletes == before + 1);
  deletes = before;
}

static int refuses = 1;

static int refuse_delete(MPI_Comm comm, int keyval, void *value, void *extra) {
  (void)comm, (void)keyval, (void)value, (void)extra;
  return refuses ? MPI_ERR_OTHER : MPI_SUCCESS;
}

// A delete callback's error is MPI_Comm_free's, and the communicator stays.
static void check_refused(void) {
  int refusing, sum = 0;
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_SELF, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // which MPICH asks
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, refuse_delete, &refusing, NULL);
  MPI_Comm_set_attr(comm, refusing, NULL);
  refuses = 1;
  int class = -1;
  MPI_Error_class(MPI_Comm_free(&comm), &class);
  CHECK(class == MPI_ERR_OTHER && comm != MPI_COMM_NULL);
  MPI_Allreduce(&refuses, &sum, 1, MPI_INT, MPI_SUM, comm);
  CHECK(sum == 1);
  refuses = 0;
  CHECK(MPI_Comm_free(&comm) == MPI_SUCCESS && comm == MPI_COMM_NULL);
  MPI_Comm_free_keyval(&refusing);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

static void handle(MPI_Comm *comm, int *code, ...) {
  (void)comm, (void)code;
  handled++;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  static int step_of_one = 1;
  int key, type_key, *tag_bound = NULL, flag = 0;
  void *value = NULL;
  MPI_Comm copy;
  MPI_Datatype pair;
  MPI_Errhandler own;
  MPI_Comm_create_keyval(copy_value, delete_value, &key, &step_of_one);
  MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, delete_type_value, &type_key, NULL);
  MPI_Comm_set_attr(MPI_COMM_WORLD, key, (void *)100);
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_set_name(copy, "the copy");
  MPI_Comm_create_errhandler(handle, &own);
  MPI_Comm_set_errhandler(copy, own);
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_set_attr(pair, type_key, (void *)7);
  MPI_Type_set_name(pair, "two ints");
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_bound, &flag);
  CHECK(flag && *tag_bound >= 32767);
  const int bound = *tag_bound;
  check_order();
  for (int i = 1; i < argc; i++)
    if (!strcmp(argv[i], "--beyond")) check_nested();  // both real MPIs fall over it
  check_contents(type_key);
  check_refused();
  for (int step = 1; step <= o.steps; step++) {
    int *host = NULL, *io = NULL;
    char name[MPI_MAX_OBJECT_NAME];
    int length = 0, class = -1;
    MPI_Comm again;
    report_step(step, o.step_ms);
    MPI_Comm_get_attr(copy, key, &value, &flag);
    CHECK(flag && value == (void *)101);
    MPI_Comm_dup(copy, &again);
    MPI_Comm_get_attr(again, key, &value, &flag);
    CHECK(flag && value == (void *)102 && copies == 1 + step);
    MPI_Comm_free(&again);
    CHECK(deletes == step);
    MPI_Type_get_attr(pair, type_key, &value, &flag);
    CHECK(flag && value == (void *)7);
    MPI_Type_get_name(pair, name, &length);
    CHECK(!strcmp(name, "two ints"));
    MPI_Comm_get_name(copy, name, &length);
    CHECK(!strcmp(name, "the copy") && length == 8);
    const int code = MPI_Send(&step, 1, MPI_INT, ranks + 7, 0, copy);
    MPI_Error_class(code, &class);
    CHECK(handled == step && class == MPI_ERR_RANK);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_bound, &flag);
    CHECK(flag && *tag_bound == bound);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &value, &flag);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_HOST, &host, &flag);
    CHECK(flag && *host == MPI_PROC_NULL);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_IO, &io, &flag);
    CHECK(flag && *io == MPI_ANY_SOURCE);
    mix_int(handled);
  }
  MPI_Type_free(&pair);
  CHECK(deletes == o.steps + 1);
  MPI_Comm_free(&copy);
  MPI_Errhandler_free(&own);
  finish();
  return 0;
}
