// SPDX-License-Identifier: Apache-2.0
// Calls of a marked communicator beside the same ones of the MPI: every predefined type and
// operation, at several lengths, roots and communicators, in place and not; operations of the
// program's own, derived types, wrong arguments. Prints how many calls it has compared.
#include <complex.h>
#include <ftcoll_mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kCountMax = 3000, kElementMax = 32 };

static int calls, differences;
static uint64_t state = 88172645463325252u;

static uint32_t draw(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (uint32_t)(state >> 32);
}

typedef void (*Fill)(void *at, int value, int index);
typedef bool (*Equal)(const void *a, const void *b);

// Values are small, so that floating sums are exact in any order; pairs have equal values.
#define SCALAR(NAME, TYPE)                                         \
  static void fill_##NAME(void *at, int value, int index) {        \
    (void)index;                                                   \
    *(TYPE *)at = (TYPE)value;                                     \
  }                                                                \
  static bool equal_##NAME(const void *a, const void *b) {         \
    return *(const TYPE *)a == *(const TYPE *)b;                   \
  }
#define PAIR(NAME, TYPE)                                           \
  typedef struct {                                                 \
    TYPE value;                                                    \
    int index;                                                     \
  } NAME;                                                          \
  static void fill_##NAME(void *at, int value, int index) {        \
    ((NAME *)at)->value = (TYPE)value;                             \
    ((NAME *)at)->index = index;                                   \
  }                                                                \
  static bool equal_##NAME(const void *a, const void *b) {         \
    const NAME *x = a, *y = b;                                     \
    return x->value == y->value && x->index == y->index;           \
  }
#define TWIN(NAME, TYPE)                                           \
  static void fill_##NAME(void *at, int value, int index) {        \
    ((TYPE *)at)[0] = (TYPE)value;                                 \
    ((TYPE *)at)[1] = (TYPE)index;                                 \
  }                                                                \
  static bool equal_##NAME(const void *a, const void *b) {         \
    return memcmp(a, b, 2 * sizeof(TYPE)) == 0;                    \
  }

SCALAR(i8, int8_t)
SCALAR(i16, int16_t)
SCALAR(i32, int32_t)
SCALAR(i64, int64_t)
SCALAR(u8, uint8_t)
SCALAR(u16, uint16_t)
SCALAR(u32, uint32_t)
SCALAR(u64, uint64_t)
SCALAR(f32, float)
SCALAR(f64, double)
SCALAR(f80, long double)
SCALAR(c32, float _Complex)
SCALAR(c64, double _Complex)
SCALAR(c80, long double _Complex)
SCALAR(truth, bool)
PAIR(short_int, short)
PAIR(long_int, long)
PAIR(float_int, float)
PAIR(double_int, double)
PAIR(long_double_int, long double)
TWIN(two_int, int)
TWIN(two_float, float)
TWIN(two_double, double)

typedef struct {
  const char *name;
  MPI_Datatype type;
  Fill fill;
  Equal equal;
  const char *ops;  // of OPS: their first letters
} Kind;

typedef struct {
  char letter;
  MPI_Op op;
} Named;

#define INTEGER "+*<>&|^aox"
#define KIND(TYPE, NAME, OPS) {#TYPE, TYPE, fill_##NAME, equal_##NAME, OPS}

static bool compare(const Kind *kind, const char *a, const char *b, int count, MPI_Aint extent) {
  for (int i = 0; i < count; ++i) {
    if (!kind->equal(a + i * extent, b + i * extent)) return false;
  }
  return true;
}

static void note(bool is_equal, const char *what, const char *type, int count) {
  ++calls;
  if (is_equal) return;
  ++differences;
  fprintf(stderr, "compare: %s of %d %s differs\n", what, count, type);
}

static char *buffer(const Kind *kind, int count, MPI_Aint extent, int rank) {
  char *made = calloc((size_t)count + 1, (size_t)extent);
  for (int i = 0; i < count; ++i) {
    kind->fill(made + i * extent, (int)(draw() % 4), rank * 7 % 5 + i);
  }
  return made;
}

