// SPDX-License-Identifier: Apache-2.0
// What a descriptor can be, and what an image says of each kind beside the fields that all share.
#pragma once

#include "base/types.h"

namespace fermata::files {

enum FileKind : u32 {
  kRegular = 1,    // reopened by path, at its offset
  kDirectory = 2,
  kDevice = 3,     // a device without state: null, zero, full, random, urandom, a terminal
  kStandard = 4,   // what the rank was started with; the new process has its own
  kDuplicate = 5,  // shares the open file description, and with it the offset, of same_as
  kDeleted = 6,    // has no name, or is a memfd; the contents are in the image, its own or, if it
                   // is mapped shared, those of the object of its inode. values: DeletedValue
  kPipe = 7,       // contents in the image. values: capacity
  kSocket = 8,     // one end of a pair, or a socket that was never connected nor bound; contents:
                   // per message its length (u64) and its bytes. values: SocketValue
  kEvent = 9,      // values: count, 1 if EFD_SEMAPHORE
  kTimer = 10,     // values: TimerValue
  kSignal = 11,    // values: mask
  kEpoll = 12,     // members: what it watches
  kInotify = 13,   // members: what it watches
};

enum DeletedValue { kDeletedMode = 0, kDeletedSeals = 1, kDeletedIsObject = 2 };
enum SocketValue { kSocketType = 0, kSocketDomain = 1, kSocketSendBytes = 2, kSocketShut = 3 };
enum TimerValue { kTimerClock = 0, kTimerTicks = 1, kTimerValueNs = 2, kTimerIntervalNs = 3 };

enum MemberKind : u32 {
  kEpollMember = 1,
  kWatch = 2,
  kFlock = 3,
  kPosixLock = 4,
  kDescriptionLock = 5,
};

}  // namespace fermata::files
