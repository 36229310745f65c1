// SPDX-License-Identifier: Apache-2.0
#include "mpi/rma/windows.h"

#include "base/text.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/references.h"
#include "mpi/objects/attributes.h"
#include "mpi/objects/errors.h"
#include "mpi/objects/infos.h"
#include "mpi/rma/shared_windows.h"
#include "sys/check.h"
#include "sys/sys.h"

namespace fermata::mpi {
namespace {

/// The real window over upper memory.
int window_make_real(Window* window) {
  const RealComm comm = window->comm->real();
  RealWin* const real = &window->slot->real();
  if (window->flavor == kWinFlavorDynamic)
    return lower().Win_create_dynamic(no_info(), comm, real);
  for (i32 i = 0; i < comm_of(window->comm)->size; i++)
    window->members[i].before = window->members[i].unaligned;
  const i64 before = window->members[comm_of(window->comm)->rank].before;
  return lower().Win_create(static_cast<u8*>(window->base) - before, before + window->size, 1,
                            no_info(), comm, real);
}

bool is_window(const WinSlot* slot) { return slot->object != nullptr; }

}  // namespace

int members_exchange(Window* window, bool has_memory) {
  const i64 size = has_memory ? window->size : kNoMemory;
  const i64 unaligned = size > 0 ? i64(sys::arg(window->base)) % kWindowAlignment : 0;
  const WindowMember own{size, window->disp_unit, unaligned, 0, 0, window->door, 0};
  window->members = arena_array<WindowMember>(u64(window->ranks));
  int error;
  {
    const BlockingCall open;
    error = lower().Allgather(&own, sizeof own, state().lower.byte, window->members, sizeof own,
                              state().lower.byte, window->comm->real());
  }
  for (i32 i = 0; i < window->ranks && !error; i++)
    if (window->members[i].size == kNoMemory) error = kErrNoMem;
  return error;
}

int window_make(Window* window, bool* agreed) {
  const MpiCalls& mpi = lower();
  RealWin* const real = &window->slot->real();
  RealWin* const counters = &window->counters->real();
  window->counter[0] = window->counter[1] = 0;
  *real = *counters = {};
  find_doors(window);
  bool is_near = false;
  int error = make_near(window, &is_near);
  *agreed = is_near && window->has_doors;
  if (!error && !is_near) error = window_make_real(window);
  window->is_new = false;
  if (!error && !window->has_doors)
    error = mpi.Win_create(window->counter, sizeof window->counter, sizeof window->counter[0],
                           no_info(), window->comm->real(), counters);
  if (!error && !is_near) error = begin_lower_epoch(*real);
  if (!error && !window->has_doors) error = begin_lower_epoch(*counters);
  for (AttachedMemory* a = window->attached; a && !error; a = a->next)
    error = mpi.Win_attach(*real, a->base, a->size);
  return error;
}

void window_forget(Window* window) {
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

bool windows_flush() {
  int error = kSuccess;
  for_each_live<kWin>([&](WinSlot* slot) {
    if (!is_window(slot)) return;
    FERMATA_CHECK(slot->clock == window_of(slot)->comm->clock,
                  "a window is counted on the clock of its communicator");
    if (!error) error = lower().Win_flush_all(slot->real());
  });
  return error == kSuccess;
}

u64 window_id(const Window* window) { return comm_of(window->comm)->id; }

Window* next_window(u64 last) {
  Window* next = nullptr;
  for_each_live<kWin>([&](WinSlot* slot) {
    if (!is_window(slot)) return;
    Window* const window = window_of(slot);
    const u64 id = window_id(window);
    if (id > last && (!next || id < window_id(next))) next = window;
  });
  return next;
}

int window_close(Window* window) {
  const MpiCalls& mpi = lower();
  RealWin* const real = &window->slot->real();
  RealWin* const counters = &window->counters->real();
  const BlockingCall open;
  int error = kSuccess;
  if (!window->has_doors) {  // nobody may touch a counter once its owner has left
    error = mpi.Win_flush_all(*real);
    if (!error) error = mpi.Barrier(window->comm->real());
  }
  // All members wait for each other in MPI_Win_free: nobody touches a door of this window later.
  if (!error) error = mpi.Win_unlock_all(*real);
  if (!error && !window->has_doors) error = mpi.Win_unlock_all(*counters);
  if (!error && window->direct_ranks) unshare_lone_member(window);
  if (!error) error = mpi.Win_free(real);
  if (!error && !window->has_doors) error = mpi.Win_free(counters);
  return error;
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

int Win_create(void* base, i64 size, int disp_unit, InfoSlot* info, CommSlot* comm, WinSlot** win) {
  if (size < 0) return kErrSize;
  return window_new(comm, kWinFlavorCreate, disp_unit, info, win, [&](Window* window) {
    window->base = base;
    window->size = size;
    return members_exchange(window);
  });
}
int Win_allocate(i64 size, int disp_unit, InfoSlot* info, CommSlot* comm, void* baseptr,
                 WinSlot** win) {
  if (size < 0) return kErrSize;
  return window_new(comm, kWinFlavorAllocate, disp_unit, info, win, [&](Window* window) {
    window->size = size;
    const int error = members_exchange(window, window_map(window));
    if (!error) *static_cast<void**>(baseptr) = window->base;
    return error;
  });
}
int Win_create_dynamic(InfoSlot* info, CommSlot* comm, WinSlot** win) {
  return window_new(comm, kWinFlavorDynamic, 1, info, win,
                    [](Window* window) { return members_exchange(window); });
}

int Win_attach(WinSlot* win, void* base, i64 size) {
  LowerScope scope;
  Window* const window = window_of(win);
  if (!window || window->flavor != kWinFlavorDynamic) return window ? kErrRmaFlavor : kErrWin;
  const int error = lower().Win_attach(win->real(), base, size);
  if (error) return error;
  AttachedMemory* const attached = arena_new<AttachedMemory>();
  *attached = AttachedMemory{window->attached, base, size};
  window->attached = attached;
  return kSuccess;
}
int Win_detach(WinSlot* win, const void* base) {
  LowerScope scope;
  Window* const window = window_of(win);
  if (!window || window->flavor != kWinFlavorDynamic) return window ? kErrRmaFlavor : kErrWin;
  for (AttachedMemory** at = &window->attached; *at; at = &(*at)->next) {
    if ((*at)->base != base) continue;
    AttachedMemory* const gone = *at;
    *at = gone->next;
    arena_free(gone);
    return lower().Win_detach(win->real(), base);
  }
  return kErrRmaAttach;
}

int Win_free(WinSlot** handle) {
  WinSlot* const win = *handle;
  Window* const window = window_of(win);
  if (!window) return kErrWin;
  if (const int error = free_error(window)) return error;
  (void)attributes_drop(kWin, win, &window->attributes, false);
  CommSlot* comm = window->comm;
  {
    CollectiveScope scope(win);
    if (const int error = window_close(window)) return error;
    if (window->info) (void)Info_free(&window->info);
    window_forget(window);
    *handle = null_of<kWin>();
  }
  return own_comm_free(comm);
}

int Win_get_group(WinSlot* win, GroupSlot** group) {
  const Window* const window = window_of(win);
  return window ? Comm_group(window->comm, group) : int(kErrWin);
}
int Win_set_name(WinSlot* win, const char* name) {
  LowerScope scope;
  Window* const window = window_of(win);
  if (!window) return kErrWin;
  arena_free(window->name);
  window->name = text_copy(name);
  return kSuccess;
}
int Win_get_name(WinSlot* win, char* name, int* length) {
  const Window* const window = window_of(win);
  const char* const text = window ? window->name ? window->name : "" : "MPI_WIN_NULL";
  copy_truncated(name, text, kMaxObjectName - 1);
  *length = int(text_length(name));
  return kSuccess;
}

int Win_set_info(WinSlot* win, InfoSlot* info) {
  Window* const window = window_of(win);
  return window ? hints_take(&window->info, kWindowHints, info) : int(kErrWin);
}
int Win_get_info(WinSlot* win, InfoSlot** info) {
  const Window* const window = window_of(win);
  return window ? hints_give(window->info, kWindowHints, info) : int(kErrWin);
}

int Win_create_keyval(void* copy_fn, void* delete_fn, int* number, void* extra_state) {
  return keyval_new(kWin, copy_fn, delete_fn, number, extra_state);
}
int Win_free_keyval(int* number) { return keyval_free(kWin, number); }
int Win_set_attr(WinSlot* win, int number, void* value) {
  Window* const w = window_of(win);
  return w ? attribute_set(kWin, win, &w->attributes, number, {value, 0}) : int(kErrWin);
}
int Win_delete_attr(WinSlot* win, int number) {
  Window* const w = window_of(win);
  return w ? attribute_remove(kWin, win, &w->attributes, number) : int(kErrWin);
}
int Win_get_attr(WinSlot* win, int number, void* value, int* flag) {
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

int Win_create_errhandler(void* fn, ErrhandlerSlot** errhandler) {
  return errhandler_new(kWin, fn, errhandler);
}
int Win_set_errhandler(WinSlot* win, ErrhandlerSlot* errhandler) {
  Window* const window = window_of(win);
  return window ? set_errhandler(&window->errhandler, errhandler) : int(kErrWin);
}
int Win_get_errhandler(WinSlot* win, ErrhandlerSlot** errhandler) {
  Window* const window = window_of(win);
  return window ? get_errhandler(window->errhandler, kErrorsAreFatal, errhandler) : int(kErrWin);
}
int Win_call_errhandler(WinSlot* win, int errorcode) {
  if (!window_of(win)) return kErrWin;
  (void)raise(win, errorcode, "MPI_Win_call_errhandler");
  return kSuccess;
}

}  // namespace fermata::mpi::core
