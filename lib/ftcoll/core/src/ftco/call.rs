// SPDX-License-Identifier: Apache-2.0
//! What a process knows during one call: whom it covers, whom it waits for, what it promised.

use super::{Contribution, Operation, Value};
use crate::tree::Tree;
use crate::{Rank, Time};
use std::collections::BTreeSet;

/// A process that is waited for: since when it is silent, and whether it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Watch {
    pub since: Time,
    pub is_asked: bool,
}

impl Watch {
    pub fn from(since: Time) -> Self {
        Self { since, is_asked: false }
    }

    /// When something is to be done about it: to ask at half the limit, to give up at the limit.
    pub fn due(self, limit: Time) -> Time {
        self.since + if self.is_asked { limit } else { limit / 2 }
    }
}

/// What is known of the values of a subtree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Held<V> {
    Waits(Watch),
    Got(Contribution<V>),
}

/// A part of what a process covers: itself, or the subtree under a rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Slot<V> {
    pub rank: Rank,
    pub held: Held<V>,
}

/// One call in progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Call<V> {
    pub operation: Operation,
    /// In the order of the tree. Invariant: no subtree holds another.
    pub cover: Vec<Slot<V>>,
    /// Dead processes of the cover, whose children are in it in their place.
    pub lost: Vec<Rank>,
    pub is_root: bool,
    pub parent: Option<(Rank, Watch)>,
    /// Verdicts of roots below this are not taken.
    pub promised: Rank,
    /// The cover's values, once all are there.
    pub contribution: Option<Contribution<V>>,
    /// Who has been sent it.
    pub sent_to: Vec<Rank>,
    /// Contributions of processes that are not in the cover: of those below a process that is
    /// waited for and may be dead, and of those that expect this one to become the root.
    pub orphans: Vec<(Rank, Contribution<V>)>,
    /// Others that want the verdict from here.
    pub askers: Vec<Rank>,
    /// Given up in this call. They are sent the verdict, should one of them live after all.
    pub suspects: Vec<Rank>,
}

impl<V: Value> Call<V> {
    pub fn new(operation: Operation) -> Self {
        Self {
            operation,
            cover: Vec::new(),
            lost: Vec::new(),
            is_root: false,
            parent: None,
            promised: 0,
            contribution: None,
            sent_to: Vec::new(),
            orphans: Vec::new(),
            askers: Vec::new(),
            suspects: Vec::new(),
        }
    }

    /// Empties it, and keeps its memory: what is left is a new one of the same operation.
    pub fn empty(&mut self) {
        let Self {
            operation: _,
            cover,
            lost,
            is_root,
            parent,
            promised,
            contribution,
            sent_to,
            orphans,
            askers,
            suspects,
        } = self;
        (*is_root, *parent, *promised, *contribution) = (false, None, 0, None);
        cover.clear();
        orphans.clear();
        [lost, sent_to, askers, suspects].into_iter().for_each(Vec::clear);
    }

    /// Whether values are gathered without being asked for.
    pub fn gathers(&self) -> bool {
        self.operation != Operation::Bcast
    }

    /// A slot of the cover for a living process, filled if its contribution came already.
    pub fn slot(&self, rank: Rank, now: Time) -> Slot<V> {
        let came = self.orphans.iter().find(|(origin, _)| *origin == rank);
        let held = came.map_or(Held::Waits(Watch::from(now)), |(_, c)| Held::Got(c.clone()));
        Slot { rank, held }
    }

    /// Hands the living processes at the top of the subtree of `rank` to `living`; the dead above
    /// them go to `lost`.
    pub fn expand(
        tree: &Tree,
        rank: Rank,
        dead: &BTreeSet<Rank>,
        lost: &mut Vec<Rank>,
        living: &mut dyn FnMut(Rank),
    ) {
        if !dead.contains(&rank) {
            living(rank);
            return;
        }
        lost.push(rank);
        for child in tree.children(rank) {
            Self::expand(tree, child, dead, lost, living);
        }
    }

    /// Puts `slots` in the place of the one of `rank`.
    pub fn replace(&mut self, rank: Rank, slots: Vec<Slot<V>>) {
        if let Some(at) = self.cover.iter().position(|slot| slot.rank == rank) {
            self.cover.splice(at..=at, slots);
        }
    }

    /// Whether `rank` is waited for as a part of the cover.
    pub fn waits_for(&self, rank: Rank) -> bool {
        self.cover.iter().any(|s| s.rank == rank && matches!(s.held, Held::Waits(_)))
    }

    /// A sign of life.
    pub fn hear(&mut self, from: Rank, now: Time) {
        for slot in &mut self.cover {
            match &mut slot.held {
                Held::Waits(watch) if slot.rank == from => *watch = Watch::from(now),
                _ => {}
            }
        }
        match &mut self.parent {
            Some((parent, watch)) if *parent == from => *watch = Watch::from(now),
            _ => {}
        }
    }

    /// Notes that a process wants the verdict from here.
    pub fn ask(&mut self, from: Rank) {
        if !self.askers.contains(&from) {
            self.askers.push(from);
        }
    }

    /// Takes a contribution: into the cover if it is waited for, else aside.
    pub fn take(&mut self, from: Rank, contribution: Contribution<V>) {
        if let Some(slot) = self.cover.iter_mut().find(|slot| slot.rank == from) {
            if matches!(slot.held, Held::Waits(_)) {
                slot.held = Held::Got(contribution);
            }
        } else if !self.orphans.iter().any(|(origin, _)| *origin == from) {
            self.orphans.push((from, contribution));
        }
    }

    /// The whole cover's contribution, or nothing if somebody is still waited for. What ends the
    /// call takes the values out of the cover, so that they are merged where they are.
    pub fn gathered(&mut self, ends: bool) -> Option<Contribution<V>> {
        if self.cover.iter().any(|slot| matches!(slot.held, Held::Waits(_))) {
            return None;
        }
        let mut all = Contribution { value: None::<V>, missing: self.lost.clone() };
        for slot in &mut self.cover {
            let Held::Got(part) = &mut slot.held else { continue };
            all.missing.extend_from_slice(&part.missing);
            let behind = if ends { part.value.take() } else { part.value.clone() };
            let Some(behind) = behind else { continue };
            match &mut all.value {
                Some(value) => value.merge(&behind),
                empty => *empty = Some(behind),
            }
        }
        all.missing.sort_unstable();
        all.missing.dedup();
        Some(all)
    }

    /// Appends to `receivers` whom to send the verdict to.
    pub fn receivers(
        &self,
        tree: &Tree,
        me: Rank,
        dead: &BTreeSet<Rank>,
        receivers: &mut Vec<Rank>,
    ) {
        for slot in self.cover.iter().filter(|slot| slot.rank != me) {
            let receive = &mut |rank| receivers.push(rank);
            Self::expand(tree, slot.rank, dead, &mut Vec::new(), receive);
        }
        let orphans = self.orphans.iter().map(|(origin, _)| origin);
        for &rank in orphans.chain(&self.askers).chain(&self.suspects) {
            if !receivers.contains(&rank) {
                receivers.push(rank);
            }
        }
    }
}
