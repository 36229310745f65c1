// SPDX-License-Identifier: Apache-2.0
// The whole ABI-neutral core, for the one translation unit of a front end.
//
//   scopes     the gate between the halves           clock      collective clock and targets
//   arena      memory that survives a restart        unexpected  messages kept while draining
//   table      slots                                 request    completion: Wait, Test and kin
//   p2p, persistent, nonblocking                     what can be in flight
//   datatypes, groups, comms, topology, ops, infos, attributes, errors    what can be alive
//   connections   other processes than the job's own
//   sections, park    the rank's side of a checkpoint       rebuild    after a restart
//   asking, interface  what fermata.h offers
//
// The front end includes this last and puts core::X behind each MPI_X it exports.
#pragma once

#include "mpi/core.gen.h"
#include "mpi/objects/abi_info.h"
#include "mpi/world/connections.h"
#include "mpi/world/init.h"
#include "mpi/user_api/integer_attributes.h"
#include "mpi/user_api/interface.h"
#include "mpi/comms/narrow.h"
#include "mpi/p2p/request_status.h"
#include "mpi/world/sessions.h"
#include "mpi/comms/splits.h"

namespace fermata::mpi::core {

using mpi::park;  // the front end registers it with the launcher, as UpperCalls::park

}  // namespace fermata::mpi::core
