// SPDX-License-Identifier: Apache-2.0
#include "mpi/objects/groups.h"

#include "frontend/callbacks.h"
#include "halves/crossing.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/lower_errors.h"
#include "mpi/handles/table.h"

namespace fermata::mpi {
namespace {

enum class GroupOperation { kUnion, kIntersection, kDifference };

int group_combine(GroupOperation operation, GroupSlot* group1, GroupSlot* group2,
                  GroupSlot** newgroup) {
  LowerScope scope;
  const Group* const a = members_of(group1);
  const Group* const b = members_of(group2);
  if (!a || !b) return kErrGroup;
  i32* const ranks = arena_array<i32>(u64(a->size + b->size));
  i32 size = 0;
  for (i32 i = 0; i < a->size; i++) {
    const bool in_b = position_in(b, a->ranks[i]) != kUndefined;
    if (operation == GroupOperation::kUnion || in_b == (operation == GroupOperation::kIntersection))
      ranks[size++] = a->ranks[i];
  }
  for (i32 i = 0; operation == GroupOperation::kUnion && i < b->size; i++)
    if (position_in(a, b->ranks[i]) == kUndefined) ranks[size++] = b->ranks[i];
  *newgroup = group_new(ranks, size);
  arena_free(ranks);
  return kSuccess;
}

/// The subgroup of the listed ranks in their order (include), or of all others in the group's
/// order.
int group_select(GroupSlot* group, int n, const int* chosen, bool include, GroupSlot** newgroup) {
  LowerScope scope;
  const Group* const g = members_of(group);
  if (!g) return kErrGroup;
  if (n < 0) return kErrArg;
  for (int i = 0; i < n; i++)
    if (chosen[i] < 0 || chosen[i] >= g->size) return kErrRank;
  i32* const ranks = arena_array<i32>(u64(g->size + n));
  i32 size = 0;
  for (int i = 0; include && i < n; i++) ranks[size++] = g->ranks[chosen[i]];
  for (i32 r = 0; !include && r < g->size; r++) {
    bool excluded = false;
    for (int i = 0; i < n; i++) excluded = excluded || chosen[i] == r;
    if (!excluded) ranks[size++] = g->ranks[r];
  }
  *newgroup = group_new(ranks, size);
  arena_free(ranks);
  return kSuccess;
}

int group_select_ranges(GroupSlot* group, int n, int (*ranges)[3], bool include,
                        GroupSlot** newgroup) {
  const Group* const g = members_of(group);
  if (!g) return kErrGroup;
  LowerScope scope;
  i64 total = 0;
  for (int i = 0; i < n; i++) {
    const int stride = ranges[i][2];
    if (stride == 0) return kErrArg;
    const i64 steps = (i64(ranges[i][1]) - ranges[i][0]) / stride;
    if (steps >= 0) total += steps + 1;
  }
  if (total > g->size) return kErrRank;
  i32* const chosen = arena_array<i32>(u64(total));
  i32 size = 0;
  for (int i = 0; i < n; i++) {
    const int first = ranges[i][0], last = ranges[i][1], stride = ranges[i][2];
    for (i64 r = first; stride > 0 ? r <= last : r >= last; r += stride) chosen[size++] = i32(r);
  }
  const int error = group_select(group, size, chosen, include, newgroup);
  arena_free(chosen);
  return error;
}

}  // namespace

GroupSlot* group_new(const i32* ranks, i32 size) {
  if (size == 0) return front::predefined<kGroup>(kGroupEmpty);
  Group* const group = arena_new<Group>();
  group->size = size;
  group->rank = kUndefined;
  group->ranks = arena_copy(ranks, u64(size));
  for (i32 i = 0; i < size; i++)
    if (ranks[i] == state().world.rank) group->rank = i;
  return slot_new<kGroup>(group);
}

const Group* members_of(GroupSlot* slot) {
  static constexpr Group kNobody{0, kUndefined, nullptr};
  if (slot->index == kGroupEmpty) return &kNobody;
  return group_of(slot);  // null for MPI_GROUP_NULL
}

i32 position_in(const Group* group, i32 world_rank) {
  for (i32 i = 0; i < group->size; i++)
    if (group->ranks[i] == world_rank) return i;
  return kUndefined;
}

int lower_everyone(RealGroup* group) {
  *group = state().lower.everyone;
  return *group ? int(kSuccess) : lower().Comm_group(slot_at<kComm>(kCommWorld)->real(), group);
}

int lower_group(const i32* ranks, i32 size, RealGroup* group) {
  RealGroup known{};
  int error = lower_everyone(&known);
  if (error) return error;
  error = lower().Group_incl(known, size, ranks, group);
  if (known != state().lower.everyone) may_leak(lower().Group_free(&known));
  return error;
}

int lower_comm(const i32* ranks, i32 size, i32 tag, RealComm* real) {
  RealGroup group{};
  int error = lower_group(ranks, size, &group);
  if (!error) {
    const BlockingCall open;
    error = lower().Comm_create_group(state().lower.bridge, group, tag, real);
  }
  if (group) may_leak(lower().Group_free(&group));
  return error;
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

int Group_size(GroupSlot* group, int* size) {
  const Group* const g = members_of(group);
  if (!g) return kErrGroup;
  *size = g->size;
  return kSuccess;
}
int Group_rank(GroupSlot* group, int* rank) {
  const Group* const g = members_of(group);
  if (!g) return kErrGroup;
  *rank = g->rank;
  return kSuccess;
}

int Group_translate_ranks(GroupSlot* group1, int n, const int* ranks1, GroupSlot* group2,
                          int* ranks2) {
  const Group* const from = members_of(group1);
  const Group* const to = members_of(group2);
  if (!from || !to) return kErrGroup;
  for (int i = 0; i < n; i++) {
    const int rank = ranks1[i];
    if (rank != kProcNull && (rank < 0 || rank >= from->size)) return kErrRank;
    ranks2[i] = rank == kProcNull ? kProcNull : position_in(to, from->ranks[rank]);
  }
  return kSuccess;
}

int Group_compare(GroupSlot* group1, GroupSlot* group2, int* result) {
  const Group* const a = members_of(group1);
  const Group* const b = members_of(group2);
  if (!a || !b) return kErrGroup;
  *result = kUnequal;
  if (a->size != b->size) return kSuccess;
  bool same_order = true;
  for (i32 i = 0; i < a->size; i++) {
    if (a->ranks[i] == b->ranks[i]) continue;
    same_order = false;
    if (position_in(b, a->ranks[i]) == kUndefined) return kSuccess;
  }
  *result = same_order ? kIdent : kSimilar;
  return kSuccess;
}

int Group_union(GroupSlot* group1, GroupSlot* group2, GroupSlot** newgroup) {
  return group_combine(GroupOperation::kUnion, group1, group2, newgroup);
}
int Group_intersection(GroupSlot* group1, GroupSlot* group2, GroupSlot** newgroup) {
  return group_combine(GroupOperation::kIntersection, group1, group2, newgroup);
}
int Group_difference(GroupSlot* group1, GroupSlot* group2, GroupSlot** newgroup) {
  return group_combine(GroupOperation::kDifference, group1, group2, newgroup);
}
int Group_incl(GroupSlot* group, int n, const int* ranks, GroupSlot** newgroup) {
  return group_select(group, n, ranks, true, newgroup);
}
int Group_excl(GroupSlot* group, int n, const int* ranks, GroupSlot** newgroup) {
  return group_select(group, n, ranks, false, newgroup);
}
int Group_range_incl(GroupSlot* group, int n, int (*ranges)[3], GroupSlot** newgroup) {
  return group_select_ranges(group, n, ranges, true, newgroup);
}
int Group_range_excl(GroupSlot* group, int n, int (*ranges)[3], GroupSlot** newgroup) {
  return group_select_ranges(group, n, ranges, false, newgroup);
}
int Group_free(GroupSlot** group) {
  LowerScope scope;
  if (is_null(*group, kGroupNull)) return kErrGroup;
  if (Group* const g = (*group)->index == kGroupEmpty ? nullptr : group_of(*group)) {
    arena_free(g->ranks);
    arena_free(g);
    slot_free(*group);
  }
  *group = null_of<kGroup>();
  return kSuccess;
}

}  // namespace fermata::mpi::core
