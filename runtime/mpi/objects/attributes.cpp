// SPDX-License-Identifier: Apache-2.0
#include "mpi/objects/attributes.h"

#include "base/text.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/references.h"
#include "mpi/handles/table.h"
#include "mpi/objects/datatypes.h"

namespace fermata::mpi {
namespace {

constexpr i32 kFirstKeyval = 0x1000;

/// What the program has given a predefined type, which has no Type; null: nothing yet.
NamedTypeAttributes* named_type_find(const DatatypeSlot* datatype) {
  NamedTypeAttributes* n = state().objects.named_type_attributes;
  while (n && n->canonical != datatype->index) n = n->next;
  return n;
}
NamedTypeAttributes* named_type(const DatatypeSlot* datatype) {
  if (NamedTypeAttributes* const known = named_type_find(datatype)) return known;
  LowerScope scope;
  NamedTypeAttributes* const n = arena_new<NamedTypeAttributes>();
  *n = NamedTypeAttributes{state().objects.named_type_attributes, datatype->index, nullptr,
                           nullptr};
  state().objects.named_type_attributes = n;
  return n;
}

}  // namespace

Keyval* keyval_of(i32 number) {
  const i32 index = number - kFirstKeyval;
  if (index < 0 || index >= state().objects.keyvals_used) return nullptr;
  return &state().objects.keyvals[index];
}

int keyval_new(Kind kind, void* copy_fn, void* delete_fn, int* number, void* extra_state) {
  LowerScope scope;
  map_tables();
  Core& core = state();
  if (core.objects.keyvals_used == core.objects.keyvals_room) {
    const i32 room = core.objects.keyvals_room ? 2 * core.objects.keyvals_room : 16;
    Keyval* const grown = arena_array<Keyval>(u64(room));
    for (i32 i = 0; i < core.objects.keyvals_used; i++) grown[i] = core.objects.keyvals[i];
    arena_free(core.objects.keyvals);
    core.objects.keyvals = grown;
    core.objects.keyvals_room = room;
  }
  core.objects.keyvals[core.objects.keyvals_used] =
      Keyval{kind, false, 0, copy_fn, delete_fn, extra_state};
  *number = kFirstKeyval + core.objects.keyvals_used++;
  return kSuccess;
}

int keyval_free(Kind kind, int* number) {
  Keyval* const keyval = keyval_of(*number);
  if (!keyval || keyval->kind != kind) return kErrKeyval;
  if (keyval->freed && keyval->users == 0) return kErrKeyval;
  keyval->freed = true;
  *number = kKeyvalInvalid;
  return kSuccess;
}

Attribute* attribute_find(Attribute* list, i32 keyval) {
  while (list && list->keyval != keyval) list = list->next;
  return list;
}

int attribute_remove(Kind kind, Slot* object, Attribute** list, i32 number) {
  Attribute* const attribute = attribute_find(*list, number);
  const Keyval* const keyval = keyval_of(number);
  if (!keyval || keyval->kind != kind || !attribute) return kErrKeyval;
  const int code = front::call_delete_attr(kind, keyval->delete_fn, object, number,
                                           attribute->value, keyval->extra_state);
  if (code) return code;
  LowerScope scope;
  for (Attribute** at = list; *at; at = &(*at)->next) {
    if (*at != attribute) continue;
    *at = attribute->next;
    arena_free(attribute);
    keyval_of(number)->users--;
    break;
  }
  return kSuccess;
}

int attribute_set(Kind kind, Slot* object, Attribute** list, i32 number, AttributeValue value) {
  const Keyval* const keyval = keyval_of(number);
  if (!keyval || keyval->kind != kind || keyval->freed) return kErrKeyval;
  if (attribute_find(*list, number))
    if (const int code = attribute_remove(kind, object, list, number)) return code;
  LowerScope scope;
  Attribute* const attribute = arena_new<Attribute>();
  *attribute = Attribute{*list, number, value};
  keyval_of(number)->users++;
  *list = attribute;
  return kSuccess;
}

int attributes_copy(Kind kind, Slot* from, Attribute* list, Attribute** to) {
  for (Attribute* attribute = list; attribute; attribute = attribute->next) {
    const Keyval* const keyval = keyval_of(attribute->keyval);
    int flag = 0;
    AttributeValue value = {};
    const int code =
        front::call_copy_attr(kind, keyval->copy_fn, from, attribute->keyval, keyval->extra_state,
                              attribute->value, &value, &flag);
    if (code) return code;
    if (!flag) continue;
    LowerScope scope;
    Attribute* const copy = arena_new<Attribute>();
    *copy = Attribute{nullptr, attribute->keyval, value};
    keyval_of(attribute->keyval)->users++;
    *to = copy;
    to = &copy->next;
  }
  return kSuccess;
}

int attributes_drop(Kind kind, Slot* slot, Attribute** list, bool may_fail) {
  while (Attribute* const last = *list) {
    *list = last->next;
    const Keyval* const keyval = keyval_of(last->keyval);
    const int code = front::call_delete_attr(kind, keyval->delete_fn, slot, last->keyval,
                                             last->value, keyval->extra_state);
    LowerScope scope;
    if (code && may_fail) {
      last->next = *list;
      *list = last;
      return code;
    }
    keyval_of(last->keyval)->users--;
    arena_free(last);
  }
  return kSuccess;
}

void load_predefined_attributes() {
  Core& core = state();
  for (i32 i = 0; i < kPredefinedKeyvals; i++) {
    const i32 number = kTagUb + i;
    int* value = nullptr;
    int flag = 0;
    const int error =
        lower().Comm_get_attr(slot_at<kComm>(kCommWorld)->real(), number, &value, &flag);
    core.objects.predefined_attribute_set[i] = !error && flag && value;
    if (core.objects.predefined_attribute_set[i]) core.objects.predefined_attributes[i] = *value;
  }
  // Ranks, but never real ones: the values of the application's ABI.
  i32& host = core.objects.predefined_attributes[kHost - kTagUb];
  i32& io = core.objects.predefined_attributes[kIo - kTagUb];
  if (host < 0) host = front::app_rank(kProcNull);
  if (io < 0) io = front::app_rank(kAnySource);
  i32& tag_ub = core.objects.predefined_attributes[0];
  if (!core.objects.predefined_attribute_set[0] || tag_ub > kTagUbPromised) tag_ub = kTagUbPromised;
  core.objects.predefined_attribute_set[0] = true;
}

int attribute_get(Kind kind, Attribute* list, i32 number, void* value, int* flag) {
  const Keyval* const keyval = keyval_of(number);
  if (!keyval || keyval->kind != kind) return kErrKeyval;
  Attribute* const attribute = attribute_find(list, number);
  *flag = attribute != nullptr;
  if (attribute) *static_cast<void**>(value) = attribute->value.seen_by_c();
  return kSuccess;
}

Attribute** type_attributes(DatatypeSlot* datatype) {
  if (Type* const type = type_of(datatype)) return &type->attributes;
  return &named_type(datatype)->list;
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

int Comm_create_keyval(void* copy_fn, void* delete_fn, int* number, void* extra_state) {
  return keyval_new(kComm, copy_fn, delete_fn, number, extra_state);
}
int Comm_free_keyval(int* number) { return keyval_free(kComm, number); }
int Type_create_keyval(void* copy_fn, void* delete_fn, int* number, void* extra_state) {
  return keyval_new(kDatatype, copy_fn, delete_fn, number, extra_state);
}
int Type_free_keyval(int* number) { return keyval_free(kDatatype, number); }

int Comm_get_attr(CommSlot* comm, int number, void* value, int* flag) {
  Comm* const c = comm_of(comm);
  if (!c) return kErrComm;
  const i32 predefined = number - kTagUb;
  if (predefined >= 0 && predefined < kPredefinedKeyvals) {
    *flag = state().objects.predefined_attribute_set[predefined];
    if (*flag) *static_cast<void**>(value) = &state().objects.predefined_attributes[predefined];
    return kSuccess;
  }
  return attribute_get(kComm, c->attributes, number, value, flag);
}
int Comm_set_attr(CommSlot* comm, int number, void* value) {
  Comm* const c = comm_of(comm);
  return c ? attribute_set(kComm, comm, &c->attributes, number, {value, 0}) : kErrComm;
}
int Comm_delete_attr(CommSlot* comm, int number) {
  Comm* const c = comm_of(comm);
  return c ? attribute_remove(kComm, comm, &c->attributes, number) : kErrComm;
}

int Type_get_attr(DatatypeSlot* datatype, int number, void* value, int* flag) {
  return attribute_get(kDatatype, *type_attributes(datatype), number, value, flag);
}
int Type_set_attr(DatatypeSlot* datatype, int number, void* value) {
  return attribute_set(kDatatype, datatype, type_attributes(datatype), number, {value, 0});
}
int Type_delete_attr(DatatypeSlot* datatype, int number) {
  return attribute_remove(kDatatype, datatype, type_attributes(datatype), number);
}

int Type_set_name(DatatypeSlot* datatype, const char* name) {
  LowerScope scope;
  Type* const type = type_of(datatype);
  char** const held = type ? &type->name : &named_type(datatype)->name;
  arena_free(*held);
  *held = text_copy(name);
  return kSuccess;
}

int Type_get_name(DatatypeSlot* datatype, char* name, int* length) {
  LowerScope scope;
  const Type* const type = type_of(datatype);
  const NamedTypeAttributes* const named = type ? nullptr : named_type_find(datatype);
  const char* text = type ? type->name : named ? named->name : nullptr;
  // A predefined handle without a number is one of a newer release of this MPI.
  if (!text && is_marker(datatype)) text = datatype->index == kLb ? "MPI_LB" : "MPI_UB";
  if (!type && !text && datatype->index)
    return lower().Type_get_name(datatype->real(), name, length);
  if (!text) text = "";
  u64 n = text_length(text);
  if (n > kMaxObjectName - 1) n = kMaxObjectName - 1;
  __builtin_memcpy(name, text, n);
  name[n] = 0;
  *length = int(n);
  return kSuccess;
}

int Type_dup(DatatypeSlot* oldtype, DatatypeSlot** newtype) {
  const int error = type_new(kCombinerDup, IntList(0), nullptr, 0, &oldtype, 1,
                             size_of_items(1, oldtype), newtype);
  if (error) return error;
  const int code = attributes_copy(kDatatype, oldtype, *type_attributes(oldtype),
                                   &type_of(*newtype)->attributes);
  if (!code) return kSuccess;
  LowerScope scope;
  type_unref(*newtype);
  *newtype = null_of<kDatatype>();
  return code;
}

}  // namespace fermata::mpi::core
