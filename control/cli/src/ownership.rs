// SPDX-License-Identifier: Apache-2.0
//! Whose a snapshot is.

use crate::exit::refused;
use crate::hints::quoted_path;
use anyhow::Result;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// An image is a program that will run as us: it must be our own. This look is for the message;
/// whoever opens a file of the snapshot asks again (`Whose::Own`), the launcher too.
pub fn check_owner(snapshot: &Path) -> Result<()> {
    let ours = fermata_sysio::effective_uid();
    let entries = fs::read_dir(snapshot)
        .map_err(|e| refused(format!("cannot read the snapshot {}: {e}", snapshot.display())))?;
    for path in [snapshot.to_owned()].into_iter().chain(entries.flatten().map(|e| e.path())) {
        let owner = fs::symlink_metadata(&path).map_or(ours, |meta| meta.uid());
        if owner != ours {
            return Err(refused(format!(
                "{} belongs to user {owner}, not to you (user {ours})\n  \
                 hint: what is restored runs as whoever restores it; as its owner: \
                 sudo -u '#{owner}' fermata restart {}",
                path.display(),
                quoted_path(snapshot)
            )));
        }
    }
    Ok(())
}
