// SPDX-License-Identifier: Apache-2.0
// What limits of memory leave for saving.
#pragma once

#include "base/types.h"

namespace fermata::launch {

enum class Room : u8 {
  kNone,       // the kernel would kill a process of the job
  kForWriter,  // while the job stands still
  kForCopies,  // of all the job's pages
};

/// The least that the control groups of this process leave.
Room room_for_saving();

}  // namespace fermata::launch
