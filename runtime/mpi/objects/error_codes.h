// SPDX-License-Identifier: Apache-2.0
// Error classes and codes that the application adds, in the upper half alone: a number the program
// remembers must mean the same after a restart, whatever MPI is below then.
//
// They begin above every MPI's MPI_ERR_LASTCODE; an ABI's conversions leave them as they are.
#pragma once

#include "base/types.h"

namespace fermata::mpi {

// An error class (error_class is its own number) or code of the application.
struct UserCode {
  bool used;
  i32 error_class;
  char* text;
  i32 codes = 0;  // of a class: those that are there
};

}  // namespace fermata::mpi
