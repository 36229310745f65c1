// SPDX-License-Identifier: Apache-2.0
#include "mpi/objects/datatypes.h"

#include "frontend/callbacks.h"
#include "halves/crossing.h"
#include "halves/mpi_calls.gen.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/lower_errors.h"
#include "mpi/handles/table.h"
#include "mpi/objects/attributes.h"

namespace fermata::mpi {
namespace {

// The bounds that the markers among the members of a struct set, and what it has beside them.
class MarkedStruct {
 public:
  explicit MarkedStruct(const Type& type)
      : lengths_(arena_array<i32>(u64(type.types_count))),
        places_(arena_array<i64>(u64(type.types_count))),
        types_(arena_array<RealDatatype>(u64(type.types_count))) {
    for (i32 i = 0; i < type.types_count; i++) {
      const i32 length = type.ints[1 + i];
      const i64 place = type.aints[i];
      if (!is_marker(type.types[i])) {
        lengths_[count_] = length;
        places_[count_] = place;
        types_[count_++] = type.types[i]->real();
      } else if (length > 0) {
        const bool is_lower = type.types[i]->index == kLb;
        Bound& bound = is_lower ? lower_ : upper_;
        if (!bound.set || (is_lower ? place < bound.at : place > bound.at)) bound = {true, place};
      }
    }
  }
  ~MarkedStruct() {
    arena_free(lengths_);
    arena_free(places_);
    arena_free(types_);
  }
  MarkedStruct(const MarkedStruct&) = delete;
  MarkedStruct& operator=(const MarkedStruct&) = delete;

  int make(RealDatatype* real) const {
    const int error = lower().Type_create_struct(count_, lengths_, places_, types_, real);
    return error || (!lower_.set && !upper_.set) ? error : set_bounds(real);
  }

 private:
  struct Bound {
    bool set;
    i64 at;
  };

  int set_bounds(RealDatatype* real) const {
    RealDatatype plain = *real;
    i64 first = 0, extent = 0;
    int error = lower().Type_get_extent(plain, &first, &extent);
    const i64 end = upper_.set ? upper_.at : first + extent;
    if (lower_.set) first = lower_.at;
    if (!error) error = lower().Type_create_resized(plain, first, end - first, real);
    may_leak(lower().Type_free(&plain));
    return error;
  }

