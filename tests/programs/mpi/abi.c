// SPDX-License-Identifier: Apache-2.0
// Everything whose value or layout differs between MPI ABIs, checked from the application's side.
//
// The program is compiled with one MPI's header and run over any other: what it reads back must be
// what its own header says.
#define _GNU_SOURCE
#include "../check.h"

#include <dlfcn.h>

#pragma GCC diagnostic ignored "-Wstringop-overread"  // Open MPI's MPI_UNWEIGHTED has no memory

// Each real MPI sets the error in one of these calls.
static void empty_statuses(void) {
  int flag = -1;
  MPI_Request none = MPI_REQUEST_NULL;
  MPI_Status status = {.MPI_ERROR = MPI_ERR_OTHER};
  MPI_Request_get_status(none, &flag, &status);
  CHECK(flag && status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_ERROR == MPI_SUCCESS);
  status.MPI_ERROR = MPI_ERR_OTHER;
  MPI_Wait(&none, &status);
  CHECK(status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_ERROR == MPI_SUCCESS);
}

static void statuses(void) {
  MPI_Status status, many[4];
  MPI_Request requests[4];
  int value[2] = {1, 2}, got[2] = {0, 0}, count = -1, flag = -1, index = -1, done = -1, which[4];
  int peer = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  MPI_Sendrecv(value, 2, MPI_INT, peer, 5, got, 2, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG,
               MPI_COMM_WORLD, &status);
  CHECK(status.MPI_SOURCE == from && status.MPI_TAG == 5 && got[1] == 2);
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK(count == 2);
  MPI_Get_count(&status, MPI_DOUBLE, &count);
  CHECK(count == 1);
  MPI_Test_cancelled(&status, &flag);
  CHECK(flag == 0);
  MPI_Status_set_elements(&status, MPI_INT, 7);
  MPI_Get_elements(&status, MPI_INT, &count);
  CHECK(count == 7);
  MPI_Status_set_cancelled(&status, 1);
  MPI_Test_cancelled(&status, &flag);
  CHECK(flag == 1);
  MPI_Recv(got, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &status);
  CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
  MPI_Irecv(&got[0], 1, MPI_INT, from, 11, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(&got[1], 1, MPI_INT, from, 12, MPI_COMM_WORLD, &requests[1]);
  requests[2] = MPI_REQUEST_NULL;
  MPI_Isend(value, 1, MPI_INT, peer, 11, MPI_COMM_WORLD, &requests[3]);
  MPI_Send(value + 1, 1, MPI_INT, peer, 12, MPI_COMM_WORLD);
  MPI_Waitany(1, requests + 1, &index, &status);
  CHECK(index == 0 && status.MPI_TAG == 12 && requests[1] == MPI_REQUEST_NULL && got[1] == 2);
  MPI_Waitall(4, requests, many);
  CHECK(many[0].MPI_TAG == 11 && many[0].MPI_SOURCE == from && got[0] == 1);
  for (int i = 0; i < 4; i++) CHECK(requests[i] == MPI_REQUEST_NULL);
  MPI_Testsome(4, requests, &done, which, MPI_STATUSES_IGNORE);
  CHECK(done == MPI_UNDEFINED);
  MPI_Waitany(4, requests, &index, &status);
  CHECK(index == MPI_UNDEFINED);
  MPI_Barrier(MPI_COMM_WORLD);  // nobody's next message may be on its way yet
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
  CHECK(flag == 0);
  MPI_Barrier(MPI_COMM_WORLD);
}

static void long_arrays(void) {
  enum { kMany = 300 };  // beyond any small buffer of a translation layer
  MPI_Request requests[2 * kMany];
  MPI_Status statuses[2 * kMany];
  int in[kMany], out[kMany], peer = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  for (int i = 0; i < kMany; i++) {
    out[i] = 1000 * rank + i;
    MPI_Irecv(&in[i], 1, MPI_INT, from, i, MPI_COMM_WORLD, &requests[i]);
  }
  for (int i = 0; i < kMany; i++)
    MPI_Isend(&out[i], 1, MPI_INT, peer, i, MPI_COMM_WORLD, &requests[kMany + i]);
  MPI_Waitall(2 * kMany, requests, statuses);
  int good = 0;
  for (int i = 0; i < kMany; i++)
    good += in[i] == 1000 * from + i && statuses[i].MPI_TAG == i &&
            statuses[i].MPI_SOURCE == from && requests[i] == MPI_REQUEST_NULL;
  CHECK(good == kMany);
}

static void collectives(void) {
  int one = 1, sum = 0;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(sum == ranks);
  MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(one == ranks);
  struct { double value; int where; } in = {rank, rank}, best;
  MPI_Allreduce(&in, &best, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
  CHECK(best.where == ranks - 1);
  int* counts = calloc(4 * (size_t)ranks, sizeof(int));
  int* zero = counts + ranks;
  int* sent = counts + 2 * ranks;
  int* got = counts + 3 * ranks;
  MPI_Datatype* types = malloc((size_t)ranks * sizeof *types);
  for (int i = 0; i < ranks; i++) {
    counts[i] = 1;
    zero[i] = i * (int)sizeof(int);
    sent[i] = 100 * rank + i;
    types[i] = MPI_INT;
  }
  MPI_Alltoallw(sent, counts, zero, types, got, counts, zero, types, MPI_COMM_WORLD);
  for (int i = 0; i < ranks; i++) CHECK(got[i] == 100 * i + rank);
  MPI_Alltoallw(MPI_IN_PLACE, NULL, NULL, NULL, sent, counts, zero, types, MPI_COMM_WORLD);
  for (int i = 0; i < ranks; i++) CHECK(sent[i] == 100 * i + rank);
  free(types);
  free(counts);
}

static void datatypes(void) {
  int sizes[2] = {8, 8}, part[2] = {2, 3}, start[2] = {1, 1}, n[4], ints[32], combiner = -1;
  MPI_Aint addresses[4], lower = -1, extent = -1;
  MPI_Datatype type, inner[4];
  MPI_Type_create_subarray(2, sizes, part, start, MPI_ORDER_FORTRAN, MPI_INT, &type);
  MPI_Type_get_envelope(type, &n[0], &n[1], &n[2], &combiner);
  CHECK(combiner == MPI_COMBINER_SUBARRAY && n[2] == 1);
  MPI_Type_get_contents(type, n[0], n[1], n[2], ints, addresses, inner);
  CHECK(ints[n[0] - 1] == MPI_ORDER_FORTRAN && inner[0] == MPI_INT);
  MPI_Type_free(&type);
  CHECK(type == MPI_DATATYPE_NULL);
  int spread[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC}, grid[2] = {1, 1};
  int arguments[2] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG};
  MPI_Type_create_darray(1, 0, 2, sizes, spread, arguments, grid, MPI_ORDER_C, MPI_DOUBLE, &type);
  MPI_Type_get_envelope(type, &n[0], &n[1], &n[2], &combiner);
  CHECK(combiner == MPI_COMBINER_DARRAY);
  MPI_Type_get_contents(type, n[0], n[1], n[2], ints, addresses, inner);
  CHECK(ints[5] == MPI_DISTRIBUTE_BLOCK && ints[6] == MPI_DISTRIBUTE_CYCLIC);
  CHECK(ints[7] == MPI_DISTRIBUTE_DFLT_DARG && ints[n[0] - 1] == MPI_ORDER_C);
  MPI_Type_free(&type);
  MPI_Type_get_envelope(MPI_INT, &n[0], &n[1], &n[2], &combiner);
  CHECK(combiner == MPI_COMBINER_NAMED);
  MPI_Type_create_resized(MPI_INT, -4, 64, &type);
  MPI_Type_get_extent(type, &lower, &extent);
  CHECK(lower == -4 && extent == 64);
  MPI_Type_free(&type);
  MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &type);
  MPI_Type_size(type, &n[0]);
  CHECK(n[0] == 8);
}

