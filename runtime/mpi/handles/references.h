// SPDX-License-Identifier: Apache-2.0
// References to what an application may free while something else still needs it: datatypes,
// operations, error handlers.
#pragma once

#include "mpi/handles/objects.h"
#include "mpi/handles/slots.h"

namespace fermata::mpi {

void type_unref(Slot* datatype);
bool is_user_errhandler(const Slot* slot);
void errhandler_ref(Slot* slot);
void errhandler_unref(Slot* slot);
int op_end(Slot* slot);

inline void op_ref(Slot* slot) {
  if (Op* const op = op_of(slot)) op->users++;
}

void op_unref(Slot* slot);

[[gnu::always_inline]] inline bool type_ref(Slot* datatype) {  // false: predefined, not counted
  Type* const type = type_of(datatype);
  if (FERMATA_UNLIKELY(type != nullptr)) type->refs++;
  return type != nullptr;
}

}  // namespace fermata::mpi
