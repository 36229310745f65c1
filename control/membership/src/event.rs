// SPDX-License-Identifier: Apache-2.0
//! What happens to a node's machine, and what it does.

use crate::NodeId;
use crate::wire::Load;

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A datagram's content has come. All that have come are given before a `Timer`.
    Datagram {
        /// Whose it is, as the guard has found.
        from: NodeId,
        /// What the guard has opened.
        bytes: Vec<u8>,
    },
    /// The time has come that a `Timer` action named last.
    Timer,
    /// This node will stand still, and is to be missed only after `until`; a time in the past: it
    /// no longer does. Before `Announced` it should not begin to, at least not for long.
    Frozen {
        /// A time here.
        until: u64,
    },
    /// How this node fares now.
    Load {
        /// That.
        entry: Load,
    },
    /// There is such a node, says somebody else than gossip: it is told that this one is there.
    Join {
        /// Its number.
        node: NodeId,
    },
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this, through the guard.
    Send {
        /// To whom.
        to: NodeId,
        /// The content.
        bytes: Vec<u8>,
    },
    /// Give a `Timer` at this time, instead of any named before.
    Timer {
        /// A time here.
        at: u64,
    },
    /// Where it matters it is known that this node will stand still.
    Announced,
    /// A node is there, or is there again, or is no longer suspected.
    Up {
        /// Which.
        node: NodeId,
    },
    /// Nothing is heard of a node; it may yet be.
    Suspect {
        /// Which.
        node: NodeId,
    },
    /// A node is taken for dead.
    Down {
        /// Which.
        node: NodeId,
    },
}
