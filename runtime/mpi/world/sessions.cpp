// SPDX-License-Identifier: Apache-2.0
#include "mpi/world/sessions.h"

#include <pthread.h>

#include "base/text.h"
#include "frontend/callbacks.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/lower_errors.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/references.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/table.h"
#include "mpi/objects/attributes.h"
#include "mpi/objects/errors.h"
#include "mpi/objects/groups.h"
#include "mpi/objects/infos.h"
#include "mpi/p2p/buffers.h"
#include "mpi/world/init.h"
#include "sys/sys.h"

namespace fermata::mpi {
namespace {

/// A thread that is beginning or ending MPI keeps the others from it.
class BeginningAndEnd {
 public:
  BeginningAndEnd() { (void)pthread_mutex_lock(&state().world.begin_mutex); }
  ~BeginningAndEnd() { (void)pthread_mutex_unlock(&state().world.begin_mutex); }
  BeginningAndEnd(const BeginningAndEnd&) = delete;
  BeginningAndEnd& operator=(const BeginningAndEnd&) = delete;
};

Session* session_of(SessionSlot* slot) {
  return is_null(slot, kSessionNull) ? nullptr : static_cast<Session*>(slot->object);
}

struct ThreadLevel {
  const char* name;
  i32 level;
};
constexpr ThreadLevel kThreadLevels[] = {
    {"MPI_THREAD_SINGLE", kThreadSingle},
    {"MPI_THREAD_FUNNELED", kThreadFunneled},
    {"MPI_THREAD_SERIALIZED", kThreadSerialized},
    {"MPI_THREAD_MULTIPLE", kThreadMultiple},
};

/// The level that an info object asks for.
i32 wanted_level(InfoSlot* info) {
  const InfoPair* const pair = info_get(info, "thread_level");
  for (const ThreadLevel& known : kThreadLevels)
    if (pair && text_equal(pair->value, known.name)) return known.level;
  return kThreadMultiple;
}

int begin_world(int* argc, char*** argv, int required, int* provided) {
  const BeginningAndEnd only;
  Core& core = state();
  if (core.world.begun) return kErrOther;
  if (!core.world.initialized) {
    if (const int error = start_mpi(argc, argv, required)) return error;
  }
  core.world.begun = true;
  const i32 granted = core.world.granted_level;
  core.world.thread_level = granted < required ? granted : required;
  core.world.init_thread = &front::tls_gate;
  if (provided) *provided = core.world.thread_level;
  return kSuccess;
}

// A process set has a name and the ranks that are in it.
constexpr const char* kProcessSets[] = {"mpi://WORLD", "mpi://SELF"};

/// The index of a process set, by its name in capitals or small letters; negative: there is none.
int process_set(const char* name) {
  const auto small = [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; };
  for (int set = 0; set < 2; set++) {
    const char* known = kProcessSets[set];
    const char* at = name;
    while (*known && small(*known) == small(*at)) known++, at++;
    if (*known == *at) return set;
  }
  return -1;
}

int info_of_one(const char* key, const char* value, InfoSlot** info) {
  const int error = core::Info_create(info);
  return error ? error : core::Info_set(*info, key, value);
}

}  // namespace

void end_with_process() {
  const WorldState& world = state().world;
  if (world.session_process != sys::getpid() || world.open_sessions || world.finalized) return;
  if (world.begun && !world.ended) return;
  may_fail(end_mpi(), "the process ends, and nobody is left to be told");
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

int Init(int* argc, char*** argv) {
  return begin_world(argc, argv, kThreadSingle, nullptr);
}
int Init_thread(int* argc, char*** argv, int required, int* provided) {
  return begin_world(argc, argv, required, provided);
}

int Finalize() {
  const BeginningAndEnd only;
  Core& core = state();
  if (!core.world.begun || core.world.ended) return kErrOther;
  Comm* const self = comm_of(slot_at<kComm>(kCommSelf));
  (void)attributes_drop(kComm, self->slot, &self->attributes, false);
  own_buffer_end(&core.p2p.own_buffer);
  own_buffer_end(&self->buffer);
  own_buffer_end(&comm_of(slot_at<kComm>(kCommWorld))->buffer);
  const int error = core.world.session_process ? int(kSuccess) : end_mpi();
  core.world.ended = true;
  return error;
}

int Initialized(int* flag) {
  *flag = state().world.begun;
  return kSuccess;
}
int Finalized(int* flag) {
  *flag = state().world.ended;
  return kSuccess;
}

int Session_init(InfoSlot* info, ErrhandlerSlot* errhandler, SessionSlot** session) {
  const BeginningAndEnd only;
  Core& core = state();
  if (core.world.finalized) return kErrOther;
  if (!core.world.initialized) {
    if (const int error = start_mpi(nullptr, nullptr, kThreadMultiple)) return error;
  }
  const i32 wanted = wanted_level(info);
  const LowerScope scope;
  Session* const made = arena_new<Session>();
  made->thread_level = wanted < core.world.granted_level ? wanted : core.world.granted_level;
  if (const int error = set_errhandler(&made->errhandler, errhandler)) {
    arena_free(made);
    return error;
  }
  core.world.session_process = sys::getpid();
  core.world.open_sessions++;
  *session = slot_new<kSession>(made);
  return kSuccess;
}

/// Waits for nobody: what the lower half has is still there for the next one.
int Session_finalize(SessionSlot** session) {
  const BeginningAndEnd only;
  Session* const s = session_of(*session);
  if (!s) return kErrSession;
  own_buffer_end(&s->buffer);
  const LowerScope scope;
  errhandler_unref(s->errhandler);
  arena_free(s);
  slot_free(*session);
  state().world.open_sessions--;
  *session = null_of<kSession>();
  return kSuccess;
}

int Session_get_info(SessionSlot* session, InfoSlot** info) {
  const Session* const s = session_of(session);
  if (!s) return kErrSession;
  const char* name = "";
  for (const ThreadLevel& known : kThreadLevels)
    if (known.level == s->thread_level) name = known.name;
  return info_of_one("thread_level", name, info);
}

int Session_get_num_psets(SessionSlot* session, InfoSlot*, int* count) {
  if (!session_of(session)) return kErrSession;
  *count = 2;
  return kSuccess;
}
int Session_get_nth_pset(SessionSlot* session, InfoSlot*, int n, int* length, char* name) {
  if (!session_of(session)) return kErrSession;
  if (n < 0 || n >= 2) return kErrArg;
  if (*length > 0) copy_truncated(name, kProcessSets[n], *length - 1);
  *length = int(text_length(kProcessSets[n])) + 1;
  return kSuccess;
}
int Session_get_pset_info(SessionSlot* session, const char* name, InfoSlot** info) {
  if (!session_of(session)) return kErrSession;
  const int set = process_set(name);
  if (set < 0) return kErrArg;
  Message size;
  size << (set == 0 ? state().world.size : 1);
  return info_of_one("mpi_size", size.data, info);
}
int Group_from_session_pset(SessionSlot* session, const char* name, GroupSlot** group) {
  if (!session_of(session)) return kErrSession;
  const int set = process_set(name);
  if (set < 0) return kErrArg;
  const Core& core = state();
  const LowerScope scope;
  *group = set == 0 ? group_new(comm_of(slot_at<kComm>(kCommWorld))->members, core.world.size)
                    : group_new(&core.world.rank, 1);
  return kSuccess;
}

int Session_attach_buffer(SessionSlot* session, void* buffer, int size) {
  Session* const s = session_of(session);
  return s ? own_buffer_attach(&s->buffer, buffer, size) : int(kErrSession);
}
int Session_detach_buffer(SessionSlot* session, void* buffer_address, int* size) {
  Session* const s = session_of(session);
  return s ? own_buffer_detach(&s->buffer, buffer_address, size) : int(kErrSession);
}
int Session_flush_buffer(SessionSlot* session) {
  return session_of(session) ? int(kSuccess) : int(kErrSession);  // nothing goes through one
}
int Session_iflush_buffer(SessionSlot* session, RequestSlot** request) {
  Session* const s = session_of(session);
  return s ? own_buffer_flush_at_once(s->buffer, request) : int(kErrSession);
}

int Session_create_errhandler(void* fn, ErrhandlerSlot** errhandler) {
  return errhandler_new(kSession, fn, errhandler);
}
int Session_set_errhandler(SessionSlot* session, ErrhandlerSlot* errhandler) {
  Session* const s = session_of(session);
  return s ? set_errhandler(&s->errhandler, errhandler) : int(kErrSession);
}
int Session_get_errhandler(SessionSlot* session, ErrhandlerSlot** errhandler) {
  Session* const s = session_of(session);
  return s ? get_errhandler(s->errhandler, kErrorsAreFatal, errhandler) : int(kErrSession);
}
int Session_call_errhandler(SessionSlot* session, int errorcode) {
  if (!session_of(session)) return kErrSession;
  (void)raise(session, errorcode, "MPI_Session_call_errhandler");
  return kSuccess;
}

}  // namespace fermata::mpi::core
