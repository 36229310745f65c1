// SPDX-License-Identifier: Apache-2.0
// Attributes and key values, in the upper half alone: their values are application pointers, and
// their callbacks must run with application handles. The few predefined attributes are asked of the
// lower half once, at MPI_Init; what a program has read must stay true after a restart.
//
// Invariant: callbacks run without the gate. They may call MPI, and no list of ours is half changed
//            while they do. Not checked: a handler of a signal that calls MPI, which MPI
//            forbids, would be blamed on us.
#pragma once

#include "frontend/callbacks.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/window.h"

namespace fermata::mpi {

// Attributes of a predefined type, which has no Type.
struct NamedTypeAttributes {
  NamedTypeAttributes* next;
  u32 canonical;
  Attribute* list;
  char* name;  // null: the lower half's
};

inline constexpr i32 kPredefinedKeyvals = 7;  // kTagUb .. kUniverseSize, in a row

Keyval* keyval_of(i32 number);
int keyval_new(Kind kind, void* copy_fn, void* delete_fn, int* number, void* extra_state);
int keyval_free(Kind kind, int* number);
Attribute* attribute_find(Attribute* list, i32 keyval);
int attribute_remove(Kind kind, Slot* object, Attribute** list, i32 number);
int attribute_set(Kind kind, Slot* object, Attribute** list, i32 number, AttributeValue value);

/// Runs the copy callbacks for a duplicated object, whose list gets the same order, for the sake of
/// the order in which they are deleted. Returns the first callback's error, if any.
int attributes_copy(Kind kind, Slot* from, Attribute* list, Attribute** to);

/// Runs the delete callbacks of an object that goes away (last set, first deleted) and frees them.
/// A callback may delete others of the same object: its own has left the list by then. If it
/// `may_fail`, the first error of a callback ends it and is returned; that attribute stays.
int attributes_drop(Kind kind, Slot* slot, Attribute** list, bool may_fail);

/// Asks the lower half for the attributes every MPI has on MPI_COMM_WORLD. Only at MPI_Init.
void load_predefined_attributes();

/// An attribute as C sees it.
int attribute_get(Kind kind, Attribute* list, i32 number, void* value, int* flag);

Attribute** type_attributes(DatatypeSlot* datatype);

}  // namespace fermata::mpi
