// SPDX-License-Identifier: Apache-2.0
//! The user's key in this process: looked for, and made, once.

use crate::exit::refused;
use anyhow::Result;
use fermata_seal::{Key, Seal};
use fermata_storage::{UserKey, Whose, user_key};
use fermata_sysio::tell;
use fermata_types::Checkpointer;
use std::sync::OnceLock;

fn known() -> &'static Result<UserKey, String> {
    static KNOWN: OnceLock<Result<UserKey, String>> = OnceLock::new();
    KNOWN.get_or_init(user_key)
}

/// The key and its file, if there is one.
pub fn found() -> Option<&'static UserKey> {
    known().as_ref().ok()
}

fn key() -> Option<Key> {
    found().map(|user| user.key)
}

/// What is believed must be the user's own, and sealed with the key, if there is one.
pub fn own() -> Whose {
    Whose::Own(key())
}

/// What is looked at may be anybody's.
pub fn anybodys() -> Whose {
    Whose::Anybodys(key())
}

/// The key, for what cannot be done without it.
///
/// # Errors
/// There is none.
pub fn needed(purpose: &str) -> Result<&'static UserKey> {
    known().as_ref().map_err(|why| {
        refused(format!(
            "there is no key {purpose}: {why}\n  \
             hint: it is made by itself in $XDG_CONFIG_HOME/fermata or ~/.config/fermata, \
             where that can be written to"
        ))
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
        tell(format_args!(
            "snapshots of this run are not sealed: there is no key ({why})\n  \
             hint: who owns the files is all that tells a restart whether to believe them"
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
