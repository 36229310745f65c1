// SPDX-License-Identifier: Apache-2.0
//! What earlier runs of the job have left, on its hosts and in its directory: it goes as it becomes
//! old.
//!
//! Invariant: what may be another job's of the same name stays. Only what the same program with the
//!            same arguments has left is known to be the job's.

use fermata_levels::{Chain, Id, Item, Level};
use fermata_storage::Kept;
use fermata_types::{Manifest, StoreHolds};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Of earlier runs.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    on_hosts: BTreeMap<Id, (Kept, BTreeSet<Level>)>,
    in_directory: Vec<u32>,
}

impl Earlier {
    /// A host has something of this one.
    pub(super) fn holds(&mut self, holds: &StoreHolds) {
        let Ok(kept) = serde_json::from_slice::<Kept>(&holds.record) else { return };
        let (_, levels) =
            self.on_hosts.entry(kept.snapshot.id).or_insert_with(|| (kept, BTreeSet::new()));
        levels.insert(Level::Local);
        let items = holds.items.iter().filter_map(|(kind, number)| Item::read(*kind, *number));
        levels.extend(items.map(Item::level));
    }

    /// The job's directory has these.
    pub(super) fn in_directory(&mut self, epochs: Vec<u32>) {
        self.in_directory = epochs;
    }

    /// What is there before the first snapshot of a run, and is the job's. Of the directory only
    /// where the run has a level there; when those were taken does not matter, but that they are
    /// old.
    pub(super) fn before(
        &self,
        first: Id,
        manifest: &Manifest,
        chain: &Chain,
    ) -> BTreeMap<Id, BTreeSet<Level>> {
        let its_own = command_of(manifest);
        let is_its_own = |kept: &Kept| command_of(&kept.manifest) == its_own;
        let on_hosts = self.on_hosts.iter().filter(|(id, _)| **id < first);
        let on_hosts = on_hosts.filter(|(_, (kept, _))| is_its_own(kept));
        let mut all: BTreeMap<Id, BTreeSet<Level>> =
            on_hosts.map(|(id, (_, levels))| (*id, levels.clone())).collect();
        if chain.levels().contains(&Level::Shared) {
            let old = self.in_directory.iter().filter(|epoch| **epoch < first.epoch);
            let old = old.map(|epoch| Id { taken_ms: 0, epoch: *epoch });
            all.extend(old.map(|id| (id, BTreeSet::from([Level::Shared]))));
        }
        all
    }
}

/// The program, wherever it was called from, and its arguments. A restart calls it by a whole path.
fn command_of(manifest: &Manifest) -> (PathBuf, &[OsString]) {
    match manifest.argv.split_first() {
        None => (PathBuf::from(&manifest.cwd), &[]),
        Some((program, arguments)) => (Path::new(&manifest.cwd).join(program), arguments),
    }
}
