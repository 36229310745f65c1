// SPDX-License-Identifier: Apache-2.0
//! What is known of a snapshot that lies on hosts, and what a host has of it.

use crate::arrangement::{Arrangement, ArrangementError, SET, weak_sets};
use crate::groups::Groups;
use crate::level::{Chain, Level};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Which snapshot. Its number alone does not name it: a run that continues from an older one, since
/// the newer ones were lost, takes others with their numbers, and what was lost may come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Id {
    /// When it was taken, in milliseconds; what is taken later has a greater one.
    pub taken_ms: u64,
    /// Its number.
    pub epoch: u32,
}

/// A host of the run that took a snapshot, and the ranks whose images it wrote.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Home {
    /// Its name.
    pub host: String,
    /// Its ranks, in ascending order.
    pub ranks: Vec<u32>,
}

/// A snapshot: which, the homes of its images, and how they were arranged then. Every host
/// that has something of it knows this.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Snapshot {
    /// Which.
    pub id: Id,
    /// Where its images were written; sets and partners are numbers in this list.
    pub homes: Vec<Home>,
    /// Who shares parities.
    pub sets: Vec<Vec<u32>>,
    /// Who keeps the copy of each home; empty: nobody does.
    pub partners: Vec<u32>,
}

impl Snapshot {
    /// One with these homes, which get sets and partners as the levels of a chain need them.
    ///
    /// # Errors
    /// There are too few hosts for a level.
    pub fn new(
        id: Id,
        homes: Vec<Home>,
        groups: &Groups,
        chain: &Chain,
    ) -> Result<Self, ArrangementError> {
        let hosts: Vec<String> = homes.iter().map(|home| home.host.clone()).collect();
        let count = u32::try_from(hosts.len()).unwrap_or(u32::MAX);
        let arrangement = Arrangement::new(count, &groups.of(&hosts), chain, SET)?;
        let has_partner = chain.levels().contains(&Level::Partner);
        let partners = if has_partner { arrangement.partners(id.epoch.into()) } else { Vec::new() };
        Ok(Self { id, homes, sets: arrangement.sets().to_vec(), partners })
    }

    /// Sets with two hosts of one group, which the loss of that group may break: number of the set,
    /// and the group.
    #[must_use]
    pub fn weak_sets(&self, groups: &Groups) -> Vec<(usize, String)> {
        let hosts: Vec<String> = self.homes.iter().map(|home| home.host.clone()).collect();
        weak_sets(&self.sets, &groups.of(&hosts))
    }

    /// The number of a home.
    #[must_use]
    pub fn home_of(&self, host: &str) -> Option<u32> {
        let at = self.homes.iter().position(|home| home.host == host)?;
        u32::try_from(at).ok()
    }

    /// The set of a home: its number, and its members.
    #[must_use]
    pub fn set_of(&self, home: u32) -> Option<(usize, &[u32])> {
        let mut sets = self.sets.iter().enumerate();
        sets.find(|(_, set)| set.contains(&home)).map(|(number, set)| (number, set.as_slice()))
    }

    /// Whether its numbers are those of its homes, each home is there once, and each in one set or
    /// none: what is read from a disk may be anything.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let homes = self.homes.len();
        let is_home = |number: &u32| (*number as usize) < homes;
        let names: BTreeSet<&str> = self.homes.iter().map(|home| home.host.as_str()).collect();
        let ranks: BTreeSet<u32> =
            self.homes.iter().flat_map(|home| home.ranks.iter().copied()).collect();
        let members: BTreeSet<u32> = self.sets.iter().flatten().copied().collect();
        names.len() == homes
            && ranks.len() == self.homes.iter().map(|home| home.ranks.len()).sum::<usize>()
            && members.len() == self.sets.iter().map(Vec::len).sum::<usize>()
            && members.iter().all(is_home)
            && (self.partners.is_empty() || self.partners.len() == homes)
            && self.partners.iter().all(is_home)
    }
}

/// Something of a snapshot that a host has, whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Item {
    /// The images that it wrote itself.
    Images,
    /// The images of this home.
    Copy(u32),
    /// Its parities, of a set with so many.
    Parities(u32),
}

impl Item {
    /// As messages write it: kind and number.
    #[must_use]
    pub fn written(self) -> (u32, u32) {
        match self {
            Self::Images => (0, 0),
            Self::Copy(home) => (1, home),
            Self::Parities(parities) => (2, parities),
        }
    }

    /// What `written` has written; `None`: there is no such thing.
    #[must_use]
    pub fn read(kind: u64, number: u64) -> Option<Self> {
        let number = u32::try_from(number).ok()?;
        match kind {
            0 => Some(Self::Images),
            1 => Some(Self::Copy(number)),
            2 => Some(Self::Parities(number)),
            _ => None,
        }
    }

    /// The level that it is a part of.
    #[must_use]
    pub fn level(self) -> Level {
        match self {
            Self::Images => Level::Local,
            Self::Copy(_) => Level::Partner,
            Self::Parities(1) => Level::Xor,
            Self::Parities(parities) => Level::Rs(parities),
        }
    }
}

/// An item, and of which snapshot.
pub type Holding = (Id, Item);

/// What living hosts have, by their names.
pub type Holdings = BTreeMap<String, BTreeSet<Holding>>;
