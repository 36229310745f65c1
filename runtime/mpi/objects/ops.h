// SPDX-License-Identifier: Apache-2.0
// Reduction operations of the application.
//
// MPI calls a user function without any context, so the lower half gets one of a fixed number of
// static functions, each of which knows its Op. They live in the front end's code, hence at the
// same address in every life of the image. The lower half runs on its own thread register, so the
// application's function finds its own.
//
// An application may free an operation that a non-blocking reduction still needs: operations are
// counted.
//
// Invariant: thunk i is taken exactly while thunk_ops[i] != null. Checked where it is given back.
#pragma once

#include "mpi/handles/slots.h"

namespace fermata::mpi {

int make_op(OpSlot* slot);

}  // namespace fermata::mpi
