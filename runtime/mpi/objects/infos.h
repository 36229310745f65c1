// SPDX-License-Identifier: Apache-2.0
// Info objects: lists of pairs, in the upper half alone. Where the lower half wants one it gets
// MPI_INFO_NULL: the real handle of every info object is that of the null one.
//
// Invariant: pairs keep the order in which their keys were first set. Not checked: nothing else
//            knows it.
#pragma once

#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/lower_errors.h"
#include "mpi/handles/slots.h"

namespace fermata::mpi {

struct InfoPair {
  InfoPair* next;
  char* key;
  char* value;
};
struct Info {
  InfoPair* first;
};

inline Info* info_of(InfoSlot* slot) { return static_cast<Info*>(slot->object); }

bool is_info(const InfoSlot* slot);

inline RealInfo no_info() { return slot_at<kInfo>(kInfoNull)->real(); }

/// A real info object with the application's pairs, for the length of one call.
class LowerInfo {
 public:
  explicit LowerInfo(InfoSlot* info) {
    if (!is_info(info) || !info_of(info) || lower().Info_create(&made_)) return;
    real_ = made_;
    for (const InfoPair* pair = info_of(info)->first; pair; pair = pair->next)
      may_fail(lower().Info_set(made_, pair->key, pair->value), "an MPI may leave out any hint");
  }
  ~LowerInfo() {
    if (made_) may_leak(lower().Info_free(&made_));
  }
  LowerInfo(const LowerInfo&) = delete;
  LowerInfo& operator=(const LowerInfo&) = delete;
  RealInfo real() const { return real_; }

 private:
  RealInfo made_{};
  RealInfo real_ = no_info();
};

InfoPair* info_get(InfoSlot* info, const char* key);
void copy_truncated(char* to, const char* from, i32 room);

}  // namespace fermata::mpi
