// SPDX-License-Identifier: Apache-2.0
//! How the program ends. `EXIT_CODES`, of spec/rank.toml, is the one table of exit codes; help, man
//! page and docs/reference/errors.md show it.

use fermata_types::EXIT_CODES;
pub use fermata_types::{
    EXIT_DAMAGED as DAMAGED, EXIT_FAILURE as FAILURE, EXIT_REFUSED as REFUSED, EXIT_USAGE as USAGE,
};
use std::fmt;

/// The table for people.
pub fn table() -> String {
    let mut text = String::from("Exit codes:\n");
    for (code, meaning) in EXIT_CODES {
        text += &format!("  {code:<3} {meaning}\n");
    }
    text + "  run and restart end with the program's own code once it has run, or with 1 \
            if that is 0 but a rank ended without MPI_Finalize or a host was lost"
}

/// An error that ends the program with a code of its own.
#[derive(Debug)]
pub struct Exit {
    /// From the table.
    pub code: u8,
    text: String,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Exit {}

fn with(code: u8, text: impl Into<String>) -> anyhow::Error {
    let text = text.into();
    Exit { code, text }.into()
}

/// It cannot be done here or now.
pub fn refused(text: impl Into<String>) -> anyhow::Error {
    with(REFUSED, text)
}

/// A snapshot cannot be believed.
pub fn damaged(text: impl Into<String>) -> anyhow::Error {
    with(DAMAGED, text)
}

/// The command line makes no sense.
pub fn usage(text: impl Into<String>) -> anyhow::Error {
    with(USAGE, text)
}

/// The code an error ends the program with.
pub fn code_of(error: &anyhow::Error) -> u8 {
    error.downcast_ref::<Exit>().map_or(FAILURE, |exit| exit.code)
}
