// SPDX-License-Identifier: Apache-2.0
// Communicators of those who are alike: in a number that they give, or in what they run on.
#include "base/hash.h"
#include "base/text.h"
#include "frontend/callbacks.h"
#include "halves/mpi_calls.gen.h"
#include "mpi/comms/comms.h"
#include "mpi/comms/hints.h"
#include "mpi/comms/queries.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/lower_errors.h"
#include "mpi/handles/slots.h"
#include "mpi/objects/infos.h"
#include "sys/sys.h"

namespace fermata::mpi {
namespace {

/// MPICH's type for members that reach the same directory, where all have named it alike
/// (nbhd_common_dirname). Here they have to be on one host as well.
int split_by_directory(CommSlot* comm, int key, InfoSlot* info, CommSlot** newcomm) {
  const InfoPair* const hint = info_get(info, "nbhd_common_dirname");
  const i32 name = hint ? i32(hash_text(kHashStart, hint->value) >> 34) : -1;
  sys::KernelStat directory{};
  const bool reached = hint && sys::stat(hint->value, &directory);
  const u64 identity = hash_word(hash_word(kHashStart, directory.dev), directory.ino);
  return comm_construct(comm, is_inter(comm), newcomm, [&](RealComm* real) {
    const i32 mine[2] = {name, -name};
    i32 largest[2] = {};
    RealComm host{};
    int error = lower().Allreduce(mine, largest, 2, slot_at<kDatatype>(kInt)->real(),
                                  slot_at<kOp>(abi::kMax)->real(), comm->real());
    const bool alike = largest[0] == -largest[1];
    const int color = alike && reached ? int(identity >> 34) : int(kUndefined);
    if (!error)
      error = lower().Comm_split_type(comm->real(), kCommTypeShared, key,
                                      slot_at<kInfo>(kInfoNull)->real(), &host);
    if (!error) error = lower().Comm_split(host, color, key, real);
    if (host) may_leak(lower().Comm_free(&host));
    return error;
  });
}

int split_by_type(CommSlot* comm, int type, int key, CommSlot** newcomm) {
  return comm_construct(comm, is_inter(comm), newcomm, [&](RealComm* real) {
    const RealInfo no_info = slot_at<kInfo>(kInfoNull)->real();
    return lower().Comm_split_type(comm->real(), type, key, no_info, real);
  });
}

}  // namespace
}  // namespace fermata::mpi

namespace fermata::mpi::core {

int Comm_split(CommSlot* comm, int color, int key, CommSlot** newcomm) {
  return comm_construct(comm, is_inter(comm), newcomm, [&](RealComm* real) {
    return lower().Comm_split(comm->real(), color, key, real);
  });
}
/// Of the types that name the hardware, memory that is shared is the one that every MPI knows; what
/// is not known is no type that any member shares with another, and gives MPI_COMM_NULL.
int Comm_split_type(CommSlot* comm, int type, int key, InfoSlot* info, CommSlot** newcomm) {
  if (type >= kCommTypeHwUnguided && type <= kCommTypeResourceGuided) {
    const InfoPair* const hint =
        type == kCommTypeHwGuided ? info_get(info, "mpi_hw_resource_type") : nullptr;
    type = hint && text_equal(hint->value, "mpi_shared_memory") ? kCommTypeShared : kUndefined;
  }
  const int error = type == kCommTypeNeighborhood ? split_by_directory(comm, key, info, newcomm)
                                                  : split_by_type(comm, type, key, newcomm);
  return with_hints(error, *newcomm, info);
}

}  // namespace fermata::mpi::core
