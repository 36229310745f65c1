// SPDX-License-Identifier: Apache-2.0
// Random derived datatypes, and what they mean by our own arithmetic: the offset of each element.
// A few live at a time; the oldest is given up when a new one comes.
#include "chaos.h"

enum { kAlive = 6, kMostElements = 96, kBlocks = 4, kOld = 64, kPattern = 0xa5 };

static struct layout *alive[kAlive];
static int oldest;
static MPI_Datatype old[kOld];  // given up in this step
static int olds;

// The basic ones, which are never freed.
static struct layout *basic(int which) {
  static struct layout kinds[5];
  static int zero;
  if (!kinds[0].type) {
    const MPI_Datatype types[5] = {MPI_BYTE, MPI_INT, MPI_DOUBLE, MPI_SHORT, MPI_LONG_LONG};
    const int bytes[5] = {1, 4, 8, 2, 8};
    for (int i = 0; i < 5; i++)
      kinds[i] = (struct layout){types[i], types[i], bytes[i], 1, bytes[i], &zero};
  }
  return &kinds[which];
}

// Lets `type` consist of `blocks` runs of `length[i]` copies of what it was, the first of the
// run `place[i]` of its extents away from the beginning.
static void repeat(struct layout *layout, MPI_Datatype type, int blocks, const int *length,
                   const int *place, int extent) {
  int total = 0, n = 0;
  for (int b = 0; b < blocks; b++) total += length[b];
  int *const offset = memory(sizeof(int) * (size_t)(total * layout->elements));
  for (int b = 0; b < blocks; b++)
    for (int i = 0; i < length[b]; i++)
      for (int e = 0; e < layout->elements; e++)
        offset[n++] = (place[b] + i) * layout->extent + layout->offset[e];
  free(layout->offset);
  MPI_Type_free(&layout->type);
  *layout = (struct layout){type, layout->base, layout->base_bytes, n, extent, offset};
}

static void wrap(struct layout *layout, struct chance *chance) {
  const MPI_Datatype inner = layout->type;
  const int blocks = 1 + below(chance, kBlocks), each = 1 + below(chance, 3);
  const int gap = below(chance, 3), form = below(chance, 10), unit = layout->extent;
  int length[kBlocks], same[kBlocks], place[kBlocks], bytes[kBlocks], end = 0, even[kBlocks];
  MPI_Aint far[kBlocks];
  MPI_Datatype type, types[kBlocks];
  for (int b = 0; b < blocks; b++) {
    length[b] = 1 + below(chance, 3), same[b] = each, types[b] = inner;
    place[b] = end, even[b] = b * (each + gap), bytes[b] = end * unit;
    far[b] = bytes[b];
    end += length[b] + below(chance, 3);
  }
  const int ragged = (place[blocks - 1] + length[blocks - 1]) * unit;
  const int regular = (even[blocks - 1] + each) * unit;
  if (blocks * 3 * layout->elements > kMostElements) return;
  const int one = 1, zero = 0, box[2] = {blocks, each + gap}, part[2] = {blocks, each};
  const int corner[2] = {0, gap};
  int shifted[kBlocks];
  for (int b = 0; b < blocks; b++) shifted[b] = even[b] + gap;
  switch (form) {
    case 0:
      DO(MPI_Type_contiguous(each, inner, &type));
      return repeat(layout, type, 1, &each, &zero, each * unit);
    case 1:
      DO(MPI_Type_vector(blocks, each, each + gap, inner, &type));
      return repeat(layout, type, blocks, same, even, regular);
    case 2:
      DO(MPI_Type_create_hvector(blocks, each, (MPI_Aint)(each + gap) * unit, inner, &type));
      return repeat(layout, type, blocks, same, even, regular);
    case 3:
      DO(MPI_Type_indexed(blocks, length, place, inner, &type));
      return repeat(layout, type, blocks, length, place, ragged);
    case 4:
      DO(MPI_Type_create_hindexed(blocks, length, far, inner, &type));
      return repeat(layout, type, blocks, length, place, ragged);
    case 5:
      DO(MPI_Type_create_struct(blocks, length, far, types, &type));
      return repeat(layout, type, blocks, length, place, ragged);
    case 6:
      DO(MPI_Type_create_indexed_block(blocks, each, even, inner, &type));
      return repeat(layout, type, blocks, same, even, regular);
    case 7:
      DO(MPI_Type_create_resized(inner, 0, (MPI_Aint)(1 + gap) * unit, &type));
      return repeat(layout, type, 1, &one, &zero, (1 + gap) * unit);
    case 8:
      DO(MPI_Type_dup(inner, &type));
      return repeat(layout, type, 1, &one, &zero, unit);
    default:
      DO(MPI_Type_create_subarray(2, box, part, corner, MPI_ORDER_C, inner, &type));
      return repeat(layout, type, blocks, same, shifted, blocks * (each + gap) * unit);
  }
}

