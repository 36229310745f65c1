// SPDX-License-Identifier: Apache-2.0
// MPI_Put and MPI_Get of a near window's memory (near_windows.h): a copy, without the real MPI.
// Layouts with gaps, types whose sizes differ, and what is beyond the memory go down.
//
// A copy is complete when the call returns, so there is nothing for a flush to wait for.
// Accumulates are the real MPI's: they are atomic towards each other; towards a put they need not
// be.
#pragma once

#include "mpi/gate/scopes.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/window.h"
#include "mpi/rma/epoch_order.h"

namespace fermata::mpi {

/// Bytes of a type that has no gaps between two of them, 0 if that is not known. Predefined pairs
/// with gaps have sizes that are no powers of two.
[[gnu::always_inline]] inline u64 solid_bytes(const DatatypeSlot* type) {
  const u64 size = type->type_size;
  return (type->flags & kSlotPredefined) && (size & (size - 1)) == 0 ? size : 0;
}

/// The target of a put or get in this process, or null: the real MPI is to do it.
struct Direct {
  u8* target = nullptr;
  u64 bytes = 0;

  [[gnu::always_inline]] Direct(WinSlot* win, const void* origin, i32 count,
                                const DatatypeSlot* type, i32 rank, i64 disp, i32 target_count,
                                const DatatypeSlot* target_type) {
    const Window* const window = window_of(win);
    if (FERMATA_UNLIKELY(!window || u32(rank) >= u32(window->direct_ranks))) return;
    if (FERMATA_UNLIKELY(window->access_epochs == 0)) return;
    const WindowMember& member = window->members[rank];
    const u64 size = solid_bytes(type), target_size = solid_bytes(target_type);
    bytes = size * u64(count);
    const u64 at = u64(disp) * u64(member.disp_unit);
    const bool fits = disp >= 0 && count > 0 && disp <= member.size && bytes <= u64(member.size) &&
                      at <= u64(member.size) - bytes;
    if (FERMATA_UNLIKELY(!fits || size == 0 || target_count < 0 || !origin ||
                         bytes != target_size * u64(target_count)))
      return;
    target = reinterpret_cast<u8*>(window->counters->near_base + u64(member.near_offset) + at);
  }
};

/// Where a member's displacement is in its real window. What is none is the lower half's to refuse.
inline i64 real_displacement(WinSlot* win, i32 rank, i64 disp) {
  const Window* const window = window_of(win);
  if (!window || disp < 0 || u32(rank) >= u32(window->ranks)) return disp;
  const WindowMember& member = window->members[rank];
  return member.before + disp * member.disp_unit;
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

inline int Put(const void* origin, int count, DatatypeSlot* type, int rank, i64 disp,
               int target_count, DatatypeSlot* target_type, WinSlot* win) {
  LowerScope scope;
  const Direct direct(win, origin, count, type, rank, disp, target_count, target_type);
  if (FERMATA_UNLIKELY(!direct.target)) {
    if (const int error = access_error(win, rank)) return error;
    return lower().Put(origin, count, type->real(), rank, real_displacement(win, rank, disp),
                       target_count, target_type->real(), win->real());
  }
  __builtin_memcpy(direct.target, origin, direct.bytes);
  return kSuccess;
}
inline int Get(void* origin, int count, DatatypeSlot* type, int rank, i64 disp, int target_count,
               DatatypeSlot* target_type, WinSlot* win) {
  LowerScope scope;
  const Direct direct(win, origin, count, type, rank, disp, target_count, target_type);
  if (FERMATA_UNLIKELY(!direct.target)) {
    if (const int error = access_error(win, rank)) return error;
    return lower().Get(origin, count, type->real(), rank, real_displacement(win, rank, disp),
                       target_count, target_type->real(), win->real());
  }
  __builtin_memcpy(origin, direct.target, direct.bytes);
  return kSuccess;
}

}  // namespace fermata::mpi::core
