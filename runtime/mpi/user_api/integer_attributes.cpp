// SPDX-License-Identifier: Apache-2.0
#include "mpi/user_api/integer_attributes.h"

#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/window.h"
#include "mpi/objects/attributes.h"

namespace fermata::mpi {
namespace {

/// The list of an object's attributes, null for a bad handle.
Attribute** attributes_of(Kind kind, Slot* object) {
  if (kind == kDatatype) return type_attributes(slot_as<kDatatype>(object));
  if (kind == kWin) {
    Window* const window = window_of(slot_as<kWin>(object));
    return window ? &window->attributes : nullptr;
  }
  Comm* const comm = comm_of(slot_as<kComm>(object));
  return comm ? &comm->attributes : nullptr;
}

int bad_handle_of(Kind kind) { return kind == kWin ? kErrWin : kErrComm; }

/// True if MPI itself has the attribute; then it is what C's pointer leads to.
bool predefined_integer(Kind kind, Slot* object, int number, i64* value, int* flag) {
  void* seen = nullptr;
  if (kind == kComm && number >= kTagUb && number < kTagUb + kPredefinedKeyvals) {
    if (core::Comm_get_attr(slot_as<kComm>(object), number, &seen, flag) != kSuccess) return false;
    if (*flag) *value = *static_cast<i32*>(seen);
    return true;
  }
  if (kind != kWin || number < kWinBase || number > kWinModel) return false;
  if (core::Win_get_attr(slot_as<kWin>(object), number, &seen, flag) != kSuccess) return false;
  if (number == kWinBase) *value = reinterpret_cast<i64>(seen);
  else if (number == kWinSize) *value = *static_cast<i64*>(seen);
  else *value = *static_cast<i32*>(seen);
  return true;
}

}  // namespace

int attribute_set_integer(Kind kind, Slot* object, int number, AttributeValue value) {
  Attribute** const list = attributes_of(kind, object);
  return list ? attribute_set(kind, object, list, number, value) : bad_handle_of(kind);
}

int attribute_get_integer(Kind kind, Slot* object, int number, i64* value, int* flag) {
  Attribute** const list = attributes_of(kind, object);
  if (!list) return bad_handle_of(kind);
  if (predefined_integer(kind, object, number, value, flag)) return kSuccess;
  const Keyval* const keyval = keyval_of(number);
  if (!keyval || keyval->kind != kind) return kErrKeyval;
  const Attribute* const attribute = attribute_find(*list, number);
  *flag = attribute != nullptr;
  if (attribute) *value = reinterpret_cast<i64>(attribute->value.word);
  return kSuccess;
}

}  // namespace fermata::mpi
