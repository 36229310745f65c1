// SPDX-License-Identifier: Apache-2.0
// The ABI-neutral core, for the one translation unit of a front end: each MPI function as core::X.
//
// What is inline in these headers becomes one straight piece of code with the front end's wrapper
// and the crossing to the lower half; all else is compiled once, for every front end (build.sh).
// The front end includes this behind the conversions of its ABI and puts core::X behind each MPI_X
// that it exports.
#pragma once

#include "mpi/comms/nonblocking.gen.h"
#include "mpi/comms/queries.h"
#include "mpi/core.gen.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/references.h"
#include "mpi/narrow.gen.h"
#include "mpi/objects/attributes.h"
#include "mpi/objects/counts.h"
#include "mpi/objects/errors.h"
#include "mpi/p2p/p2p.h"
#include "mpi/p2p/persistent.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/request_arrays.h"
#include "mpi/p2p/sendrecv.h"
#include "mpi/rma/direct.h"
#include "mpi/rma/window_requests.h"
#include "mpi/safepoint/park.h"
#include "mpi/user_api/integer_attributes.h"
#include "mpi/user_api/interface.h"
#include "mpi/world/sessions.h"
#include "mpi/world/wtime.h"
