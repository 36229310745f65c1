// SPDX-License-Identifier: Apache-2.0
// Datatypes as trees of recipes.
//
// A derived type remembers the call that made it, in the three arrays that MPI_Type_get_contents
// returns: integers, addresses, types. That is enough to answer the envelope and contents calls
// without the lower half, to count elements, and to make the type again after a restart.
//
// Types are counted: an application may free a type while a parent, a pending receive or a handle
// from MPI_Type_get_contents still needs it. The real type is freed with the last reference.
//
// Invariant: Slot::type_size of a datatype is its size in bytes. Not checked: types that an MPI
//            need not have, Fortran's for one, have the size that it gives them.
// Invariant: a child is alive as long as any parent is, so a rebuild can always go children first.
//            Not checked: a program that frees one twice would be blamed on us.
#pragma once

#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/references.h"
#include "mpi/handles/slots.h"

namespace fermata::mpi {

/// The application gets one more handle of a type, which it frees.
inline void type_hand_out(DatatypeSlot* datatype) {
  if (type_ref(datatype)) type_of(datatype)->handles++;
}

/// MPI-1's markers of bounds, which no lower half has to know.
bool is_marker(const DatatypeSlot* datatype);

/// Makes the real type from its recipe; the children's real types exist. Returns the error class.
int type_make(const Type& type, RealDatatype* real);

/// Before an image is cut: what types look like in this lower half, and are to look like in others.
/// The program's calls do not wait for it.
void types_note_bounds();

/// Gives a type that has been made again the bounds it had. MPIs differ in them: for a struct with
/// a resized member, Open MPI follows the standard's markers, MPICH looks at the data alone.
int type_keep_extent(const Type& type, RealDatatype* real);

// Collects a recipe's integers in the order of MPI_Type_get_contents.
class IntList {
 public:
  explicit IntList(i32 room) {
    if (room <= Type::kFewInts) return;
    const LowerScope scope;  // the arena is the library's
    many_ = arena_array<i32>(u64(room));
  }
  IntList& add(i32 value) {
    values()[size_++] = value;
    return *this;
  }
  IntList& add(const i32* from, i32 count) {
    if (count > 0) __builtin_memcpy(values() + size_, from, u64(count) * sizeof(i32));
    size_ += count > 0 ? count : 0;
    return *this;
  }
  i32 size() const { return size_; }
  i32* values() { return many_ ? many_ : few_; }
  void drop() { arena_free(many_); }
  /// They become a type's.
  void hand_over(Type* type) {
    type->ints_count = size_;
    type->ints = many_ ? many_ : type->few_ints;
    for (i32 i = 0; !many_ && i < size_; i++) type->few_ints[i] = few_[i];
  }

 private:
  i32* many_ = nullptr;
  i32 size_ = 0;
  i32 few_[Type::kFewInts];
};

i64 size_of_items(i64 items, const DatatypeSlot* type);

/// Makes a type and its slot. Takes over `ints`, copies `aints`, copies and references `olds`.
/// `size`: in bytes; kAskSize: the lower half is asked.
int type_new(i32 combiner, IntList ints, const i64* aints, i32 aints_count,
             DatatypeSlot* const* olds, i32 olds_count, i64 size, DatatypeSlot** newtype);

}  // namespace fermata::mpi
