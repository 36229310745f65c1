// SPDX-License-Identifier: Apache-2.0
//! What living hosts have, and from it the images of the newest snapshot that they can give.

use super::peers::RemotePeers;
use fermata_levels::{Holdings, Id};
use fermata_storage::{Kept, RestoreError, Restored, Whose, restore_newest};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What was restored, and which hosts could not be asked.
#[derive(Debug)]
pub struct Gathered {
    /// The snapshot.
    pub restored: Restored,
    /// A sentence for each host that has not said what it has.
    pub silent: Vec<String>,
}

/// Asks these hosts, and writes the images of the newest snapshot that they can give into a
/// directory, which exists. `shared`: the directories of snapshots that do not lie on hosts.
///
/// # Errors
/// They can give none, or the directory cannot be written.
pub fn gather(
    hosts: &[String],
    peers: &mut RemotePeers,
    shared: BTreeMap<Id, PathBuf>,
    whose: Whose,
    directory: &Path,
) -> Result<Gathered, RestoreError> {
    let mut known: BTreeMap<Id, Kept> = BTreeMap::new();
    let mut holdings = Holdings::new();
    let mut silent = Vec::new();
    for host in hosts {
        match peers.list(host) {
            Ok(all) => {
                for (kept, items) in all {
                    let id = kept.snapshot.id;
                    let mine = holdings.entry(host.clone()).or_default();
                    mine.extend(items.into_iter().map(|item| (id, item)));
                    known.insert(id, kept);
                }
            }
            Err(why) => silent.push(format!("{host}: {why}")),
        }
    }
    let known: Vec<Kept> = known.into_values().collect();
    let restored = restore_newest(&known, holdings, shared, whose, directory, peers)?;
    Ok(Gathered { restored, silent })
}
