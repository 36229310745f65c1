// SPDX-License-Identifier: Apache-2.0
#include "mpi/comms/hints.h"

#include "mpi/handles/objects.h"
#include "mpi/handles/table.h"

namespace fermata::mpi {
namespace {

// MPI 4.1, 7.4.4: promises of the application, which no communicator inherits.
constexpr Hint kCommHints[] = {
    {"mpi_assert_no_any_tag", "false"},
    {"mpi_assert_no_any_source", "false"},
    {"mpi_assert_exact_length", "false"},
    {"mpi_assert_allow_overtaking", "false"},
};

int comm_hints_take(CommSlot* comm, InfoSlot* info) {
  return hints_take(&comm_of(comm)->info, kCommHints, info);
}

}  // namespace

int with_hints(int error, CommSlot* made, InfoSlot* info) {
  return error || !live_comm(made) ? error : comm_hints_take(made, info);
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

int Comm_dup_with_info(CommSlot* comm, InfoSlot* info, CommSlot** newcomm) {
  const int error = Comm_dup(comm, newcomm);
  return with_hints(error, *newcomm, info);
}
int Comm_set_info(CommSlot* comm, InfoSlot* info) {
  return live_comm(comm) ? comm_hints_take(comm, info) : int(kErrComm);
}
int Comm_get_info(CommSlot* comm, InfoSlot** info) {
  const Comm* const c = live_comm(comm);
  return c ? hints_give(c->info, kCommHints, info) : int(kErrComm);
}

}  // namespace fermata::mpi::core
