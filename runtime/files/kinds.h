// SPDX-License-Identifier: Apache-2.0
// What a descriptor can be (spec/image.toml), and what an image says of each kind beside the fields
// that all share.
#pragma once

#include "base/types.h"
#include "image/format.gen.h"

namespace fermata::files {

using enum image::FileKind;
using image::MemberKind;
using enum image::MemberKind;

// ImageFile::values by kind. kPipe: [0] capacity; kEvent: [0] count, [1] 1 if EFD_SEMAPHORE;
// kSignal: [0] mask; the others:
/// kRegular, kDirectory: kKept is 1 if a restart makes it again where it is missing, of a regular
/// file with the contents in the extents; 2 if it only makes its directory, since somebody else has
/// the contents. kKeptOwner: user << 32 | group.
enum KeptValue { kKept = 0, kKeptMode = 1, kKeptOwner = 2 };
/// kDeletedDevice: with the inode it tells the object; 0, as older images have it, = any.
enum DeletedValue { kDeletedMode = 0, kDeletedSeals = 1, kDeletedIsObject = 2, kDeletedDevice = 3 };
enum SocketValue { kSocketType = 0, kSocketDomain = 1, kSocketSendBytes = 2, kSocketShut = 3 };
/// In kSocketShut: the program connects it again itself, so it comes back as a fresh one.
inline constexpr u64 kSocketReconnects = 16;
enum TimerValue { kTimerClock = 0, kTimerTicks = 1, kTimerValueNs = 2, kTimerIntervalNs = 3 };
/// In kTimerClock: kTimerValueNs is a time of the day, since 1970, and not what is left.
inline constexpr u64 kAbsoluteTimer = u64(1) << 32;

}  // namespace fermata::files
