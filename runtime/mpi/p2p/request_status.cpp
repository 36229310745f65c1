// SPDX-License-Identifier: Apache-2.0
// MPI_Request_get_status_any and its kin of MPI 4.1, in terms of the older one.
#include "frontend/callbacks.h"
#include "halves/mpi_calls.gen.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/slots.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/unexpected.h"

namespace fermata::mpi::core {

/// The first request that is complete, of those that may be; none may: it is said to be complete.
int Request_get_status_any(int count, RequestSlot* const* requests, int* index, int* flag,
                           CanonStatus* status) {
  bool any = false;
  *index = kUndefined;
  *flag = 0;
  for (int i = 0; i < count; i++) {
    if (is_idle(requests[i])) continue;
    any = true;
    if (const int error = Request_get_status(requests[i], flag, status)) return error;
    if (!*flag) continue;
    *index = i;
    return kSuccess;
  }
  if (any) return kSuccess;
  *flag = 1;
  if (status) *status = empty_status();
  return kSuccess;
}

int Request_get_status_all(int count, RequestSlot* const* requests, int* flag,
                           front::StatusList statuses) {
  *flag = 1;
  for (int i = 0; i < count && *flag; i++) {
    CanonStatus status{};
    if (const int error = Request_get_status(requests[i], flag, &status)) return error;
    if (*flag && statuses.is_wanted()) statuses.put(i, status, kSuccess);
  }
  return kSuccess;
}

int Request_get_status_some(int count, RequestSlot* const* requests, int* found, int* indices,
                            front::StatusList statuses) {
  bool any = false;
  *found = 0;
  for (int i = 0; i < count; i++) {
    if (is_idle(requests[i])) continue;
    any = true;
    int flag = 0;
    CanonStatus status{};
    if (const int error = Request_get_status(requests[i], &flag, &status)) return error;
    if (!flag) continue;
    if (statuses.is_wanted()) statuses.put(*found, status, kSuccess);
    indices[(*found)++] = i;
  }
  if (!any) *found = kUndefined;
  return kSuccess;
}

}  // namespace fermata::mpi::core
