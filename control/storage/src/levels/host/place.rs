// SPDX-License-Identifier: Apache-2.0
//! A snapshot that is restarted on hosts: it is made anew there, each of them getting the images of
//! the ranks that it will run. It is a snapshot of its own from then on, at level `local`, which
//! the run takes from level to level as one that it has taken itself.

use super::make::Peers;
use super::record::Kept;
use super::restore::{RestoreError, Wanted, restore_newest};
use super::store::HostStore;
use crate::error::{Cause, Operation, StorageError};
use fermata_levels::{Holdings, Id};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

impl HostStore {
    /// Keeps this host's images of `new`, whose manifest is that of `old`: its own are given
    /// another name, and those of other hosts brought here, from what they have by `holdings`.
    /// Every byte is checked. Returns what turned out not to be usable, and what was done instead,
    /// a sentence each. Blocks for as long as disks and lines take.
    ///
    /// # Errors
    /// An image cannot be had, or not be written.
    pub fn place(
        &self,
        old: &Kept,
        holdings: Holdings,
        new: &Kept,
        peers: &mut impl Peers,
    ) -> Result<Vec<String>, RestoreError> {
        let id = new.snapshot.id;
        self.prepare(id)?;
        let partial = self.image_path(id, 0);
        let partial = partial.parent().unwrap_or(&partial);
        if new.manifest != old.manifest {
            let why = Cause::RecordStrange("it has other images");
            return Err(StorageError::at(Operation::Use, partial, why).into());
        }
        let home = new.snapshot.home_of(self.host());
        let ranks: BTreeSet<u32> = home.map_or_else(BTreeSet::new, |home| {
            new.images_of(home).iter().map(|(rank, _)| *rank).collect()
        });
        let wanted = Wanted {
            ranks: Some(&ranks),
            directory: partial,
            own: Some(self),
            whose: self.whose(),
        };
        let old = std::slice::from_ref(old);
        let restored = restore_newest(old, holdings, BTreeMap::new(), wanted, peers)?;
        self.keep(new)?;
        let done = restored.restart.sentences_of(|rank| ranks.contains(&rank));
        Ok([restored.notes, done].concat())
    }

    /// The directory that has a rank's image, for its restart.
    ///
    /// # Errors
    /// It is not here.
    pub fn image_for_restart(&self, id: Id, rank: u32) -> io::Result<PathBuf> {
        let image = self.kept_image(id, rank);
        match image.parent().filter(|_| image.is_file()) {
            Some(directory) => Ok(directory.to_owned()),
            None => Err(io::Error::other(format!(
                "checkpoint {}: the image of rank {rank} does not lie on {}",
                id.epoch,
                self.host()
            ))),
        }
    }
}