static void reductions(const Kind *kind, MPI_Op op, int count, MPI_Comm marked, MPI_Comm plain) {
  MPI_Aint bound, extent;
  int rank, size;
  MPI_Comm_rank(marked, &rank);
  MPI_Comm_size(marked, &size);
  MPI_Type_get_extent(kind->type, &bound, &extent);
  const int root = (calls / 3) % size;
  char *mine = buffer(kind, count, extent, rank);
  char *ours = calloc((size_t)count + 1, (size_t)extent);
  char *theirs = calloc((size_t)count + 1, (size_t)extent);
  MPI_Allreduce(mine, theirs, count, kind->type, op, plain);
  MPI_Allreduce(mine, ours, count, kind->type, op, marked);
  note(compare(kind, ours, theirs, count, extent), "MPI_Allreduce", kind->name, count);
  memcpy(ours, mine, (size_t)(count * extent));
  MPI_Allreduce(MPI_IN_PLACE, ours, count, kind->type, op, marked);
  note(compare(kind, ours, theirs, count, extent), "MPI_Allreduce in place", kind->name, count);
  memcpy(ours, mine, (size_t)(count * extent));
  const bool is_root = rank == root, in_place = is_root && calls % 2;
  MPI_Reduce(in_place ? MPI_IN_PLACE : mine, is_root ? ours : NULL, count, kind->type, op, root,
             marked);
  note(!is_root || compare(kind, ours, theirs, count, extent), "MPI_Reduce", kind->name, count);
  if (!is_root) memset(ours, 0, (size_t)(count * extent));
  else memcpy(ours, theirs, (size_t)(count * extent));
  MPI_Bcast(ours, count, kind->type, root, marked);
  note(compare(kind, ours, theirs, count, extent), "MPI_Bcast", kind->name, count);
  free(mine);
  free(ours);
  free(theirs);
}

static void predefined(MPI_Comm marked, MPI_Comm plain) {
  const Kind kinds[] = {
      KIND(MPI_SIGNED_CHAR, i8, INTEGER), KIND(MPI_UNSIGNED_CHAR, u8, INTEGER),
      KIND(MPI_SHORT, i16, INTEGER), KIND(MPI_UNSIGNED_SHORT, u16, INTEGER),
      KIND(MPI_INT, i32, INTEGER), KIND(MPI_UNSIGNED, u32, INTEGER),
      KIND(MPI_LONG, i64, INTEGER), KIND(MPI_UNSIGNED_LONG, u64, INTEGER),
      KIND(MPI_LONG_LONG, i64, INTEGER), KIND(MPI_UNSIGNED_LONG_LONG, u64, INTEGER),
      KIND(MPI_INT8_T, i8, INTEGER), KIND(MPI_UINT8_T, u8, INTEGER),
      KIND(MPI_INT16_T, i16, INTEGER), KIND(MPI_UINT16_T, u16, INTEGER),
      KIND(MPI_INT32_T, i32, INTEGER), KIND(MPI_UINT32_T, u32, INTEGER),
      KIND(MPI_INT64_T, i64, INTEGER), KIND(MPI_UINT64_T, u64, INTEGER),
      KIND(MPI_AINT, i64, "+*<>aox"), KIND(MPI_OFFSET, i64, "+*<>aox"),
      KIND(MPI_COUNT, i64, "+*<>aox"), KIND(MPI_BYTE, u8, "aox"), KIND(MPI_C_BOOL, truth, "&|^"),
      KIND(MPI_FLOAT, f32, "+*<>"), KIND(MPI_DOUBLE, f64, "+*<>"),
      KIND(MPI_LONG_DOUBLE, f80, "+*<>"), KIND(MPI_C_FLOAT_COMPLEX, c32, "+*"),
      KIND(MPI_C_DOUBLE_COMPLEX, c64, "+*"), KIND(MPI_C_LONG_DOUBLE_COMPLEX, c80, "+*"),
      KIND(MPI_SHORT_INT, short_int, "mM"), KIND(MPI_2INT, two_int, "mM"),
      KIND(MPI_LONG_INT, long_int, "mM"), KIND(MPI_FLOAT_INT, float_int, "mM"),
      KIND(MPI_DOUBLE_INT, double_int, "mM"), KIND(MPI_LONG_DOUBLE_INT, long_double_int, "mM"),
      KIND(MPI_INTEGER, i32, "+*<>aox"), KIND(MPI_LOGICAL, i32, "&|"), KIND(MPI_REAL, f32, "+*<>"),
      KIND(MPI_DOUBLE_PRECISION, f64, "+*<>"), KIND(MPI_COMPLEX, c32, "+*"),
      KIND(MPI_DOUBLE_COMPLEX, c64, "+*"), KIND(MPI_2INTEGER, two_int, "mM"),
      KIND(MPI_2REAL, two_float, "mM"), KIND(MPI_2DOUBLE_PRECISION, two_double, "mM"),
  };
  const Named ops[] = {{'+', MPI_SUM}, {'*', MPI_PROD}, {'<', MPI_MIN},    {'>', MPI_MAX},
                       {'&', MPI_LAND}, {'|', MPI_LOR}, {'^', MPI_LXOR},   {'a', MPI_BAND},
                       {'o', MPI_BOR}, {'x', MPI_BXOR}, {'m', MPI_MINLOC}, {'M', MPI_MAXLOC}};
  const int counts[] = {1, 0, 7, kCountMax, 64};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; ++k) {
    for (size_t o = 0; o < sizeof ops / sizeof *ops; ++o) {
      if (!strchr(kinds[k].ops, ops[o].letter)) continue;
      reductions(&kinds[k], ops[o].op, counts[(k + o) % 5], marked, plain);
    }
  }
}

