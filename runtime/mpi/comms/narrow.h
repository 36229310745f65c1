// SPDX-License-Identifier: Apache-2.0
// The large-count forms (MPI_Gatherv_c) with arrays of counts and displacements: those that fit an
// int become arrays of int, and the call takes its plain form.
//
// Invariant: an array is read only where the standard lets this member's be anything else.
//            Not checked: what else there is is the program's memory.
#pragma once

#include "mpi/comms/nonblocking.h"
#include "mpi/comms/persistent_collectives.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/kept_arrays.h"
#include "mpi/handles/requests.h"
#include "mpi/handles/scratch.h"
#include "mpi/handles/slots.h"

namespace fermata::mpi {

struct ArrayLengths {
  ArrayLengths(CommSlot* comm, Lengths lengths) { lengths(comm, &sends, &receives); }
  int sends = 0, receives = 0;
};

/// Copies `count` values. False if one does not fit.
bool narrow_into(int* to, const i64* from, i64 count);

/// An array for the length of one call; null stays null, and where nothing is read nothing is.
class Narrow {
 public:
  Narrow(const i64* wide, i64 count, bool is_read = true)
      : given_(wide && is_read && core::fits_int(count) && count >= 0),
        values_(given_ ? count : 0),
        fits_(core::fits_int(count) && (!given_ || narrow_into(values_.data(), wide, count))) {}
  const int* data() { return given_ ? values_.data() : nullptr; }
  bool fits() const { return fits_; }

 private:
  const bool given_;
  Scratch<int> values_;
  const bool fits_;
};

/// Arrays that last as long as a request.
class KeptNarrow {
 public:
  KeptNarrow() = default;
  ~KeptNarrow() {
    if (!first_) return;
    const LowerScope scope;
    (void)kept_arrays_free(first_);
  }
  KeptNarrow(const KeptNarrow&) = delete;
  KeptNarrow& operator=(const KeptNarrow&) = delete;

  int* add(const i64* wide, i64 count, bool is_read = true) {
    if (!wide || !is_read) return nullptr;
    const LowerScope scope;
    KeptArray* const array =
        static_cast<KeptArray*>(arena_alloc(sizeof(KeptArray) + u64(count) * sizeof(int)));
    array->next = first_;
    first_ = marked(array);
    fits_ = fits_ && narrow_into(array->values, wide, count);
    return array->values;
  }
  bool fits() const { return fits_; }

  /// Gives the arrays to the request that a call has just made at `handle`, unless it failed.
  int last_as_long_as(RequestSlot** handle, int error) {
    if (error || !first_) return error;
    const LowerScope scope;
    Request* const request = request_of(*handle);
    void** link = &request->kept_until_done;
    if (request->kind == RequestKind::kPersistentCollective) {
      KeptCollective* const kept = request->kept_collective;
      link = &kept->arrays;
    }
    KeptArray* last = unmarked(first_);
    while (last->next) last = unmarked(last->next);
    last->next = *link;
    *link = first_;
    request->owns = true;
    first_ = nullptr;
    return kSuccess;
  }

 private:
  void* first_ = nullptr;
  bool fits_ = true;
};

}  // namespace fermata::mpi
