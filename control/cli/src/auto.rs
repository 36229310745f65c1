// SPDX-License-Identifier: Apache-2.0
//! `--every auto`: how a job paces its checkpoints by a plan, as long as there is one level, the
//! job's directory.
//!
//! What fails how often comes from the machine's description, the file that `fermata plan` reads.
//! What a checkpoint costs is guessed from it for the first one, and measured from then on.

use crate::output::parse_every;
use crate::plan;
use anyhow::Result;
use clap::{Args, ValueHint};
use fermata_launch::start::Start;
use fermata_plan::follow::Follower;
use fermata_plan::optimise::Planner;
use fermata_plan::pace::Every as Pace;
use fermata_plan::placement::Order;
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

/// When a job on so many nodes saves of itself.
///
/// # Errors
/// The machine's description cannot be read, or makes no sense; the usage is wrong then.
pub fn pace(every: Every, machine: Option<&Path>, nodes: usize) -> Result<Pace> {
    match every {
        Every::Never => Ok(Pace::Never),
        Every::Ms(ms) => Ok(Pace::Fixed(ms)),
        Every::Auto => {
            let mut system = plan::described(machine)?;
            system.nodes = u32::try_from(nodes.max(1)).unwrap_or(u32::MAX);
            plan::only_shared(&mut system);
            let planner = Planner::new(&system, Order::Groups).map_err(plan::refused)?;
            let planned = planner.best().ok_or_else(plan::nothing_helps)?;
            Ok(Pace::Auto(Box::new(Follower::new(planner, planned))))
        }
    }
}

/// Whether what was asked for makes sense, before anything is made.
///
/// # Errors
/// As `pace`.
pub fn check(start: &Start) -> Result<()> {
    pace(start.every.unwrap_or_default(), start.machine.as_deref(), 1).map(|_| ())
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
        let interval_s = |nodes| match pace(Every::Auto, Some(&path), nodes).unwrap() {
            Pace::Auto(follower) => follower.planned().plan.interval_s,
            other => panic!("{other:?}"),
        };
        let (alone, many) = (interval_s(1), interval_s(100));
        std::fs::remove_file(&path).unwrap();
        assert!((8.0..12.0).contains(&(alone / many)), "{alone} s, {many} s of 100 nodes");
    }

    #[test]
    fn a_machine_that_is_not_there_is_told_at_once() {
        let error = pace(Every::Auto, Some(Path::new("/nonexistent/m.toml")), 1).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/m.toml"), "{error}");
        assert!(matches!(pace(Every::Ms(5), None, 1), Ok(Pace::Fixed(5))));
    }
}
