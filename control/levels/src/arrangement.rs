// SPDX-License-Identifier: Apache-2.0
//! Which hosts form a set, and which are partners, laid over failure groups.
//!
//! A group (a switch, a power supply, a rack) takes all its hosts at once, so a set has at most one
//! of each group where that can be, and partners are of different groups. Partners rotate: each
//! snapshot has the next distance, so two hosts that are lost together are partners in one snapshot
//! and not in the one before it.
//!
//! Invariant: every host is in one set, and each set has more members than parities.
//! Invariant: all levels with parities have the same sets, so each promises what weaker ones do.
//! Source: FFMK (2019), rotating partners; placement over groups is that of `fermata-plan`, which
//! computes with it.

use crate::level::Chain;
use fermata_plan::placement::{hops, over_groups};
use fermata_plan::topology::{Class, Scope, Topology};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Hosts of a set, about.
pub const SET: u32 = 8;

/// Sets and partners of the hosts of a run, which have numbers from 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Arrangement {
    sets: Vec<Vec<u32>>,
    /// Hosts, those of a group beside each other.
    around: Vec<u32>,
    /// Distances to partners in `around`.
    hops: Vec<u32>,
}

/// Why hosts cannot be arranged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArrangementError {
    /// A copy lies on another host.
    #[error("level partner needs 2 hosts, and the job has {0}")]
    NoPartner(u32),
    /// A set has more members than parities.
    #[error("{parities} parities need {} hosts, and the job has {hosts}", parities + 1)]
    TooFew {
        /// Hosts of the job.
        hosts: u32,
        /// The most parities of a level.
        parities: u32,
    },
    /// A grouping does not name a group for each host.
    #[error("a grouping has groups of {groups} hosts, and the job has {hosts}")]
    Groups {
        /// Hosts of the job.
        hosts: u32,
        /// Hosts that have a group.
        groups: usize,
    },
}

impl Arrangement {
    /// For the hosts of a run, with sets of about `set` members. Each grouping has the group of
    /// each host.
    ///
    /// # Errors
    /// There are too few hosts for a level, or groups of others.
    pub fn new(
        hosts: u32,
        groupings: &[Vec<String>],
        chain: &Chain,
        set: u32,
    ) -> Result<Self, ArrangementError> {
        let parities = chain.parities();
        if parities > 0 && hosts <= parities {
            return Err(ArrangementError::TooFew { hosts, parities });
        }
        if chain.levels().contains(&crate::Level::Partner) && hosts < 2 {
            return Err(ArrangementError::NoPartner(hosts));
        }
        let (topology, classes) = topology(hosts, groupings)?;
        let sets =
            if parities == 0 { Vec::new() } else { sets(&topology, &classes, set, parities) };
        let around = by_group(&topology);
        Ok(Self { sets, around, hops: hops(&topology) })
    }

    /// The sets, with their members in ascending order. Empty: no level has parities.
    #[must_use]
    pub fn sets(&self) -> &[Vec<u32>] {
        &self.sets
    }

    /// The partner of each host, who keeps its copy, for the snapshot of that number. Empty: there
    /// is one host.
    #[must_use]
    pub fn partners(&self, turn: u64) -> Vec<u32> {
        let turns = self.hops.len() as u64;
        let Some(at) = turn.checked_rem(turns) else { return Vec::new() };
        let hop = self.hops[usize::try_from(at).unwrap_or(0)] as usize;
        let hosts = self.around.len();
        let mut partners = vec![0; hosts];
        for (at, host) in self.around.iter().enumerate() {
            partners[*host as usize] = self.around[(at + hop) % hosts];
        }
        partners
    }
}

/// Sets with two members of one group: number of the set, and the group.
pub(crate) fn weak_sets(sets: &[Vec<u32>], groupings: &[Vec<String>]) -> Vec<(usize, String)> {
    let mut weak = Vec::new();
    for (number, set) in sets.iter().enumerate() {
        for groups in groupings {
            let mut count: BTreeMap<&String, u32> = BTreeMap::new();
            for group in set.iter().filter_map(|host| groups.get(*host as usize)) {
                *count.entry(group).or_default() += 1;
            }
            let shared = count.into_iter().filter(|(_, members)| *members > 1);
            weak.extend(shared.map(|(group, _)| (number, group.clone())));
        }
    }
    weak
}

fn topology(
    hosts: u32,
    groupings: &[Vec<String>],
) -> Result<(Topology, Vec<Class>), ArrangementError> {
    let mut topology = Topology::new(hosts);
    let mut classes = Vec::new();
    for groups in groupings {
        if groups.len() != hosts as usize {
            return Err(ArrangementError::Groups { hosts, groups: groups.len() });
        }
        let mut numbers: BTreeMap<&String, u32> = BTreeMap::new();
        let of_host = groups.iter().map(|group| {
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            *numbers.entry(group).or_insert(next)
        });
        let grouping = topology.add(of_host.collect());
        // How often groups fail is not known here; any is to be left as soon as any other.
        let scope = Scope::Group(grouping);
        classes.push(Class { name: String::new(), scope, mttf_s: 1.0 });
    }
    Ok((topology, classes))
}

/// Sets of `set` members or fewer, or a little more where there would be one with too few; as many
/// as the largest group has hosts, where that many can be: else no set could do without two of
/// them.
fn sets(topology: &Topology, classes: &[Class], set: u32, parities: u32) -> Vec<Vec<u32>> {
    let hosts = topology.nodes();
    let most = hosts / (parities + 1);
    let largest = (0..topology.groupings()).map(|grouping| topology.largest(grouping));
    let for_groups = largest.filter(|largest| *largest <= most).max().unwrap_or(1);
    let wanted = hosts.div_ceil(set.max(parities + 1)).max(for_groups);
    let count = wanted.min(most).max(1);
    let mut sets: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (host, set) in (0..hosts).zip(over_groups(topology, classes, count)) {
        sets.entry(set).or_default().push(host);
    }
    sets.into_values().collect()
}

/// Hosts sorted by group, the largest groups first.
fn by_group(topology: &Topology) -> Vec<u32> {
    let mut groupings: Vec<usize> = (0..topology.groupings()).collect();
    groupings.sort_by_key(|grouping| Reverse(topology.largest(*grouping)));
    let mut hosts: Vec<u32> = (0..topology.nodes()).collect();
    let groups = |host: u32| -> Vec<u32> {
        groupings.iter().map(|grouping| topology.group_of(*grouping, host)).collect()
    };
    hosts.sort_by_cached_key(|host| (groups(*host), *host));
    hosts
}

#[cfg(test)]
#[path = "arrangement_tests.rs"]
mod tests;
