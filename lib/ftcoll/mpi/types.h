// SPDX-License-Identifier: Apache-2.0
// What the MPI's types and operations are to the library.
//
// A type and an operation that the library has go by its own; every other one of the MPI's, and
// those of the program, by MPI_Reduce_local on elements as they lie in memory.
#ifndef FTCOLL_MPI_TYPES_H
#define FTCOLL_MPI_TYPES_H

#include "ftcoll_mpi.h"

#include <cstddef>

namespace ftcoll {

// How the elements of a type lie in memory.
struct Layout {
  MPI_Count size;    // of an element's values
  MPI_Count extent;  // from one element to the next
  // A buffer is its values in the order of the type map, with nothing between them.
  bool is_plain;
  // Elements lie one behind the other from the buffer's address on, and none reaches into the next.
  bool is_apart;
};

// An error of the MPI if it is no type.
int layout_of(MPI_Datatype type, Layout& layout);

// The library's own type and operation of these names, if it has both.
bool own_type(MPI_Datatype type, ftc_type& own);
bool own_op(MPI_Op op, ftc_op& own);

// Copies `count` elements, values only, to another buffer of the same type or from or to packed
// bytes. An error of the MPI, MPI_ERR_COUNT for more than its MPI_Pack can do.
int pack(const void* from, MPI_Count count, MPI_Datatype type, void* to, MPI_Count bytes);
int unpack(const void* from, MPI_Count bytes, void* to, MPI_Count count, MPI_Datatype type);

}  // namespace ftcoll

#endif