static void communicators(void) {
  MPI_Comm cart, copy, node, graph, apart;
  int dims[1] = {ranks}, open[1] = {0}, left = -9, right = -9, kind = -9, same = -9;
  MPI_Cart_create(MPI_COMM_WORLD, 1, dims, open, 0, &cart);
  MPI_Cart_shift(cart, 0, 1, &left, &right);
  CHECK(left == (rank == 0 ? MPI_PROC_NULL : rank - 1));
  CHECK(right == (rank == ranks - 1 ? MPI_PROC_NULL : rank + 1));
  MPI_Topo_test(cart, &kind);
  CHECK(kind == MPI_CART);
  MPI_Topo_test(MPI_COMM_WORLD, &kind);
  CHECK(kind == MPI_UNDEFINED);
  MPI_Comm_free(&cart);
  CHECK(cart == MPI_COMM_NULL);
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_compare(copy, MPI_COMM_WORLD, &same);
  CHECK(same == MPI_CONGRUENT);
  MPI_Comm_compare(MPI_COMM_WORLD, MPI_COMM_WORLD, &same);
  CHECK(same == MPI_IDENT);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
  CHECK(node != MPI_COMM_NULL);
  MPI_Comm_free(&node);
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? 3 : MPI_UNDEFINED, 0, &apart);
  CHECK((apart == MPI_COMM_NULL) == (rank != 0));
  if (apart != MPI_COMM_NULL) MPI_Comm_free(&apart);
  int peer = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  int in = 0, out = 0, weighted = -1;
  MPI_Dist_graph_create_adjacent(copy, 1, &from, MPI_UNWEIGHTED, 1, &peer, MPI_UNWEIGHTED,
                                 MPI_INFO_NULL, 0, &graph);
  MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted);
  CHECK(in == 1 && out == 1 && weighted == 0);
  int one = rank, got = -1, counts = 1;
  MPI_Aint at = 0;
  MPI_Datatype type = MPI_INT;
  MPI_Neighbor_alltoallw(&one, &counts, &at, &type, &got, &counts, &at, &type, graph);
  CHECK(got == from);
  MPI_Comm_free(&graph);
  MPI_Comm_free(&copy);
  MPI_Group world, none;
  int chosen[2] = {0, MPI_PROC_NULL}, mapped[2] = {-9, -9};
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_translate_ranks(world, 2, chosen, world, mapped);
  CHECK(mapped[0] == 0 && mapped[1] == MPI_PROC_NULL);
  MPI_Group_incl(world, 0, chosen, &none);
  MPI_Group_compare(none, MPI_GROUP_EMPTY, &same);
  CHECK(same == MPI_IDENT);
  MPI_Group_translate_ranks(world, 1, chosen, MPI_GROUP_EMPTY, mapped);
  CHECK(mapped[0] == MPI_UNDEFINED);
  MPI_Group_free(&world);
}

