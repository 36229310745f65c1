// SPDX-License-Identifier: Apache-2.0
// MPI_SIZEOF: one function per type and rank of its argument, as Open MPI's mpif.h and modules name
// them.
#include "frontend/bindings/fortran/glue.h"

#define FERMATA_SIZEOF(type, rank, bytes)                                                     \
  extern "C" FERMATA_EXPORT void mpi_sizeof_##type##_##rank##_(void*, int* size, int* ierror) { \
    *size = bytes;                                                                            \
    fermata::fortran::finish(ierror, 0);                                                      \
  }                                                                                           \
  extern "C" {                                                                                \
  FERMATA_ALIAS(pmpi_sizeof_##type##_##rank##_, mpi_sizeof_##type##_##rank##_)                \
  }

#define FERMATA_SIZEOF_RANKS(type, bytes) \
  FERMATA_SIZEOF(type, scalar, bytes)     \
  FERMATA_SIZEOF(type, r1, bytes)         \
  FERMATA_SIZEOF(type, r2, bytes)         \
  FERMATA_SIZEOF(type, r3, bytes)         \
  FERMATA_SIZEOF(type, r4, bytes)         \
  FERMATA_SIZEOF(type, r5, bytes)         \
  FERMATA_SIZEOF(type, r6, bytes)         \
  FERMATA_SIZEOF(type, r7, bytes)         \
  FERMATA_SIZEOF(type, r8, bytes)         \
  FERMATA_SIZEOF(type, r9, bytes)         \
  FERMATA_SIZEOF(type, r10, bytes)        \
  FERMATA_SIZEOF(type, r11, bytes)        \
  FERMATA_SIZEOF(type, r12, bytes)        \
  FERMATA_SIZEOF(type, r13, bytes)        \
  FERMATA_SIZEOF(type, r14, bytes)        \
  FERMATA_SIZEOF(type, r15, bytes)

FERMATA_SIZEOF_RANKS(character, 1)
FERMATA_SIZEOF_RANKS(logical, 4)
FERMATA_SIZEOF_RANKS(int8, 1)
FERMATA_SIZEOF_RANKS(int16, 2)
FERMATA_SIZEOF_RANKS(int32, 4)
FERMATA_SIZEOF_RANKS(int64, 8)
FERMATA_SIZEOF_RANKS(real32, 4)
FERMATA_SIZEOF_RANKS(real64, 8)
FERMATA_SIZEOF_RANKS(real128, 16)
FERMATA_SIZEOF_RANKS(complex32, 8)
FERMATA_SIZEOF_RANKS(complex64, 16)
FERMATA_SIZEOF_RANKS(complex128, 32)
