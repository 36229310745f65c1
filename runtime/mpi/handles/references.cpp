// SPDX-License-Identifier: Apache-2.0
#include "mpi/handles/references.h"

#include "mpi/handles/arena.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/lower_errors.h"
#include "mpi/handles/table.h"
#include "sys/check.h"

namespace fermata::mpi {

void type_unref(DatatypeSlot* datatype) {
  Type* const type = type_of(datatype);
  if (!type || --type->refs > 0) return;
  if (datatype->real() && lower().Type_free) may_leak(lower().Type_free(&datatype->real()));
  for (i32 i = 0; i < type->types_count; i++) type_unref(type->types[i]);
  if (type->ints != type->few_ints) arena_free(type->ints);
  arena_free(type->room);
  arena_free(type->name);
  if (type->large) {
    arena_free(type->large->counts);
    arena_free(type->large->types);
    arena_free(type->large);
  }
  arena_free(type);
  slot_free(datatype);
}

bool is_user_errhandler(const ErrhandlerSlot* slot) {
  return slot && !(slot->flags & kSlotPredefined) && slot->index >= kFirstDynamic;
}
void errhandler_ref(ErrhandlerSlot* slot) {
  if (is_user_errhandler(slot)) static_cast<Errhandler*>(slot->object)->refs++;
}
void errhandler_unref(ErrhandlerSlot* slot) {
  if (!is_user_errhandler(slot)) return;
  Errhandler* const handler = static_cast<Errhandler*>(slot->object);
  if (--handler->refs > 0) return;
  arena_free(handler);
  slot_free(slot);
}

int op_end(OpSlot* slot) {
  Op* const op = op_of(slot);
  FERMATA_CHECK(state().objects.thunk_ops[op->thunk] == slot, "an operation has its thunk");
  const int error = lower().Op_free(&slot->real());
  state().objects.thunk_ops[op->thunk] = nullptr;
  arena_free(op);
  slot_free(slot);
  return error;
}

void op_unref(OpSlot* slot) {
  Op* const op = op_of(slot);
  if (op && --op->users == 0 && op->freed) may_leak(op_end(slot));
}

}  // namespace fermata::mpi
