// SPDX-License-Identifier: Apache-2.0
// The broad one: each step runs every phase once and folds what it received into the hash. All MPI
// objects but the per-step ones live from the beginning to the end, so a checkpoint anywhere must
// bring all of them back.
#include <stddef.h>

#include "../check.h"

struct particle {
  int id;
  double x[3];
  char tag;
};

static struct {
  MPI_Datatype column, particle;
  MPI_Comm ring, half, copy;
  MPI_Op blend;
  MPI_Request send, receive;  // persistent
  int out[4], in[4];          // their buffers
  int left, right;
} world;

static void blend(void *in, void *inout, int *count, MPI_Datatype *type) {
  const int *a = (const int *)in;
  int *b = (int *)inout;
  (void)type;
  for (int i = 0; i < *count; i++) b[i] = (a[i] & 0xffff) + (b[i] ^ (a[i] >> 3));
}

static void make_types(void) {
  MPI_Datatype plain;
  MPI_Type_vector(8, 1, 8, MPI_INT, &plain);
  MPI_Type_create_resized(plain, 0, sizeof(int), &world.column);
  MPI_Type_commit(&world.column);
  MPI_Type_free(&plain);

  int lengths[3] = {1, 3, 1};
  MPI_Aint places[3] = {offsetof(struct particle, id), offsetof(struct particle, x),
                        offsetof(struct particle, tag)};
  MPI_Datatype kinds[3] = {MPI_INT, MPI_DOUBLE, MPI_CHAR};
  MPI_Type_create_struct(3, lengths, places, kinds, &plain);
  MPI_Type_create_resized(plain, 0, sizeof(struct particle), &world.particle);
  MPI_Type_commit(&world.particle);
  MPI_Type_free(&plain);
}

static void setup(void) {
  int period = 1;
  make_types();
  MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &period, 0, &world.ring);
  MPI_Cart_shift(world.ring, 0, 1, &world.left, &world.right);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &world.half);
  MPI_Comm_dup(MPI_COMM_WORLD, &world.copy);
  MPI_Comm_set_name(world.copy, "copy of the world");
  MPI_Op_create(blend, 0, &world.blend);
  MPI_Send_init(world.out, 4, MPI_INT, world.right, 77, world.ring, &world.send);
  MPI_Recv_init(world.in, 4, MPI_INT, world.left, 77, world.ring, &world.receive);
}

static void ring_with_wildcards(int step) {
  MPI_Status status;
  int token = step * 1000 + rank, got = -1, count = 0;
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  if (rank % 2 == 0) MPI_Send(&token, 1, MPI_INT, next, step % 100, MPI_COMM_WORLD);
  MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
  if (rank % 2 == 1) MPI_Send(&token, 1, MPI_INT, next, step % 100, MPI_COMM_WORLD);
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK(status.MPI_SOURCE == previous && status.MPI_TAG == step % 100 && count == 1);
  CHECK(got == step * 1000 + previous);
  mix_int(got);
}

static void derived_types(int step) {
  int matrix[8][8], columns[8][8];
  memset(columns, 0, sizeof columns);
  for (int i = 0; i < 64; i++) matrix[i / 8][i % 8] = step + rank * 64 + i;
  struct particle out = {step + rank, {rank + 0.5, step * 0.25, 3.0}, (char)('a' + rank % 26)}, in;
  memset(&in, 0, sizeof in);
  MPI_Sendrecv(matrix, 8, world.column, world.right, 5, columns, 64, MPI_INT, world.left, 5,
               world.ring, MPI_STATUS_IGNORE);
  for (int i = 0; i < 8; i++)
    for (int j = 0; j < 8; j++) CHECK(columns[i][j] == step + world.left * 64 + j * 8 + i);
  MPI_Sendrecv(&out, 1, world.particle, world.right, 6, &in, 1, world.particle, world.left, 6,
               world.ring, MPI_STATUS_IGNORE);
  CHECK(in.id == step + world.left && in.x[1] == step * 0.25);
  CHECK(in.tag == (char)('a' + world.left % 26));
  mix(columns, sizeof columns);
  mix_int(in.id);
  mix(in.x, sizeof in.x);
}

