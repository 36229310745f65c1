// SPDX-License-Identifier: Apache-2.0
//! MPI programs small enough to be looked at from all sides: a list of calls per rank.

use std::fmt;

/// A set of ranks, one bit each; also the id of the group.
pub type Mask = u8;

/// How a send is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// Complete once it is called: small, or buffered.
    Eager,
    /// A standard send that completes when the receiver has taken it: large.
    Rendezvous,
    /// Completes when the receiver has reached the matching receive.
    Synchronous,
}

/// Who waits for whom in a collective call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// All for all.
    Barrier,
    /// All for the root, which does not wait.
    Bcast(u8),
    /// The root for all; nobody else waits.
    Reduce(u8),
    /// Over an inter-communicator: each side for the other. The mask is one side.
    Inter(Mask),
}

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    /// `MPI_Send`, `MPI_Ssend`: receiver, mode, tag.
    Send(u8, Mode, u8),
    /// `MPI_Recv`: source, or any; tag.
    Recv(Option<u8>, u8),
    /// A blocking collective call.
    Coll(Mask, Kind),
    /// `MPI_Ibarrier`.
    Start(Mask),
    /// `MPI_Wait` for the newest `Start` on this group.
    Wait(Mask),
}

/// A second thread of a rank, which waits for a message from this rank that does not come; it is
/// there until the first thread has made all its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Server(pub u8);

/// The calls of each rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Program {
    /// By rank.
    pub ranks: Vec<Vec<Op>>,
    /// By rank; none at all if it is empty.
    pub servers: Vec<Option<Server>>,
}

impl Program {
    /// Without any servers.
    #[must_use]
    pub fn new(ranks: Vec<Vec<Op>>) -> Self {
        Self { ranks, servers: Vec::new() }
    }

    /// The same, the first `count` ranks each with a server that waits for the next rank.
    #[must_use]
    pub fn with_servers(self, count: usize) -> Self {
        let size = self.size();
        let server = |rank| (rank < count).then_some(Server(((rank + 1) % size) as u8));
        Self { servers: (0..size).map(server).collect(), ..self }
    }

    /// Number of ranks.
    #[must_use]
    pub fn size(&self) -> usize {
        self.ranks.len()
    }

    /// Calls of all ranks.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.ranks.iter().map(Vec::len).sum()
    }

    /// The groups whose clocks count, ascending.
    #[must_use]
    pub fn groups(&self) -> Vec<Mask> {
        let mut groups: Vec<Mask> = self.ranks.iter().flatten().filter_map(group_of).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// The same with ranks renumbered: rank r becomes `to[r]`. Without servers.
    #[must_use]
    pub fn renumbered(&self, to: &[u8]) -> Self {
        let mask = |m: Mask| -> Mask {
            (0..8).filter(|r| m & (1 << r) != 0).fold(0, |all, r| all | 1 << to[r])
        };
        let op = |op: &Op| match *op {
            Op::Send(peer, mode, tag) => Op::Send(to[usize::from(peer)], mode, tag),
            Op::Recv(from, tag) => Op::Recv(from.map(|peer| to[usize::from(peer)]), tag),
            Op::Coll(group, Kind::Barrier) => Op::Coll(mask(group), Kind::Barrier),
            Op::Coll(group, Kind::Bcast(root)) => {
                Op::Coll(mask(group), Kind::Bcast(to[usize::from(root)]))
            }
            Op::Coll(group, Kind::Reduce(root)) => {
                Op::Coll(mask(group), Kind::Reduce(to[usize::from(root)]))
            }
            Op::Coll(group, Kind::Inter(side)) => Op::Coll(mask(group), Kind::Inter(mask(side))),
            Op::Start(group) => Op::Start(mask(group)),
            Op::Wait(group) => Op::Wait(mask(group)),
        };
        let mut ranks = vec![Vec::new(); self.size()];
        for (rank, ops) in self.ranks.iter().enumerate() {
            ranks[usize::from(to[rank])] = ops.iter().map(op).collect();
        }
        Self::new(ranks)
    }
}

fn group_of(op: &Op) -> Option<Mask> {
    match *op {
        Op::Coll(group, _) | Op::Start(group) => Some(group),
        _ => None,
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = |mask: Mask| {
            let list: Vec<String> =
                (0..8).filter(|r| mask & (1 << r) != 0).map(|r| r.to_string()).collect();
            format!("{{{}}}", list.join(","))
        };
        let tagged = |tag: u8| if tag == 0 { String::new() } else { format!(" tag {tag}") };
        match *self {
            Self::Send(to, Mode::Eager, tag) => write!(f, "Send to {to}{}", tagged(tag)),
            Self::Send(to, Mode::Rendezvous, tag) => write!(f, "large Send to {to}{}", tagged(tag)),
            Self::Send(to, Mode::Synchronous, tag) => write!(f, "Ssend to {to}{}", tagged(tag)),
            Self::Recv(Some(from), tag) => write!(f, "Recv from {from}{}", tagged(tag)),
            Self::Recv(None, tag) => write!(f, "Recv from any{}", tagged(tag)),
            Self::Coll(group, Kind::Barrier) => write!(f, "Barrier{}", members(group)),
            Self::Coll(group, Kind::Bcast(root)) => {
                write!(f, "Bcast{} root {root}", members(group))
            }
            Self::Coll(group, Kind::Reduce(root)) => {
                write!(f, "Reduce{} root {root}", members(group))
            }
            Self::Coll(group, Kind::Inter(side)) => {
                write!(f, "Barrier{}|{}", members(side), members(group & !side))
            }
            Self::Start(group) => write!(f, "Ibarrier{}", members(group)),
            Self::Wait(group) => write!(f, "Wait{}", members(group)),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (rank, ops) in self.ranks.iter().enumerate() {
            let list: Vec<String> = ops.iter().map(Op::to_string).collect();
            let end = if rank + 1 < self.size() { ". " } else { "" };
            let server = match self.servers.get(rank) {
                Some(Some(Server(from))) => format!(" (meanwhile {})", Op::Recv(Some(*from), 0)),
                _ => String::new(),
            };
            write!(f, "P{rank}: {}{server}{end}", list.join("; "))?;
        }
        Ok(())
    }
}
