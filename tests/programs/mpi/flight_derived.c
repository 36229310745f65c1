// SPDX-License-Identifier: Apache-2.0
// Messages in flight at the checkpoint, received into another layout than they were sent from: a
// column of a matrix, a struct with holes, an indexed type; and a type made only after the pause.
#include <stddef.h>

#include "../check.h"

struct particle {
  char kind;
  double place[3];
  short charge;
};

static MPI_Datatype particle_type(void) {
  const int lengths[3] = {1, 3, 1};
  const MPI_Aint at[3] = {offsetof(struct particle, kind), offsetof(struct particle, place),
                          offsetof(struct particle, charge)};
  const MPI_Datatype types[3] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT};
  MPI_Datatype packed, type;
  MPI_Type_create_struct(3, lengths, at, types, &packed);
  MPI_Type_create_resized(packed, 0, sizeof(struct particle), &type);
  MPI_Type_free(&packed);
  MPI_Type_commit(&type);
  return type;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  MPI_Datatype particle = particle_type(), column;
  MPI_Type_vector(4, 1, 5, MPI_INT, &column);
  MPI_Type_commit(&column);
  for (int step = 1; step <= o.steps; step++) {
    int row[4], matrix[4][5] = {{0}}, scattered[8] = {0}, tags[1] = {step + rank};
    struct particle out[2], in[2];
    memset(in, 0, sizeof in);
    for (int i = 0; i < 4; i++) row[i] = 100 * step + 10 * rank + i;
    for (int i = 0; i < 2; i++)
      out[i] = (struct particle){'a' + i, {step, rank, i}, (short)(step * 3 + i)};
    MPI_Send(row, 4, MPI_INT, next, 0, MPI_COMM_WORLD);
    MPI_Send(out, 2, particle, next, 1, MPI_COMM_WORLD);
    MPI_Send(row, 4, MPI_INT, next, 2, MPI_COMM_WORLD);
    MPI_Send(tags, 1, MPI_INT, next, 3, MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    MPI_Datatype late;
    const int lengths[2] = {3, 1}, at[2] = {4, 1};
    MPI_Type_indexed(2, lengths, at, MPI_INT, &late);
    MPI_Type_commit(&late);
    MPI_Recv(&matrix[0][2], 1, column, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(in, 2, particle, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(scattered, 1, late, previous, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(tags, 1, MPI_INT, previous, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Type_free(&late);
    for (int i = 0; i < 4; i++) CHECK(matrix[i][2] == 100 * step + 10 * previous + i);
    for (int i = 0; i < 2; i++)
      CHECK(in[i].kind == 'a' + i && in[i].place[1] == previous && in[i].charge == step * 3 + i);
    for (int i = 0; i < 4; i++)
      CHECK(scattered[i < 3 ? 4 + i : 1] == 100 * step + 10 * previous + i);
    CHECK(scattered[0] == 0 && scattered[7] == 0 && tags[0] == step + previous);
    mix(matrix, sizeof matrix);
    mix(scattered, sizeof scattered);
  }
  MPI_Type_free(&particle);
  MPI_Type_free(&column);
  finish();
  return 0;
}
