// SPDX-License-Identifier: Apache-2.0
// Attributes as Fortran sets and sees them: integers, not pointers to something.
//
// An attribute that C has set reads as its pointer; one that MPI has predefined, as its value.
#pragma once

#include "frontend/callbacks.h"
#include "mpi/handles/slots.h"

namespace fermata::mpi {

int attribute_set_integer(Kind kind, Slot* object, int number, AttributeValue value);
int attribute_get_integer(Kind kind, Slot* object, int number, i64* value, int* flag);

}  // namespace fermata::mpi
