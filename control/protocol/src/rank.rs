// SPDX-License-Identifier: Apache-2.0
//! The rank's half: may this rank stop here, must it run on, and what has to be said?
//!
//! The wrappers ask it only while a checkpoint is pending. It holds the clocks, the newest
//! directive and what it has last said; where the rank is and what it has sent and received is told
//! at each question (`Position`, `MessageCounts`).
//!
//! Invariant: a parked rank leaves the park only because of a new directive. What it has said by
//!            `Report::Parked` is true as long as the coordinator sends nothing.
//! Invariant: `tell` says each thing once: asked again in the same situation it has nothing to say.

use crate::words::{
    Clock, Directive, GroupId, Origin, Position, RankId, Version, WaitEdge, WaitKind,
};

/// The rank's bookmarks. All counts but `held` are since the start of the job. They never fall, but
/// for `arrived` while the program receives a message that was held.
pub trait MessageCounts {
    /// Messages sent to this rank, counted when the send is begun.
    fn sent(&self, to: RankId) -> u64;
    /// Messages of this rank that have arrived: received, taken in early, or held.
    fn arrived(&self, from: RankId) -> u64;
    /// Those of them that a matched probe has taken out of the queue: a synchronous or a large send
    /// does not see that. So arrive the messages of a rank that this one has told that it waits
    /// for.
    fn held(&self, _from: RankId) -> u64 {
        0
    }
    /// Messages of this rank that receives of the program have matched.
    fn matched(&self, from: RankId) -> u64;
}

/// What becomes of a rank at the entry of a collective call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectiveEntry {
    /// The call has been counted and may begin.
    Enter,
    /// The same, beyond the target: say `Report::Raise` first.
    Raise(Clock),
    /// Not now. The rank parks here or, without a directive yet, waits for one.
    Hold,
}

/// What `tell` wants said. The lists are asked for separately, so that nothing is allocated here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tell {
    /// `Report::Waits` with what `edges` yields.
    Waits,
    /// `Report::Runs`.
    Runs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Entry {
    group: GroupId,
    seq: u64,
    target: u64,
}

/// The rank's machine, with room for `GROUPS` clocks and `OBLIGATIONS` to others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RankMachine<const GROUPS: usize, const OBLIGATIONS: usize> {
    entries: [Entry; GROUPS],
    used: usize,
    requested: bool,
    version: Version,
    obligations: [Option<WaitEdge>; OBLIGATIONS],
    /// More came than there is room for: there is always something to do then.
    crowded: bool,
    /// Digest of the edges last told, 0 for none.
    told: u64,
}

impl<const GROUPS: usize, const OBLIGATIONS: usize> Default for RankMachine<GROUPS, OBLIGATIONS> {
    fn default() -> Self {
        Self {
            entries: [Entry { group: 0, seq: 0, target: 0 }; GROUPS],
            used: 0,
            requested: false,
            version: Version(0),
            obligations: [None; OBLIGATIONS],
            crowded: false,
            told: 0,
        }
    }
}

impl<const GROUPS: usize, const OBLIGATIONS: usize> RankMachine<GROUPS, OBLIGATIONS> {
    /// A new clock at 0. False if there is no room for it.
    pub fn join(&mut self, group: GroupId) -> bool {
        let Some(entry) = self.entries.get_mut(self.used) else { return false };
        *entry = Entry { group, seq: 0, target: 0 };
        self.used += 1;
        true
    }