static struct layout *make_layout(struct chance *chance) {
  struct layout *const layout = memory(sizeof *layout);
  *layout = *basic(below(chance, 5));
  layout->offset = memory(sizeof(int));
  DO(MPI_Type_dup(layout->base, &layout->type));
  for (int depth = 1 + below(chance, 3); depth > 0; depth--) wrap(layout, chance);
  DO(MPI_Type_commit(&layout->type));
  MPI_Aint lower = -1, extent = -1;
  int size = -1;
  DO(MPI_Type_get_extent(layout->type, &lower, &extent));
  DO(MPI_Type_size(layout->type, &size));
  EXPECT(lower, 0);
  EXPECT(extent, layout->extent);
  EXPECT(size, layout->elements * layout->base_bytes);
  return layout;
}

struct layout *draw_layout(struct chance *chance) {
  if (one_in(chance, 3)) return basic(below(chance, 5));
  const int which = below(chance, kAlive);
  if (alive[which] && !one_in(chance, 3)) return alive[which];
  struct layout *const fresh = make_layout(chance);
  MUST(olds < kOld);
  if (alive[oldest]) old[olds++] = alive[oldest]->type;
  alive[oldest] = fresh;
  oldest = (oldest + 1) % kAlive;
  return fresh;
}

void free_old_layouts(void) {
  while (olds > 0) DO(MPI_Type_free(&old[--olds]));
}

void forget_layouts(void) {
  for (int i = 0; i < kAlive; i++) {
    if (alive[i]) DO(MPI_Type_free(&alive[i]->type));
    alive[i] = NULL;
  }
  oldest = 0;
}

// ---- buffers ------------------------------------------------------------------------------------

static size_t bytes_of(const struct body *body) {
  return (size_t)body->count * (size_t)body->layout->extent;
}

int body_elements(const struct body *body) { return body->count * body->layout->elements; }

struct body make_body(const struct layout *layout, int count, uint64_t key) {
  struct body body = {layout, count, key, NULL};
  body.bytes = memory(bytes_of(&body));
  memset(body.bytes, kPattern, bytes_of(&body));
  return body;
}

struct body plain_body(const struct body *other) {
  int which = 0;
  while (basic(which)->base != other->layout->base) which++;
  return make_body(basic(which), body_elements(other), other->key);
}

void fill_body(struct body *body) {
  const struct layout *const layout = body->layout;
  for (int i = 0, n = 0; i < body->count; i++)
    for (int e = 0; e < layout->elements; e++) {
      const uint64_t bits = derive(body->key, n++);
      unsigned char *const to = body->bytes + (size_t)i * (size_t)layout->extent;
      memcpy(to + layout->offset[e], &bits, (size_t)layout->base_bytes);
    }
}

void expect_body(struct body *body) {
  struct body right = make_body(body->layout, body->count, body->key);
  fill_body(&right);
  long long different = -1;
  for (size_t i = bytes_of(body); i-- > 0;)
    if (body->bytes[i] != right.bytes[i]) different = (long long)i;
  EXPECT(different, -1);
  EXPECT((long long)derive(body->key, body->count), (long long)derive(right.key, right.count));
  free_body(&right);
}

void free_body(struct body *body) {
  free(body->bytes);
  body->bytes = NULL;
}
