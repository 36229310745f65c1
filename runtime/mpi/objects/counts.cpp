// SPDX-License-Identifier: Apache-2.0
#include "mpi/objects/counts.h"

#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/table.h"

namespace fermata::mpi {
namespace {

/// Pair types (MPI_FLOAT_INT and its like) are made of two basic elements; the first one's size,
/// or 0 if the predefined type is a basic element itself.
i64 first_of_pair(u32 canonical) {
  switch (canonical) {
    case 0x228: case 0x22b: return 4;              // FLOAT_INT, 2INT
    case 0x229: case 0x22a: case 0x231: return 8;  // DOUBLE_INT, LONG_INT, 2DOUBLE_PRECISION
    case 0x230: case 0x232: return 4;              // 2REAL, 2INTEGER
    case 0x22c: return 2;              // SHORT_INT
    case 0x22d: return 16;             // LONG_DOUBLE_INT
    default: return 0;
  }
}

/// Counts the basic elements in the first `*bytes` bytes of `copies` packed items of a type, and
/// takes what was used from *bytes. *partial: a basic element was cut in two.
i64 count_elements(DatatypeSlot* datatype, i64 copies, i64* bytes, bool* partial) {
  i64 total = 0;
  const i64 size = i64(datatype->type_size);
  const Type* const type = type_of(datatype);
  if (size <= 0) return 0;
  if (!type || type->types_count == 0) {
    const i64 first = first_of_pair(datatype->index);
    const i64 whole = *bytes / size < copies ? *bytes / size : copies;
    *bytes -= whole * size;
    total = first ? 2 * whole : whole;
    if (whole < copies && *bytes > 0) {
      if (first && *bytes >= first) total++, *bytes -= first;
      *partial = *partial || *bytes > 0;
      *bytes = 0;
    }
    return total;
  }
  for (i64 copy = 0; copy < copies && *bytes > 0; copy++) {
    const i64 before = *bytes;
    const i32* const n = type->ints;
    i64 in_one = 0;
    if (type->combiner == kCombinerStruct) {
      for (i32 i = 0; i < type->types_count; i++)
        in_one += count_elements(type->types[i], n[1 + i], bytes, partial);
    } else {
      const i64 child = i64(type->types[0]->type_size);
      in_one = count_elements(type->types[0], child ? size / child : 0, bytes, partial);
    }
    total += in_one;
    if (before - *bytes != size) break;  // the last, incomplete copy
    const i64 whole = *bytes / size < copies - copy - 1 ? *bytes / size : copies - copy - 1;
    total += whole * in_one;  // the complete copies need no second walk
    *bytes -= whole * size;
    copy += whole;
  }
  return total;
}

/// The bytes of the first `*elements` basic elements in `copies` items of a type; takes what was
/// used from *elements.
i64 bytes_of_elements(DatatypeSlot* datatype, i64 copies, i64* elements) {
  const i64 size = i64(datatype->type_size);
  const Type* const type = type_of(datatype);
  i64 bytes = 0;
  if (size <= 0) return 0;
  if (!type || type->types_count == 0) {
    const i64 first = first_of_pair(datatype->index), in_one = first ? 2 : 1;
    const i64 whole = *elements / in_one < copies ? *elements / in_one : copies;
    *elements -= whole * in_one;
    bytes = whole * size;
    if (whole < copies && *elements > 0) bytes += first, *elements = 0;
    return bytes;
  }
  for (i64 copy = 0; copy < copies && *elements > 0; copy++) {
    const i64 before = *elements;
    i64 one = 0;
    if (type->combiner == kCombinerStruct) {
      for (i32 i = 0; i < type->types_count; i++)
        one += bytes_of_elements(type->types[i], type->ints[1 + i], elements);
    } else {
      const i64 child = i64(type->types[0]->type_size);
      one = bytes_of_elements(type->types[0], child ? size / child : 0, elements);
    }
    bytes += one;
    const i64 in_one = before - *elements;
    if (one != size || in_one == 0) break;  // the last, incomplete copy
    const i64 left = copies - copy - 1;
    const i64 whole = *elements / in_one < left ? *elements / in_one : left;
    bytes += whole * size;
    *elements -= whole * in_one;
    copy += whole;
  }
  return bytes;
}

constexpr i64 kAnyCopies = ~u64(0) >> 1;

i64 basic_elements(const CanonStatus* status, DatatypeSlot* datatype) {
  i64 bytes = i64(status->bytes());
  bool partial = false;
  if (bytes == 0) return 0;
  if (datatype->type_size == 0) return kUndefined;
  const i64 total = count_elements(datatype, kAnyCopies, &bytes, &partial);
  return partial ? kUndefined : total;
}

}  // namespace
}  // namespace fermata::mpi

namespace fermata::mpi::core {

/// Known without the lower half; a type that this lower half lacks has size 0, as in Open MPI.
int Type_size_x(DatatypeSlot* datatype, i64* size) {
  if (is_null(datatype, kDatatypeNull)) return kErrType;
  *size = i64(datatype->type_size);
  return kSuccess;
}
int Type_size(DatatypeSlot* datatype, int* size) {
  if (is_null(datatype, kDatatypeNull)) return kErrType;
  const i64 bytes = i64(datatype->type_size);
  *size = bytes == int(bytes) ? int(bytes) : kUndefined;
  return kSuccess;
}

int Get_elements(const CanonStatus* status, DatatypeSlot* datatype, int* count) {
  if (is_null(datatype, kDatatypeNull)) return kErrType;
  const i64 elements = basic_elements(status, datatype);
  *count = elements == int(elements) ? int(elements) : kUndefined;
  return kSuccess;
}
int Get_elements_x(const CanonStatus* status, DatatypeSlot* datatype, i64* count) {
  if (is_null(datatype, kDatatypeNull)) return kErrType;
  *count = basic_elements(status, datatype);
  return kSuccess;
}
int Status_set_elements_x(CanonStatus* status, DatatypeSlot* datatype, i64 count) {
  if (is_null(datatype, kDatatypeNull)) return kErrType;
  status->set_bytes(u64(bytes_of_elements(datatype, kAnyCopies, &count)));
  return kSuccess;
}
int Status_set_elements(CanonStatus* status, DatatypeSlot* datatype, int count) {
  return Status_set_elements_x(status, datatype, count);
}

}  // namespace fermata::mpi::core
