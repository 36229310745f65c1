// SPDX-License-Identifier: Apache-2.0
// The wait-for edges of a rank that must run on: reported to the coordinator, which makes each the
// obligation of the rank that is waited for.
//
// Of a receive: its senders run on until one has sent a message more. Of a send: its receiver, if
// it is parked, takes in what it needs room for; or, once this program has used synchronous sends,
// runs on until it has matched the message, because who only takes it in would end those before
// their receive. A send that the lower half itself waits in, the agent tells (agent/sending.cpp).
//
// Reported is what a call waits for, and the sends that the program tests again and again, nothing
// else: two ranks that asked for what they do not wait for could keep each other running. When
// the call has ended, the way out of it takes the edges back. They are reported only when nothing
// has come for a moment: a rank that gets on by itself costs no message. Those of all threads of a
// rank are reported together.
//
// Reported with them is why the rank runs on at all. Where only others keep it running, its edges
// count as long as theirs do: two ranks whose threads wait for each other would keep each other
// running otherwise (decision 0049).
//
// The receiver counts what it has taken of all that was sent to it, in whatever order; so the edge
// of a send names the last message that was sent there, not its own number.
//
// Invariant: an edge for a message counts those that have come. So who has reported one looks at
//            all that comes from there, and holds it (unexpected.h): a message with another tag
//            would stay uncounted, and its sender would believe that its obligation is met. Not
//            checked here: the rules are those of control/protocol, which is.
#pragma once

#include "halves/crossing.h"
#include "mpi/gate/hooks.h"
#include "mpi/p2p/awaited_ranks.h"

namespace fermata::mpi {

// What one thread of the application waits for while its rank has an obligation.
struct ThreadWait {
  ThreadWait* next;
  const Gate* of;  // whose; a gate is used again with the memory it is in
  u32 epoch;       // the checkpoint during which it was noted
  Wanted wanted;
  u64 digest;      // 0: for nobody
  u64 since_ns;    // the digest has been the same
};

inline constexpr u64 kBeforeReportNs = 500'000;

void mark_awaited(const Awaited& awaited, const Wanted& wanted);

/// Fills `edges`, which has room for two to every rank. Returns their number.
u64 list_edges(const Wanted& wanted, Count* edges);

/// Why this rank does not park. Preconditions: it has a known obligation, or is held back.
Cause cause_of_running();

/// A rank that only others keep running may be about to be let go: the rank that all of it began
/// with has made its last call together with this one, and needs a moment to say so. Who raises a
/// target at once makes that rank owe the next call, and so on.
bool hesitates(u64 since);

Wanted new_wanted();

/// There are never more entries than threads have been there at one time.
ThreadWait* own_wait();

/// This rank has an obligation, and this is what the thread waits for now: if that is news, and not
/// of the last moment, it is reported. That it waits for nobody any more is reported at once.
void report_edges(const Awaited& awaited);

/// PARKED takes back what has been reported, and who waits begins anew.
void forget_edges();

}  // namespace fermata::mpi
