// SPDX-License-Identifier: Apache-2.0
#include "types.h"

#include <climits>
#include <type_traits>
#include <vector>

namespace ftcoll {
namespace {

template <typename T>
constexpr ftc_type integer() {
  constexpr bool is_signed = std::is_signed_v<T>;
  switch (sizeof(T)) {
    case 1: return is_signed ? FTC_INT8 : FTC_UINT8;
    case 2: return is_signed ? FTC_INT16 : FTC_UINT16;
    case 4: return is_signed ? FTC_INT32 : FTC_UINT32;
    default: return is_signed ? FTC_INT64 : FTC_UINT64;
  }
}

bool is_predefined(MPI_Datatype type) {
  int integers = 0, addresses = 0, types = 0, combiner = 0;
  PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
  return combiner == MPI_COMBINER_NAMED;
}

// Whether a type is a predefined one, or several of the same in a row, in whatever wrapping.
bool is_row(MPI_Datatype type) {
  int integers = 0, addresses = 0, types = 0, combiner = 0;
  PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
  if (combiner == MPI_COMBINER_NAMED) return true;
  if (combiner != MPI_COMBINER_DUP && combiner != MPI_COMBINER_CONTIGUOUS) return false;
  int count = 0;
  MPI_Aint address = 0;
  MPI_Datatype inner = MPI_DATATYPE_NULL;
  PMPI_Type_get_contents(type, integers, addresses, types, &count, &address, &inner);
  const bool result = is_row(inner);
  if (!is_predefined(inner)) PMPI_Type_free(&inner);
  return result;
}

// A buffer as MPI_Pack and MPI_Unpack take it. MPICH's do nothing at MPI_BOTTOM: there it is one
// element of a type that leads from a byte of this object to all of them.
class Buffer {
 public:
  Buffer(void* buffer, MPI_Count elements, MPI_Datatype of)
      : at(buffer ? buffer : &origin_), count(static_cast<int>(elements)), type(of) {
    if (buffer) return;
    const MPI_Aint distance = -reinterpret_cast<MPI_Aint>(&origin_);
    error = PMPI_Type_create_hindexed(1, &count, &distance, of, &moved_);
    if (error == MPI_SUCCESS) error = PMPI_Type_commit(&moved_);
    type = moved_;
    count = 1;
  }
  ~Buffer() {
    if (moved_ != MPI_DATATYPE_NULL) PMPI_Type_free(&moved_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* const at;
  int count;
  MPI_Datatype type;
  int error = MPI_SUCCESS;

 private:
  char origin_ = 0;
  MPI_Datatype moved_ = MPI_DATATYPE_NULL;
};

}  // namespace

int layout_of(MPI_Datatype type, Layout& layout) {
  if (type == MPI_DATATYPE_NULL) return MPI_ERR_TYPE;
  MPI_Count bound = 0, true_bound = 0, true_extent = 0;
  int error = PMPI_Type_size_x(type, &layout.size);
  if (error == MPI_SUCCESS) error = PMPI_Type_get_extent_x(type, &bound, &layout.extent);
  if (error == MPI_SUCCESS) error = PMPI_Type_get_true_extent_x(type, &true_bound, &true_extent);
  if (error != MPI_SUCCESS) return error;
  layout.is_plain = layout.size == layout.extent && bound == 0 && is_row(type);
  layout.is_apart = bound == 0 && true_bound >= 0 && true_bound + true_extent <= layout.extent;
  return MPI_SUCCESS;
}

bool own_type(MPI_Datatype type, ftc_type& own) {
  static const struct {
    MPI_Datatype type;
    ftc_type own;
  } kTypes[] = {
      {MPI_INT, integer<int>()},
      {MPI_DOUBLE, FTC_DOUBLE},
      {MPI_FLOAT, FTC_FLOAT},
      {MPI_LONG, integer<long>()},
      {MPI_LONG_LONG, integer<long long>()},
      {MPI_UNSIGNED, integer<unsigned>()},
      {MPI_UNSIGNED_LONG, integer<unsigned long>()},
      {MPI_UNSIGNED_LONG_LONG, integer<unsigned long long>()},
      {MPI_SHORT, integer<short>()},
      {MPI_UNSIGNED_SHORT, integer<unsigned short>()},
      {MPI_SIGNED_CHAR, FTC_INT8},
      {MPI_UNSIGNED_CHAR, FTC_UINT8},
      {MPI_INT8_T, FTC_INT8},
      {MPI_INT16_T, FTC_INT16},
      {MPI_INT32_T, FTC_INT32},
      {MPI_INT64_T, FTC_INT64},
      {MPI_UINT8_T, FTC_UINT8},
      {MPI_UINT16_T, FTC_UINT16},
      {MPI_UINT32_T, FTC_UINT32},
      {MPI_UINT64_T, FTC_UINT64},
      {MPI_AINT, integer<MPI_Aint>()},
      {MPI_OFFSET, integer<MPI_Offset>()},
      {MPI_COUNT, integer<MPI_Count>()},
      {MPI_C_FLOAT_COMPLEX, FTC_COMPLEX_FLOAT},
      {MPI_C_DOUBLE_COMPLEX, FTC_COMPLEX_DOUBLE},
      {MPI_SHORT_INT, FTC_SHORT_INT},
      {MPI_2INT, FTC_INT_INT},
      {MPI_LONG_INT, FTC_LONG_INT},
      {MPI_FLOAT_INT, FTC_FLOAT_INT},
      {MPI_DOUBLE_INT, FTC_DOUBLE_INT},
  };
  for (const auto& [theirs, ours] : kTypes) {
    own = ours;
    if (theirs == type) return true;
  }
  return false;
}

bool own_op(MPI_Op op, ftc_op& own) {
  static const struct {
    MPI_Op op;
    ftc_op own;
  } kOps[] = {
      {MPI_SUM, FTC_SUM},   {MPI_MAX, FTC_MAX},       {MPI_MIN, FTC_MIN},
      {MPI_PROD, FTC_PROD}, {MPI_LAND, FTC_LAND},     {MPI_LOR, FTC_LOR},
      {MPI_LXOR, FTC_LXOR}, {MPI_BAND, FTC_BAND},     {MPI_BOR, FTC_BOR},
      {MPI_BXOR, FTC_BXOR}, {MPI_MINLOC, FTC_MINLOC}, {MPI_MAXLOC, FTC_MAXLOC},
  };
  for (const auto& [theirs, ours] : kOps) {
    own = ours;
    if (theirs == op) return true;
  }
  return false;
}

int pack(const void* from, MPI_Count count, MPI_Datatype type, void* to, MPI_Count bytes) {
  if (bytes == 0) return MPI_SUCCESS;
  if (count > INT_MAX || bytes > INT_MAX) return MPI_ERR_COUNT;
  const Buffer source(const_cast<void*>(from), count, type);
  if (source.error != MPI_SUCCESS) return source.error;
  int position = 0;
  const int error = PMPI_Pack(source.at, source.count, source.type, to, static_cast<int>(bytes),
                              &position, MPI_COMM_SELF);
  return error == MPI_SUCCESS && position != bytes ? MPI_ERR_TYPE : error;
}

int unpack(const void* from, MPI_Count bytes, void* to, MPI_Count count, MPI_Datatype type) {
  if (bytes == 0) return MPI_SUCCESS;
  if (count > INT_MAX || bytes > INT_MAX) return MPI_ERR_COUNT;
  const Buffer target(to, count, type);
  if (target.error != MPI_SUCCESS) return target.error;
  int position = 0;
  return PMPI_Unpack(from, static_cast<int>(bytes), &position, target.at, target.count,
                     target.type, MPI_COMM_SELF);
}

}  // namespace ftcoll
