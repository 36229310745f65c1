// SPDX-License-Identifier: Apache-2.0
//! The user's key in this process: looked for once, and made where something is to be sealed or
//! believed.

use crate::problem::refused;
use crate::report::report;
use anyhow::Result;
use fermata_seal::{Key, Seal};
use fermata_storage::{NoKey, UserKey, Whose, existing_key, user_key};
use fermata_types::Checkpointer;
use std::sync::OnceLock;

fn known() -> &'static Result<UserKey, NoKey> {
    static KNOWN: OnceLock<Result<UserKey, NoKey>> = OnceLock::new();
    KNOWN.get_or_init(user_key)
}

/// The key and its file, if there is one.
pub fn found() -> Option<&'static UserKey> {
    known().as_ref().ok()
}

/// What is believed must be the user's own, and sealed with the key, if there is one.
pub fn own() -> Whose {
    match known() {
        Ok(user) => Whose::Own(Some(user.key)),
        Err(no) if no.is_out_of_reach => Whose::Nobodys,
        Err(_) => Whose::Own(None),
    }
}

/// What is looked at may be anybody's, and no key is made for that.
pub fn anybodys() -> Whose {
    static KNOWN: OnceLock<Option<Key>> = OnceLock::new();
    Whose::Anybodys(*KNOWN.get_or_init(|| existing_key().ok().map(|user| user.key)))
}

/// For what believes a snapshot: without a key that is there nobody can tell whose it is.
///
/// # Errors
/// There is a key that cannot be used.
pub fn check_in_reach() -> Result<()> {
    match known() {
        Err(no) if no.is_out_of_reach => Err(refused(format!(
            "your key cannot be used, so nothing shows which snapshots are yours: {no}\n  hint: \
             {OUT_OF_REACH}"
        ))),
        _ => Ok(()),
    }
}

const OUT_OF_REACH: &str =
    "mend that; where a home cannot be reached at all, XDG_CONFIG_HOME says where keys are instead";

/// The key, for what cannot be done without it.
///
/// # Errors
/// There is none.
pub fn needed(purpose: &str) -> Result<&'static UserKey> {
    known().as_ref().map_err(|no| {
        let hint = match no.is_out_of_reach {
            true => OUT_OF_REACH,
            false => {
                "it is made by itself in $XDG_CONFIG_HOME/fermata or ~/.config/fermata, where that \
                 can be written to"
            }
        };
        refused(format!("there is no key {purpose}: {no}\n  hint: {hint}"))
    })
}

/// Whether images can be encrypted.
///
/// # Errors
/// There is no key, or there are no images.
pub fn check_encryption(checkpointer: Checkpointer) -> Result<()> {
    if checkpointer == Checkpointer::Itself {
        return Err(refused(
            "--encrypt is for images, and a program that saves itself writes its own files\n  \
             hint: leave --encrypt out, or let the program encrypt them",
        ));
    }
    needed("to encrypt with").map(|_| ())
}

/// Says so where there is none, once for a run of a job.
pub fn tell_if_missing() {
    if let Err(why) = known() {
        let hint = match why.is_out_of_reach {
            true => OUT_OF_REACH,
            false => "who owns the files is all that tells a restart whether to believe them",
        };
        report(format_args!(
            "snapshots of this run are not sealed: there is no key ({why})\n  hint: {hint}"
        ));
    }
}

/// How a snapshot is sealed that may be used.
pub fn describe(seal: Seal) -> &'static str {
    match seal {
        Seal::Ours => "sealed with your key",
        Seal::Others => "sealed with another key than yours",
        Seal::Absent | Seal::Broken => "not sealed",
    }
}
