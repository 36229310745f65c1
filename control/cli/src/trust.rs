// SPDX-License-Identifier: Apache-2.0
//! `verify` tells whether a snapshot can be believed; `trust` makes one whose origin somebody knows
//! his own.

use crate::exit::{DAMAGED, damaged, refused};
use crate::hints::quoted_path;
use crate::jobs::{JobsDir, removed, snapshot_path};
use crate::output::{Output, Progress};
use crate::ownership::check_owner;
use anyhow::Result;
use fermata_launch::key;
use fermata_launch::units::human_bytes;
use fermata_launch::versions;
use fermata_seal::Seal;
use fermata_storage::{Takeover, Verified, Whose, open_own_directory, read_manifest, verify};
use fermata_sysio::print_error;
use fermata_types::Checkpointer;
use serde_json::json;
use std::fs;
use std::path::Path;

/// `fermata verify`
pub fn verify_snapshot(place: &JobsDir, what: &str, output: Output) -> Result<u8> {
    let path = snapshot_path(place, what)?;
    let verified = verify_shown(&path, key::anybodys(), output);
    if !path.exists() {
        return Err(removed(&path));
    }
    let good = verified.is_good();
    let text = if good {
        let ranks = verified.manifest.as_ref().map_or(0, |manifest| manifest.size);
        let bytes = human_bytes(verified.bytes);
        match verified.manifest.filter(|manifest| manifest.checkpointer == Checkpointer::Itself) {
            Some(own) => format!(
                "{} is complete: {} files of the program's own, {}",
                path.display(),
                own.files.len(),
                human_bytes(own.bytes())
            ),
            None => format!(
                "{} is intact: {ranks} ranks, {bytes} of pages, {}",
                path.display(),
                key::describe(verified.seal)
            ),
        }
    } else {
        let problems = verified.problems.join("\n  ");
        print_error(format_args!("the snapshot {} cannot be used:\n  {problems}", path.display()));
        String::new()
    };
    let value = json!({"ok": good, "snapshot": path, "problems": verified.problems,
                       "bytes": verified.bytes, "authentic": verified.seal == Seal::Ours});
    output.result(text, &value);
    Ok(if good { 0 } else { DAMAGED })
}

/// Checks every byte and shows how far it is.
pub fn verify_shown(snapshot: &Path, whose: Whose, output: Output) -> Verified {
    let total = read_manifest(snapshot, whose).map_or(0, |manifest| manifest.bytes());
    let mut progress = Progress::new(output, "checking the snapshot", total);
    verify(snapshot, whose, |bytes| progress.advance(bytes))
}

/// `fermata trust`
pub fn trust(place: &JobsDir, what: &str, output: Output) -> Result<u8> {
    let path = fs::canonicalize(snapshot_path(place, what)?)?;
    check_owner(&path)?;
    check_mode(&path)?;
    let user = key::needed("to seal it with")?;
    versions::check_unbelieved(&path)?;
    let total = read_manifest(&path, key::anybodys()).map_or(0, |manifest| manifest.bytes());
    let mut progress = Progress::new(output, "checking the snapshot", total);
    let takeover = Takeover::of(&path, &user.key, |bytes| progress.advance(bytes));
    let takeover = takeover.map_err(|error| damaged(error.to_string()))?;
    let sealed = takeover.carry_out()?;
    let text = format!(
        "{} is sealed with your key: job {}, checkpoint {}",
        path.display(),
        sealed.job,
        sealed.epoch
    );
    output.result(text, &json!({"ok": true, "snapshot": path}));
    Ok(0)
}

/// Where others may write, what has been looked at is not what will be restarted.
fn check_mode(snapshot: &Path) -> Result<()> {
    open_own_directory(snapshot).map(drop).map_err(|error| {
        refused(format!(
            "cannot seal {}: {error}\n  hint: close it to others, then look at what it holds: \
             chmod -R go-w {}",
            snapshot.display(),
            quoted_path(snapshot)
        ))
    })
}
