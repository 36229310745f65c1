// SPDX-License-Identifier: Apache-2.0
//! The files that the ranks' programs consist of. An image refers to them by build-id, so they must
//! be the same files still; that is looked at before any rank runs.

use crate::moved::Images;
use crate::parts::FRONTS;
use crate::problem::refused;
use anyhow::Result;
use fermata_storage::build_id;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

/// Compares the files of all these images with those of this host.
///
/// # Errors
/// The restart is refused: some are missing or have changed.
pub fn check(images: &Images) -> Result<()> {
    let mut wanted = BTreeSet::new();
    for (_, image) in images.open() {
        for region in &image.regions {
            let id = image.string(region.build_id_string);
            if !id.is_empty() {
                wanted.insert((images.path(&image, region.path_string), id));
            }
        }
    }
    let problems: Vec<String> =
        wanted.iter().filter_map(|(path, id)| difference(path, id)).collect();
    if problems.is_empty() {
        return Ok(());
    }
    let hint = if problems.iter().all(|problem| problem.contains(FRONTS)) {
        "these are parts of Fermata: install the version it was saved with; a copy of them was \
         kept with the job, in its directory parts"
    } else {
        "install the versions it was saved with; a changed program is started anew"
    };
    Err(refused(format!(
        "the program's files are not those of the checkpoint:\n  {}\n  hint: {hint}",
        problems.join("\n  ")
    )))
}

/// One line about a file that is not what it was.
fn difference(path: &str, saved: &str) -> Option<String> {
    match build_id(Path::new(path)) {
        Ok(now) if now == saved => None,
        Ok(now) if now.is_empty() => Some(format!("{path}: has no build-id, it was {saved}")),
        Ok(now) => Some(format!("{path}: has the build-id {now}, it was {saved}")),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Some(format!("{path}: is missing, its build-id was {saved}"))
        }
        Err(error) => Some(format!("{path}: cannot be read: {error}")),
    }
}
