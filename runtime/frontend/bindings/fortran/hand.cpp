// SPDX-License-Identifier: Apache-2.0
// Functions whose Fortran form is not the C one argument by argument: those that have a value,
// MPI-1's with addresses in INTEGERs, and a few with rules of their own for strings and buffers.
#include "frontend/bindings/fortran/glue.h"

namespace fermata::fortran {

extern "C" {
double PMPI_Wtime(void);
double PMPI_Wtick(void);
int PMPI_Get_address(const void* location, i64* address);
int PMPI_Type_create_hindexed(int count, const int* lengths, const i64* displacements,
                              mpi::DatatypeSlot* oldtype, mpi::DatatypeSlot** newtype);
int PMPI_Type_create_hvector(int count, int length, i64 stride, mpi::DatatypeSlot* oldtype,
                             mpi::DatatypeSlot** newtype);
int PMPI_Type_create_struct(int count, const int* lengths, const i64* displacements,
                            mpi::DatatypeSlot* const* types, mpi::DatatypeSlot** newtype);
int PMPI_Type_get_extent(mpi::DatatypeSlot* datatype, i64* lower, i64* extent);
int PMPI_Info_get(mpi::InfoSlot* info, const char* key, int bytes, char* value, int* flag);
int PMPI_Buffer_detach(void* buffer, int* size);
}

FERMATA_FORTRAN_VALUE(double, wtime, WTIME, ()) { return PMPI_Wtime(); }
FERMATA_FORTRAN_VALUE(double, wtick, WTICK, ()) { return PMPI_Wtick(); }
FERMATA_FORTRAN_VALUE(i64, aint_add, AINT_ADD, (const i64* base, const i64* displacement)) {
  return *base + *displacement;
}
FERMATA_FORTRAN_VALUE(i64, aint_diff, AINT_DIFF, (const i64* left, const i64* right)) {
  return *left - *right;
}

FERMATA_FORTRAN(pcontrol, PCONTROL, (int*)) {}
FERMATA_FORTRAN(f_sync_reg, F_SYNC_REG, (void*)) {}

FERMATA_FORTRAN(address, ADDRESS, (void* location, int* address, int* ierror)) {
  i64 wide = 0;
  const int error = PMPI_Get_address(buffer_arg(location), &wide);
  if (error == 0) *address = int(wide);
  finish(ierror, error);
}

namespace {

// Displacements of MPI-1, in the width of an address.
class Displacements {
 public:
  Displacements(const int* narrow, int count) : wide_(count) {
    for (int i = 0; i < count; i++) wide_[i] = narrow[i];
  }
  const i64* data() { return wide_.data(); }

 private:
  Scratch<i64> wide_;
};

void finish_type(int* newtype, const Slot* made, int* ierror, int error) {
  if (error == 0) *newtype = number_of(made);
  finish(ierror, error);
}

}  // namespace

FERMATA_FORTRAN(type_hvector, TYPE_HVECTOR,
                (int* count, int* length, int* stride, int* oldtype, int* newtype, int* ierror)) {
  mpi::DatatypeSlot* made = nullptr;
  const int error = PMPI_Type_create_hvector(*count, *length, *stride,
                                             handle<mpi::kDatatype>(*oldtype), &made);
  finish_type(newtype, made, ierror, error);
}

FERMATA_FORTRAN(type_hindexed, TYPE_HINDEXED,
                (int* count, int* lengths, int* displacements, int* oldtype, int* newtype,
                 int* ierror)) {
  Displacements wide(displacements, *count);
  mpi::DatatypeSlot* made = nullptr;
  const int error = PMPI_Type_create_hindexed(*count, lengths, wide.data(),
                                              handle<mpi::kDatatype>(*oldtype), &made);
  finish_type(newtype, made, ierror, error);
}

FERMATA_FORTRAN(type_struct, TYPE_STRUCT,
                (int* count, int* lengths, int* displacements, int* types, int* newtype,
                 int* ierror)) {
  Displacements wide(displacements, *count);
  Handles<mpi::kDatatype> c_types(types, *count);
  mpi::DatatypeSlot* made = nullptr;
  const int error =
      PMPI_Type_create_struct(*count, lengths, wide.data(), c_types.data(), &made);
  finish_type(newtype, made, ierror, error);
}

FERMATA_FORTRAN(type_extent, TYPE_EXTENT, (int* type, int* extent, int* ierror)) {
  i64 lower = 0, wide = 0;
  const int error = PMPI_Type_get_extent(handle<mpi::kDatatype>(*type), &lower, &wide);
  if (error == 0) *extent = int(wide);
  finish(ierror, error);
}

FERMATA_FORTRAN(type_lb, TYPE_LB, (int* type, int* bound, int* ierror)) {
  i64 lower = 0, extent = 0;
  const int error = PMPI_Type_get_extent(handle<mpi::kDatatype>(*type), &lower, &extent);
  if (error == 0) *bound = int(lower);
  finish(ierror, error);
}

FERMATA_FORTRAN(type_ub, TYPE_UB, (int* type, int* bound, int* ierror)) {
  i64 lower = 0, extent = 0;
  const int error = PMPI_Type_get_extent(handle<mpi::kDatatype>(*type), &lower, &extent);
  if (error == 0) *bound = int(lower + extent);
  finish(ierror, error);
}

// A key that is not there leaves the value as it is.
FERMATA_FORTRAN(info_get, INFO_GET,
                (int* info, char* key, int* value_bytes, char* value, int* flag, int* ierror,
                 int key_length, int value_length)) {
  Text c_key(key, key_length);
  TextOut c_value(value, value_length, *value_bytes < 0 ? 0 : *value_bytes);
  const int error = PMPI_Info_get(handle<mpi::kInfo>(*info), c_key.data(), *value_bytes,
                                  c_value.data(), flag);
  if (error == 0 && *flag) c_value.finish();
  finish(ierror, error);
}

// The address has no use in Fortran, and the argument no room for it.
FERMATA_FORTRAN(buffer_detach, BUFFER_DETACH, (void*, int* size, int* ierror)) {
  void* unused = nullptr;
  finish(ierror, PMPI_Buffer_detach(&unused, size));
}

}  // namespace fermata::fortran