    /// All clocks, for `Report::Clocks` and `Report::Parked`.
    pub fn clocks(&self) -> impl Iterator<Item = Clock> + '_ {
        self.entries.iter().take(self.used).map(|e| Clock { group: e.group, seq: e.seq })
    }

    /// The request has become visible. From here on no collective call begins without `entry`.
    pub fn on_request(&mut self) {
        self.requested = true;
    }

    /// True from the request on.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.requested
    }

    /// The version of the newest directive.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The newest directive replaces all that came before.
    pub fn on_directive(&mut self, directive: &Directive) {
        if directive.version <= self.version {
            return;
        }
        self.version = directive.version;
        for target in &directive.targets {
            if let Some(entry) = self.entry(target.group) {
                entry.target = entry.target.max(target.seq);
            }
        }
        self.obligations = [None; OBLIGATIONS];
        self.crowded = directive.obligations.len() > OBLIGATIONS;
        for (place, edge) in self.obligations.iter_mut().zip(&directive.obligations) {
            *place = Some(*edge);
        }
    }

    /// Counts a call the quick way, as wrappers do all the time, before they look whether a
    /// checkpoint has been requested. The count may be read by others from here on.
    pub fn count(&mut self, group: GroupId) {
        if let Some(entry) = self.entry(group) {
            entry.seq += 1;
        }
    }

    /// Takes back `count`: there is a request, and `entry` is to be asked.
    /// Whoever has read the higher count makes this rank owe the call; it then passes the entry.
    pub fn uncount(&mut self, group: GroupId) {
        if let Some(entry) = self.entry(group) {
            entry.seq = entry.seq.saturating_sub(1);
        }
    }

    /// May this rank begin a collective call of this group? The call is counted if so.
    pub fn enter_collective(
        &mut self,
        group: GroupId,
        counts: &impl MessageCounts,
    ) -> CollectiveEntry {
        let unknown = self.requested && self.version == Version(0);
        let has_obligation = self.has_obligation(&[Position::CollectiveEntry], counts);
        let Some(entry) = self.entry(group) else { return CollectiveEntry::Enter };
        if unknown || !has_obligation {
            return CollectiveEntry::Hold;
        }
        entry.seq += 1;
        if entry.seq <= entry.target {
            return CollectiveEntry::Enter;
        }
        entry.target = entry.seq;
        CollectiveEntry::Raise(Clock { group, seq: entry.seq })
    }

    /// True if some member of a group waits, or may come to wait, for this rank in a collective
    /// call: condition A' of Xu and Cooperman, 4.2.2.
    #[must_use]
    pub fn owes_collective(&self) -> bool {
        self.entries.iter().take(self.used).any(|e| e.seq < e.target)
    }

    /// Why this rank runs on, if it does.
    #[must_use]
    pub fn origin(&self, at: &[Position<'_>]) -> Origin {
        if self.owes_collective() || at.iter().any(Position::is_sending) {
            Origin::Root
        } else {
            Origin::Derived
        }
    }

    /// True if this rank may not stand still: it owes a collective call, or another rank needs a
    /// step of it that it has not made. `at`: where its threads are.
    #[must_use]
    pub fn has_obligation(&self, at: &[Position<'_>], counts: &impl MessageCounts) -> bool {
        if self.owes_collective() {
            return true;
        }
        // Whoever stands before MPI_Finalize has no obligation. A receive from any source may name
        // such a rank; another one meets it.
        if at.contains(&Position::Ending) {
            return false;
        }
        self.crowded || self.obligations.iter().flatten().any(|edge| is_unmet(edge, counts))
    }

    /// May this rank stand still here? Without a directive yet: yes, but it is not parked, only
    /// waiting.
    #[must_use]
    pub fn may_park(&self, at: &[Position<'_>], counts: &impl MessageCounts) -> bool {
        self.requested
            && at.iter().all(Position::is_parkable)
            && (self.version == Version(0) || !self.has_obligation(at, counts))
    }

    /// True if, standing still, the rank takes in what arrives from this one. Never more than what
    /// is waited for, or a synchronous send could end before its receive has begun.
    #[must_use]
    pub fn gives_room(&self, to: RankId, counts: &impl MessageCounts) -> bool {
        self.obligations.iter().flatten().any(|edge| {
            edge.kind == WaitKind::Room
                && edge.peer == to
                && counts.arrived(to) < edge.count + counts.held(to)
        })
    }

    /// What keeps a rank from continuing, if it has to continue: nothing where it may park, and
    /// nothing in a collective call, whose other members owe it.
    pub fn edges<'a, B: MessageCounts>(
        &self,
        at: &'a [Position<'a>],
        counts: &'a B,
    ) -> impl Iterator<Item = WaitEdge> + use<'a, B, GROUPS, OBLIGATIONS> {
        let has_obligation = self.has_obligation(at, counts);
        at.iter().flat_map(move |at| {
            let mut peers: &'a [RankId] = &[];
            let mut single = None;
            match *at {
                Position::Receiving(sources) if has_obligation => peers = sources,
                Position::Sending(to) => single = Some((to, WaitKind::Room)),
                Position::Synchronous(to) => single = Some((to, WaitKind::Receipt)),
                _ => {}
            }
            let of_single = single.into_iter().map(|(peer, kind)| WaitEdge {
                peer,
                kind,
                count: counts.sent(peer),
            });
            of_single.chain(peers.iter().map(|&peer| WaitEdge {
                peer,
                kind: WaitKind::Message,
                count: counts.arrived(peer) + 1,
            }))
        })
    }

    /// Is there something new to say about what this rank waits for? It counts as said.
    /// A message that arrives without ending the wait (another tag) changes the count that is
    /// awaited, and is told again; so is another origin.
    pub fn tell(&mut self, at: &[Position<'_>], counts: &impl MessageCounts) -> Option<Tell> {
        let wanted = self.wanted(at, counts);
        if wanted == self.told {
            return None;
        }
        self.told = wanted;
        Some(if wanted == 0 { Tell::Runs } else { Tell::Waits })
    }

    /// True if `tell` has something to say.
    #[must_use]
    pub fn has_to_tell(&self, at: &[Position<'_>], counts: &impl MessageCounts) -> bool {
        self.wanted(at, counts) != self.told
    }

    /// True while the coordinator believes that this rank waits for others.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.told != 0
    }

    /// The rank parks under the directive it has; `Report::Parked` is to be said. It waits for
    /// nothing now.
    pub fn park(&mut self) {
        self.told = 0;
    }

    fn wanted(&self, at: &[Position<'_>], counts: &impl MessageCounts) -> u64 {
        if self.version == Version(0) {
            return 0;
        }
        let all = self.edges(at, counts).fold(0, |digest, edge| {
            mix(mix(mix(digest, edge.kind as u64), u64::from(edge.peer)), edge.count)
        });
        match self.origin(at) {
            Origin::Root if all != 0 => mix(all, 1),
            _ => all,
        }
    }

    fn entry(&mut self, group: GroupId) -> Option<&mut Entry> {
        self.entries.iter_mut().take(self.used).find(|entry| entry.group == group)
    }
}

fn is_unmet(edge: &WaitEdge, counts: &impl MessageCounts) -> bool {
    match edge.kind {
        WaitKind::Message => counts.sent(edge.peer) < edge.count,
        WaitKind::Receipt => counts.matched(edge.peer) < edge.count,
        WaitKind::Room => false,
    }
}

/// FNV-1a over words; never 0, which stands for "nothing".
fn mix(digest: u64, word: u64) -> u64 {
    let mixed = (digest ^ 0xcbf2_9ce4_8422_2325 ^ word).wrapping_mul(0x0000_0100_0000_01b3);
    (mixed ^ (mixed >> 29)).max(1)
}