static void errors(void) {
  int class = -1, length = -1, code;
  char text[MPI_MAX_ERROR_STRING];
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  code = MPI_Send(&class, 1, MPI_INT, ranks + 3, 0, MPI_COMM_WORLD);
  CHECK(code != MPI_SUCCESS);
  MPI_Error_class(code, &class);
  CHECK(class == MPI_ERR_RANK);
  MPI_Error_string(MPI_ERR_TRUNCATE, text, &length);
  CHECK(length > 0 && length < MPI_MAX_ERROR_STRING && strlen(text) == (size_t)length);
  code = MPI_Bcast(&class, 1, MPI_INT, ranks + 3, MPI_COMM_WORLD);
  MPI_Error_class(code, &class);
  CHECK(class == MPI_ERR_ROOT);
  code = MPI_Bcast(&class, 1, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD);
  MPI_Error_class(code, &class);
  CHECK(class == MPI_ERR_TYPE);
}

static void names_and_integers(void) {
  char name[MPI_MAX_PROCESSOR_NAME], version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = -1, major = 0, minor = 0, level = -1;
  MPI_Get_processor_name(name, &length);
  CHECK(length > 0 && (int)strlen(name) == length);
  MPI_Get_library_version(version, &length);
  CHECK(length > 0 && length <= MPI_MAX_LIBRARY_VERSION_STRING && (int)strlen(version) <= length);
  MPI_Get_version(&major, &minor);
  CHECK(major * 10 + minor <= MPI_VERSION * 10 + MPI_SUBVERSION && major >= 3);
  MPI_Query_thread(&level);
  CHECK(level == MPI_THREAD_SINGLE || level == MPI_THREAD_FUNNELED ||
        level == MPI_THREAD_SERIALIZED || level == MPI_THREAD_MULTIPLE);
  CHECK(MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
  CHECK(MPI_Type_f2c(MPI_Type_c2f(MPI_DOUBLE)) == MPI_DOUBLE);
  CHECK(MPI_Op_f2c(MPI_Op_c2f(MPI_SUM)) == MPI_SUM);
  CHECK(MPI_Group_f2c(MPI_Group_c2f(MPI_GROUP_EMPTY)) == MPI_GROUP_EMPTY);
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_SELF, &copy);
  CHECK(MPI_Comm_f2c(MPI_Comm_c2f(copy)) == copy);
  MPI_Comm_free(&copy);
  CHECK(MPI_Wtime() >= 0 && MPI_Wtick() > 0);
}

static void attributes(void) {
  int *value = NULL, flag = -1;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag);
  CHECK(flag && value && *value >= 32767);
}

// A library that serves several releases has a null pointer for an object that its MPI lacks.
static void null_pointers(void) {
#ifdef OPEN_MPI
  CHECK(MPI_Comm_c2f(NULL) == -1 && MPI_Type_c2f(NULL) == -1 && MPI_Errhandler_c2f(NULL) == -1);
  CHECK(MPI_Group_c2f(NULL) == -1 && MPI_Op_c2f(NULL) == -1 && MPI_Info_c2f(NULL) == -1);
  CHECK(MPI_Errhandler_f2c(-1) == NULL);
  const MPI_Errhandler newer = (MPI_Errhandler)dlsym(RTLD_DEFAULT, "ompi_mpi_errors_abort");
  if (newer) CHECK(MPI_Errhandler_f2c(MPI_Errhandler_c2f(newer)) == newer);
#endif
}

int main(int argc, char** argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  for (int i = 1; i < argc; i++)
    if (!strcmp(argv[i], "--beyond")) empty_statuses();
  for (int step = 1; step <= o.steps; step++) {
    report_step(step, o.step_ms);
    statuses();
    long_arrays();
    collectives();
    datatypes();
    communicators();
    names_and_integers();
    null_pointers();
    attributes();
    errors();
    mix_int(step);
  }
  finish();
  return 0;
}
