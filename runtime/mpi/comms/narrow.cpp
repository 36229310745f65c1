// SPDX-License-Identifier: Apache-2.0
#include "mpi/comms/narrow.h"

namespace fermata::mpi {

bool narrow_into(int* to, const i64* from, i64 count) {
  bool fit = true;
  for (i64 i = 0; i < count; i++) {
    to[i] = int(from[i]);
    fit = fit && core::fits_int(from[i]);
  }
  return fit;
}

}  // namespace fermata::mpi