// 2 x 2 matrices of integers modulo 32749: they do not commute.
static void multiply(void *ahead, void *behind, int *count, MPI_Datatype *type) {
  MPI_Aint bound, extent;
  MPI_Type_get_extent(*type, &bound, &extent);
  for (int i = 0; i < *count; ++i) {
    const uint32_t *a = (const void *)((char *)ahead + i * extent);
    uint32_t *b = (void *)((char *)behind + i * extent);
    const uint32_t product[4] = {
        (a[0] * b[0] + a[1] * b[2]) % 32749, (a[0] * b[1] + a[1] * b[3]) % 32749,
        (a[2] * b[0] + a[3] * b[2]) % 32749, (a[2] * b[1] + a[3] * b[3]) % 32749};
    memcpy(b, product, sizeof product);
  }
}

static void fill_matrix(void *at, int value, int index) {
  uint32_t *m = at;
  m[0] = (uint32_t)value + 1, m[1] = (uint32_t)index, m[2] = 1, m[3] = (uint32_t)(value + index);
}

static bool equal_matrix(const void *a, const void *b) { return memcmp(a, b, 16) == 0; }

static void own_operations(MPI_Comm marked, MPI_Comm plain) {
  MPI_Datatype matrix, apart;
  MPI_Type_contiguous(4, MPI_UINT32_T, &matrix);
  MPI_Type_create_resized(matrix, 0, kElementMax, &apart);
  MPI_Type_commit(&matrix);
  MPI_Type_commit(&apart);
  MPI_Op product;
  MPI_Op_create(multiply, 0, &product);
  const int counts[] = {1, 5, 1000};
  for (int i = 0; i < 3; ++i) {
    const Kind close = {"matrices", matrix, fill_matrix, equal_matrix, ""};
    const Kind wide = {"matrices with gaps", apart, fill_matrix, equal_matrix, ""};
    reductions(&close, product, counts[i], marked, plain);
    reductions(&wide, product, counts[i], marked, plain);
  }
  MPI_Op_free(&product);
  MPI_Type_free(&matrix);
  MPI_Type_free(&apart);
}

