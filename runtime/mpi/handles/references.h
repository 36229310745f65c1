// SPDX-License-Identifier: Apache-2.0
// References to what an application may free while something else still needs it: datatypes,
// operations, error handlers.
#pragma once

#include "mpi/handles/objects.h"
#include "mpi/handles/slots.h"

namespace fermata::mpi {

void type_unref(DatatypeSlot* datatype);
bool is_user_errhandler(const ErrhandlerSlot* slot);
void errhandler_ref(ErrhandlerSlot* slot);
void errhandler_unref(ErrhandlerSlot* slot);
int op_end(OpSlot* slot);

inline void op_ref(OpSlot* slot) {
  if (Op* const op = op_of(slot)) op->users++;
}

void op_unref(OpSlot* slot);

/// False: predefined, not counted.
[[gnu::always_inline]] inline bool type_ref(DatatypeSlot* datatype) {
  Type* const type = type_of(datatype);
  if (FERMATA_UNLIKELY(type != nullptr)) type->refs++;
  return type != nullptr;
}

}  // namespace fermata::mpi
