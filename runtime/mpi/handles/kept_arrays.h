// SPDX-License-Identifier: Apache-2.0
// Arrays that the lower half reads until a non-blocking or persistent collective has come to its
// end, made of the application's wider ones (narrow.h). They are arena blocks in a chain, which
// begins at Request::kept_until_done with the lowest bit set and ends with what stood there.
#pragma once

#include "mpi/handles/arena.h"

namespace fermata::mpi {

struct KeptArray {
  void* next;  // another one, with the lowest bit set, or what comes behind the arrays
  int values[];
};

inline void* marked(KeptArray* array) { return reinterpret_cast<char*>(array) + 1; }
inline bool is_marked(const void* link) { return reinterpret_cast<u64>(link) & 1; }
inline KeptArray* unmarked(void* link) {
  return reinterpret_cast<KeptArray*>(static_cast<char*>(link) - 1);
}

/// Frees the arrays of a chain. Returns what comes behind them.
inline void* kept_arrays_free(void* link) {
  while (is_marked(link)) {
    KeptArray* const array = unmarked(link);
    link = array->next;
    arena_free(array);
  }
  return link;
}

}  // namespace fermata::mpi
