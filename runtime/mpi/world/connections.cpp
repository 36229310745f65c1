// SPDX-License-Identifier: Apache-2.0
// Processes outside the job: spawned ones, and those that connect through a port.
//
// A communicator with such members (Comm::outside) works like any other, through the real MPI, but
// they are in no snapshot. So a checkpoint is refused by name while one is alive or a port is open
// (Crossing::connections), and possible again after MPI_Comm_disconnect. Nothing of it needs a
// recipe, an id or a clock. What connects ranks of the job among themselves is an ordinary
// intercommunicator and is saved as such.
//
// A spawned program may have been built for another MPI than the one below. So it is started as
// `fermata exec --spawned`, over the same back end as the rank that spawned it, and is a rank of a
// world of its own that no coordinator knows.
#include "base/text.h"
#include "frontend/callbacks.h"
#include "halves/crossing.h"
#include "mpi/comms/comms.h"
#include "mpi/comms/queries.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/lower_errors.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/table.h"
#include "mpi/objects/infos.h"

namespace fermata::mpi {
namespace {

/// The part of a path behind its last slash.
const char* last_part(const char* path) {
  const char* name = path;
  for (const char* at = path; *at; at++)
    if (*at == '/') name = at + 1;
  return name;
}

// `fermata exec --spawned --mpi NAME -- COMMAND ARGUMENTS`; lives until the lower call is over.
class SpawnLine {
 public:
  SpawnLine(const char* command, char* const* arguments) {
    u64 given = 0;
    while (arguments && arguments[given]) given++;
    const char* const words[] = {"exec", "--spawned", "--mpi",
                                 last_part(launcher().config("lower")), "--", command};
    words_ = arena_array<const char*>(sizeof words / sizeof words[0] + given + 1);
    u64 n = 0;
    for (const char* word : words) words_[n++] = word;
    for (u64 i = 0; i < given; i++) words_[n++] = arguments[i];
    words_[n] = nullptr;
  }
  ~SpawnLine() { arena_free(words_); }
  SpawnLine(const SpawnLine&) = delete;
  SpawnLine& operator=(const SpawnLine&) = delete;

  static char* program() { return const_cast<char*>(launcher().config("fermata")); }
  char** arguments() { return const_cast<char**>(words_); }

 private:
  const char** words_;
};

/// The lower half's error codes mean nothing to the application but "this one has not started".
void classify_spawn_errors(i64 processes, int* codes) {
  for (i64 i = 0; codes && i < processes; i++)
    if (codes[i]) codes[i] = front::app_error_code(kErrSpawn);
}

i64 sum_of(const int* numbers, int count) {
  i64 sum = 0;
  for (int i = 0; i < count; i++) sum += numbers[i];
  return sum;
}

// One call of MPI_Comm_spawn_multiple at its root. The lower half's arguments are filled level by
// level, so that everything they point at lives until the call at the innermost one is over.
struct SpawnMany {
  int count;
  char** commands;
  char*** arguments;
  const int* processes;
  InfoSlot* const* infos;
  int root;
  char** lower_commands;
  char*** lower_arguments;
  RealInfo* lower_infos;
};
int spawn_from(const SpawnMany& many, int i, RealComm comm, RealComm* real, int* errors) {
  if (i == many.count) {
    const BlockingCall open;
    return lower().Comm_spawn_multiple(many.count, many.lower_commands, many.lower_arguments,
                                       many.processes, many.lower_infos, many.root, comm, real,
                                       errors);
  }
  SpawnLine line(many.commands[i], many.arguments ? many.arguments[i] : nullptr);
  const LowerInfo hints(many.infos[i]);
  many.lower_commands[i] = SpawnLine::program();
  many.lower_arguments[i] = line.arguments();
  many.lower_infos[i] = hints.real();
  return spawn_from(many, i + 1, comm, real, errors);
}

}  // namespace
}  // namespace fermata::mpi

