// SPDX-License-Identifier: Apache-2.0
// One-sided communication: windows, made, named, freed. Synchronization is in epochs.h.
//
// Idea: the lower half's window knows one epoch only, MPI_Win_lock_all, from its creation to its
// end. Within it Put, Get and Accumulate are legal at any time and a flush completes them, so a
// window can be brought to rest at any moment without its other members' help. What the application
// calls epochs (fences, groups, locks) is built on flush, on messages and on atomic counters in
// upper memory; so a checkpoint may come in the middle of an epoch, and after a restart the epoch
// is still open, because the lower half never knew of it.
//
// A window has a communicator of its own (a duplicate the application never sees): its members, its
// id, its collective clock and the messages of its epochs. Where its memory is, and how its
// locks are made where all members are on one host: near_windows.h. Elsewhere it has a second lower
// window, for locks.
//
// MPICH 4.0 over UCX goes to the wrong place in a window that does not begin at a multiple of 16,
// as segments of shared memory need not. So the real window begins at the multiple below the
// memory, and its displacements are bytes from there.
//
// Invariant: both lower windows of a live window are in a lock_all epoch.
// Invariant: Slot::spare of a window's slot is the clock of its communicator.
// Source: docs/decisions/0019-windows-in-one-epoch.md, 0063-windows-share-pages.md.
#pragma once

#include "mpi/epoch_order.h"
#include "mpi/hints.h"
#include "mpi/near_windows.h"

