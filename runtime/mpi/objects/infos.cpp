// SPDX-License-Identifier: Apache-2.0
#include "mpi/objects/infos.h"

#include "base/text.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/table.h"

namespace fermata::mpi {
namespace {

/// The link that points at the pair with this key, or at the end of the list.
InfoPair** info_find(Info* info, const char* key) {
  InfoPair** at = &info->first;
  while (*at && !text_equal((*at)->key, key)) at = &(*at)->next;
  return at;
}

void info_pair_free(InfoPair* pair) {
  arena_free(pair->key);
  arena_free(pair->value);
  arena_free(pair);
}

}  // namespace

bool is_info(const InfoSlot* slot) {
  return !is_null(slot, kInfoNull) && (slot->index == kInfoEnv || slot->object != nullptr);
}

InfoPair* info_get(InfoSlot* info, const char* key) {
  return info_of(info) ? *info_find(info_of(info), key) : nullptr;
}

void copy_truncated(char* to, const char* from, i32 room) {  // room: without the final NUL
  i32 i = 0;
  for (; i < room && from[i]; i++) to[i] = from[i];
  to[i] = 0;
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

int Info_create(InfoSlot** info) {
  LowerScope scope;
  map_tables();
  InfoSlot* const slot = slot_new<kInfo>(arena_new<Info>());
  slot->real() = slot_at<kInfo>(kInfoNull)->real();
  *info = slot;
  return kSuccess;
}

int Info_set(InfoSlot* info, const char* key, const char* value) {
  LowerScope scope;
  if (!is_info(info) || !info_of(info)) return kErrInfo;
  if (!key[0] || text_length(key) >= u64(kMaxInfoKey)) return kErrInfoKey;
  if (text_length(value) >= u64(kMaxInfoVal)) return kErrInfoValue;
  InfoPair** const at = info_find(info_of(info), key);
  if (*at) {
    arena_free((*at)->value);
  } else {
    *at = arena_new<InfoPair>();
    (*at)->key = text_copy(key);
  }
  (*at)->value = text_copy(value);
  return kSuccess;
}

int Info_delete(InfoSlot* info, const char* key) {
  LowerScope scope;
  if (!is_info(info) || !info_of(info)) return kErrInfo;
  InfoPair** const at = info_find(info_of(info), key);
  InfoPair* const pair = *at;
  if (!pair) return kErrInfoNokey;
  *at = pair->next;
  info_pair_free(pair);
  return kSuccess;
}

int Info_get(InfoSlot* info, const char* key, int room, char* value, int* flag) {
  if (!is_info(info)) return kErrInfo;
  const InfoPair* const pair = info_get(info, key);
  *flag = pair != nullptr;
  if (pair) copy_truncated(value, pair->value, room);
  return kSuccess;
}
int Info_get_string(InfoSlot* info, const char* key, int* buflen, char* value, int* flag) {
  if (!is_info(info)) return kErrInfo;
  const InfoPair* const pair = info_get(info, key);
  *flag = pair != nullptr;
  if (!pair) return kSuccess;
  if (*buflen > 0) copy_truncated(value, pair->value, *buflen - 1);
  *buflen = int(text_length(pair->value)) + 1;
  return kSuccess;
}
int Info_get_valuelen(InfoSlot* info, const char* key, int* length, int* flag) {
  if (!is_info(info)) return kErrInfo;
  const InfoPair* const pair = info_get(info, key);
  *flag = pair != nullptr;
  if (pair) *length = int(text_length(pair->value));
  return kSuccess;
}
int Info_get_nkeys(InfoSlot* info, int* count) {
  if (!is_info(info)) return kErrInfo;
  *count = 0;
  if (info_of(info))
    for (InfoPair* pair = info_of(info)->first; pair; pair = pair->next) ++*count;
  return kSuccess;
}
int Info_get_nthkey(InfoSlot* info, int n, char* key) {
  if (!is_info(info)) return kErrInfo;
  InfoPair* pair = info_of(info) ? info_of(info)->first : nullptr;
  for (int i = 0; pair && i < n; i++) pair = pair->next;
  if (!pair || n < 0) return kErrArg;
  copy_truncated(key, pair->key, kMaxInfoKey - 1);
  return kSuccess;
}

int Info_dup(InfoSlot* info, InfoSlot** newinfo) {
  if (!is_info(info)) return kErrInfo;
  if (const int error = Info_create(newinfo)) return error;
  if (info_of(info))
    for (InfoPair* pair = info_of(info)->first; pair; pair = pair->next)
      (void)Info_set(*newinfo, pair->key, pair->value);
  return kSuccess;
}

int Info_free(InfoSlot** info) {
  LowerScope scope;
  if (!is_info(*info) || !info_of(*info)) return kErrInfo;
  for (InfoPair* pair = info_of(*info)->first; pair;) {
    InfoPair* const next = pair->next;
    info_pair_free(pair);
    pair = next;
  }
  arena_free(info_of(*info));
  slot_free(*info);
  *info = null_of<kInfo>();
  return kSuccess;
}

/// Nothing is known of the hardware, nor of how the program was started: hints that are not given.
int Get_hw_resource_info(InfoSlot** info) { return Info_create(info); }
int Info_create_env(int*, char***, InfoSlot** info) { return Info_create(info); }

}  // namespace fermata::mpi::core
