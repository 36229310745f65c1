// SPDX-License-Identifier: Apache-2.0
// What MPICH's header has beyond the standard: MPI-1's markers of bounds, communicators of those
// that reach a directory, and the removal of error classes. With another header, what these stand
// for.
#include "../check.h"

#ifdef MPICH_VERSION
static int marked(MPI_Aint lower, MPI_Aint upper, MPI_Datatype *made) {
  int once[3] = {1, 4, 1};
  MPI_Aint places[3] = {lower, 0, upper};
  MPI_Datatype types[3] = {MPI_LB, MPI_BYTE, MPI_UB}, found[3];
  int ints[4], length, integers, addresses, members, combiner;
  char name[MPI_MAX_OBJECT_NAME];
  MPI_Type_create_struct(3, once, places, types, made);
  MPI_Type_get_envelope(*made, &integers, &addresses, &members, &combiner);
  MPI_Type_get_contents(*made, 4, 3, 3, ints, places, found);
  CHECK(combiner == MPI_COMBINER_STRUCT && members == 3);
  CHECK(found[0] == MPI_LB && found[1] == MPI_BYTE && found[2] == MPI_UB);
  MPI_Type_get_name(found[2], name, &length);
  CHECK(!strcmp(name, "MPI_UB") && length == 6);
  MPI_Type_get_extent(MPI_LB, &lower, &upper);
  CHECK(lower == 0 && upper == 0);
  return 0;
}
#else
static int marked(MPI_Aint lower, MPI_Aint upper, MPI_Datatype *made) {
  MPI_Datatype bytes;
  MPI_Type_contiguous(4, MPI_BYTE, &bytes);
  MPI_Type_create_resized(bytes, lower, upper - lower, made);
  return MPI_Type_free(&bytes);
}
#endif

// Hands each other elements that lie apart, of a type that lives over the pause.
static void exchange(MPI_Datatype type) {
  enum { kElements = 3, kApart = 9 };
  unsigned char sent[64], got[64];
  for (int i = 0; i < 64; i++) sent[i] = (unsigned char)(rank * 64 + i), got[i] = 0;
  const int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  MPI_Sendrecv(sent, kElements, type, to, 4, got, kElements, type, from, 4, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  for (int i = 0; i < 64; i++)
    CHECK(got[i] == (i % kApart < 4 && i < kElements * kApart ? (from * 64 + i) % 256 : 0));
  MPI_Aint lower, extent, first, span;
  int size;
  MPI_Type_size(type, &size);
  MPI_Type_get_extent(type, &lower, &extent);
  MPI_Type_get_true_extent(type, &first, &span);
  CHECK(size == 4 && lower == -3 && extent == kApart && first == 0 && span == 4);
  mix(got, sizeof got);
}

// The size of the communicator of those that name this directory; 0: there is none.
static int neighbours(const char *directory) {
#ifdef MPIX_COMM_TYPE_NEIGHBORHOOD
  MPI_Info info;
  MPI_Comm comm;
  int size = 0;
  MPI_Info_create(&info);
  MPI_Info_set(info, "nbhd_common_dirname", directory);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPIX_COMM_TYPE_NEIGHBORHOOD, 0, info, &comm);
  MPI_Info_free(&info);
  if (comm == MPI_COMM_NULL) return 0;
  MPI_Comm_size(comm, &size);
  MPI_Comm_free(&comm);
  return size;
#else
  return access(directory, F_OK) == 0 ? ranks : 0;
#endif
}

static void errors_come_and_go(int step) {
  int class = 0, code = 0, found = 0;
  MPI_Add_error_class(&class);
  MPI_Add_error_code(class, &code);
  MPI_Add_error_string(code, "of our own");
  MPI_Error_class(code, &found);
  CHECK(found == class);
#ifdef MPICH_VERSION
  MPIX_Delete_error_string(code);
  MPIX_Delete_error_code(code);
  MPIX_Delete_error_class(class);
#endif
  mix_int(step);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const char *directory = directory_option(argc, argv);
  // MPICH 4.0 hangs when it is asked a second time.
  const int beyond = has_option(argc, argv, "--beyond");
  MPI_Datatype type;
  marked(-3, 6, &type);
  MPI_Type_commit(&type);
  for (int step = 1; step <= o.steps; step++) {
    exchange(type);
    mix_int(neighbours(directory));
    if (beyond) CHECK(neighbours("/there/is/none") == 0);
    errors_come_and_go(step);
    report_step(step, o.step_ms);
  }
  MPI_Type_free(&type);
  finish();
  return 0;
}
