// SPDX-License-Identifier: Apache-2.0
// Packed messages under way at the checkpoint, packed data kept over it, the external32 form, and
// types built from types whose contents are asked for afterwards.
#include "../check.h"

static MPI_Datatype make_type(void) {
  const int at[3] = {0, 4, 6};
  MPI_Datatype pieces, spaced, twin;
  MPI_Type_create_indexed_block(3, 1, at, MPI_INT, &pieces);
  MPI_Type_create_hvector(2, 1, 64, pieces, &spaced);
  MPI_Type_dup(spaced, &twin);
  MPI_Type_free(&pieces);
  MPI_Type_free(&spaced);
  MPI_Type_commit(&twin);
  return twin;
}

static void check_contents(MPI_Datatype twin) {
  int ints, addresses, types, combiner, values[8];
  MPI_Aint displacements[8], lower, extent;
  MPI_Datatype spaced, pieces, base;
  MPI_Type_get_envelope(twin, &ints, &addresses, &types, &combiner);
  CHECK(combiner == MPI_COMBINER_DUP && types == 1);
  MPI_Type_get_contents(twin, ints, addresses, types, values, displacements, &spaced);
  MPI_Type_get_envelope(spaced, &ints, &addresses, &types, &combiner);
  CHECK(combiner == MPI_COMBINER_HVECTOR && ints == 2 && addresses == 1);
  MPI_Type_get_contents(spaced, ints, addresses, types, values, displacements, &pieces);
  CHECK(values[0] == 2 && values[1] == 1 && displacements[0] == 64);
  MPI_Type_get_envelope(pieces, &ints, &addresses, &types, &combiner);
  CHECK(combiner == MPI_COMBINER_INDEXED_BLOCK && ints == 5);
  MPI_Type_get_contents(pieces, ints, addresses, types, values, displacements, &base);
  CHECK(base == MPI_INT && values[3] == 4 && values[4] == 6);
  MPI_Type_get_true_extent(twin, &lower, &extent);
  CHECK(lower == 0 && extent == 64 + 28);
  MPI_Type_free(&pieces);
  MPI_Type_free(&spaced);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  MPI_Datatype type = make_type();
  for (int step = 1; step <= o.steps; step++) {
    int data[32], back[32] = {0}, room = 0, used = 0, at = 0;
    char packed[512], arrived[512], portable[512];
    MPI_Aint portable_room = 0, portable_used = 0, portable_at = 0;
    double half = 0, halves = step * 0.5;
    for (int i = 0; i < 32; i++) data[i] = 1000 * step + 100 * rank + i;
    MPI_Pack_size(1, type, MPI_COMM_WORLD, &room);
    CHECK(room >= 24 && room <= 256);
    MPI_Pack(data, 1, type, packed, sizeof packed, &used, MPI_COMM_WORLD);
    MPI_Pack(&halves, 1, MPI_DOUBLE, packed, sizeof packed, &used, MPI_COMM_WORLD);
    MPI_Send(packed, used, MPI_PACKED, next, 1, MPI_COMM_WORLD);
    MPI_Pack_external_size("external32", 4, MPI_INT, &portable_room);
    CHECK(portable_room == 16);
    MPI_Pack_external("external32", data, 4, MPI_INT, portable, sizeof portable, &portable_used);
    report_step(step, o.step_ms);
    MPI_Recv(arrived, sizeof arrived, MPI_PACKED, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Unpack(arrived, sizeof arrived, &at, back, 1, type, MPI_COMM_WORLD);
    MPI_Unpack(arrived, sizeof arrived, &at, &half, 1, MPI_DOUBLE, MPI_COMM_WORLD);
    CHECK(half == halves && back[1] == 0);
    const int place[6] = {0, 4, 6, 16, 20, 22};
    for (int i = 0; i < 6; i++) CHECK(back[place[i]] == 1000 * step + 100 * previous + place[i]);
    MPI_Unpack_external("external32", portable, portable_used, &portable_at, back, 4, MPI_INT);
    CHECK(portable_at == 16 && !memcmp(back, data, 16));
    CHECK((unsigned char)portable[3] == (data[0] & 0xff));  // big endian
    check_contents(type);
    mix(back, sizeof back);
  }
  MPI_Type_free(&type);
  finish();
  return 0;
}
