// SPDX-License-Identifier: Apache-2.0
//! `--every auto`: how a job paces its checkpoints by a plan. Its levels are those of `--levels`,
//! else the job's directory.
//!
//! What fails how often comes from the machine's description, the file that `fermata plan` reads.
//! What a checkpoint and a level cost is guessed from it for the first one, and measured from then
//! on. What none of the levels survives is left out: the job begins anew then, however often it was
//! saved.

use crate::output::parse_every;
use crate::plan;
use anyhow::Result;
use clap::{Args, ValueHint};
use fermata_launch::start::Start;
use fermata_levels::Chain;
use fermata_plan::follow::Follower;
use fermata_plan::optimise::Planner;
use fermata_plan::pace::Every as Pace;
use fermata_plan::placement::Order;
use fermata_plan::{System, SystemError};
use fermata_types::Every;
use std::path::{Path, PathBuf};

/// How often, on the command line.
#[derive(Args)]
pub struct PaceArgs {
    /// Take a checkpoint this often, e.g. 10m; 0: never; auto: as often as is best by what fails
    /// and what a checkpoint takes [default: never; at a restart, as before]
    #[arg(long, value_name = "TIME", value_parser = parse_every)]
    pub every: Option<Every>,
    /// What fails how often, for --every auto: the file that `fermata plan` reads
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub machine: Option<PathBuf>,
    /// Ask the service that `fermata site serve` runs in this directory when to save, so that jobs
    /// do not save at once; without an answer a job saves as --every says [at a restart: as before]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub site: Option<PathBuf>,
}

/// When a job on so many nodes saves of itself; `levels`: those on its hosts, if any.
///
/// # Errors
/// The machine's description cannot be read, or makes no sense; the usage is wrong then.
pub fn pace(
    every: Every,
    machine: Option<&Path>,
    nodes: usize,
    levels: Option<&Chain>,
) -> Result<Pace> {
    match every {
        Every::Never => Ok(Pace::Never),
        Every::Ms(ms) => Ok(Pace::Fixed(ms)),
        Every::Auto => {
            let mut system = plan::described(machine)?;
            system.nodes = u32::try_from(nodes.max(1)).unwrap_or(u32::MAX);
            match levels {
                None => plan::only_shared(&mut system),
                Some(chain) => {
                    plan::only_these(&mut system, chain.levels());
                    system.behind = true;
                }
            }
            let planner = planner(&mut system)?;
            let all: Vec<usize> = (0..system.level.len()).collect();
            // A level that adds nothing to the others is in no plan.
            let planned = planner.best_of(&all).or_else(|| planner.best());
            let planned = planned.ok_or_else(plan::nothing_helps)?;
            Ok(Pace::Auto(Box::new(Follower::new(planner, planned))))
        }
    }
}

fn planner(system: &mut System) -> Result<Planner> {
    loop {
        match Planner::new(system, Order::Groups) {
            Err(SystemError::NothingSurvives(name)) if system.failure.len() > 1 => {
                system.failure.retain(|failure| failure.name != name);
            }
            made => return made.map_err(plan::refused),
        }
    }
}

/// Whether what was asked for makes sense, before anything is made.
///
/// # Errors
/// As `pace`.
pub fn check(start: &Start) -> Result<()> {
    pace(start.every.unwrap_or_default(), start.machine.as_deref(), 1, None).map(|_| ())
}

/// A path for a job's record: whoever reads it is elsewhere.
pub fn recorded(path: Option<&Path>) -> String {
    path.map_or(String::new(), |path| {
        std::path::absolute(path).unwrap_or_else(|_| path.into()).to_string_lossy().into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_nodes_are_saved_more_often() {
        let path = std::env::temp_dir().join(format!("fermata-auto-{}.toml", std::process::id()));
        std::fs::write(
            &path,
            r#"
nodes = 1
bytes-per-node = "1GB"
bandwidth = { local = "2GB", network = "10GB" }
failure = [{ name = "node", mttf = "1y" }]
level = [{ kind = "local" }, { kind = "shared", bandwidth = "1000GB" }]
"#,
        )
        .unwrap();
        let interval_s = |nodes| match pace(Every::Auto, Some(&path), nodes, None).unwrap() {
            Pace::Auto(follower) => follower.planned().plan.interval_s,
            other => panic!("{other:?}"),
        };
        let (alone, many) = (interval_s(1), interval_s(100));
        std::fs::remove_file(&path).unwrap();
        assert!((8.0..12.0).contains(&(alone / many)), "{alone} s, {many} s of 100 nodes");
    }

    #[test]
    fn levels_on_hosts_are_planned_for_what_they_survive() {
        let planned = |levels: &str| {
            let chain = levels.parse().unwrap();
            match pace(Every::Auto, None, 4096, Some(&chain)).unwrap() {
                Pace::Auto(follower) => follower.planned().plan.clone(),
                other => panic!("{other:?}"),
            }
        };
        let all = planned("local,partner,shared");
        assert_eq!(all.levels, [0, 1, 2]);
        assert!(all.period(2) > all.period(1), "{all:?}");
        // Nothing here survives an outage of the system.
        assert_eq!(planned("local,xor").levels, [0, 1]);
        assert_eq!(planned("local,partner,rs2,shared").levels.len(), 4);
    }

    #[test]
    fn a_machine_that_is_not_there_is_told_at_once() {
        let error = pace(Every::Auto, Some(Path::new("/nonexistent/m.toml")), 1, None).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/m.toml"), "{error}");
        assert!(matches!(pace(Every::Ms(5), None, 1, None), Ok(Pace::Fixed(5))));
    }
}
