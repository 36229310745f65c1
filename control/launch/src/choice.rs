// SPDX-License-Identifier: Apache-2.0
//! Which of the registered MPIs it is when nobody says: the one whose mpirun has started this
//! process, else the one whose mpirun a shell would start.

use crate::mpi::Lower;
use std::fs;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};

/// As far up as a process manager is looked for, through the scripts that it has started.
const GENERATIONS: usize = 8;
/// How the programs begin that start ranks: orted, orterun, prted, hydra_pmi_proxy...
const MANAGERS: [&str; 6] = ["orte", "prte", "prun", "mpirun", "mpiexec", "hydra"];
const COMMANDS: [&str; 2] = ["mpirun", "mpiexec"];

/// One of these, unless there is none.
pub fn default_of<'a>(lowers: &[&'a Lower]) -> Option<&'a Lower> {
    let started_by = managers_above().find_map(|program| beside(lowers, &program));
    started_by.or_else(|| of_path(lowers)).or_else(|| lowers.first().copied())
}

fn mpirun_of(lower: &Lower) -> Option<PathBuf> {
    fs::canonicalize(lower.mpirun.first()?).ok()
}

/// The MPI in whose directory a program is, if it is the only one there.
fn beside<'a>(lowers: &[&'a Lower], program: &Path) -> Option<&'a Lower> {
    let is_beside =
        |lower: &&&Lower| mpirun_of(lower).is_some_and(|path| path.parent() == program.parent());
    let mut found = lowers.iter().filter(is_beside);
    found.next().copied().filter(|_| found.next().is_none())
}

/// The process managers among this process's ancestors, the nearest first.
fn managers_above() -> impl Iterator<Item = PathBuf> {
    let parent = |pid: &u32| fermata_sysio::parent_of(*pid).filter(|pid| *pid > 1);
    let programs = std::iter::successors(Some(parent_id()), parent)
        .take(GENERATIONS)
        .filter_map(|pid| fs::read_link(format!("/proc/{pid}/exe")).ok());
    programs.filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        MANAGERS.iter().any(|start| name.starts_with(start))
    })
}

/// Of the first directory of PATH that has an mpirun.
fn of_path<'a>(lowers: &[&'a Lower]) -> Option<&'a Lower> {
    let path = std::env::var_os("PATH")?;
    let first = std::env::split_paths(&path)
        .flat_map(|dir| COMMANDS.map(|name| dir.join(name)))
        .find_map(|candidate| fs::canonicalize(candidate).ok().filter(|path| path.is_file()))?;
    let same = lowers.iter().find(|lower| mpirun_of(lower).as_ref() == Some(&first));
    same.copied().or_else(|| beside(lowers, &first))
}
