// SPDX-License-Identifier: Apache-2.0
#include "mpi/objects/errors.h"

#include "base/text.h"
#include "frontend/callbacks.h"
#include "halves/crossing.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/lower_errors.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/references.h"
#include "mpi/handles/table.h"
#include "sys/sys.h"

namespace fermata::mpi {
namespace {

/// Writes a message about an error nobody handles and ends the job.
[[noreturn]] void abort_on_error(const Comm* comm, int error_class, const char* function) {
  char text[kMaxErrorString + 1];
  int length = 0;
  text[0] = 0;
  if (crossing().lower && state().world.initialized)
    if (lower().Error_string(error_class, text, &length)) text[0] = 0;
  Message message;
  message << "fermata: fatal error in " << function << ": "
          << (text[0] ? text : "MPI error class ");
  if (!text[0]) message << i32(error_class);
  if (error_class == kErrUnsupportedOperation)
    message << " (" << function << " is not supported here)";
  if (comm) {
    message << " on communicator ";
    if (comm->name) message << comm->name;
    else if (comm->id == kWorldId) message << "MPI_COMM_WORLD";
    else message << Hex{comm->id};
  }
  message << ", rank " << state().world.rank << "; the error handler is MPI_ERRORS_ARE_FATAL\n";
  (void)sys::write(2, message.data, message.size);
  // MPICH's launcher forgets what it has not forwarded yet when a rank aborts.
  sys::sleep_ns(50'000'000);
  if (crossing().lower && state().world.initialized && !state().world.finalized) {
    LowerScope scope;
    may_fail(lower().Abort(slot_at<kComm>(kCommWorld)->real(), error_class),
             "the process ends by itself below");
  }
  sys::exit_group(error_class ? error_class : 1);
}

// Where an error of an object goes: its handler, and the handle that is called with it.
struct ErrorTarget {
  ErrhandlerSlot* handler;  // null: MPI_ERRORS_ARE_FATAL
  Slot* object;
  const Comm* comm;  // for the message; null if it is no communicator's
};

/// A null file has a handler, too.
ErrorTarget target_of_file(Slot* object) {
  const File* const file = file_of(slot_as<kFile>(object));
  ErrhandlerSlot* const own = file ? file->errhandler : state().io.null_errhandler;
  return ErrorTarget{own ? own : front::predefined<kErrhandler>(kErrorsReturn), object, nullptr};
}

ErrorTarget target_of_comm(Slot* object) {
  const Comm* comm = state().world.initialized ? comm_of(slot_as<kComm>(object)) : nullptr;
  if (comm && !comm->errhandler && front::objects_follow_world()) {
    const Comm* const world = comm_of(slot_at<kComm>(kCommWorld));
    if (world->errhandler) comm = world;  // else the message is about the one that it is
  }
  return ErrorTarget{comm ? comm->errhandler : nullptr, comm ? comm->slot : object, comm};
}

/// Errors of nothing in particular, and of null handles, are MPI_COMM_WORLD's.
ErrorTarget error_target(Slot* object) {
  if (object && object->kind == kFile) return target_of_file(object);
  if (!object || !object->object) return target_of_comm(slot_at<kComm>(kCommWorld));
  if (object->kind == kComm) return target_of_comm(object);
  if (object->kind == kSession)
    return ErrorTarget{static_cast<const Session*>(object->object)->errhandler, object, nullptr};
  if (object->kind == kWin) {
    ErrhandlerSlot* const own = window_of(slot_as<kWin>(object))->errhandler;
    if (own || !front::objects_follow_world()) return ErrorTarget{own, object, nullptr};
  }
  return target_of_comm(slot_at<kComm>(kCommWorld));
}

}  // namespace

int errhandler_new(Kind kind, void* fn, ErrhandlerSlot** handle) {
  LowerScope scope;
  map_tables();
  Errhandler* const handler = arena_new<Errhandler>();
  *handler = Errhandler{1, kind, fn};
  *handle = slot_new<kErrhandler>(handler);
  return kSuccess;
}

int set_errhandler(ErrhandlerSlot** place, ErrhandlerSlot* errhandler) {
  LowerScope scope;
  if (is_null(errhandler, kErrhandlerNull)) return kErrArg;
  errhandler_ref(errhandler);
  errhandler_unref(*place);
  *place = errhandler;
  return kSuccess;
}
int get_errhandler(ErrhandlerSlot* current, u32 by_default, ErrhandlerSlot** errhandler) {
  LowerScope scope;
  *errhandler = current ? current : front::predefined<kErrhandler>(by_default);
  errhandler_ref(*errhandler);
  return kSuccess;
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

int raise(Slot* object, int error_class, const char* function) {
  if (error_class == kSuccess) return kSuccess;
  const bool is_gone = object && error_class == kErrComm && is_freed(object);
  const ErrorTarget target =
      error_target(is_gone ? nullptr : object ? object : front::tls_culprit);
  front::tls_culprit = nullptr;
  const ErrhandlerSlot* const handler = target.handler;
  int code = front::app_error_code(error_class);
  if (!handler || handler->index == kErrorsAreFatal || handler->index == kErrorsAbort)
    abort_on_error(target.comm, error_class, function);
  // MPICH's C++ bindings throw what the C function has returned.
  if (handler->index == kErrorsReturn || handler->index == kErrorsThrowExceptions) return code;
  const Errhandler* const user = static_cast<const Errhandler*>(handler->object);
  front::call_errhandler(user->kind, user->fn, target.object, &code);
  return code;
}

int Comm_create_errhandler(void* fn, ErrhandlerSlot** errhandler) {
  return errhandler_new(kComm, fn, errhandler);
}
int Errhandler_free(ErrhandlerSlot** handle) {
  LowerScope scope;
  if (is_null(*handle, kErrhandlerNull)) return kErrArg;
  errhandler_unref(*handle);
  *handle = null_of<kErrhandler>();
  return kSuccess;
}
int Comm_set_errhandler(CommSlot* comm, ErrhandlerSlot* errhandler) {
  Comm* const c = live_comm(comm);
  return c ? set_errhandler(&c->errhandler, errhandler) : int(kErrComm);
}
int Comm_get_errhandler(CommSlot* comm, ErrhandlerSlot** errhandler) {
  Comm* const c = live_comm(comm);
  return c ? get_errhandler(c->errhandler, kErrorsAreFatal, errhandler) : int(kErrComm);
}
int Comm_call_errhandler(CommSlot* comm, int errorcode) {
  Comm* const c = live_comm(comm);
  if (!c) return kErrComm;
  (void)raise(comm, errorcode, "MPI_Comm_call_errhandler");
  return kSuccess;
}

int Abort(CommSlot* comm, int errorcode) {
  LowerScope scope;
  const RealComm real =
      is_null(comm, kCommNull) ? slot_at<kComm>(kCommWorld)->real() : comm->real();
  return lower().Abort(real, errorcode);
}

}  // namespace fermata::mpi::core
