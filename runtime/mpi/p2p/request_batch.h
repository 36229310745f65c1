// SPDX-License-Identifier: Apache-2.0
// A part of an array of requests that the lower half is asked for at once. See request_arrays.h.
#pragma once

#include "halves/mpi_calls.gen.h"
#include "mpi/handles/requests.h"
#include "mpi/handles/slots.h"

namespace fermata::mpi {

// Requests of an array that are in progress: where they stand in it, and as the lower half sees
// them. Not initialised: most calls touch a few entries.
class Batch {
 public:
  static constexpr i32 kRoom = 64;

  i32 count() const { return count_; }
  bool is_full() const { return count_ == kRoom; }
  void clear() {
    count_ = 0;
    wants_statuses_ = false;
  }
  void add(i32 i, RequestSlot* slot) {
    // In an error the real handle tells whether a request has finished, but not a persistent one's.
    const Request* const request = request_of(slot);
    const bool wants = request->wants_status || request->kind >= RequestKind::kPersistentSend;
    const RealRequest real = slot->real();
    at_[count_] = i;  // all has been read before anything is written
    reals_[count_++] = real;
    wants_statuses_ |= wants;
  }
  /// Of the k-th: its index in the array, its real handle, what the lower half said of it.
  i32 at(i32 k) const { return at_[k]; }
  const i32* places() const { return at_; }
  RealRequest real(i32 k) const { return reals_[k]; }
  void drop_first() {
    count_--;
    for (i32 k = 0; k < count_; k++) {
      at_[k] = at_[k + 1];
      reals_[k] = reals_[k + 1];
    }
  }
  CanonStatus* status(i32 k) { return statuses() + k; }
  bool wants_statuses() const { return wants_statuses_; }
  RealRequest* reals() { return reals_; }
  CanonStatus* statuses() { return reinterpret_cast<CanonStatus*>(room_); }

 private:
  i32 count_ = 0;
  bool wants_statuses_ = false;
  i32 at_[kRoom];
  RealRequest reals_[kRoom];
  alignas(CanonStatus) u8 room_[sizeof(CanonStatus) * kRoom];
};

}  // namespace fermata::mpi
