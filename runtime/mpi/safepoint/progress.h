// SPDX-License-Identifier: Apache-2.0
// What moves while a rank stands still, or waits in a call: requests end, messages are taken in.
//
// Until every rank has said how many messages it has sent, and so has announced its synchronous
// ones (receipts.h), a parked rank takes in no more than others have asked room for: who takes in
// everything would end synchronous sends.
#pragma once

#include "base/types.h"

namespace fermata::mpi {

// Which messages a rank looks at that its program has not asked for. It receives those that others
// have asked room for; it holds (unexpected.h) those of whom it has told that it waits for, or all
// that it knows to have been sent.
enum class TakeIn : u8 { kAsked, kAwaited, kAll };

/// Whether this rank takes in a message of `rank` now.
bool takes_from(i32 rank, TakeIn which);

/// Moves everything that may move: finishes requests, takes in what arrives. True if anything did.
/// A synchronous send to anybody is left alone: until it has been announced, the program alone sees
/// its end.
bool make_progress(TakeIn which);

}  // namespace fermata::mpi
