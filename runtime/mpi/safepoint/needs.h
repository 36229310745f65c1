// SPDX-License-Identifier: Apache-2.0
// What a rank that must run on waits for: told to the coordinator, which makes others help it.
//
// Of a receive: its senders run on until one has sent a message more. Of a send: its receiver, if
// it is parked, takes in what it needs room for; or, once this program has used synchronous sends,
// runs on until it has matched the message, because who only takes it in would end those before
// their receive. A send that the lower half itself waits in, the agent tells (agent/sending.cpp).
//
// Told is what a call waits for, and the sends that the program tests again and again, nothing
// else: two ranks that asked for what they do not wait for could keep each other running. When
// the call has ended, the way out of it takes the word back. A wait is told only when nothing has
// come for a moment: a rank that gets on by itself costs no word. What the threads of a rank wait
// for is told together.
//
// Told with it is why the rank runs on at all. Where only others keep it running, its needs count
// as long as theirs do: two ranks whose threads wait for each other would keep each other running
// otherwise (decision 0049).
//
// The receiver counts what it has taken of all that was sent to it, in whatever order; so the need
// of a send names the last message that was sent there, not its own number.
//
// Invariant: a need for a message counts those that have come. So whoever has told one looks at all
//            that comes from there, and holds it (unexpected.h): a message with another tag would
//            stay uncounted, and its sender would believe that it had done its part. Not checked
//            here: the rules are those of control/protocol, which is.
#pragma once

#include "halves/crossing.h"
#include "mpi/gate/hooks.h"
#include "mpi/p2p/awaited_ranks.h"

namespace fermata::mpi {

// What one thread of the application waits for, with a duty of its rank.
struct ThreadWait {
  ThreadWait* next;
  const Gate* of;  // whose; a gate is used again with the memory it is in
  u32 epoch;       // the checkpoint during which it was noted
  Wanted wanted;
  u64 digest;      // 0: for nobody
  u64 since_ns;    // the digest has been the same
};

inline constexpr u64 kBeforeNeedNs = 500'000;

void mark_awaited(const Awaited& awaited, const Wanted& wanted);

/// Fills `needs`, which has room for two of every rank. Returns their number.
u64 list_needs(const Wanted& wanted, Count* needs);

/// Why this rank does not park. Preconditions: it has a known duty, or is held back.
Cause cause_of_running();

/// A rank that only others keep running may be about to be let go: the rank that all of it began
/// with has made its last call together with this one, and needs a moment to say so. Who raises a
/// target at once makes that rank owe the next call, and so on.
bool hesitates(u64 since);

Wanted new_wanted();

/// There are never more entries than threads have been there at one time.
ThreadWait* own_wait();

/// This rank has a duty, and this is what the thread waits for now: if that is news, and not of the
/// last moment, it is told. That it waits for nobody any more is told at once.
void tell_needs(const Awaited& awaited);

/// PARKED takes back what has been told, and who waits begins anew.
void forget_needs();

}  // namespace fermata::mpi
