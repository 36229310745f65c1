// SPDX-License-Identifier: Apache-2.0
// What the core asks of the front end it is compiled into.
//
// The core knows canonical values and slots; only the front end knows how the application spells
// them. Each front end is one translation unit, which defines what is declared here for its ABI
// (FERMATA_CALLBACK): inline for itself, and for the core's objects that it is linked with.
//
// Two Slot* may name the same predefined object: slot_at(kind, number) and the object the front end
// hands to the application (Open MPI's exported symbols; MPICH's own number range, which lies at
// index 0..4 and 0x400..0x5ff of a kind's array). Every one of them carries the canonical number in
// Slot::index and kSlotPredefined in Slot::flags.
// Invariant: the core compares predefined objects by Slot::index, and writes `real` and `object` of
//            a predefined object through for_each_predefined, never to one of its slots alone.
//            Not checked: a rule for whoever writes code.
#pragma once

#include "halves/crossing.h"
#include "halves/mpi_calls.gen.h"
#include "mpi/handles/slots.h"

namespace fermata::mpi {

// An attribute's value as the application set it: C sets pointers, Fortran integers, and each may
// read what the other has set (MPI-5.0, 19.3.7).
struct AttributeValue {
  void* word;   // the pointer, or the integer itself
  i32 integer;  // 0: a pointer; else a kind of integer, of which the front end alone knows more

  void* seen_by_c() { return integer ? &word : word; }
};

}  // namespace fermata::mpi

// Of a definition of what is declared here.
#define FERMATA_CALLBACK [[gnu::used]] inline

namespace fermata::front {

using mpi::Kind;
using mpi::Slot;
using mpi::SlotOf;

// The application's array of requests, which is read and written in place, one at a time.
class RequestList {
 public:
  explicit RequestList(void* handles) : handles_(handles) {}
  mpi::RequestSlot* get(i32 i) const;
  void put(i32 i, mpi::RequestSlot* request) const;

 private:
  void* handles_;
};
// And its array of statuses, or MPI_STATUSES_IGNORE.
class StatusList {
 public:
  explicit StatusList(void* statuses);
  bool is_wanted() const { return statuses_ != nullptr; }
  // Preconditions: is_wanted(). `error`: the request's class.
  void put(i32 i, const CanonStatus& status, int error) const;

 private:
  void* statuses_;
};

// The gate of this thread, see crossing.h.
extern __thread Gate tls_gate __attribute__((tls_model("initial-exec"), visibility("hidden")));
// Whose request or message has just failed in this thread; see note_culprit().
extern __thread mpi::Slot* tls_culprit
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

// "Open MPI" or "MPICH": whose ABI this front end speaks.
const char* name();

// The bytes that programs have for the name of a port, with the 0 at its end.
u64 port_room();

// Whether errors of communicators and windows without an error handler of their own are
// MPI_COMM_WORLD's.
bool objects_follow_world();

// Whether epochs of any kind of window that are within each other are refused
// (mpi/rma/epoch_order.h).
bool refuses_nested_epochs();

// Visits every slot of every predefined object, aliases included. The slots themselves are mapped
// and carry index, kind and flags from the front end's constructor on; `real` is 0 before MPI_Init.
using PredefinedVisitor = void (*)(Slot* slot, Kind kind, u32 canonical, void* context);
void for_each_predefined(PredefinedVisitor visit, void* context);

// The Slot* of a predefined object as the application must see it. The core returns predefined
// objects to the application through this (slot_at() is also understood, at a small cost).
Slot* predefined(Kind kind, u32 canonical);
template <Kind kind>
SlotOf<kind>* predefined(u32 canonical) {
  return mpi::slot_as<kind>(predefined(kind, canonical));
}

// Applications' callbacks. `fn` is what the application passed to the constructor; `object` is
// turned into the application's handle. Return values of copy and delete callbacks are the
// application's own codes: 0 is success, anything else goes back through the failing call.
void call_user_op(void* fn, void* in, void* inout, int* len, mpi::DatatypeSlot* datatype);
int call_copy_attr(Kind kind, void* fn, Slot* object, int keyval, void* extra,
                          mpi::AttributeValue& in, mpi::AttributeValue* out, int* flag);
int call_delete_attr(Kind kind, void* fn, Slot* object, int keyval,
                            mpi::AttributeValue& value, void* extra);
// `code` points at the application's error code (see app_error_code).
void call_errhandler(Kind kind, void* fn, Slot* object, int* code);

// The application's value of a canonical error class; dynamic codes (> kErrLastcode) are unchanged.
i32 app_error_code(int canonical_class);
// Canonical keyval -> the application's number (predefined ones differ).
int app_keyval(int canonical);

// The values of two window attributes: canonical MPI_WIN_FLAVOR_*, MPI_WIN_UNIFIED and its like.
int app_win_flavor(int canonical);
int app_win_model(int canonical);
// That of MPI_ANY_SOURCE or MPI_PROC_NULL.
int app_rank(int canonical);

// Callbacks of generalized requests. They return canonical error classes.
int call_grequest_query(void* fn, void* extra, CanonStatus* status);
int call_grequest_free(void* fn, void* extra);
int call_grequest_cancel(void* fn, void* extra, int complete);

// Lengths of the type arrays of Alltoallw (peers) and of its neighbourhood form (degrees).
void peer_counts(mpi::CommSlot* comm, int* sends, int* receives);
void degree_counts(mpi::CommSlot* comm, int* sends, int* receives);

}  // namespace fermata::front
