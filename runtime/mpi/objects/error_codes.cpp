// SPDX-License-Identifier: Apache-2.0
#include "mpi/objects/error_codes.h"

#include "base/text.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/table.h"
#include "mpi/objects/infos.h"

namespace fermata::mpi {
namespace {

constexpr i32 kFirstUserCode = 0x4000'0000;

UserCode* user_code(i32 code) {
  const i32 index = code - kFirstUserCode;
  if (index < 0 || index >= state().objects.user_codes_used) return nullptr;
  UserCode* const known = &state().objects.user_codes[index];
  return known->used ? known : nullptr;
}

/// A new number; `error_class` 0: it is a class, its own.
i32 user_code_new(i32 error_class) {
  Core& core = state();
  if (core.objects.user_codes_used == core.objects.user_codes_room) {
    const i32 room = core.objects.user_codes_room ? 2 * core.objects.user_codes_room : 16;
    UserCode* const grown = arena_array<UserCode>(u64(room));
    for (i32 i = 0; i < core.objects.user_codes_used; i++) grown[i] = core.objects.user_codes[i];
    arena_free(core.objects.user_codes);
    core.objects.user_codes = grown;
    core.objects.user_codes_room = room;
  }
  if (UserCode* const known = user_code(error_class)) known->codes++;
  const i32 code = kFirstUserCode + core.objects.user_codes_used;
  core.objects.user_codes[core.objects.user_codes_used++] =
      UserCode{true, error_class ? error_class : code, nullptr};
  core.objects.predefined_attributes[kLastusedcode - kTagUb] = code;
  return code;
}

/// A string belongs to its code and a code to its class: each is removed before what it belongs to.
/// The last numbers are given anew then, as those of the real MPIs are.
int user_code_remove(i32 code, bool is_class) {
  LowerScope scope;
  UserCode* const known = user_code(code);
  if (!known || (known->error_class == code) != is_class || known->text) return kErrArg;
  if (known->codes) return kErrArg;
  if (UserCode* const its_class = is_class ? nullptr : user_code(known->error_class))
    its_class->codes--;
  *known = UserCode{};
  ObjectsState& objects = state().objects;
  while (objects.user_codes_used && !objects.user_codes[objects.user_codes_used - 1].used)
    objects.user_codes_used--;
  return kSuccess;
}

}  // namespace
}  // namespace fermata::mpi

namespace fermata::mpi::core {

int Add_error_class(int* errorclass) {
  LowerScope scope;
  map_tables();
  *errorclass = user_code_new(0);
  return kSuccess;
}
int Add_error_code(int errorclass, int* errorcode) {
  LowerScope scope;
  map_tables();
  if (errorclass >= kFirstUserCode && !user_code(errorclass)) return kErrArg;
  *errorcode = user_code_new(errorclass);
  return kSuccess;
}
int Add_error_string(int errorcode, const char* text) {
  LowerScope scope;
  UserCode* const known = user_code(errorcode);
  if (!known) return kErrArg;
  arena_free(known->text);
  known->text = text_copy(text);
  return kSuccess;
}
int Remove_error_class(int errorclass) { return user_code_remove(errorclass, true); }
int Remove_error_code(int errorcode) { return user_code_remove(errorcode, false); }
int Remove_error_string(int errorcode) {
  LowerScope scope;
  UserCode* const known = user_code(errorcode);
  if (!known || !known->text) return kErrArg;
  arena_free(known->text);
  known->text = nullptr;
  return kSuccess;
}

int Error_class(int errorcode, int* errorclass) {
  if (errorcode < kFirstUserCode) {
    LowerScope scope;
    return lower().Error_class(errorcode, errorclass);
  }
  const UserCode* const known = user_code(errorcode);
  if (!known) return kErrArg;
  *errorclass = known->error_class;
  return kSuccess;
}
int Error_string(int errorcode, char* text, int* length) {
  if (errorcode < kFirstUserCode) {
    LowerScope scope;
    return lower().Error_string(errorcode, text, length);
  }
  const UserCode* const known = user_code(errorcode);
  if (!known) return kErrArg;
  copy_truncated(text, known->text ? known->text : "", kMaxErrorString - 1);
  *length = int(text_length(text));
  return kSuccess;
}

}  // namespace fermata::mpi::core
