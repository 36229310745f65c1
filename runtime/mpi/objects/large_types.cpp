// SPDX-License-Identifier: Apache-2.0
#include "mpi/objects/large_types.h"

#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/scratch.h"
#include "mpi/objects/datatypes.h"

namespace fermata::mpi {
namespace {

constexpr i64 kChunk = i64(1) << 30;

/// Frees the handles of types that only a larger one needs from here on.
void let_types_go(DatatypeSlot** types, int count) {
  for (int i = 0; i < count; i++)
    if (types[i]) (void)core::Type_free(&types[i]);
}

/// `count` elements in a row, however many; the caller frees it.
int contiguous(i64 count, DatatypeSlot* old, DatatypeSlot** made) {
  *made = nullptr;
  if (core::fits_int(count)) return core::Type_contiguous(int(count), old, made);
  i64 lower_bound = 0, extent = 0;
  int error = core::Type_get_extent(old, &lower_bound, &extent);
  DatatypeSlot *chunk = nullptr, *parts[2] = {};
  if (!error && count / kChunk > 0x7fffffff) error = kErrValueTooLarge;
  if (!error) error = core::Type_contiguous(int(kChunk), old, &chunk);
  if (!error) error = core::Type_contiguous(int(count / kChunk), chunk, &parts[0]);
  if (!error) error = core::Type_contiguous(int(count % kChunk), old, &parts[1]);
  const int once[2] = {1, 1};
  const i64 places[2] = {0, count / kChunk * kChunk * extent};
  if (!error) error = core::Type_create_struct(2, once, places, parts, made);
  let_types_go(&chunk, 1);
  let_types_go(parts, 2);
  return error;
}

/// A struct of `count` blocks: length(i) elements of type(i), place(i) bytes from the beginning.
template <typename LengthOf, typename PlaceOf, typename TypeOf>
int type_of_blocks(i64 count, LengthOf length, PlaceOf place, TypeOf type, DatatypeSlot** made) {
  if (!core::fits_int(count) || count < 0) return kErrValueTooLarge;
  Scratch<DatatypeSlot*> blocks(count);
  Scratch<int> once(count);
  Scratch<i64> places(count);
  int error = kSuccess, ready = 0;
  for (; ready < count && !error; ready++) {
    error = contiguous(length(ready), type(ready), &blocks[ready]);
    once[ready] = 1;
    places[ready] = place(ready);
  }
  if (!error)
    error = core::Type_create_struct(int(count), once.data(), places.data(), blocks.data(), made);
  let_types_go(blocks.data(), ready);
  return error;
}

// The arguments of the call in the order of MPI_Type_get_contents_c.
class LargeCounts {
 public:
  explicit LargeCounts(i64 room) {
    const LowerScope scope;  // the arena is the library's
    values_ = arena_array<i64>(u64(room));
  }
  LargeCounts& add(i64 value) {
    values_[size_++] = value;
    return *this;
  }
  LargeCounts& add(const i64* from, i64 count) {
    for (i64 i = 0; i < count; i++) values_[size_++] = from[i];
    return *this;
  }
  /// Of blocks, each of its own length, or all of one.
  static LargeCounts of_blocks(i64 count, const i64* lengths, const i64* places) {
    return LargeCounts(1 + 2 * count).add(count).add(lengths, count).add(places, count);
  }
  static LargeCounts of_equal_blocks(i64 count, i64 length, const i64* places) {
    return LargeCounts(2 + count).add(count).add(length).add(places, count);
  }
  /// They become the new type's.
  int hand_over(DatatypeSlot* made, i32 combiner, DatatypeSlot* const* types, i64 count) {
    const LowerScope scope;
    LargeArguments* const large = arena_new<LargeArguments>();
    large->combiner = combiner;
    large->counts_count = size_;
    large->counts = values_;
    large->types_count = i32(count);
    large->types = arena_copy(types, u64(count));
    type_of(made)->large = large;
    return kSuccess;
  }

 private:
  i64* values_;
  i64 size_ = 0;
};

}  // namespace
}  // namespace fermata::mpi

