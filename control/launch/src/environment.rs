// SPDX-License-Identifier: Apache-2.0
//! The program gets the variables that the user's shell had. Open MPI's mpirun, called by its path,
//! puts its own directories in front of PATH and LD_LIBRARY_PATH; and an mpirun runs with the
//! LD_LIBRARY_PATH that its MPI was registered with. So `run` hands those over under other names,
//! which `exec` takes away again.

use crate::hosts;
use crate::mpi::{Family, Lower};
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::Command;

/// Where a program's libraries are looked for before all else.
pub const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";
/// What mpirun changes, or is given otherwise.
const CHANGED: [&str; 2] = ["PATH", LIBRARY_PATH];

/// The name under which a variable travels. One that is set travels as `=VALUE`, else as "".
fn carrier(name: &str) -> String {
    format!("FERMATA_USER_{name}")
}

/// Has the ranks of one program begin with this process's variables, on other hosts as well if it
/// spans them.
pub fn hand_over(mpirun: &mut Command, family: Family, spans_hosts: bool) {
    for name in CHANGED {
        let value =
            env::var_os(name).map_or_else(Vec::new, |value| [b"=", value.as_bytes()].concat());
        let (name, value) = (carrier(name), OsString::from_vec(value));
        if spans_hosts {
            hosts::hand_over(mpirun, family, &name, value);
        } else {
            mpirun.env(name, value);
        }
    }
}

/// Gives a program of this MPI what the MPI's libraries are found with.
pub fn for_mpi<'a>(command: &'a mut Command, lower: &Lower) -> &'a mut Command {
    if let Some(path) = lower.env.get(LIBRARY_PATH) {
        command.env(LIBRARY_PATH, path);
    }
    command
}

/// What this process was handed over is its own again. No other thread may be there yet.
pub fn take_back() {
    for name in CHANGED {
        let carrier = carrier(name);
        let Some(carried) = env::var_os(&carrier) else { continue };
        let value = carried.as_bytes().strip_prefix(b"=").map(OsStr::from_bytes);
        fermata_sysio::set_variable(name, value);
        fermata_sysio::set_variable(&carrier, None);
    }
}
