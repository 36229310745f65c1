// SPDX-License-Identifier: Apache-2.0
// Datatypes of more elements, or farther apart, than an int can count, in terms of smaller ones: a
// contiguous type of contiguous ones and a remainder; anything with displacements is a struct of
// such blocks. So their recipes are those of plain types, and every lower half can make them.
#pragma once

#include "mpi/handles/slots.h"

namespace fermata::mpi::core {

int Type_contiguous_wide(i64 count, DatatypeSlot* oldtype, DatatypeSlot** newtype);
int Type_create_struct_wide(i64 count, const i64* lengths, const i64* places,
                            DatatypeSlot* const* types, DatatypeSlot** newtype);
int Type_create_hindexed_wide(i64 count, const i64* lengths, const i64* places,
                              DatatypeSlot* oldtype, DatatypeSlot** newtype);
int Type_create_hindexed_block_wide(i64 count, i64 length, const i64* places, DatatypeSlot* oldtype,
                                    DatatypeSlot** newtype);
int Type_indexed_wide(i64 count, const i64* lengths, const i64* places, DatatypeSlot* oldtype,
                      DatatypeSlot** newtype);
int Type_create_indexed_block_wide(i64 count, i64 length, const i64* places, DatatypeSlot* oldtype,
                                   DatatypeSlot** newtype);

}  // namespace fermata::mpi::core
