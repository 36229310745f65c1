// SPDX-License-Identifier: Apache-2.0
//! Where a rank of this host finds the image that it is restored from: brought here from the
//! coordinator, or placed in this host's store before the run began.

use crate::images::{Brought, LocalImages};
use fermata_storage::HostStore;
use fermata_types::Fetched;
use std::io;
use std::path::PathBuf;

/// What a host has for its ranks.
#[derive(Clone)]
pub(crate) struct Found {
    pub(crate) local: Option<LocalImages>,
    pub(crate) store: Option<HostStore>,
}

impl Found {
    /// The answer to a rank that asks. Blocks until the image is here.
    pub(crate) fn fetch(&self, rank: u32) -> Fetched {
        match self.directory_of(rank) {
            Ok(directory) => {
                let directory = directory.to_string_lossy().into_owned();
                Fetched { directory, error: String::new() }
            }
            Err(error) => Fetched { directory: String::new(), error: error.to_string() },
        }
    }

    fn directory_of(&self, rank: u32) -> io::Result<PathBuf> {
        let without = |what| io::Error::other(format!("this daemon was started without {what}"));
        let local = self.local.as_ref().ok_or_else(|| without("a local directory"))?;
        match local.get(rank)? {
            Brought::Here(directory) => Ok(directory),
            Brought::InStore(id) => {
                let store = self.store.as_ref().ok_or_else(|| without("a store"))?;
                store.image_for_restart(id, rank)
            }
        }
    }
}
