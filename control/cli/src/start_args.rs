// SPDX-License-Identifier: Apache-2.0
//! The options of `run` and `restart` that say where and how a job runs.

use crate::auto::PaceArgs;
use crate::cli::COLLECTIVES;
use clap::{Args, ValueHint};
use fermata_launch::behind::Behind;
use fermata_launch::start::Start;
use fermata_levels::Chain;
use fermata_plan::units::parse_bytes;
use fermata_sysio::Cores;
use std::path::PathBuf;

/// A mebibyte that takes longer looks like a host that has gone.
const RATE_MIN: f64 = 100_000.0;

/// What hosts may take for making levels.
#[derive(Args)]
pub struct BehindArgs {
    /// Levels are made at so many bytes per second of each host at most: 200MB
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    level_rate: Option<u64>,
    /// Each host's daemon, which makes levels, runs on these processors only: 0 or 0,4-7
    #[arg(long, value_name = "CORES")]
    service_cores: Option<Cores>,
}

impl From<BehindArgs> for Behind {
    fn from(args: BehindArgs) -> Self {
        Self { level_rate: args.level_rate, service_cores: args.service_cores }
    }
}

/// Bytes per second, as people write them.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let rate = parse_bytes(text)?;
    if rate < RATE_MIN {
        return Err(format!("'{text}' is less than {RATE_MIN} bytes per second"));
    }
    // Below 1e21, and above what a host can do long before it is beyond a u64.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Ok(rate as u64)
}

/// What `run` and `restart` have in common.
#[derive(Args)]
pub struct StartArgs {
    /// MPI to run on (see `fermata mpi list`) [default: one that the program was built for; at a
    /// restart, as before]
    #[arg(long, value_name = "NAME")]
    mpi: Option<String>,
    #[command(flatten)]
    pace: PaceArgs,
    /// Snapshots to keep [default: 2; at a restart, as before]
    #[arg(long, value_name = "K")]
    keep: Option<u32>,
    /// Hosts to run on, e.g. a,b or a:4,b:4 [default: this one; at a restart, as before]
    #[arg(long, value_name = "HOSTS", value_delimiter = ',', conflicts_with = "hostfile")]
    host: Vec<String>,
    /// File of hosts, one a line: NAME, NAME:RANKS or NAME slots=RANKS
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    hostfile: Option<PathBuf>,
    /// What mpirun starts commands on other hosts with, instead of ssh
    #[arg(long, value_name = "COMMAND")]
    remote_shell: Option<String>,
    /// Each host keeps images here first: for hosts that do not share --dir
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    local_dir: Option<PathBuf>,
    /// Snapshots stay on the hosts, in --local-dir, and get from level to level behind the job:
    /// local,partner,xor,rs2,shared or some of these
    #[arg(long, value_name = "LEVELS", conflicts_with = "site")]
    levels: Option<Chain>,
    #[command(flatten)]
    behind: BehindArgs,
    /// An argument for mpirun itself; may be repeated
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    mpirun_arg: Vec<String>,
}

impl From<StartArgs> for Start {
    fn from(args: StartArgs) -> Self {
        Self {
            mpi: args.mpi,
            every: args.pace.every,
            machine: args.pace.machine,
            site: args.pace.site,
            keep: args.keep,
            hosts: args.host,
            hostfile: args.hostfile,
            remote_shell: args.remote_shell,
            local_dir: args.local_dir,
            levels: args.levels,
            behind: args.behind.into(),
            mpirun_args: args.mpirun_arg,
            collectives: COLLECTIVES[0].into(),
            ..Self::default()
        }
    }
}
