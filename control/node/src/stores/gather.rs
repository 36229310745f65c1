// SPDX-License-Identifier: Apache-2.0
//! What living hosts have, and from it the images of the newest snapshot that they can give.

use super::peers::RemotePeers;
use fermata_levels::{Holdings, Id};
use fermata_storage::{HostStore, Kept, RestoreError, Restored, Wanted, Whose, restore_newest};
use std::collections::BTreeMap;
use std::path::Path;

/// What hosts say that they have.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Each snapshot of which one has something, once.
    pub known: BTreeMap<Id, Kept>,
    /// What they have of it.
    pub holdings: Holdings,
    /// A sentence for each host that has not said what it has.
    pub silent: Vec<String>,
}

/// Asks these hosts.
pub fn survey(hosts: &[String], peers: &mut RemotePeers) -> Survey {
    let mut survey = Survey::default();
    for host in hosts {
        match peers.list(host) {
            Ok(all) => {
                for (kept, items) in all {
                    let id = kept.snapshot.id;
                    let mine = survey.holdings.entry(host.clone()).or_default();
                    mine.extend(items.into_iter().map(|item| (id, item)));
                    survey.known.insert(id, kept);
                }
            }
            Err(why) => survey.silent.push(format!("{host}: {why}")),
        }
    }
    survey
}

impl Survey {
    /// Writes the images of the newest snapshot that they can give into a directory, which exists.
    ///
    /// # Errors
    /// They can give none, or the directory cannot be written.
    pub fn gather(
        &self,
        peers: &mut RemotePeers,
        whose: Whose,
        directory: &Path,
    ) -> Result<Restored, RestoreError> {
        let known: Vec<Kept> = self.known.values().cloned().collect();
        let wanted = Wanted { ranks: None, directory, own: None, whose };
        restore_newest(&known, self.holdings.clone(), BTreeMap::new(), wanted, peers)
    }

    /// Makes the snapshot `old` anew as `new`, as far as this host is a home of that. Returns what
    /// there is to say, as `HostStore::place`.
    ///
    /// # Errors
    /// The hosts cannot give what it needs, or it cannot be written here; a sentence or several.
    pub fn place(
        &self,
        store: &HostStore,
        old: Id,
        new: &Kept,
        peers: &mut RemotePeers,
    ) -> Result<Vec<String>, String> {
        let unknown = || format!("no host has anything of checkpoint {}", old.epoch);
        let kept = self.known.get(&old).ok_or_else(unknown)?;
        let placed = store.place(kept, self.holdings.clone(), new, peers);
        placed.map_err(|why| why.to_string())
    }
}
