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

use crate::words::{Cause, Clock, Directive, GroupId, Need, NeedKind, Position, RankId, Version};

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
    /// `Report::Needs` with what `needs` yields.
    Needs,
    /// `Report::Runs`.
    Runs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Entry {
    group: GroupId,
    seq: u64,
    target: u64,
}

/// The rank's machine, with room for `GROUPS` clocks and `NEEDS` needs of others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RankMachine<const GROUPS: usize, const NEEDS: usize> {
    entries: [Entry; GROUPS],
    used: usize,
    requested: bool,
    version: Version,
    needs: [Option<Need>; NEEDS],
    /// More needs came than there is room for: there is always something to do then.
    crowded: bool,
    /// Digest of the needs last told, 0 for none.
    told: u64,
}

impl<const GROUPS: usize, const NEEDS: usize> Default for RankMachine<GROUPS, NEEDS> {
    fn default() -> Self {
        Self {
            entries: [Entry { group: 0, seq: 0, target: 0 }; GROUPS],
            used: 0,
            requested: false,
            version: Version(0),
            needs: [None; NEEDS],
            crowded: false,
            told: 0,
        }
    }
}

impl<const GROUPS: usize, const NEEDS: usize> RankMachine<GROUPS, NEEDS> {
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
        self.needs = [None; NEEDS];
        self.crowded = directive.needs.len() > NEEDS;
        for (place, need) in self.needs.iter_mut().zip(&directive.needs) {
            *place = Some(*need);
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
        let has_duty = self.has_duty(&[Position::CollectiveEntry], counts);
        let Some(entry) = self.entry(group) else { return CollectiveEntry::Enter };
        if unknown || !has_duty {
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
    pub fn cause(&self, at: &[Position<'_>]) -> Cause {
        if self.owes_collective() || at.iter().any(Position::is_sending) {
            Cause::Own
        } else {
            Cause::Others
        }
    }

    /// True if this rank may not stand still: it owes a collective call, or another rank needs a
    /// step of it that it has not made. `at`: where its threads are.
    #[must_use]
    pub fn has_duty(&self, at: &[Position<'_>], counts: &impl MessageCounts) -> bool {
        if self.owes_collective() {
            return true;
        }
        // Whoever stands before MPI_Finalize meets no need. A receive from any source may name such
        // a rank; another one meets it.
        if at.contains(&Position::Ending) {
            return false;
        }
        self.crowded || self.needs.iter().flatten().any(|need| is_unmet(need, counts))
    }

    /// May this rank stand still here? Without a directive yet: yes, but it is not parked, only
    /// waiting.
    #[must_use]
    pub fn may_park(&self, at: &[Position<'_>], counts: &impl MessageCounts) -> bool {
        self.requested
            && at.iter().all(Position::is_parkable)
            && (self.version == Version(0) || !self.has_duty(at, counts))
    }

    /// True if, standing still, the rank takes in what arrives from this one. Never more than what
    /// is needed, or a synchronous send could end before its receive has begun.
    #[must_use]
    pub fn gives_room(&self, to: RankId, counts: &impl MessageCounts) -> bool {
        self.needs.iter().flatten().any(|need| {
            need.kind == NeedKind::Room
                && need.peer == to
                && counts.arrived(to) < need.count + counts.held(to)
        })
    }

    /// What keeps a rank from continuing, if it has to continue: nothing where it may park, and
    /// nothing in a collective call, whose other members owe it.
    pub fn needs<'a, B: MessageCounts>(
        &self,
        at: &'a [Position<'a>],
        counts: &'a B,
    ) -> impl Iterator<Item = Need> + use<'a, B, GROUPS, NEEDS> {
        let has_duty = self.has_duty(at, counts);
        at.iter().flat_map(move |at| {
            let mut peers: &'a [RankId] = &[];
            let mut single = None;
            match *at {
                Position::Receiving(sources) if has_duty => peers = sources,
                Position::Sending(to) => single = Some((to, NeedKind::Room)),
                Position::Synchronous(to) => single = Some((to, NeedKind::Receipt)),
                _ => {}
            }
            let of_single = single.into_iter().map(|(peer, kind)| Need {
                peer,
                kind,
                count: counts.sent(peer),
            });
            of_single.chain(peers.iter().map(|&peer| Need {
                peer,
                kind: NeedKind::Message,
                count: counts.arrived(peer) + 1,
            }))
        })
    }

    /// Is there something new to say about what this rank needs? It counts as said.
    /// A message that arrives without ending the wait (another tag) changes the count that is
    /// needed, and is told again; so is another cause.
    pub fn tell(&mut self, at: &[Position<'_>], counts: &impl MessageCounts) -> Option<Tell> {
        let wanted = self.wanted(at, counts);
        if wanted == self.told {
            return None;
        }
        self.told = wanted;
        Some(if wanted == 0 { Tell::Runs } else { Tell::Needs })
    }

    /// True if `tell` has something to say.
    #[must_use]
    pub fn has_to_tell(&self, at: &[Position<'_>], counts: &impl MessageCounts) -> bool {
        self.wanted(at, counts) != self.told
    }

    /// True while the coordinator believes that this rank needs something.
    #[must_use]
    pub fn is_needy(&self) -> bool {
        self.told != 0
    }

    /// The rank parks under the directive it has; `Report::Parked` is to be said. It needs nothing
    /// now.
    pub fn park(&mut self) {
        self.told = 0;
    }

    fn wanted(&self, at: &[Position<'_>], counts: &impl MessageCounts) -> u64 {
        if self.version == Version(0) {
            return 0;
        }
        let all = self.needs(at, counts).fold(0, |digest, need| {
            let kind = match need.kind {
                NeedKind::Message => 1,
                NeedKind::Receipt => 2,
                NeedKind::Room => 3,
            };
            mix(mix(mix(digest, kind), u64::from(need.peer)), need.count)
        });
        match self.cause(at) {
            Cause::Own if all != 0 => mix(all, 1),
            _ => all,
        }
    }

    fn entry(&mut self, group: GroupId) -> Option<&mut Entry> {
        self.entries.iter_mut().take(self.used).find(|entry| entry.group == group)
    }
}

fn is_unmet(need: &Need, counts: &impl MessageCounts) -> bool {
    match need.kind {
        NeedKind::Message => counts.sent(need.peer) < need.count,
        NeedKind::Receipt => counts.matched(need.peer) < need.count,
        NeedKind::Room => false,
    }
}

/// FNV-1a over words; never 0, which stands for "nothing".
fn mix(digest: u64, word: u64) -> u64 {
    let mixed = (digest ^ 0xcbf2_9ce4_8422_2325 ^ word).wrapping_mul(0x0000_0100_0000_01b3);
    (mixed ^ (mixed >> 29)).max(1)
}
