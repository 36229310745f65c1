// SPDX-License-Identifier: Apache-2.0
// Parameters of more than one word on their way through a wrapper: arrays, statuses, strings.
//
// Each class borrows what the application passed, gives the core its canonical form by data(), and
// writes the results back in finish(). Where both forms are the same bytes nothing is copied.
// Invariant: finish() touches only what MPI says the call has set. Not checked: what else there is
//            is the program's memory (tests: mpi/ignored_arguments.c).
#pragma once

#include "frontend/common.h"

namespace fermata::front {

// True where an application's handle array already is an array of slots.
template <Kind kind>
inline constexpr bool kSlotHandles = __is_same(App<kind>, SlotOf<kind>*);

template <Kind kind>
class HandlesIn {
 public:
  HandlesIn(const App<kind>* handles, i64 count)
      : scratch_(kSlotHandles<kind> || handles == nullptr ? 0 : count) {
    if constexpr (kSlotHandles<kind>) {
      data_ = handles;
    } else if (handles != nullptr) {
      for (i64 i = 0; i < count; i++) scratch_[i] = handle_in<kind>(handles[i]);
      data_ = scratch_.data();
    }
  }
  SlotOf<kind>* const* data() const { return data_; }

 private:
  Scratch<SlotOf<kind>*, kSlotHandles<kind> ? 1 : 64> scratch_;
  SlotOf<kind>* const* data_ = nullptr;
};

template <Kind kind>
class HandlesOut {
 public:
  HandlesOut(App<kind>* handles, i64 count) : scratch_(count), handles_(handles), count_(count) {
    for (i64 i = 0; i < count; i++) scratch_[i] = nullptr;
  }
  SlotOf<kind>** data() { return scratch_.data(); }
  void finish() {
    for (i64 i = 0; i < count_; i++) {
      if (scratch_[i] != nullptr) handles_[i] = handle_out<kind>(scratch_[i]);
    }
  }

 private:
  Scratch<SlotOf<kind>*> scratch_;
  App<kind>* handles_;
  i64 count_;
};

class StatusOut {
 public:
  explicit StatusOut(AppStatus* status) : status_(status) {}
  CanonStatus* data() { return is_ignored(status_) ? nullptr : &canon_; }
  void finish() {
    if (!is_ignored(status_)) status_out(canon_, status_);
  }

 private:
  CanonStatus canon_ = {};
  AppStatus* status_;
};

FERMATA_CALLBACK mpi::RequestSlot* RequestList::get(i32 i) const {
  return handle_in<mpi::kRequest>(static_cast<App<mpi::kRequest>*>(handles_)[i]);
}
FERMATA_CALLBACK void RequestList::put(i32 i, mpi::RequestSlot* request) const {
  static_cast<App<mpi::kRequest>*>(handles_)[i] = handle_out<mpi::kRequest>(request);
}
FERMATA_CALLBACK StatusList::StatusList(void* statuses)
    : statuses_(is_ignored(static_cast<AppStatus*>(statuses)) ? nullptr : statuses) {}
FERMATA_CALLBACK void StatusList::put(i32 i, const CanonStatus& status, int error) const {
  AppStatus* const app = static_cast<AppStatus*>(statuses_) + i;
  status_out(status, app);
  app->error = error_class_out(error);
}

// A string the lower half may make longer than this ABI's callers have room for.
template <int canonical_bytes, int app_bytes>
class StringOut {
 public:
  explicit StringOut(char* text) : text_(text) { room_[0] = 0; }
  char* data() { return room_; }
  void finish(int* length = nullptr) {
    u64 bytes = strnlen(room_, canonical_bytes - 1);
    if (bytes > app_bytes - 1) bytes = app_bytes - 1;
    memcpy(text_, room_, bytes);
    text_[bytes] = 0;
    if (length) *length = int(bytes);
  }

 private:
  char room_[canonical_bytes + 1];
  char* text_;
};

class NumbersIn {
 public:
  template <class Convert>
  NumbersIn(const int* numbers, i64 count, Convert convert) : scratch_(numbers ? count : 0) {
    for (i64 i = 0; numbers != nullptr && i < count; i++) scratch_[i] = convert(numbers[i]);
  }
  const int* data() { return scratch_.data(); }

 private:
  Scratch<int> scratch_;
};

template <class Convert>
inline void numbers_out(int* numbers, i64 count, Convert convert) {
  for (i64 i = 0; numbers != nullptr && i < count; i++) numbers[i] = convert(numbers[i]);
}

}  // namespace fermata::front
