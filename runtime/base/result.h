// SPDX-License-Identifier: Apache-2.0
// A value or the errno that stood in its way. No heap, no exceptions.
#pragma once

#include "base/types.h"

namespace fermata {

template <typename T>
struct [[nodiscard]] Result {
  T value{};
  i32 error = 0;  // 0, or an errno > 0

  static Result ok(T value) { return {value, 0}; }
  static Result fail(i32 error) { return {T{}, error}; }
  explicit operator bool() const { return error == 0; }
};

struct Unit {};
using Status = Result<Unit>;
inline Status success() { return {}; }
inline Status failure(i32 error) { return {Unit{}, error}; }

}  // namespace fermata