  i32* lengths_;
  i64* places_;
  RealDatatype* types_;
  i32 count_ = 0;
  Bound lower_{}, upper_{};
};

int struct_make(const Type& type, RealDatatype* real) {
  constexpr i32 kFew = 16;
  RealDatatype few[kFew] = {};
  bool is_plain = type.types_count <= kFew;
  for (i32 i = 0; i < type.types_count && is_plain; i++) {
    is_plain = !is_marker(type.types[i]);
    few[i] = type.types[i]->real();
  }
  if (!is_plain) return MarkedStruct(type).make(real);
  return lower().Type_create_struct(type.types_count, type.ints + 1, type.aints, few, real);
}

constexpr i64 kAskSize = -1;

i64 size_of_blocks(i32 count, const i32* lengths, const DatatypeSlot* type) {
  i64 items = 0;
  for (i32 i = 0; i < count; i++) items += lengths[i];
  return size_of_items(items, type);
}

/// A type of the Fortran 90 family: the same handle for the same numbers, committed, never freed.
int type_f90(i32 combiner, IntList ints, DatatypeSlot** newtype) {
  const LowerScope scope;
  DatatypeSlot* known = nullptr;
  for_each_live<kDatatype>([&](DatatypeSlot* slot) {
    const Type* const type = type_of(slot);
    if (type->combiner != combiner) return;
    for (i32 i = 0; i < ints.size(); i++)
      if (type->ints[i] != ints.values()[i]) return;
    known = slot;
  });
  if (known) {
    ints.drop();
    *newtype = known;
    return kSuccess;
  }
  const int error = type_new(combiner, ints, nullptr, 0, nullptr, 0, kAskSize, newtype);
  if (!error) type_of(*newtype)->committed = true;
  return error;
}

}  // namespace

bool is_marker(const DatatypeSlot* datatype) {
  return datatype->index == kLb || datatype->index == kUb;
}

int type_make(const Type& type, RealDatatype* real) {
  const MpiCalls& mpi = lower();
  const i32* const n = type.ints;
  const i64* const a = type.aints;
  const RealDatatype old = type.types_count ? type.types[0]->real() : RealDatatype{};
  switch (type.combiner) {
    case kCombinerDup: return mpi.Type_dup(old, real);
    case kCombinerContiguous: return mpi.Type_contiguous(n[0], old, real);
    case kCombinerVector: return mpi.Type_vector(n[0], n[1], n[2], old, real);
    case kCombinerHvector: return mpi.Type_create_hvector(n[0], n[1], a[0], old, real);
    case kCombinerIndexed: return mpi.Type_indexed(n[0], n + 1, n + 1 + n[0], old, real);
    case kCombinerHindexed: return mpi.Type_create_hindexed(n[0], n + 1, a, old, real);
    case kCombinerIndexedBlock:
      return mpi.Type_create_indexed_block(n[0], n[1], n + 2, old, real);
    case kCombinerHindexedBlock:
      return mpi.Type_create_hindexed_block(n[0], n[1], a, old, real);
    case kCombinerStruct: return struct_make(type, real);
    case kCombinerSubarray: {
      const i32 d = n[0];
      return mpi.Type_create_subarray(d, n + 1, n + 1 + d, n + 1 + 2 * d, n[1 + 3 * d], old, real);
    }
    case kCombinerDarray: {
      const i32 d = n[2];
      const i32* const p = n + 3;
      return mpi.Type_create_darray(n[0], n[1], d, p, p + d, p + 2 * d, p + 3 * d, p[4 * d], old,
                                    real);
    }
    case kCombinerResized: return mpi.Type_create_resized(old, a[0], a[1], real);
    case kCombinerF90Real: return mpi.Type_create_f90_real(n[0], n[1], real);
    case kCombinerF90Complex: return mpi.Type_create_f90_complex(n[0], n[1], real);
    case kCombinerF90Integer: return mpi.Type_create_f90_integer(n[0], real);
    default: return kErrType;
  }
}

void types_note_bounds() {
  for_each_live<kDatatype>([](DatatypeSlot* slot) {
    Type* const type = type_of(slot);
    if (!type || type->has_bounds) return;
    type->has_bounds =
        lower().Type_get_extent(slot->real(), &type->lower, &type->extent) == kSuccess;
  });
}

int type_keep_extent(const Type& type, RealDatatype* real) {
  if (!type.has_bounds) return kSuccess;
  i64 lower_bound = 0, extent = 0;
  int error = lower().Type_get_extent(*real, &lower_bound, &extent);
  if (error || (lower_bound == type.lower && extent == type.extent)) return error;
  RealDatatype resized{};
  error = lower().Type_create_resized(*real, type.lower, type.extent, &resized);
  if (error) return error;
  may_leak(lower().Type_free(real));
  *real = resized;
  return kSuccess;
}

i64 size_of_items(i64 items, const DatatypeSlot* type) { return items * i64(type->type_size); }

int type_new(i32 combiner, IntList ints, const i64* aints, i32 aints_count,
             DatatypeSlot* const* olds, i32 olds_count, i64 size, DatatypeSlot** newtype) {
  LowerScope scope;
  Type* const type = arena_new<Type>();
  type->refs = 1;
  type->handles = 1;
  type->combiner = combiner;
  type->built = state().safepoint.rebuilds;
  ints.hand_over(type);
  // Addresses and types share a block.
  const i32 many_types = olds_count == 1 ? 0 : olds_count;
  u64* const room = aints_count + many_types ? arena_array<u64>(u64(aints_count + many_types))
                                             : nullptr;
  if (aints_count) type->aints = reinterpret_cast<i64*>(room);
  for (i32 i = 0; i < aints_count; i++) type->aints[i] = aints[i];
  type->types =
      many_types ? reinterpret_cast<DatatypeSlot**>(room + aints_count) : &type->only_type;
  for (i32 i = 0; i < olds_count; i++) type->types[i] = olds[i];
  type->room = room;
  type->aints_count = aints_count;
  type->types_count = olds_count;
  DatatypeSlot* const slot = slot_new<kDatatype>(type);
  for (i32 i = 0; i < olds_count; i++) type_ref(olds[i]);
  int error = type_make(*type, &slot->real());
  if (!error && combiner == kCombinerDup && type_of(olds[0]))
    type->committed = type_of(olds[0])->committed;
  if (!error && combiner == kCombinerDup && !type_of(olds[0])) type->committed = true;
  if (error) {
    slot->real() = {};
    type_unref(slot);
    return error;
  }
  if (size < 0 && lower().Type_size_x(slot->real(), &size)) size = 0;
  slot->type_size = u64(size);
  *newtype = slot;
  return kSuccess;
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

int Type_create_f90_real(int p, int r, DatatypeSlot** newtype) {
  return type_f90(kCombinerF90Real, IntList(2).add(p).add(r), newtype);
}
int Type_create_f90_complex(int p, int r, DatatypeSlot** newtype) {
  return type_f90(kCombinerF90Complex, IntList(2).add(p).add(r), newtype);
}
int Type_create_f90_integer(int r, DatatypeSlot** newtype) {
  return type_f90(kCombinerF90Integer, IntList(1).add(r), newtype);
}

int Type_contiguous(int count, DatatypeSlot* oldtype, DatatypeSlot** newtype) {
  return type_new(kCombinerContiguous, IntList(1).add(count), nullptr, 0, &oldtype, 1,
                  size_of_items(count, oldtype), newtype);
}
int Type_vector(int count, int blocklength, int stride, DatatypeSlot* oldtype,
                DatatypeSlot** newtype) {
  return type_new(kCombinerVector, IntList(3).add(count).add(blocklength).add(stride), nullptr, 0,
                  &oldtype, 1, size_of_items(i64(count) * blocklength, oldtype), newtype);
}
int Type_create_hvector(int count, int blocklength, i64 stride, DatatypeSlot* oldtype,
                        DatatypeSlot** newtype) {
  return type_new(kCombinerHvector, IntList(2).add(count).add(blocklength), &stride, 1, &oldtype, 1,
                  size_of_items(i64(count) * blocklength, oldtype), newtype);
}
int Type_indexed(int count, const int* lengths, const int* displacements, DatatypeSlot* oldtype,
                 DatatypeSlot** newtype) {
  if (count < 0) return kErrCount;
  return type_new(kCombinerIndexed,
                  IntList(1 + 2 * count).add(count).add(lengths, count).add(displacements, count),
                  nullptr, 0, &oldtype, 1, size_of_blocks(count, lengths, oldtype), newtype);
}
int Type_create_hindexed(int count, const int* lengths, const i64* displacements,
                         DatatypeSlot* oldtype, DatatypeSlot** newtype) {
  if (count < 0) return kErrCount;
  return type_new(kCombinerHindexed, IntList(1 + count).add(count).add(lengths, count),
                  displacements, count, &oldtype, 1, size_of_blocks(count, lengths, oldtype),
                  newtype);
}
int Type_create_indexed_block(int count, int blocklength, const int* displacements,
                              DatatypeSlot* oldtype, DatatypeSlot** newtype) {
  if (count < 0) return kErrCount;
  return type_new(kCombinerIndexedBlock,
                  IntList(2 + count).add(count).add(blocklength).add(displacements, count), nullptr,
                  0, &oldtype, 1, size_of_items(i64(count) * blocklength, oldtype), newtype);
}
int Type_create_hindexed_block(int count, int blocklength, const i64* displacements,
                               DatatypeSlot* oldtype, DatatypeSlot** newtype) {
  if (count < 0) return kErrCount;
  return type_new(kCombinerHindexedBlock, IntList(2).add(count).add(blocklength), displacements,
                  count, &oldtype, 1, size_of_items(i64(count) * blocklength, oldtype), newtype);
}
int Type_create_struct(int count, const int* lengths, const i64* displacements,
                       DatatypeSlot* const* types, DatatypeSlot** newtype) {
  if (count < 0) return kErrCount;
  i64 size = 0;
  for (i32 i = 0; i < count; i++) size += size_of_items(lengths[i], types[i]);
  return type_new(kCombinerStruct, IntList(1 + count).add(count).add(lengths, count), displacements,
                  count, types, count, size, newtype);
}
int Type_create_subarray(int ndims, const int* sizes, const int* subsizes, const int* starts,
                         int order, DatatypeSlot* oldtype, DatatypeSlot** newtype) {
  if (ndims < 0) return kErrArg;
  return type_new(kCombinerSubarray,
                  IntList(2 + 3 * ndims)
                      .add(ndims)
                      .add(sizes, ndims)
                      .add(subsizes, ndims)
                      .add(starts, ndims)
                      .add(order),
                  nullptr, 0, &oldtype, 1, kAskSize, newtype);
}
int Type_create_darray(int size, int rank, int ndims, const int* gsizes, const int* distribs,
                       const int* dargs, const int* psizes, int order, DatatypeSlot* oldtype,
                       DatatypeSlot** newtype) {
  if (ndims < 0) return kErrArg;
  return type_new(kCombinerDarray,
                  IntList(4 + 4 * ndims)
                      .add(size)
                      .add(rank)
                      .add(ndims)
                      .add(gsizes, ndims)
                      .add(distribs, ndims)
                      .add(dargs, ndims)
                      .add(psizes, ndims)
                      .add(order),
                  nullptr, 0, &oldtype, 1, kAskSize, newtype);
}
int Type_create_resized(DatatypeSlot* oldtype, i64 lb, i64 extent, DatatypeSlot** newtype) {
  const i64 aints[2] = {lb, extent};
  return type_new(kCombinerResized, IntList(0), aints, 2, &oldtype, 1, size_of_items(1, oldtype),
                  newtype);
}

int Type_commit(DatatypeSlot** datatype) {
  LowerScope scope;
  Type* const type = type_of(*datatype);
  if (type) type->committed = true;
  return lower().Type_commit(&(*datatype)->real());
}

int Type_free(DatatypeSlot** datatype) {
  Type* const type = type_of(*datatype);
  // Predefined types cannot be freed, nor can those of the Fortran 90 family.
  if (!type || type->combiner == kCombinerF90Real || type->combiner == kCombinerF90Complex ||
      type->combiner == kCombinerF90Integer)
    return kErrType;
  if (--type->handles == 0) (void)attributes_drop(kDatatype, *datatype, &type->attributes, false);
  LowerScope scope;
  type_unref(*datatype);
  *datatype = null_of<kDatatype>();
  return kSuccess;
}

int Type_get_envelope(DatatypeSlot* datatype, int* ints, int* aints, int* types, int* combiner) {
  const Type* const type = type_of(datatype);
  *ints = type ? type->ints_count : 0;
  *aints = type ? type->aints_count : 0;
  *types = type ? type->types_count : 0;
  *combiner = type ? type->combiner : kCombinerNamed;
  return is_null(datatype, kDatatypeNull) ? kErrType : kSuccess;
}

int Type_get_contents(DatatypeSlot* datatype, int max_ints, int max_aints, int max_types, int* ints,
                      i64* aints, DatatypeSlot** types) {
  LowerScope scope;
  const Type* const type = type_of(datatype);
  if (!type) return kErrType;
  if (max_ints < type->ints_count || max_aints < type->aints_count ||
      max_types < type->types_count)
    return kErrArg;
  for (i32 i = 0; i < type->ints_count; i++) ints[i] = type->ints[i];
  for (i32 i = 0; i < type->aints_count; i++) aints[i] = type->aints[i];
  for (i32 i = 0; i < type->types_count; i++) {
    types[i] = type->types[i];
    type_hand_out(types[i]);
  }
  return kSuccess;
}

int Type_get_extent(DatatypeSlot* datatype, i64* lb, i64* extent) {
  *lb = *extent = 0;
  const LowerScope scope;
  return is_marker(datatype) ? int(kSuccess)
                             : lower().Type_get_extent(datatype->real(), lb, extent);
}
int Type_get_extent_x(DatatypeSlot* datatype, i64* lb, i64* extent) {
  *lb = *extent = 0;
  const LowerScope scope;
  return is_marker(datatype) ? int(kSuccess)
                             : lower().Type_get_extent_x(datatype->real(), lb, extent);
}
int Type_get_true_extent(DatatypeSlot* datatype, i64* true_lb, i64* true_extent) {
  *true_lb = *true_extent = 0;
  const LowerScope scope;
  return is_marker(datatype) ? int(kSuccess)
                             : lower().Type_get_true_extent(datatype->real(), true_lb, true_extent);
}
int Type_get_true_extent_x(DatatypeSlot* datatype, i64* true_lb, i64* true_extent) {
  *true_lb = *true_extent = 0;
  const LowerScope scope;
  return is_marker(datatype)
             ? int(kSuccess)
             : lower().Type_get_true_extent_x(datatype->real(), true_lb, true_extent);
}

int Type_match_size(int typeclass, int size, DatatypeSlot** datatype) {
  LowerScope scope;
  RealDatatype real{};
  const int error = lower().Type_match_size(typeclass, size, &real);
  if (error) return error;
  for (u32 number = kDatatypeNull + 1; number < kPredefinedCount; number++) {
    if (slot_at<kDatatype>(number)->real() != real) continue;
    *datatype = front::predefined<kDatatype>(number);
    return kSuccess;
  }
  return kErrArg;
}

int Type_get_value_index(DatatypeSlot* value_type, DatatypeSlot* index_type,
                         DatatypeSlot** pair_type) {
  struct Pair {
    u32 value, index, pair;
  };
  constexpr Pair kPairs[] = {
      {kFloat, abi::kInt, kFloatInt}, {kDouble, abi::kInt, kDoubleInt},
      {kLong, abi::kInt, kLongInt},   {kShort, abi::kInt, kShortInt},
      {abi::kInt, abi::kInt, k2int},  {kLongDouble, abi::kInt, kLongDoubleInt},
      {kReal, kReal, k2real},
      {kDoublePrecision, kDoublePrecision, k2doublePrecision}, {kInteger, kInteger, k2integer},
  };
  if (is_null(value_type, kDatatypeNull) || is_null(index_type, kDatatypeNull)) return kErrType;
  *pair_type = null_of<kDatatype>();
  for (const Pair& of : kPairs)
    if (value_type->index == of.value && index_type->index == of.index)
      *pair_type = front::predefined<kDatatype>(of.pair);
  return kSuccess;
}

}  // namespace fermata::mpi::core