static void requests(int step) {
  MPI_Request list[16];
  MPI_Status statuses[16];
  double out[8], in[8];
  for (int i = 0; i < 8; i++) {
    in[i] = -1, out[i] = step + 0.125 * i + rank;
    MPI_Irecv(&in[i], 1, MPI_DOUBLE, world.left, 10 + i, world.copy, &list[i]);
  }
  for (int i = 7; i >= 0; i--)
    MPI_Isend(&out[i], 1, MPI_DOUBLE, world.right, 10 + i, world.copy, &list[8 + i]);
  pause_ms(step % 2);
  MPI_Waitall(16, list, statuses);
  for (int i = 0; i < 8; i++) {
    CHECK(in[i] == step + 0.125 * i + world.left && list[i] == MPI_REQUEST_NULL);
    CHECK(statuses[i].MPI_SOURCE == world.left && statuses[i].MPI_TAG == 10 + i);
  }
  mix(in, sizeof in);

  for (int i = 0; i < 4; i++) world.out[i] = step * 7 + rank + i;
  MPI_Start(&world.receive);
  MPI_Start(&world.send);
  MPI_Wait(&world.send, MPI_STATUS_IGNORE);
  MPI_Wait(&world.receive, MPI_STATUS_IGNORE);
  for (int i = 0; i < 4; i++) CHECK(world.in[i] == step * 7 + world.left + i);
  mix(world.in, sizeof world.in);
}

static void collectives(int step) {
  int value = step + rank, sum = 0, expected = 0, mine[64], others[64], root = step % ranks;
  for (int i = 0; i < ranks; i++) expected += step + i;
  MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(sum == expected);
  MPI_Allreduce(&value, &sum, 1, MPI_INT, world.blend, MPI_COMM_WORLD);
  mix_int(sum);
  value = rank == root ? step * 3 : -1;
  MPI_Bcast(&value, 1, MPI_INT, root, world.copy);
  CHECK(value == step * 3);
  CHECK(ranks <= 64);
  for (int i = 0; i < ranks; i++) mine[i] = step + rank * 64 + i;
  MPI_Alltoall(mine, 1, MPI_INT, others, 1, MPI_INT, world.copy);
  for (int i = 0; i < ranks; i++) CHECK(others[i] == step + i * 64 + rank);
  value = step * 5 + rank;
  MPI_Gather(&value, 1, MPI_INT, others, 1, MPI_INT, root, MPI_COMM_WORLD);
  if (rank == root)
    for (int i = 0; i < ranks; i++) CHECK(others[i] == step * 5 + i);

  int half_rank, half_size, low = rank;
  MPI_Comm_rank(world.half, &half_rank);
  MPI_Comm_size(world.half, &half_size);
  MPI_Allreduce(&rank, &low, 1, MPI_INT, MPI_MIN, world.half);
  CHECK(low == rank % 2 && half_rank == half_size - 1 - rank / 2);
  MPI_Scan(&value, &sum, 1, MPI_INT, MPI_SUM, world.half);
  mix_int(sum);

  long long big = (long long)step << rank, total = 0;
  MPI_Request pending;
  MPI_Iallreduce(&big, &total, 1, MPI_LONG_LONG, MPI_SUM, world.copy, &pending);
  pause_ms(step % 2);
  MPI_Wait(&pending, MPI_STATUS_IGNORE);
  CHECK(total == ((long long)step << ranks) - step);
  mix_int(total);
}

static void short_lived_objects(int step) {
  MPI_Comm temporary;
  MPI_Datatype pair;
  int name_length, value = step, sum;
  char name[MPI_MAX_OBJECT_NAME];
  MPI_Comm_split(world.copy, (rank + step) % 2, rank, &temporary);
  MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, temporary);
  int size;
  MPI_Comm_size(temporary, &size);
  CHECK(sum == size * step);
  MPI_Comm_free(&temporary);
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  int two[2] = {step, rank}, got[2];
  MPI_Sendrecv(two, 1, pair, world.left, 8, got, 2, MPI_INT, world.right, 8, world.ring,
               MPI_STATUS_IGNORE);
  CHECK(got[0] == step && got[1] == world.right);
  MPI_Type_free(&pair);
  MPI_Comm_get_name(world.copy, name, &name_length);
  CHECK(!strcmp(name, "copy of the world"));
}

static void teardown(void) {
  MPI_Request_free(&world.send);
  MPI_Request_free(&world.receive);
  MPI_Op_free(&world.blend);
  MPI_Type_free(&world.column);
  MPI_Type_free(&world.particle);
  MPI_Comm_free(&world.ring);
  MPI_Comm_free(&world.half);
  MPI_Comm_free(&world.copy);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 20, 0);
  setup();
  for (int step = 1; step <= o.steps; step++) {
    ring_with_wildcards(step);
    derived_types(step);
    requests(step);
    collectives(step);
    short_lived_objects(step);
    report_step(step, o.step_ms);
  }
  teardown();
  finish();
  return 0;
}