namespace fermata::mpi::core {

/// A type of more elements than an int counts is told as it was made, every other one as if the
/// plain call had made it.
int Type_get_envelope_c(DatatypeSlot* datatype, i64* ints, i64* aints, i64* counts, i64* types,
                        int* combiner) {
  const Type* const type = type_of(datatype);
  if (type && type->large) {
    *ints = *aints = 0;
    *counts = type->large->counts_count;
    *types = type->large->types_count;
    *combiner = type->large->combiner;
    return kSuccess;
  }
  int small_ints = 0, small_aints = 0, small_types = 0;
  const int error =
      Type_get_envelope(datatype, &small_ints, &small_aints, &small_types, combiner);
  *ints = small_ints;
  *aints = small_aints;
  *counts = 0;
  *types = small_types;
  return error;
}
int Type_get_contents_c(DatatypeSlot* datatype, i64 max_ints, i64 max_aints, i64 max_counts,
                        i64 max_types, int* ints, i64* aints, i64* counts, DatatypeSlot** types) {
  const Type* const type = type_of(datatype);
  if (type && type->large) {
    const LargeArguments& large = *type->large;
    if (max_counts < large.counts_count || max_types < large.types_count) return kErrArg;
    const LowerScope scope;
    for (i64 i = 0; i < large.counts_count; i++) counts[i] = large.counts[i];
    for (i32 i = 0; i < large.types_count; i++) {
      types[i] = large.types[i];
      type_hand_out(types[i]);
    }
    return kSuccess;
  }
  constexpr i64 kMost = 0x7fffffff;
  const auto bounded = [](i64 max) { return int(max < kMost ? max : kMost); };
  return Type_get_contents(datatype, bounded(max_ints), bounded(max_aints), bounded(max_types),
                           ints, aints, types);
}

int Type_contiguous_wide(i64 count, DatatypeSlot* oldtype, DatatypeSlot** newtype) {
  const int error = contiguous(count, oldtype, newtype);
  if (error) return error;
  return LargeCounts(1).add(count).hand_over(*newtype, kCombinerContiguous, &oldtype, 1);
}
int Type_create_struct_wide(i64 count, const i64* lengths, const i64* places,
                            DatatypeSlot* const* types, DatatypeSlot** newtype) {
  const int error = type_of_blocks(
      count, [=](i64 i) { return lengths[i]; }, [=](i64 i) { return places[i]; },
      [=](i64 i) { return types[i]; }, newtype);
  if (error) return error;
  return LargeCounts::of_blocks(count, lengths, places)
      .hand_over(*newtype, kCombinerStruct, types, count);
}
int Type_create_hindexed_wide(i64 count, const i64* lengths, const i64* places,
                              DatatypeSlot* oldtype, DatatypeSlot** newtype) {
  const int error = type_of_blocks(
      count, [=](i64 i) { return lengths[i]; }, [=](i64 i) { return places[i]; },
      [=](i64) { return oldtype; }, newtype);
  if (error) return error;
  return LargeCounts::of_blocks(count, lengths, places)
      .hand_over(*newtype, kCombinerHindexed, &oldtype, 1);
}
int Type_create_hindexed_block_wide(i64 count, i64 length, const i64* places, DatatypeSlot* oldtype,
                                    DatatypeSlot** newtype) {
  const int error = type_of_blocks(
      count, [=](i64) { return length; }, [=](i64 i) { return places[i]; },
      [=](i64) { return oldtype; }, newtype);
  if (error) return error;
  return LargeCounts::of_equal_blocks(count, length, places)
      .hand_over(*newtype, kCombinerHindexedBlock, &oldtype, 1);
}
int Type_indexed_wide(i64 count, const i64* lengths, const i64* places, DatatypeSlot* oldtype,
                      DatatypeSlot** newtype) {
  i64 lower_bound = 0, extent = 0;
  int error = Type_get_extent(oldtype, &lower_bound, &extent);
  if (!error)
    error = type_of_blocks(
        count, [=](i64 i) { return lengths[i]; }, [=](i64 i) { return places[i] * extent; },
        [=](i64) { return oldtype; }, newtype);
  if (error) return error;
  return LargeCounts::of_blocks(count, lengths, places)
      .hand_over(*newtype, kCombinerIndexed, &oldtype, 1);
}
int Type_create_indexed_block_wide(i64 count, i64 length, const i64* places, DatatypeSlot* oldtype,
                                   DatatypeSlot** newtype) {
  i64 lower_bound = 0, extent = 0;
  int error = Type_get_extent(oldtype, &lower_bound, &extent);
  if (!error)
    error = type_of_blocks(
        count, [=](i64) { return length; }, [=](i64 i) { return places[i] * extent; },
        [=](i64) { return oldtype; }, newtype);
  if (error) return error;
  return LargeCounts::of_equal_blocks(count, length, places)
      .hand_over(*newtype, kCombinerIndexedBlock, &oldtype, 1);
}

}  // namespace fermata::mpi::core
