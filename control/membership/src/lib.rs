// SPDX-License-Identifier: Apache-2.0
//! Which nodes of a run are there, and how they fare: membership by gossip, without I/O, clock or
//! randomness of its own.
//!
//! ```text
//!     Datagram, Timer, Frozen, Load, Join -> machine -> Send, Timer, Announced, Up, Suspect, Down
//!
//!     guard     the edge: datagrams are authentic and not replayed, or they are nothing
//!     wire      what is in one: an errand, and entries about nodes
//!     member    what is known of one node, and how news of it are merged
//!     ring      who watches whom
//!     window    which entries a datagram carries
//!     config    times and counts
//!     event     what goes into the machine, and what comes out
//!     machine   step(event, now) -> actions
//! ```
//!
//! The shape is that of SWIM (Das, Gupta and Motivala, "SWIM: Scalable Weakly-consistent
//! Infection-style Process Group Membership Protocol", DSN 2002): members watch each other, a
//! suspicion comes before a verdict and can be refuted, what has changed travels in the datagrams
//! that are sent anyway. What differs, and by how much it is better where datagrams are lost and
//! nodes stand still for seconds, is in decision 0092:
//!
//! - **Evidence has a time.** An entry carries its node's own clock (`beat`) and how long ago that
//!   was (`age`). Whoever hears it knows when the node lived, however many hops it took and however
//!   long the hearer itself has stood still. No clocks are synchronised. (Ages instead of clocks,
//!   and a window of the newest entries in each datagram: Amar, Barak, Drezner and Okun,
//!   "Randomized gossip algorithms for maintaining a distributed bulletin board with guaranteed age
//!   properties", 2009.)
//! - **Watchers are fixed, not drawn.** Each node is watched by its next three on a ring that a
//!   hash makes, so the time to the first suspicion has an upper end. (Several fixed observers per
//!   node: Suresh et al., "Stable and Consistent Membership at Scale with Rapid", USENIX ATC 2018.)
//! - **One decides.** The lowest node that is not suspected pronounces a node down, after it has
//!   asked that node itself; the others believe it. So the chance of a false alarm does not grow
//!   with the number of those who might misjudge.
//!
//! Invariant: a verdict is pronounced only when there is no evidence of life for `down_after`, and
//!            the one who pronounces it has asked `asks_before_down` times in vain.
//! Invariant: a node of which it is known that it said "frozen until t" is neither suspected nor
//!            pronounced down before t.
//! Invariant: no datagram is longer than `DATAGRAM_BYTES`.
#![forbid(unsafe_code)]

mod config;
mod event;
mod guard;
mod machine;
mod member;
mod ring;
mod window;
mod wire;

pub use config::Config;
pub use event::{Action, Event};
pub use guard::{Guard, Refusal};
pub use machine::Machine;
pub use member::{Known, State};
pub use wire::{Entry, Errand, Load, Message, Unreadable};

/// A node of a run: its coordinator is 0, the daemons are numbered by it.
pub type NodeId = u16;

/// There are no nodes from here on.
pub const NODES_MAX: NodeId = 4096;

/// The longest datagram, with all that authenticates it: it fits into an Ethernet frame with room
/// for tunnels, so it is never split (RFC 8085, section 3.2).
pub const DATAGRAM_BYTES: usize = 1400;