namespace fermata::mpi {

/// Tells all members of a window about each other's memory. Every member calls it; all get
/// kErrNoMem if one has none.
inline int members_exchange(Window* window, bool has_memory = true) {
  const i64 size = has_memory ? window->size : kNoMemory;
  const i64 unaligned = size > 0 ? i64(sys::arg(window->base)) % kWindowAlignment : 0;
  const WindowMember own{size, window->disp_unit, unaligned, 0, 0, window->door, 0};
  window->members = arena_array<WindowMember>(u64(window->ranks));
  int error;
  {
    const BlockingCall open;
    error = lower().Allgather(&own, sizeof own, state().lower_byte, window->members, sizeof own,
                              state().lower_byte, window->comm->real);
  }
  for (i32 i = 0; i < window->ranks && !error; i++)
    if (window->members[i].size == kNoMemory) error = kErrNoMem;
  return error;
}

/// Where a member's displacement is in its real window. What is none is the lower half's to refuse.
inline i64 real_displacement(Slot* win, i32 rank, i64 disp) {
  const Window* const window = window_of(win);
  if (!window || disp < 0 || u32(rank) >= u32(window->ranks)) return disp;
  const WindowMember& member = window->members[rank];
  return member.before + disp * member.disp_unit;
}

/// The real window over upper memory.
inline int window_make_real(Window* window) {
  const u64 comm = window->comm->real;
  u64* const real = &window->slot->real;
  if (window->flavor == kWinFlavorDynamic)
    return lower().Win_create_dynamic(no_info(), comm, real);
  for (i32 i = 0; i < comm_of(window->comm)->size; i++)
    window->members[i].before = window->members[i].unaligned;
  const i64 before = window->members[comm_of(window->comm)->rank].before;
  return lower().Win_create(static_cast<u8*>(window->base) - before, before + window->size, 1,
                            no_info(), comm, real);
}

/// Makes a window's two real windows. Collective over its communicator, whose real one exists.
/// *agreed: all members have got this result.
inline int window_make(Window* window, bool* agreed) {
  const MpiCalls& mpi = lower();
  u64* const real = &window->slot->real;
  u64* const counters = &window->counters->real;
  window->counter[0] = window->counter[1] = 0;
  *real = *counters = 0;
  find_doors(window);
  const bool is_near = make_near(window);
  *agreed = is_near && window->has_doors;
  int error = is_near ? int(kSuccess) : window_make_real(window);
  window->is_new = false;
  if (!error && !window->has_doors)
    error = mpi.Win_create(window->counter, sizeof window->counter, sizeof window->counter[0],
                           no_info(), window->comm->real, counters);
  if (!error && !is_near) error = begin_lower_epoch(*real);
  if (!error && !window->has_doors) error = begin_lower_epoch(*counters);
  for (AttachedMemory* a = window->attached; a && !error; a = a->next)
    error = mpi.Win_attach(*real, a->base, a->size);
  return error;
}

inline void shared_forget(const Window* window);  // shared_windows.h

inline void window_forget(Window* window) {
  shared_forget(window);
  door_give_back(window);
  comm_of(window->comm)->window = nullptr;
  arena_free(window->heard);
  arena_free(window->kept);
  arena_free(window->members);
  arena_free(window->locks);
  arena_free(window->access.ranks);
  arena_free(window->exposure.ranks);
  arena_free(window->name);
  while (AttachedMemory* const a = window->attached) {
    window->attached = a->next;
    arena_free(a);
  }
  window_unmap(window);
  if (window->errhandler) errhandler_unref(window->errhandler);
  slot_free(window->counters);
  slot_free(window->slot);
  arena_free(window);
}

/// The part that all constructors share. `memory` fills in base and size. All of it belongs to the
/// one call on `comm` that is counted: a rank that has entered it finishes it before it parks.
template <typename Memory>
int window_new(Slot* comm, i32 flavor, i32 disp_unit, Slot* info, Slot** win, Memory memory) {
  if (disp_unit < 1) return kErrDisp;
  return with_own_comm(comm, [&](Slot* made) {
    Window* const window = arena_new<Window>();
    const u64 members = u64(comm_of(made)->size);
    window->comm = made;
    window->ranks = i32(members);
    window->flavor = flavor;
    window->disp_unit = disp_unit;
    epochs_begin(window);
    window->app_flavor = front::app_win_flavor(flavor);
    window->app_model = front::app_win_model(kWinUnified);
    window->locks = arena_array<LockKind>(members);
    __builtin_memset(window->locks, 0, members);
    window->slot = slot_new(kWin, window);
    window->counters = slot_new(kWin, nullptr);
    window->slot->spare = made->spare;
    window->is_new = true;
    window->door = door_take(members);
    window->heard = arena_array<u32>(2 * members);
    window->kept = arena_array<u32>(2 * members);
    __builtin_memset(window->heard, 0, 2 * members * sizeof(u32));
    __builtin_memset(window->kept, 0, 2 * members * sizeof(u32));
    comm_of(made)->window = window;
    int error = memory(window);
    {
      const BlockingCall open;
      // Where all ranks are members there is no other group.
      const bool others = members > 1 && members < u64(state().world_size);
      const HostTurn turn(others && comm_of(made)->rank == 0, launcher().config("ranks"));
      bool agreed = false;
      if (!error) error = window_make(window, &agreed);
      if (!agreed) error = members_agree(made, error);
    }
    if (error) {
      window_forget(window);
      own_comm_discard(made);
      return error;
    }
    *win = window->slot;
    return hints_take(&window->info, kWindowHints, info);
  });
}

inline bool is_window(const Slot* slot) { return slot->object != nullptr; }

/// Completes everything this rank has begun on any window. All members are parked or run on, and
/// poll, so this ends.
inline void windows_flush() {
  for_each_live(kWin, [](Slot* slot) {
    if (is_window(slot)) (void)lower().Win_flush_all(slot->real);
  });
}

inline u64 window_id(const Window* window) { return comm_of(window->comm)->id; }

/// The window with the smallest id above `last`, or null.
inline Window* next_window(u64 last) {
  Window* next = nullptr;
  for_each_live(kWin, [&](Slot* slot) {
    if (!is_window(slot)) return;
    Window* const window = window_of(slot);
    const u64 id = window_id(window);
    if (id > last && (!next || id < window_id(next))) next = window;
  });
  return next;
}

/// Visits every window, in an order in which all of their members visit them.
template <typename Visit>
void each_window(Visit visit) {
  for (Window* next = next_window(0); next;) {
    const u64 last = window_id(next);
    visit(next);
    next = next_window(last);
  }
}

/// Ends a window's two real windows. Collective over it.
inline int window_close(Window* window) {
  const MpiCalls& mpi = lower();
  u64* const real = &window->slot->real;
  u64* const counters = &window->counters->real;
  const BlockingCall open;
  int error = kSuccess;
  if (!window->has_doors) {  // nobody may touch a counter once its owner has left
    error = mpi.Win_flush_all(*real);
    if (!error) error = mpi.Barrier(window->comm->real);
  }
  // All members wait for each other in MPI_Win_free: nobody touches a door of this window later.
  if (!error) error = mpi.Win_unlock_all(*real);
  if (!error && !window->has_doors) error = mpi.Win_unlock_all(*counters);
  if (!error && window->direct_ranks) unshare_lone_member(window);
  if (!error) error = mpi.Win_free(real);
  if (!error && !window->has_doors) error = mpi.Win_free(counters);
  return error;
}

namespace core {

inline int Win_create(void* base, i64 size, int disp_unit, Slot* info, Slot* comm, Slot** win) {
  if (size < 0) return kErrSize;
  return window_new(comm, kWinFlavorCreate, disp_unit, info, win, [&](Window* window) {
    window->base = base;
    window->size = size;
    return members_exchange(window);
  });
}
inline int Win_allocate(i64 size, int disp_unit, Slot* info, Slot* comm, void* baseptr,
                        Slot** win) {
  if (size < 0) return kErrSize;
  return window_new(comm, kWinFlavorAllocate, disp_unit, info, win, [&](Window* window) {
    window->size = size;
    const int error = members_exchange(window, window_map(window));
    if (!error) *static_cast<void**>(baseptr) = window->base;
    return error;
  });
}
inline int Win_create_dynamic(Slot* info, Slot* comm, Slot** win) {
  return window_new(comm, kWinFlavorDynamic, 1, info, win,
                    [](Window* window) { return members_exchange(window); });
}

inline int Win_attach(Slot* win, void* base, i64 size) {
  LowerScope scope;
  Window* const window = window_of(win);
  if (!window || window->flavor != kWinFlavorDynamic) return window ? kErrRmaFlavor : kErrWin;
  const int error = lower().Win_attach(win->real, base, size);
  if (error) return error;
  AttachedMemory* const attached = arena_new<AttachedMemory>();
  *attached = AttachedMemory{window->attached, base, size};
  window->attached = attached;
  return kSuccess;
}
inline int Win_detach(Slot* win, const void* base) {
  LowerScope scope;
  Window* const window = window_of(win);
  if (!window || window->flavor != kWinFlavorDynamic) return window ? kErrRmaFlavor : kErrWin;
  for (AttachedMemory** at = &window->attached; *at; at = &(*at)->next) {
    if ((*at)->base != base) continue;
    AttachedMemory* const gone = *at;
    *at = gone->next;
    arena_free(gone);
    return lower().Win_detach(win->real, base);
  }
  return kErrRmaAttach;
}

inline int Win_free(Slot** handle) {
  Slot* const win = *handle;
  Window* const window = window_of(win);
  if (!window) return kErrWin;
  if (const int error = free_error(window)) return error;
  (void)attributes_drop(kWin, win, &window->attributes, false);
  Slot* comm = window->comm;
  {
    CollectiveScope scope(win);
    if (const int error = window_close(window)) return error;
    if (window->info) (void)Info_free(&window->info);
    window_forget(window);
    *handle = null_of(kWin);
  }
  return own_comm_free(comm);
}

inline int Win_get_group(Slot* win, Slot** group) {
  const Window* const window = window_of(win);
  return window ? Comm_group(window->comm, group) : int(kErrWin);
}
inline int Win_set_name(Slot* win, const char* name) {
  LowerScope scope;
  Window* const window = window_of(win);
  if (!window) return kErrWin;
  arena_free(window->name);
  window->name = text_copy(name);
  return kSuccess;
}
inline int Win_get_name(Slot* win, char* name, int* length) {
  const Window* const window = window_of(win);
  const char* const text = window ? window->name ? window->name : "" : "MPI_WIN_NULL";
  copy_truncated(name, text, kMaxObjectName - 1);
  *length = int(text_length(name));
  return kSuccess;
}

inline int Win_set_info(Slot* win, Slot* info) {
  Window* const window = window_of(win);
  return window ? hints_take(&window->info, kWindowHints, info) : int(kErrWin);
}
inline int Win_get_info(Slot* win, Slot** info) {
  const Window* const window = window_of(win);
  return window ? hints_give(window->info, kWindowHints, info) : int(kErrWin);
}

inline int Win_create_keyval(void* copy_fn, void* delete_fn, int* number, void* extra_state) {
  return keyval_new(kWin, copy_fn, delete_fn, number, extra_state);
}
inline int Win_free_keyval(int* number) { return keyval_free(kWin, number); }
inline int Win_set_attr(Slot* win, int number, void* value) {
  Window* const w = window_of(win);
  return w ? attribute_set(kWin, win, &w->attributes, number, {value, 0}) : int(kErrWin);
}
inline int Win_delete_attr(Slot* win, int number) {
  Window* const w = window_of(win);
  return w ? attribute_remove(kWin, win, &w->attributes, number) : int(kErrWin);
}
inline int Win_get_attr(Slot* win, int number, void* value, int* flag) {
  Window* const window = window_of(win);
  if (!window) return kErrWin;
  void** const out = static_cast<void**>(value);
  *flag = 1;
  switch (number) {
    case kWinBase: *out = window->base; return kSuccess;
    case kWinSize: *out = &window->size; return kSuccess;
    case kWinDispUnit: *out = &window->disp_unit; return kSuccess;
    case kWinCreateFlavor: *out = &window->app_flavor; return kSuccess;
    case kWinModel: *out = &window->app_model; return kSuccess;
    default: break;
  }
  return attribute_get(kWin, window->attributes, number, value, flag);
}

inline int Win_create_errhandler(void* fn, Slot** errhandler) {
  return errhandler_new(kWin, fn, errhandler);
}
inline int Win_set_errhandler(Slot* win, Slot* errhandler) {
  Window* const window = window_of(win);
  return window ? set_errhandler(&window->errhandler, errhandler) : int(kErrWin);
}
inline int Win_get_errhandler(Slot* win, Slot** errhandler) {
  Window* const window = window_of(win);
  return window ? get_errhandler(window->errhandler, kErrorsAreFatal, errhandler) : int(kErrWin);
}
inline int Win_call_errhandler(Slot* win, int errorcode) {
  if (!window_of(win)) return kErrWin;
  (void)raise(win, errorcode, "MPI_Win_call_errhandler");
  return kSuccess;
}

}  // namespace core
}  // namespace fermata::mpi
