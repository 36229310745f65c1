// SPDX-License-Identifier: Apache-2.0
//! Whose snapshots this Fermata continues from. An image has its front end with it, so what counts
//! is the crossing that this one was built for (spec/crossing.toml).

use crate::key;
use crate::moved::Images;
use crate::problem::refused;
use anyhow::Result;
use fermata_storage::{read_header, read_manifest};
use fermata_types::{CROSSING_OLDEST, CROSSING_VERSION, CROSSINGS};
use std::path::Path;

/// Whether ranks can continue from these images. `maker`: the Fermata that wrote them, "" if
/// unknown.
///
/// # Errors
/// The restart is refused: they are of a Fermata that is too old, or of a newer one.
pub fn check(images: &Images, maker: &str) -> Result<()> {
    check_crossings(images.open().map(|(_, image)| image.header.crossing_version), maker)
}

/// The same of a snapshot that is not believed: whoever may have written it, sealing it would be of
/// no use.
///
/// # Errors
/// As `check`.
pub fn check_unbelieved(snapshot: &Path) -> Result<()> {
    let Ok(manifest) = read_manifest(snapshot, key::anybodys()) else { return Ok(()) };
    let in_it = manifest.images.iter().filter(|image| !image.file.contains('/'));
    let headers = in_it.filter_map(|i| read_header(&snapshot.join(&i.file), key::anybodys()).ok());
    check_crossings(headers.map(|header| header.crossing_version), &manifest.fermata)
}

fn check_crossings(mut crossings: impl Iterator<Item = u32>, maker: &str) -> Result<()> {
    let served = CROSSING_OLDEST..=CROSSING_VERSION;
    match crossings.find(|crossing| !served.contains(crossing)) {
        Some(crossing) => Err(refused(refusal(crossing, maker))),
        None => Ok(()),
    }
}

/// The first Fermata that had this crossing.
fn first_with(crossing: u32) -> Option<&'static str> {
    CROSSINGS.iter().find(|(number, _)| *number == crossing).map(|(_, fermata)| *fermata)
}

fn refusal(crossing: u32, maker: &str) -> String {
    let newer = crossing > CROSSING_VERSION;
    let maker = match maker {
        "" if newer => "a newer Fermata".into(),
        "" => "an older Fermata".into(),
        maker => format!("Fermata {maker}"),
    };
    let here = match CROSSING_OLDEST {
        CROSSING_VERSION => format!("{CROSSING_VERSION}"),
        oldest => format!("{oldest} to {CROSSING_VERSION}"),
    };
    let hint = match (first_with(crossing), first_with(crossing + 1)) {
        _ if newer => "restart it with the Fermata that made it, or a newer one".to_owned(),
        (Some(first), Some(next)) if first != next => format!(
            "restart it with Fermata {first} to {next}; what is saved there needs these as well"
        ),
        _ => "restart it with the build that made it, or the one after that; nothing is wrong \
              with the program"
            .into(),
    };
    format!(
        "the snapshot was made by {maker} (crossing {crossing}); this one, Fermata {}, reads \
         {here}\n  hint: {hint}",
        env!("CARGO_PKG_VERSION")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_both_versions() {
        let old = refusal(7, "");
        assert!(old.contains("an older Fermata (crossing 7)"), "{old}");
        assert!(old.contains(&format!("to {CROSSING_VERSION}\n")), "{old}");
        let new = refusal(CROSSING_VERSION + 1, "9.1.0");
        assert!(new.contains("Fermata 9.1.0 (crossing"), "{new}");
        assert!(new.contains("or a newer one"), "{new}");
    }

    #[test]
    fn the_newest_crossing_is_known() {
        assert_eq!(CROSSINGS.last().map(|(number, _)| *number), Some(CROSSING_VERSION));
        assert!(first_with(CROSSING_OLDEST).is_some());
    }
}