namespace fermata::mpi::core {
namespace {

/// MPICH 5 makes names of 429 bytes on a machine with four network interfaces, and the buffers of
/// programs built for MPICH have 256. Cut short they would lead UCX beyond their end; MPICH 5
/// itself answers MPI_ERR_OTHER, "no space for port_name".
bool has_room_for_port(const char* name) { return text_length(name) < front::port_room(); }

}  // namespace

int Comm_spawn(const char* command, char** argv, int maxprocs, InfoSlot* info, int root,
               CommSlot* comm, CommSlot** intercomm, int* errors) {
  const bool begins = at_root(comm, root);
  const int error = comm_construct_prepared(comm, true, intercomm, [&](RealComm* real) {
    const auto spawn = [&](const char* program, char** arguments, RealInfo hints) {
      const BlockingCall open;
      return lower().Comm_spawn(program, arguments, maxprocs, hints, root, comm->real(), real,
                                errors);
    };
    if (!begins) return spawn("", nullptr, slot_at<kInfo>(kInfoNull)->real());
    SpawnLine line(command, argv);
    const LowerInfo hints(info);
    return spawn(line.program(), line.arguments(), hints.real());
  });
  int processes = begins ? maxprocs : 0;  // elsewhere it says nothing
  if (!begins && !error && live_comm(*intercomm)) processes = comm_of(*intercomm)->remote_size;
  classify_spawn_errors(processes, errors);
  return error;
}

int Comm_spawn_multiple(int count, char** commands, char*** argv, const int* maxprocs,
                        InfoSlot* const* infos, int root, CommSlot* comm, CommSlot** intercomm,
                        int* errors) {
  const bool begins = at_root(comm, root);
  const u64 programs = begins ? u64(count) : 0;
  const int error = comm_construct_prepared(comm, true, intercomm, [&](RealComm* real) {
    const SpawnMany many{.count = int(programs),
                         .commands = commands,
                         .arguments = argv,
                         .processes = maxprocs,
                         .infos = infos,
                         .root = root,
                         .lower_commands = arena_array<char*>(programs),
                         .lower_arguments = arena_array<char**>(programs),
                         .lower_infos = arena_array<RealInfo>(programs)};
    const int result = spawn_from(many, 0, comm->real(), real, errors);
    arena_free(many.lower_infos);
    arena_free(many.lower_arguments);
    arena_free(many.lower_commands);
    return result;
  });
  if (begins) classify_spawn_errors(sum_of(maxprocs, count), errors);
  return error;
}

/// Asked once: the answer is a communicator like any other from then on, and null after its end.
int Comm_get_parent(CommSlot** parent) {
  LowerScope scope;
  Core& core = state();
  if (!core.comms.parent_known) {
    RealComm real{};
    if (const int error = lower().Comm_get_parent(&real)) return error;
    if (real && real != core.lower.comm_null) {
      const RealErrhandler returns = slot_at<kErrhandler>(kErrorsReturn)->real();
      int error = lower().Comm_set_errhandler(real, returns);
      if (!error) error = comm_adopt(real, true, nullptr, &core.comms.parent);
      if (error) return error;
    }
    core.comms.parent_known = true;
  }
  *parent = core.comms.parent ? core.comms.parent : null_of<kComm>();
  return kSuccess;
}

int Comm_accept(const char* port, InfoSlot* info, int root, CommSlot* comm, CommSlot** newcomm) {
  return comm_construct_prepared(comm, true, newcomm, [&](RealComm* real) {
    const LowerInfo hints(info);
    const BlockingCall open;
    return lower().Comm_accept(port, hints.real(), root, comm->real(), real);
  });
}
int Comm_connect(const char* port, InfoSlot* info, int root, CommSlot* comm, CommSlot** newcomm) {
  return comm_construct_prepared(comm, true, newcomm, [&](RealComm* real) {
    const LowerInfo hints(info);
    const BlockingCall open;
    return lower().Comm_connect(port, hints.real(), root, comm->real(), real);
  });
}
int Comm_join(int fd, CommSlot** intercomm) {
  return comm_construct(front::predefined<kComm>(kCommSelf), true, intercomm,
                        [&](RealComm* real) { return lower().Comm_join(fd, real); });
}

int Open_port(InfoSlot* info, char* port) {
  LowerScope scope;
  const LowerInfo hints(info);
  if (const int error = lower().Open_port(hints.real(), port)) return error;
  if (!has_room_for_port(port)) {
    may_leak(lower().Close_port(port));
    return kErrOther;
  }
  crossing().connections++;
  return kSuccess;
}
int Close_port(const char* port) {
  LowerScope scope;
  const int error = lower().Close_port(port);
  if (!error) connection_end();
  return error;
}
int Publish_name(const char* service, InfoSlot* info, const char* port) {
  LowerScope scope;
  const LowerInfo hints(info);
  return lower().Publish_name(service, hints.real(), port);
}
int Unpublish_name(const char* service, InfoSlot* info, const char* port) {
  LowerScope scope;
  const LowerInfo hints(info);
  return lower().Unpublish_name(service, hints.real(), port);
}
int Lookup_name(const char* service, InfoSlot* info, char* port) {
  LowerScope scope;
  const LowerInfo hints(info);
  const int error = lower().Lookup_name(service, hints.real(), port);
  return error || has_room_for_port(port) ? error : kErrOther;
}

}  // namespace fermata::mpi::core
