// SPDX-License-Identifier: Apache-2.0
//! How the program ends. `EXIT_CODES`, of spec/rank.toml, is the one table of exit codes; help, man
//! page and docs/reference/errors.md show it.

use fermata_launch::problem::Problem;
pub use fermata_launch::problem::{damaged, refused, usage};
use fermata_types::EXIT_CODES;
pub use fermata_types::{
    EXIT_DAMAGED as DAMAGED, EXIT_FAILURE as FAILURE, EXIT_LAUNCHER as LAUNCHER,
    EXIT_REFUSED as REFUSED, EXIT_SAVED as SAVED, EXIT_USAGE as USAGE,
};

/// The table for people.
pub fn table() -> String {
    let mut text = String::from("Exit codes:\n");
    for (code, meaning) in EXIT_CODES {
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
