// SPDX-License-Identifier: Apache-2.0
//! What earlier runs of the job have left, on its hosts and in its directory: it goes as it becomes
//! old. The store of a host is of this job alone, whatever others are called.

use fermata_levels::{Chain, Id, Item, Level};
use fermata_storage::Kept;
use fermata_types::StoreHolds;
use std::collections::{BTreeMap, BTreeSet};

/// Of earlier runs.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    on_hosts: BTreeMap<Id, BTreeSet<Level>>,
    in_directory: Vec<u32>,
}

impl Earlier {
    /// A host has something of this one.
    pub(super) fn holds(&mut self, holds: &StoreHolds) {
        let Ok(kept) = serde_json::from_slice::<Kept>(&holds.record) else { return };
        let levels = self.on_hosts.entry(kept.snapshot.id).or_default();
        levels.insert(Level::Local);
        let items = holds.items.iter().filter_map(|(kind, number)| Item::read(*kind, *number));
        levels.extend(items.map(Item::level));
    }

    /// The job's directory has these.
    pub(super) fn in_directory(&mut self, epochs: Vec<u32>) {
        self.in_directory = epochs;
    }

    /// What is there before the first snapshot of a run. Of the directory only where the run has a
    /// level there; when those were taken does not matter, but that they are old.
    pub(super) fn before(&self, first: Id, chain: &Chain) -> BTreeMap<Id, BTreeSet<Level>> {
        let on_hosts = self.on_hosts.range(..first);
        let mut all: BTreeMap<Id, BTreeSet<Level>> =
            on_hosts.map(|(id, levels)| (*id, levels.clone())).collect();
        if chain.levels().contains(&Level::Shared) {
            let old = self.in_directory.iter().filter(|epoch| **epoch < first.epoch);
            let old = old.map(|epoch| Id { taken_ms: 0, epoch: *epoch });
            all.extend(old.map(|id| (id, BTreeSet::from([Level::Shared]))));
        }
        all
    }
}
