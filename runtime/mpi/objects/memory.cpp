// SPDX-License-Identifier: Apache-2.0
// Memory that MPI hands out. It belongs to the application, so it must be there after a restart:
// it is upper memory, and no real MPI ever hears of it.
#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/table.h"

namespace fermata::mpi::core {

int Alloc_mem(i64 size, InfoSlot*, void* baseptr) {
  if (size < 0) return kErrSize;
  LowerScope scope;
  map_tables();
  void* const memory = application_memory(u64(size));
  if (!memory) return kErrNoMem;
  *static_cast<void**>(baseptr) = memory;
  return kSuccess;
}

int Free_mem(void* base) {
  LowerScope scope;
  arena_free(base);
  return kSuccess;
}

}  // namespace fermata::mpi::core
