// SPDX-License-Identifier: Apache-2.0
//! What a batch system says of the allocation that this process runs in.

use crate::batch::Batch;
use crate::problem::refused;
use anyhow::Result;
use fermata_storage::{Whose, open_file};
use std::io;
use std::path::Path;

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The batch system and its job's id, for people: `slurm 123`. Empty: there is none.
pub fn batch_job() -> String {
    // JOB_ID alone may be anybody's variable.
    let of_sge = || variable("PE_HOSTFILE").and(variable("JOB_ID")).map(|job| format!("sge {job}"));
    let found =
        Batch::detect().map(|batch| format!("{} {}", batch.name().to_lowercase(), batch.job));
    found.or_else(of_sge).unwrap_or_default()
}

/// Whether this process belongs to a job of a batch system.
pub fn is_in_batch_job() -> bool {
    !batch_job().is_empty()
}

/// How many ranks the allocation is for, and the variable that says so; `None`: outside of one, or
/// the batch system does not say.
///
/// # Errors
/// The file that says so cannot be read.
pub fn ranks() -> Result<Option<(u32, &'static str)>> {
    ranks_of(variable)
}

fn ranks_of(variable: impl Fn(&str) -> Option<String>) -> Result<Option<(u32, &'static str)>> {
    let number = |name| variable(name)?.parse::<u32>().ok().filter(|count| *count > 0);
    let named = |name: &'static str| Some((number(name)?, name));
    // Flux may run inside a job of Slurm's, and then it is Flux that starts ranks here.
    if let Some(found) = named("FLUX_JOB_SIZE") {
        return Ok(Some(found));
    }
    if variable("SLURM_JOB_ID").is_some() {
        let per_node = || {
            let name = "SLURM_TASKS_PER_NODE";
            Some((sum_of_tasks(&variable(name)?)?, name))
        };
        let found = named("SLURM_NTASKS").or_else(per_node);
        if found.is_some() {
            return Ok(found);
        }
    }
    if let Some(found) = named("LSB_DJOB_NUMPROC") {
        return Ok(Some(found));
    }
    for (name, count) in [("PBS_NODEFILE", lines as fn(&str) -> u32), ("PE_HOSTFILE", slots)] {
        let Some(path) = variable(name) else { continue };
        let text = open_file(Path::new(&path), Whose::Anybodys(None)).and_then(io::read_to_string);
        let text = text.map_err(|error| {
            refused(format!("cannot read {path} ({name}): {error}\n  hint: give -n"))
        })?;
        return Ok(Some((count(&text), name)).filter(|(count, _)| *count > 0));
    }
    Ok(None)
}

/// `2(x3),1`: three nodes with two tasks each, then one with one. None: that makes no sense.
fn sum_of_tasks(text: &str) -> Option<u32> {
    let group = |group: &str| {
        let (tasks, nodes) = match group.split_once("(x") {
            Some((tasks, nodes)) => (tasks, nodes.strip_suffix(')')?.parse().ok()?),
            None => (group, 1),
        };
        tasks.parse::<u32>().ok()?.checked_mul(nodes)
    };
    text.split(',').map(group).try_fold(0_u32, |sum, tasks| sum.checked_add(tasks?))
}

/// PBS has a line for each slot.
fn lines(text: &str) -> u32 {
    let count = text.lines().filter(|line| !line.trim().is_empty()).count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// SGE has a line for each host, with the number of its slots.
fn slots(text: &str) -> u32 {
    let of_line = |line: &str| line.split_whitespace().nth(1)?.parse::<u32>().ok();
    text.lines().filter_map(of_line).fold(0, u32::saturating_add)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn found(set: &[(&str, &str)]) -> Option<(u32, &'static str)> {
        let value = |name: &str| Some(set.iter().find(|(key, _)| *key == name)?.1.to_owned());
        ranks_of(value).unwrap()
    }

    #[test]
    fn each_batch_system_says_how_many_ranks() {
        let slurm = ("SLURM_JOB_ID", "7");
        assert_eq!(found(&[slurm, ("SLURM_NTASKS", "4")]), Some((4, "SLURM_NTASKS")));
        let per_node = ("SLURM_TASKS_PER_NODE", "2(x3),1");
        assert_eq!(found(&[slurm, per_node]), Some((7, "SLURM_TASKS_PER_NODE")));
        assert_eq!(found(&[("SLURM_NTASKS", "4")]), None, "outside of a job");
        assert_eq!(found(&[("LSB_DJOB_NUMPROC", "6")]), Some((6, "LSB_DJOB_NUMPROC")));
        let flux = ("FLUX_JOB_SIZE", "3");
        assert_eq!(found(&[slurm, ("SLURM_NTASKS", "1"), flux]), Some((3, "FLUX_JOB_SIZE")));
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn files_of_hosts_are_counted() {
        let path = std::env::temp_dir().join(format!("fermata-hosts-{}", std::process::id()));
        let text = path.to_str().unwrap();
        std::fs::write(&path, "a\na\nb\n\n").unwrap();
        assert_eq!(found(&[("PBS_NODEFILE", text)]), Some((3, "PBS_NODEFILE")));
        std::fs::write(&path, "a 2 q@a UNDEFINED\nb 3 q@b UNDEFINED\n").unwrap();
        assert_eq!(found(&[("PE_HOSTFILE", text)]), Some((5, "PE_HOSTFILE")));
        std::fs::remove_file(&path).unwrap();
        let gone = ranks_of(|name| (name == "PBS_NODEFILE").then(|| text.to_owned()));
        assert!(gone.unwrap_err().to_string().contains("hint: give -n"));
    }

    #[test]
    fn numbers_that_make_no_sense_are_none() {
        for text in ["", "x", "2(x", "2(xy)", "4294967295(x2)", "4294967295,1"] {
            assert_eq!(sum_of_tasks(text), None, "{text}");
        }
        assert_eq!(found(&[("SLURM_JOB_ID", "7"), ("SLURM_NTASKS", "0")]), None);
    }
}
