// SPDX-License-Identifier: Apache-2.0
// Error handlers, in the upper half alone: the lower half always returns its errors, and the
// application's handler runs here, with the application's handles and codes.
#pragma once

#include "mpi/handles/slots.h"

namespace fermata::mpi {

int errhandler_new(Kind kind, void* fn, ErrhandlerSlot** handle);
int set_errhandler(ErrhandlerSlot** place, ErrhandlerSlot* errhandler);
int get_errhandler(ErrhandlerSlot* current, u32 by_default, ErrhandlerSlot** errhandler);

}  // namespace fermata::mpi

namespace fermata::mpi::core {

int raise(Slot* object, int error_class, const char* function);

}  // namespace fermata::mpi::core
