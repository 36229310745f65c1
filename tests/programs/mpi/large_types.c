// SPDX-License-Identifier: Apache-2.0
// Datatypes of more than 2^31 elements, made by the large-count forms where the header has them,
// and statuses that say so: sizes, extents and what the types say of how they were made, over
// checkpoints and after a restart. With older headers, the same types as structs of smaller ones.
#include "../check.h"

enum { kTypes = 3 };

#if MPI_VERSION >= 4
static void make(long long bytes, MPI_Datatype made[kTypes]) {
  const MPI_Count lengths[2] = {5, bytes - 5}, places[2] = {0, 5};
  MPI_Count blocks[4];
  for (int i = 0; i < 4; i++) blocks[i] = i * (bytes / 16);
  MPI_Type_contiguous_c(bytes, MPI_CHAR, &made[0]);
  MPI_Type_create_hindexed_c(2, lengths, places, MPI_CHAR, &made[1]);
  MPI_Type_create_indexed_block_c(4, bytes / 16, blocks, MPI_INT, &made[2]);
}
static void check_one(MPI_Datatype type, int combiner, int many, const MPI_Count *expected) {
  MPI_Count ints, places, counts, types, found[5];
  MPI_Datatype old;
  int said;
  MPI_Type_get_envelope_c(type, &ints, &places, &counts, &types, &said);
  CHECK(said == combiner && ints == 0 && places == 0 && counts == many && types == 1);
  MPI_Type_get_contents_c(type, ints, places, counts, types, NULL, NULL, found, &old);
  CHECK(old == MPI_CHAR);
  for (int i = 0; i < many; i++) CHECK(found[i] == expected[i]);
}
static void check_made(long long bytes, MPI_Datatype made[kTypes]) {
  const MPI_Count row[] = {bytes}, parts[] = {2, 5, bytes - 5, 0, 5};
  check_one(made[0], MPI_COMBINER_CONTIGUOUS, 1, row);
  check_one(made[1], MPI_COMBINER_HINDEXED, 5, parts);
}
#else
static void row(long long bytes, MPI_Datatype *made) {
  MPI_Datatype parts[2], chunk;
  const int once[2] = {1, 1};
  const MPI_Aint places[2] = {0, (MPI_Aint)(bytes >> 20 << 20)};
  MPI_Type_contiguous(1 << 20, MPI_CHAR, &chunk);
  MPI_Type_contiguous((int)(bytes >> 20), chunk, &parts[0]);
  MPI_Type_contiguous((int)(bytes & ((1 << 20) - 1)), MPI_CHAR, &parts[1]);
  MPI_Type_create_struct(2, once, places, parts, made);
  MPI_Type_free(&chunk);
  for (int i = 0; i < 2; i++) MPI_Type_free(&parts[i]);
}
static void make(long long bytes, MPI_Datatype made[kTypes]) {
  for (int i = 0; i < kTypes; i++) row(bytes, &made[i]);
}
static void check_made(long long bytes, MPI_Datatype made[kTypes]) { (void)bytes, (void)made; }
#endif

static void mix_types(MPI_Datatype types[kTypes]) {
  for (int i = 0; i < kTypes; i++) {
    MPI_Count size = 0, lower = 0, extent = 0;
    MPI_Type_size_x(types[i], &size);
    MPI_Type_get_true_extent_x(types[i], &lower, &extent);
    mix_int(size);
    mix_int(lower);
    mix_int(extent);
  }
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  MPI_Datatype kept[kTypes];
  const long long most = 5033164800LL;
  make(most, kept);
  for (int i = 0; i < kTypes; i++) MPI_Type_commit(&kept[i]);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Datatype types[kTypes];
    make(3LL * (1LL << 30) * step, types);
    check_made(3LL * (1LL << 30) * step, types);
    check_made(most, kept);
    report_step(step, o.step_ms);
    mix_types(types);
    mix_types(kept);
    for (int i = 0; i < kTypes; i++) MPI_Type_free(&types[i]);
    MPI_Status status;
    const MPI_Count many = 0x7654321f71234567LL - step;
    MPI_Count found = 0;
    MPI_Status_set_cancelled(&status, 0);
    MPI_Status_set_elements_x(&status, MPI_BYTE, many);
    MPI_Get_elements_x(&status, MPI_BYTE, &found);
    CHECK(found == many);
  }
  for (int i = 0; i < kTypes; i++) MPI_Type_free(&kept[i]);
  finish();
  return 0;
}
