// SPDX-License-Identifier: Apache-2.0
//! The hosts of a job, and how each family's mpirun wants to be told of them.
//!
//! Both mpiruns place ranks in blocks, in the order of the list; a host without a number gets an
//! equal share, so that the same list gives the same placement under every MPI.

use crate::mpi::Family;
use crate::problem::usage;
use anyhow::{Context, Result};
use fermata_levels::{Arrangement, Chain};
use fermata_storage::{Whose, open_file};
use fermata_types::Checkpointer;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

/// Hosts with the number of ranks on each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts(Vec<(String, u32)>);

impl Hosts {
    /// From the command line or a file; `None` if there is neither.
    pub fn from(list: &[String], file: Option<&Path>, ranks: u32) -> Result<Option<Self>> {
        let words = match file {
            Some(path) => {
                let text = read(path);
                lines(&text.with_context(|| format!("cannot read {}", path.display()))?)
            }
            None => list.to_vec(),
        };
        if words.is_empty() && file.is_none() {
            return Ok(None);
        }
        let hosts = words.iter().map(|word| parse(word)).collect::<Result<Vec<_>>>()?;
        Self::share(hosts, ranks).map(Some)
    }

    /// Gives each host its number of ranks.
    fn share(hosts: Vec<(String, Option<u32>)>, ranks: u32) -> Result<Self> {
        let given = hosts.iter().filter_map(|(_, count)| *count).fold(0, u32::saturating_add);
        let open = u32::try_from(hosts.iter().filter(|(_, count)| count.is_none()).count())?;
        if open == 0 && given < ranks {
            return Err(usage(format!("the hosts have room for {given} ranks, not for {ranks}")));
        }
        let left = ranks.saturating_sub(given);
        let mut handed_out = 0;
        let shared = hosts
            .into_iter()
            .map(|(name, count)| {
                let count = count.unwrap_or_else(|| {
                    let share = left / open + u32::from(handed_out < left % open);
                    handed_out += 1;
                    share
                });
                (name, count)
            })
            .filter(|(_, count)| *count > 0)
            .collect();
        Ok(Self(shared))
    }

    /// Each with its number of ranks.
    pub fn all(&self) -> &[(String, u32)] {
        &self.0
    }

    /// The most ranks that any host gets.
    pub fn most_ranks(&self) -> u32 {
        self.0.iter().map(|(_, count)| *count).max().unwrap_or(0)
    }

    /// Adds them to an mpirun's command line.
    pub fn give_to(&self, mpirun: &mut Command, family: Family) {
        let list: Vec<String> = self.0.iter().map(word).collect();
        mpirun.arg(if family == Family::OpenMpi { "--host" } else { "-hosts" });
        mpirun.arg(list.join(","));
    }
}

/// A file with a name must be a regular one: a pipe that nobody writes to would be waited for. What
/// has no name is a pipe of the shell's own, as `<(...)` makes it, and comes to its end.
fn read(path: &Path) -> io::Result<String> {
    match path.canonicalize() {
        Ok(named) => io::read_to_string(open_file(&named, Whose::Anybodys(None))?),
        Err(_) => fs::read_to_string(path),
    }
}

/// `a:4`, as both mpiruns write a host.
pub fn word((name, count): &(String, u32)) -> String {
    format!("{name}:{count}")
}

const HOST_FILES: [&str; 3] = ["PBS_NODEFILE", "PE_HOSTFILE", "LSB_DJOB_HOSTFILE"];

/// Whether mpirun has its hosts from a batch system.
pub fn batch_system_names_hosts() -> bool {
    let is_set = |name: &&str| std::env::var_os(name).is_some();
    HOST_FILES.iter().chain([&"SLURM_JOB_NUM_NODES"]).any(is_set)
}

/// Whether these may be several.
pub fn batch_system_has_several() -> bool {
    batch_system_names_hosts() && batch_system_count() != Some(1)
}

/// How many these are, where the environment tells.
pub fn batch_system_count() -> Option<u32> {
    std::env::var("SLURM_JOB_NUM_NODES").ok()?.parse().ok()
}

/// `a`, `a:4`
///
/// # Errors
/// It is no host.
pub fn parse(word: &str) -> Result<(String, Option<u32>)> {
    let bad = || usage(format!("'{word}' is no host: write NAME or NAME:RANKS"));
    let (name, count) = match word.rsplit_once(':') {
        Some((name, count)) => (name, Some(count.parse().map_err(|_| bad())?)),
        None => (word, None),
    };
    let fine = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.starts_with('-') || !name.chars().all(fine) || count == Some(0) {
        return Err(bad());
    }
    Ok((name.to_owned(), count))
}

