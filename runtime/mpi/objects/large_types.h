// SPDX-License-Identifier: Apache-2.0
// Datatypes of more elements, or farther apart, than an int can count, in terms of smaller ones: a
// contiguous type of contiguous ones and a remainder; anything with displacements is a struct of
// such blocks. So their recipes are those of plain types, and every lower half can make them.
#pragma once

#include "mpi/objects/counts.h"
#include "mpi/handles/kept_arrays.h"

namespace fermata::mpi {

inline constexpr i64 kChunk = i64(1) << 30;

/// Frees the handles of types that only a larger one needs from here on.
inline void let_types_go(Slot** types, int count) {
  for (int i = 0; i < count; i++)
    if (types[i]) (void)core::Type_free(&types[i]);
}

/// `count` elements in a row, however many; the caller frees it.
inline int contiguous(i64 count, Slot* old, Slot** made) {
  *made = nullptr;
  if (core::fits_int(count)) return core::Type_contiguous(int(count), old, made);
  i64 lower_bound = 0, extent = 0;
  int error = core::Type_get_extent(old, &lower_bound, &extent);
  Slot *chunk = nullptr, *parts[2] = {};
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
int type_of_blocks(i64 count, LengthOf length, PlaceOf place, TypeOf type, Slot** made) {
  if (!core::fits_int(count) || count < 0) return kErrValueTooLarge;
  Scratch<Slot*> blocks(count);
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
  int hand_over(Slot* made, i32 combiner, Slot* const* types, i64 count) {
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

namespace core {

inline int Type_contiguous_wide(i64 count, Slot* oldtype, Slot** newtype) {
  const int error = contiguous(count, oldtype, newtype);
  if (error) return error;
  return LargeCounts(1).add(count).hand_over(*newtype, kCombinerContiguous, &oldtype, 1);
}
inline int Type_create_struct_wide(i64 count, const i64* lengths, const i64* places,
                                   Slot* const* types, Slot** newtype) {
  const int error = type_of_blocks(
      count, [=](i64 i) { return lengths[i]; }, [=](i64 i) { return places[i]; },
      [=](i64 i) { return types[i]; }, newtype);
  if (error) return error;
  return LargeCounts::of_blocks(count, lengths, places)
      .hand_over(*newtype, kCombinerStruct, types, count);
}
inline int Type_create_hindexed_wide(i64 count, const i64* lengths, const i64* places,
                                     Slot* oldtype, Slot** newtype) {
  const int error = type_of_blocks(
      count, [=](i64 i) { return lengths[i]; }, [=](i64 i) { return places[i]; },
      [=](i64) { return oldtype; }, newtype);
  if (error) return error;
  return LargeCounts::of_blocks(count, lengths, places)
      .hand_over(*newtype, kCombinerHindexed, &oldtype, 1);
}
inline int Type_create_hindexed_block_wide(i64 count, i64 length, const i64* places, Slot* oldtype,
                                           Slot** newtype) {
  const int error = type_of_blocks(
      count, [=](i64) { return length; }, [=](i64 i) { return places[i]; },
      [=](i64) { return oldtype; }, newtype);
  if (error) return error;
  return LargeCounts::of_equal_blocks(count, length, places)
      .hand_over(*newtype, kCombinerHindexedBlock, &oldtype, 1);
}
inline int Type_indexed_wide(i64 count, const i64* lengths, const i64* places, Slot* oldtype,
                             Slot** newtype) {
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
inline int Type_create_indexed_block_wide(i64 count, i64 length, const i64* places, Slot* oldtype,
                                          Slot** newtype) {
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

}  // namespace core
}  // namespace fermata::mpi
