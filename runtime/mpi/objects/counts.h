// SPDX-License-Identifier: Apache-2.0
// How much a status holds: from its byte count and the recipe of the type, without the lower half.
#pragma once

#include "halves/mpi_calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/table.h"

namespace fermata::mpi {

/// How many items of the type it holds, or MPI_UNDEFINED.
inline i64 whole_items(const CanonStatus* status, DatatypeSlot* datatype) {
  const u64 size = datatype->type_size;
  const u64 bytes = status->bytes();
  if (bytes == 0) return 0;
  if (size == 0 || bytes % size) return kUndefined;
  return i64(bytes / size);
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

inline int Get_count(const CanonStatus* status, DatatypeSlot* datatype, int* count) {
  if (is_null(datatype, kDatatypeNull)) return kErrType;
  const i64 items = whole_items(status, datatype);
  *count = items == int(items) ? int(items) : kUndefined;
  return kSuccess;
}

/// What MPI_Get_count_c says.
inline int Get_count_wide(const CanonStatus* status, DatatypeSlot* datatype, i64* count) {
  if (is_null(datatype, kDatatypeNull)) return kErrType;
  *count = whole_items(status, datatype);
  return kSuccess;
}

}  // namespace fermata::mpi::core
