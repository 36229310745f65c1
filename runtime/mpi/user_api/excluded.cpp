// SPDX-License-Identifier: Apache-2.0
#include "mpi/user_api/excluded.h"

#include <pthread.h>

#include "halves/crossing.h"
#include "interface/fermata.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/core_state.h"

namespace fermata::mpi {
namespace {

/// The list is this thread's, and no image is cut, until the end of the scope.
class ExcludedScope {
 public:
  ExcludedScope() { pthread_mutex_lock(&state().user_api.excluded_mutex); }
  ~ExcludedScope() { pthread_mutex_unlock(&state().user_api.excluded_mutex); }
  ExcludedScope(const ExcludedScope&) = delete;
  ExcludedScope& operator=(const ExcludedScope&) = delete;

 private:
  const LowerScope inside_;
};

}  // namespace

int exclude(void* address, size_t bytes) {
  const u64 at = reinterpret_cast<u64>(address);
  if (bytes == 0 || at + bytes < at) return FERMATA_MISUSE;
  const ExcludedScope scope;
  Excluded& list = excluded();
  if (list.count == Excluded::kCapacity) return FERMATA_MISUSE;
  list.regions[list.count++] = {at, bytes};
  return 0;
}

int include(void* address, size_t bytes) {
  const ExcludedScope scope;
  Excluded& list = excluded();
  for (u64 i = list.count; i-- > 0;) {
    ExcludedRegion& region = list.regions[i];
    if (region.address != reinterpret_cast<u64>(address) || region.bytes != bytes) continue;
    region = list.regions[--list.count];
    return 0;
  }
  return FERMATA_MISUSE;
}

}  // namespace fermata::mpi
