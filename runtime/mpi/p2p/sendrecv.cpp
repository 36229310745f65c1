// SPDX-License-Identifier: Apache-2.0
#include "mpi/p2p/sendrecv.h"

#include "mpi/handles/lower_errors.h"
#include "mpi/handles/requests.h"

namespace fermata::mpi {

void abandon_receive(RequestSlot** receive) {
  Request* const request = request_of(*receive);
  request->wants_status = true;
  if (request->state == RequestState::kActive && request->receive_mode != ReceiveMode::kHeld &&
      lower().Cancel(&(*receive)->real())) {
    request->holder = Holder::kNobody;  // it may never end; if it does, a checkpoint sees to it
    return;
  }
  may_fail(wait_request(receive, nullptr), "the call's error is that of its send");
}

int replace_large(void* buf, int count, DatatypeSlot* datatype, int dest, int sendtag, int source,
                  int recvtag, CommSlot* comm, CanonStatus* status) {
  i64 lower_bound = 0, extent = 0, first = 0, span = 0;
  int error = lower().Type_get_extent(datatype->real(), &lower_bound, &extent);
  if (!error) error = lower().Type_get_true_extent(datatype->real(), &first, &span);
  if (error) return error;
  const i64 others = (count - 1) * extent;
  if (others < 0) first += others;
  span += others < 0 ? -others : others;
  if (span > 2 * i64(datatype->type_size) * count) return kErrNoMem;
  u8* const copy = static_cast<u8*>(application_memory(u64(span)));
  if (!copy) return kErrNoMem;
  __builtin_memcpy(copy, static_cast<u8*>(buf) + first, u64(span));
  error = exchange(copy - first, count, datatype, dest, sendtag, buf, count, datatype, source,
                   recvtag, comm, status);
  arena_free(copy);
  return error;
}

}  // namespace fermata::mpi
