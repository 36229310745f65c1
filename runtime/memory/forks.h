// SPDX-License-Identifier: Apache-2.0
// What fork(2) keeps from the image writer. A child gets no page that the program advised
// MADV_DONTFORK for, empty ones where it advised MADV_WIPEONFORK, and no lock of mlock(2). So just
// before the writer is forked that advice is lifted and noted, and just after it is given again.
#pragma once

#include "base/result.h"
#include "base/text.h"
#include "memory/maps.h"

namespace fermata::memory {

/// The boundary saw MADV_DONTFORK or MADV_WIPEONFORK, by whichever half, for memory that is saved,
/// or a mapping that a driver may keep from children by itself: from now on lift_fork_advice looks
/// for it.
void note_fork_advice();

/// Preconditions: every upper thread stands still. Costs a look at /proc/self/status unless there
/// is advice to lift or a lock to note. Errors: ENOMEM with `why` when there is too much of either,
/// EPERM when a driver keeps its memory from children.
Status lift_fork_advice(Message& why);
/// In the parent: gives the advice again. The notes stay until the next lift_fork_advice.
void renew_fork_advice();

/// The part of `mapping` from mapping.start on that was under one and the same note, or under none,
/// with the noted attributes added. Never empty.
Mapping first_noted_part(const Mapping& mapping);

}  // namespace fermata::memory