// The root sends every other integer of its buffer, or all in another order; the rest receives
// them in a row.
static void derived_types(MPI_Comm marked) {
  enum { kInts = 100 };
  int rank, size;
  MPI_Comm_rank(marked, &rank);
  MPI_Comm_size(marked, &size);
  MPI_Datatype vector, backward;
  int lengths[kInts], places[kInts];
  for (int i = 0; i < kInts; ++i) lengths[i] = 1, places[i] = kInts - 1 - i;
  MPI_Type_vector(kInts, 1, 2, MPI_INT, &vector);
  MPI_Type_indexed(kInts, lengths, places, MPI_INT, &backward);
  MPI_Type_commit(&vector);
  MPI_Type_commit(&backward);
  for (int root = 0; root < size; ++root) {
    for (int order = 0; order < 2; ++order) {
      int sent[2 * kInts], received[kInts] = {0};
      for (int i = 0; i < 2 * kInts; ++i) sent[i] = root + i;
      if (rank == root) MPI_Bcast(sent, 1, order ? backward : vector, root, marked);
      else MPI_Bcast(received, kInts, MPI_INT, root, marked);
      bool is_right = true;
      for (int i = 0; i < kInts && rank != root; ++i) {
        is_right &= received[i] == root + (order ? kInts - 1 - i : 2 * i);
      }
      note(is_right, "MPI_Bcast", "a derived type", 1);
    }
  }
  MPI_Type_free(&vector);
  MPI_Type_free(&backward);
}

static void expect(int error, int wanted, const char *what) {
  int class = error;
  if (error != MPI_SUCCESS) MPI_Error_class(error, &class);
  note(class == wanted, what, "error", class);
}

static void wrong_arguments(MPI_Comm marked) {
  double a = 0, b = 0;
  int size;
  MPI_Comm_size(marked, &size);
  MPI_Comm_set_errhandler(marked, MPI_ERRORS_RETURN);
  expect(MPI_Allreduce(&a, &b, 1, MPI_DOUBLE, MPI_BAND, marked), MPI_ERR_OP, "MPI_BAND");
  expect(MPI_Bcast(&a, 1, MPI_DOUBLE, size, marked), MPI_ERR_ROOT, "root");
  expect(MPI_Bcast(&a, -1, MPI_DOUBLE, 0, marked), MPI_ERR_COUNT, "count");
  expect(MPI_Allreduce(&a, &b, 1, MPI_DATATYPE_NULL, MPI_SUM, marked), MPI_ERR_TYPE, "type");
  expect(MPI_Allreduce(&a, &b, 1, MPI_DOUBLE, MPI_SUM, marked), MPI_SUCCESS, "none");
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  state += (uint64_t)rank * 77;
  MPI_Comm whole, half, plain_half, named;
  MPI_Info info;
  MPI_Comm_dup(MPI_COMM_WORLD, &whole);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
  MPI_Comm_dup(half, &plain_half);
  if (ftc_mark(whole) != MPI_SUCCESS || ftc_mark(half) != MPI_SUCCESS) MPI_Abort(whole, 1);
  note(ftc_is_marked(whole) && ftc_is_marked(half), "ftc_is_marked", "marked", 0);
  note(!ftc_is_marked(MPI_COMM_WORLD) && !ftc_is_marked(plain_half), "ftc_is_marked", "plain", 0);
  MPI_Comm_dup(MPI_COMM_WORLD, &named);
  MPI_Info_create(&info);
  MPI_Info_set(info, "ftcoll", "true");
  MPI_Comm_set_info(named, info);
  MPI_Info_free(&info);
  note(ftc_is_marked(named), "MPI_Comm_set_info", "marked", 0);
  predefined(whole, MPI_COMM_WORLD);
  derived_types(named);
  own_operations(whole, MPI_COMM_WORLD);
  own_operations(half, plain_half);
  derived_types(whole);
  derived_types(half);
  ftc_ended ended = {0};
  note(ftc_last(whole, &ended) == FTC_OK && ended.contributions == size, "ftc_last", "call", 1);
  note(ftc_last(MPI_COMM_WORLD, NULL) == FTC_ARGUMENT, "ftc_last", "plain", 1);
  wrong_arguments(half);
  MPI_Barrier(whole);
  MPI_Comm_free(&half);
  MPI_Comm_free(&plain_half);
  int all = 0;
  MPI_Allreduce(&differences, &all, 1, MPI_INT, MPI_SUM, whole);
  if (rank == 0) printf("%d calls compared, %d differ\n", calls, all);
  MPI_Finalize();
  int is_over = 0;
  MPI_Finalized(&is_over);
  return all != 0 || !is_over;
}
