// SPDX-License-Identifier: Apache-2.0
// MPI_BOTTOM where an MPI does not take it.
#pragma once

#include "backend/convert.h"

namespace fermata::backend {

/// A buffer that is never null. MPICH's MPI_Pack and MPI_Unpack refuse MPI_BOTTOM, which is a null
/// pointer; a type whose addresses are absolute is then counted from an object of ours instead.
/// The destructor frees the type made for that.
class Based {
 public:
  Based(const void* address, int count, MPI_Datatype type)
      : address_(address), count_(count), type_(type) {
    if (FERMATA_LIKELY(address != nullptr || count <= 0)) return;
    int blocks = count;
    MPI_Aint displacement = -reinterpret_cast<MPI_Aint>(this);
    if (MPI_Type_create_hindexed(1, &blocks, &displacement, type, &made_) != MPI_SUCCESS) return;
    if (MPI_Type_commit(&made_) != MPI_SUCCESS) return;
    address_ = this;
    count_ = 1;
    type_ = made_;
  }
  ~Based() {
    if (FERMATA_UNLIKELY(made_ != MPI_DATATYPE_NULL)) (void)MPI_Type_free(&made_);
  }
  Based(const Based&) = delete;
  Based& operator=(const Based&) = delete;

  AnyPointer address() const { return as_any(address_); }
  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  const void* address_;
  int count_;
  MPI_Datatype type_;
  MPI_Datatype made_ = MPI_DATATYPE_NULL;
};

}  // namespace fermata::backend
