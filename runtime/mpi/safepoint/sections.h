// SPDX-License-Identifier: Apache-2.0
// What the application holds this rank back with: critical sections (fermata_critical_begin) that
// are open, callbacks (callbacks.h) that have not been called for this checkpoint yet, and
// functions of its own that a reduction under way may call. Such a rank does not park, like one
// that owes a collective call.
//
// The main thread parks for the rank, but any thread may open a section, also while the main one
// parks. Each side stores its word and then reads the other's, so one of the two gives way: a
// section that finds the door shut waits outside until the rank runs again.
//
// Invariant: while SafepointState::sections_shut, SafepointState::sections is 0 but for threads
//            about to take it back. Not checked: one that is about to does not tell.
#pragma once

#include "frontend/callbacks.h"
#include "halves/crossing.h"
#include "mpi/comms/persistent_collectives.h"
#include "mpi/handles/callback_list.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/requests.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/table.h"

namespace fermata::mpi {

/// Of the checkpoint that this rank takes part in. Returns 0 if the coordinator has been told.
int report(Report kind, const void* payload, u64 bytes);

u32 pending_epoch();

/// As much of `from` as there is room for, with its end. Does nothing where there is none.
void copy_message(const char* from, char* to, u64 bytes);

CallbackRound& round_of(int where);

/// True if this checkpoint has to wait for callbacks. Wakes the thread that calls them, if need be.
bool awaits_callbacks();

/// Calls visit(slot) for each reduction under way whose operation is the application's: whoever
/// asks the lower half for anything may call that function.
template <typename Visit>
void for_each_own_reduction(Visit visit) {
  bool used = false;
  for (OpSlot* const op : state().objects.thunk_ops) used |= op && op_of(op)->users != 0;
  if (FERMATA_LIKELY(!used)) return;
  for_each_live<kRequest>([&](RequestSlot* slot) {
    const Request* const request = request_of(slot);
    if (request->state == RequestState::kActive && reduces_by_function(request)) visit(slot);
  });
}

bool has_own_reduction();

/// True if such a function would be called where the application does not expect it: a computation
/// that was interrupted may be in the middle of malloc, say, and hold what the function needs.
bool function_is_unexpected();

bool in_section();

/// True if the rank must run on for the application's sake. The main thread tells the coordinator
/// once for each attempt, so that a deadline can name it.
bool held_back();

/// No section begins from now on. False if one is open; then nothing has changed.
bool shut_sections();

void admit_sections();
int critical_begin(const char* name);
int critical_end();

}  // namespace fermata::mpi
