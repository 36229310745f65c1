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

/// What the names of the variables of `lib/ftcoll` begin with, which all ranks have to see alike.
const COLLECTIVES: &[u8] = b"FTCOLL_";

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
    if spans_hosts {
        hand_over_alike(mpirun, family, env::vars_os());
    }
}

/// Those of them that all ranks have to see alike. On one host they inherit them.
fn hand_over_alike(
    mpirun: &mut Command,
    family: Family,
    all: impl Iterator<Item = (OsString, OsString)>,
) {
    for (name, value) in all.filter(|(name, _)| name.as_bytes().starts_with(COLLECTIVES)) {
        if let Some(name) = name.to_str() {
            hosts::hand_over(mpirun, family, name, value);
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

/// The signals that are to save the job, by number, as whoever has started it says.
pub const SAVE_ON: &str = "FERMATA_SAVE_ON";

/// Those signals. What is none is left out.
#[must_use]
pub fn signals_to_save_on() -> Vec<u8> {
    env::var(SAVE_ON).map_or_else(|_| Vec::new(), |given| numbers_in(&given))
}

fn numbers_in(list: &str) -> Vec<u8> {
    let words = list.split(',').filter_map(|word| word.trim().parse().ok());
    words.filter(|number| (1..=64).contains(number)).collect()
}

/// Until the launcher holds them none of those signals ends this process, on its way to a rank. The
/// launcher gives the program the default again.
pub fn ignore_signals_to_save_on() {
    for signal in signals_to_save_on() {
        // One that cannot be ignored is none that a rank can be saved on.
        let _ = fermata_sysio::ignore_signal(signal.into());
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variables_of_the_collectives_go_to_all_hosts() {
        let all = ["FTCOLL_MARK", "FTCOLLX", "HOME"].map(|name| (name.into(), "v".into()));
        for (family, wanted) in
            [(Family::OpenMpi, vec!["-x", "FTCOLL_MARK"]), (Family::Mpich, vec![])]
        {
            let mut mpirun = Command::new("mpirun");
            hand_over_alike(&mut mpirun, family, all.clone().into_iter());
            assert_eq!(mpirun.get_args().collect::<Vec<_>>(), wanted);
            let set: Vec<_> = mpirun.get_envs().map(|(name, _)| name).collect();
            assert_eq!(set, ["FTCOLL_MARK"]);
        }
    }

    #[test]
    fn what_is_no_signal_is_left_out_of_those_to_save_on() {
        assert_eq!(numbers_in("15, 10,,x,0,65,-1,64"), [15, 10, 64]);
        assert!(numbers_in("").is_empty());
    }
}
