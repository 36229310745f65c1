// SPDX-License-Identifier: Apache-2.0
// Datatypes of more elements, or farther apart, than an int can count, in terms of smaller ones: a
// contiguous type of contiguous ones and a remainder; anything with displacements is a struct of
// such blocks. So their recipes are those of plain types, and every lower half can make them.
#pragma once

#include "mpi/counts.h"
#include "mpi/kept_arrays.h"

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

namespace core {

inline int Type_contiguous_wide(i64 count, Slot* oldtype, Slot** newtype) {
  return contiguous(count, oldtype, newtype);
}
inline int Type_create_struct_wide(i64 count, const i64* lengths, const i64* places,
                                   Slot* const* types, Slot** newtype) {
  return type_of_blocks(
      count, [=](i64 i) { return lengths[i]; }, [=](i64 i) { return places[i]; },
      [=](i64 i) { return types[i]; }, newtype);
}
inline int Type_create_hindexed_wide(i64 count, const i64* lengths, const i64* places,
                                     Slot* oldtype, Slot** newtype) {
  return type_of_blocks(
      count, [=](i64 i) { return lengths[i]; }, [=](i64 i) { return places[i]; },
      [=](i64) { return oldtype; }, newtype);
}
inline int Type_create_hindexed_block_wide(i64 count, i64 length, const i64* places, Slot* oldtype,
                                           Slot** newtype) {
  return type_of_blocks(
      count, [=](i64) { return length; }, [=](i64 i) { return places[i]; },
      [=](i64) { return oldtype; }, newtype);
}
inline int Type_indexed_wide(i64 count, const i64* lengths, const i64* places, Slot* oldtype,
                             Slot** newtype) {
  i64 lower_bound = 0, extent = 0;
  if (const int error = Type_get_extent(oldtype, &lower_bound, &extent)) return error;
  return type_of_blocks(
      count, [=](i64 i) { return lengths[i]; }, [=](i64 i) { return places[i] * extent; },
      [=](i64) { return oldtype; }, newtype);
}
inline int Type_create_indexed_block_wide(i64 count, i64 length, const i64* places, Slot* oldtype,
                                          Slot** newtype) {
  i64 lower_bound = 0, extent = 0;
  if (const int error = Type_get_extent(oldtype, &lower_bound, &extent)) return error;
  return type_of_blocks(
      count, [=](i64) { return length; }, [=](i64 i) { return places[i] * extent; },
      [=](i64) { return oldtype; }, newtype);
}

}  // namespace core
}  // namespace fermata::mpi
