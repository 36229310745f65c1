// SPDX-License-Identifier: Apache-2.0
//! How the program ends. `CODES` is the one table of exit codes; help, man page and
//! docs/reference/errors.md show it.

use fermata_launch::problem::Problem;
pub use fermata_launch::problem::{damaged, refused, usage};

/// Tried and failed.
pub const FAILURE: u8 = 1;
/// A command line that makes no sense; clap uses the same number.
pub const USAGE: u8 = 2;
/// Not tried.
pub const REFUSED: u8 = 3;
/// A snapshot cannot be believed.
pub const DAMAGED: u8 = 4;
/// The launcher's, on standard error of the job: see `die` in runtime/launcher.
const LAUNCHER: u8 = 70;

const CODES: [(u8, &str); 6] = [
    (0, "done"),
    (FAILURE, "tried and failed; after a failed checkpoint the job continues"),
    (USAGE, "the command line makes no sense"),
    (REFUSED, "refused: it cannot be done here or now, and nothing was tried"),
    (DAMAGED, "a snapshot is damaged, incomplete or of another version"),
    (LAUNCHER, "a rank could not be started or restored; no rank of the program has run on"),
];

/// The table for people.
pub fn table() -> String {
    let mut text = String::from("Exit codes:\n");
    for (code, meaning) in CODES {
        text += &format!("  {code:<3} {meaning}\n");
    }
    text + "  run and restart end with the program's own code once it has run, or with 1 \
            if that is 0 but a rank ended without MPI_Finalize or a host was lost"
}

/// The code an error ends the program with.
pub fn code_of(error: &anyhow::Error) -> u8 {
    match error.downcast_ref() {
        Some(Problem::Refused(_)) => REFUSED,
        Some(Problem::Damaged(_)) => DAMAGED,
        Some(Problem::Usage(_)) => USAGE,
        None => FAILURE,
    }
}
