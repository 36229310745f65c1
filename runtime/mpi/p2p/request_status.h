// SPDX-License-Identifier: Apache-2.0
// Functions of MPI 4 and 4.1 in terms of older ones, which every lower half has.
#pragma once

#include "mpi/comms/group_calls.h"
#include "mpi/p2p/isendrecv.h"
#include "mpi/p2p/partitioned.h"

namespace fermata::mpi::core {

/// The first request that is complete, of those that may be; none may: it is said to be complete.
inline int Request_get_status_any(int count, Slot* const* requests, int* index, int* flag,
                                  CanonStatus* status) {
  bool any = false;
  *index = kUndefined;
  *flag = 0;
  for (int i = 0; i < count; i++) {
    if (is_idle(requests[i])) continue;
    any = true;
    if (const int error = Request_get_status(requests[i], flag, status)) return error;
    if (!*flag) continue;
    *index = i;
    return kSuccess;
  }
  if (any) return kSuccess;
  *flag = 1;
  if (status) *status = empty_status();
  return kSuccess;
}

inline int Request_get_status_all(int count, Slot* const* requests, int* flag,
                                  StatusList statuses) {
  *flag = 1;
  for (int i = 0; i < count && *flag; i++) {
    CanonStatus status{};
    if (const int error = Request_get_status(requests[i], flag, &status)) return error;
    if (*flag && statuses.is_wanted()) statuses.put(i, status, kSuccess);
  }
  return kSuccess;
}

inline int Request_get_status_some(int count, Slot* const* requests, int* found, int* indices,
                                   StatusList statuses) {
  bool any = false;
  *found = 0;
  for (int i = 0; i < count; i++) {
    if (is_idle(requests[i])) continue;
    any = true;
    int flag = 0;
    CanonStatus status{};
    if (const int error = Request_get_status(requests[i], &flag, &status)) return error;
    if (!flag) continue;
    if (statuses.is_wanted()) statuses.put(*found, status, kSuccess);
    indices[(*found)++] = i;
  }
  if (!any) *found = kUndefined;
  return kSuccess;
}

inline int Type_get_value_index(Slot* value_type, Slot* index_type, Slot** pair_type) {
  struct Pair {
    u32 value, index, pair;
  };
  constexpr Pair kPairs[] = {
      {kFloat, abi::kInt, kFloatInt}, {kDouble, abi::kInt, kDoubleInt},
      {kLong, abi::kInt, kLongInt},   {kShort, abi::kInt, kShortInt},
      {abi::kInt, abi::kInt, k2int},  {kLongDouble, abi::kInt, kLongDoubleInt},
      {kReal, kReal, k2real},
      {kDoublePrecision, kDoublePrecision, k2doublePrecision}, {kInteger, kInteger, k2integer},
  };
  if (is_null(value_type, kDatatypeNull) || is_null(index_type, kDatatypeNull)) return kErrType;
  *pair_type = null_of(kDatatype);
  for (const Pair& of : kPairs)
    if (value_type->index == of.value && index_type->index == of.index)
      *pair_type = front::predefined(kDatatype, of.pair);
  return kSuccess;
}

/// Nothing is known of the hardware, nor of how the program was started: hints that are not given.
inline int Get_hw_resource_info(Slot** info) { return Info_create(info); }
inline int Info_create_env(int*, char***, Slot** info) { return Info_create(info); }

inline int tag_of_text(const char* text) { return int(hash_text(kHashStart, text) & 0x3fff); }

/// The members are ranks of this job: without sessions there are no other processes to name.
inline int Comm_create_from_group(Slot* group, const char* text, Slot*, Slot* errhandler,
                                  Slot** newcomm) {
  Slot* const world = front::predefined(kComm, kCommWorld);
  const int error = Comm_create_group(world, group, tag_of_text(text), newcomm);
  if (error || !live_comm(*newcomm)) return error;
  return Comm_set_errhandler(*newcomm, errhandler);
}

inline int Intercomm_create_from_groups(Slot* local, int local_leader, Slot* remote,
                                        int remote_leader, const char* text, Slot*,
                                        Slot* errhandler, Slot** newcomm) {
  const Group* const other = members_of(remote);
  if (!other || remote_leader < 0 || remote_leader >= other->size) return kErrGroup;
  Slot* const world = front::predefined(kComm, kCommWorld);
  const int tag = tag_of_text(text);
  Slot* own = nullptr;
  int error = Comm_create_group(world, local, tag, &own);
  if (error || !live_comm(own)) return error ? error : int(kErrGroup);
  error = Intercomm_create(own, local_leader, world, other->ranks[remote_leader], tag, newcomm);
  (void)Comm_free(&own);
  return error ? error : Comm_set_errhandler(*newcomm, errhandler);
}

}  // namespace fermata::mpi::core