/// The lines of a host file, of Open MPI's or MPICH's form.
fn lines(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| line.split('#').next().unwrap_or_default())
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next()?;
            let slots = words.find_map(|word| word.strip_prefix("slots="));
            Some(slots.map_or(name.to_owned(), |slots| format!("{name}:{slots}")))
        })
        .collect()
}

/// Makes mpirun start its helpers with this command instead of ssh. By environment, because there
/// every version of a family reads the same name.
pub fn use_remote_shell(mpirun: &mut Command, shell: &str) {
    mpirun.env("OMPI_MCA_plm_rsh_agent", shell).env("PRTE_MCA_plm_ssh_agent", shell);
    mpirun.env("HYDRA_LAUNCHER", "ssh").env("HYDRA_LAUNCHER_EXEC", shell);
}

/// Gives the ranks on all hosts a variable whose value no command line shows.
pub fn hand_over(mpirun: &mut Command, family: Family, name: &str, value: impl AsRef<OsStr>) {
    mpirun.env(name, value);
    if family == Family::OpenMpi {
        mpirun.args(["-x", name]);
    }
    // MPICH's hands over the whole environment by itself.
}

/// A program that saves itself writes to one directory with all its ranks.
pub fn check_shares(checkpointer: Checkpointer, local_dir: Option<&Path>) -> Result<()> {
    if checkpointer == Checkpointer::Itself && local_dir.is_some() {
        return Err(usage(
            "--local-dir is for images, and a program that saves itself makes none\n  \
             hint: --dir on a directory that all hosts share",
        ));
    }
    Ok(())
}

/// Snapshots that stay on hosts need a directory on each, and as many hosts as their levels do.
/// Without a list it is the batch system that knows the hosts.
pub fn check_levels(chain: &Chain, local_dir: Option<&Path>, hosts: Option<&Hosts>) -> Result<()> {
    if local_dir.is_none() {
        return Err(usage(
            "--levels keeps snapshots on the hosts, and nobody says where\n  \
             hint: --local-dir DIR, a directory of each host's own",
        ));
    }
    let count = match hosts {
        Some(hosts) => u32::try_from(hosts.all().len())?,
        None if !batch_system_names_hosts() => 1,
        None => match batch_system_count() {
            Some(count) => count,
            None => return Ok(()),
        },
    };
    if count < 2 {
        return Err(usage(
            "--levels is for jobs on several hosts, and this one is on one\n  \
             hint: --host a,b,c; without --levels snapshots go to the job's directory",
        ));
    }
    match Arrangement::new(count, &[], chain, count) {
        Ok(_) => Ok(()),
        Err(why) => {
            Err(usage(format!("--levels: {why}\n  hint: name more hosts, or other levels")))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn shared(list: &[&str], ranks: u32) -> Vec<(String, u32)> {
        let list: Vec<String> = list.iter().map(|word| (*word).to_owned()).collect();
        Hosts::from(&list, None, ranks).unwrap().unwrap().0
    }

    fn pairs(list: &[(&str, u32)]) -> Vec<(String, u32)> {
        list.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn hosts_without_a_number_share_equally() {
        assert_eq!(shared(&["a", "b"], 4), pairs(&[("a", 2), ("b", 2)]));
        assert_eq!(shared(&["a", "b", "c"], 4), pairs(&[("a", 2), ("b", 1), ("c", 1)]));
        assert_eq!(shared(&["a:3", "b"], 4), pairs(&[("a", 3), ("b", 1)]));
        assert_eq!(shared(&["a", "b", "c"], 2), pairs(&[("a", 1), ("b", 1)]));
        let most = u32::MAX; // and both together are more than that
        assert_eq!(shared(&["a:4294967295", "b:9", "c"], 2), pairs(&[("a", most), ("b", 9)]));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for list in [["a:1", "b:1"], ["a:x", "b"], ["-oProxyCommand=x", "b"], ["a b", "c"]] {
            let list: Vec<String> = list.iter().map(|word| (*word).to_owned()).collect();
            assert!(Hosts::from(&list, None, 4).is_err(), "{list:?}");
        }
    }

    #[test]
    fn both_forms_of_host_files_are_read() {
        let text = "# ours\na slots=2 max_slots=4\nb:3 # more\n\nc\n";
        assert_eq!(lines(text), ["a:2", "b:3", "c"]);
    }
}
