// SPDX-License-Identifier: Apache-2.0
// Datatypes built on datatypes, alive over a checkpoint: a vector of a resized type (its gaps come
// from the inner extent), hindexed, a struct of both, a subarray. Each is used for a message that
// is under way during the pause, and its size, extent and contents must stay what they were.
#include "../check.h"

enum { kTypes = 4, kInts = 64 };

struct expected {
  int size;
  MPI_Aint lower, extent;
  int combiner;
};

static MPI_Datatype vector_of_resized(void) {
  MPI_Datatype wide, vector;
  MPI_Type_create_resized(MPI_INT, 0, 3 * sizeof(int), &wide);
  MPI_Type_vector(3, 2, 3, wide, &vector);
  MPI_Type_free(&wide);
  return vector;
}

static MPI_Datatype hindexed(void) {
  const int lengths[3] = {2, 1, 3};
  const MPI_Aint at[3] = {40, 0, 16};
  MPI_Datatype type;
  MPI_Type_create_hindexed(3, lengths, at, MPI_INT, &type);
  return type;
}

static MPI_Datatype structure(MPI_Datatype first, MPI_Datatype second) {
  const int lengths[3] = {1, 1, 2};
  const MPI_Aint at[3] = {0, 120, 200};
  const MPI_Datatype types[3] = {first, second, MPI_DOUBLE};
  MPI_Datatype type;
  MPI_Type_create_struct(3, lengths, at, types, &type);
  return type;
}

static MPI_Datatype subarray(void) {
  const int sizes[2] = {8, 8}, part[2] = {3, 2}, from[2] = {2, 5};
  MPI_Datatype type;
  MPI_Type_create_subarray(2, sizes, part, from, MPI_ORDER_FORTRAN, MPI_INT, &type);
  return type;
}

static struct expected describe(MPI_Datatype type) {
  struct expected e;
  int ints, addresses, types;
  MPI_Type_size(type, &e.size);
  MPI_Type_get_extent(type, &e.lower, &e.extent);
  MPI_Type_get_envelope(type, &ints, &addresses, &types, &e.combiner);
  return e;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  MPI_Datatype types[kTypes] = {vector_of_resized(), hindexed(), 0, subarray()};
  types[2] = structure(types[0], types[1]);
  struct expected before[kTypes];
  for (int t = 0; t < kTypes; t++) {
    MPI_Type_commit(&types[t]);
    before[t] = describe(types[t]);
  }
  CHECK(before[0].size == 24 && before[0].extent == 96);
  CHECK(before[1].size == 24 && before[1].extent == 48);
  CHECK(before[2].combiner == MPI_COMBINER_STRUCT && before[3].combiner == MPI_COMBINER_SUBARRAY);
  for (int step = 1; step <= o.steps; step++) {
    int out[kTypes][kInts], in[kTypes][kInts];
    MPI_Request sends[kTypes];
    for (int t = 0; t < kTypes; t++) {
      for (int i = 0; i < kInts; i++) out[t][i] = 1000 * step + 100 * t + i;
      memset(in[t], 0, sizeof in[t]);
      MPI_Isend(out[t], 1, types[t], next, t, MPI_COMM_WORLD, &sends[t]);
    }
    report_step(step, o.step_ms);
    for (int t = 0; t < kTypes; t++) {
      MPI_Status status;
      int items = -1, elements = -1;
      MPI_Recv(in[t], 1, types[t], previous, t, MPI_COMM_WORLD, &status);
      MPI_Get_count(&status, types[t], &items);
      MPI_Get_elements(&status, types[t], &elements);
      CHECK(items == 1 && elements == (t == 2 ? 14 : before[t].size / 4));
      int moved = 0;
      for (int i = 0; i < kInts; i++) {
        CHECK(in[t][i] == 0 || in[t][i] == out[t][i]);
        moved += in[t][i] != 0;
      }
      CHECK(moved == before[t].size / 4);
      mix(in[t], sizeof in[t]);
      const struct expected now = describe(types[t]);
      CHECK(now.size == before[t].size && now.lower == before[t].lower &&
            now.extent == before[t].extent && now.combiner == before[t].combiner);
    }
    MPI_Waitall(kTypes, sends, MPI_STATUSES_IGNORE);
  }
  for (int t = 0; t < kTypes; t++) MPI_Type_free(&types[t]);
  finish();
  return 0;
}
