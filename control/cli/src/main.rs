// SPDX-License-Identifier: Apache-2.0
//! `fermata`: the command line. Each command is one function in its own module; this file holds the
//! table of flags and maps errors to exit codes (`exit.rs`).

mod app;
mod doctor;
mod exec;
mod exit;
mod jobs;
mod mpi;
mod output;
mod registry;
mod run;

use clap::{Args, Parser, Subcommand};
use jobs::Place;
use output::{Output, parse_duration_ms};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "fermata", version, about = "Checkpoint and restart for unmodified MPI programs")]
struct Cli {
    /// Print one JSON value instead of text
    #[arg(long, global = true)]
    json: bool,
    /// Directory of jobs and snapshots [default: $FERMATA_DIR, else ./fermata]
    #[arg(long, global = true, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Args)]
struct StartArgs {
    /// MPI to run on (see `fermata mpi list`)
    #[arg(long, value_name = "NAME")]
    mpi: Option<String>,
    /// Take a checkpoint this often, e.g. 10m
    #[arg(long, value_name = "TIME", value_parser = parse_duration_ms, default_value = "0s")]
    every: u64,
    /// Snapshots to keep [default: 2]
    #[arg(long, value_name = "K")]
    keep: Option<u32>,
    /// An argument for mpirun itself; may be repeated
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    mpirun_arg: Vec<String>,
}

impl From<StartArgs> for run::Start {
    fn from(args: StartArgs) -> Self {
        Self { mpi: args.mpi, every_ms: args.every, keep: args.keep, mpirun_args: args.mpirun_arg }
    }
}

#[derive(Subcommand)]
enum Command {
    /// Start a job on this machine
    Run {
        #[command(flatten)]
        start: StartArgs,
        /// Number of ranks
        #[arg(short = 'n', value_name = "N", default_value_t = 1,
              value_parser = clap::value_parser!(u32).range(1..))]
        ranks: u32,
        /// Job name [default: PROGRAM-NUMBER]
        #[arg(long, value_name = "JOB")]
        name: Option<String>,
        /// The MPI the program was built for, if its libraries do not tell: ompi or mpich
        #[arg(long, value_name = "NAME")]
        front: Option<String>,
        /// The program and its arguments, after --
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Become one rank, under any mpirun or srun
    Exec {
        /// MPI below [default: the one whose mpirun started this]
        #[arg(long, value_name = "NAME")]
        mpi: Option<String>,
        /// The MPI the program was built for: ompi or mpich
        #[arg(long, value_name = "NAME")]
        front: Option<String>,
        /// Job name, the same for all ranks
        #[arg(long, value_name = "JOB")]
        name: Option<String>,
        /// Directory of this very job
        #[arg(long, value_name = "DIR")]
        job_dir: Option<PathBuf>,
        /// Socket of a running coordinator [default: $FERMATA_SOCKET]
        #[arg(long, value_name = "PATH")]
        socket: Option<String>,
        /// Restore from this snapshot
        #[arg(long, value_name = "SNAPSHOT")]
        restore: Option<PathBuf>,
        /// Take a checkpoint this often
        #[arg(long, value_name = "TIME", value_parser = parse_duration_ms, default_value = "0s")]
        every: u64,
        /// Snapshots to keep [default: 2]
        #[arg(long, value_name = "K")]
        keep: Option<u32>,
        /// The program and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<String>,
    },
    /// Take a checkpoint and wait until it is committed
    Checkpoint {
        /// Job name [default: the running job]
        job: Option<String>,
        /// End the job once the snapshot is committed
        #[arg(long)]
        stop: bool,
        /// Time to reach a safe state
        #[arg(long, value_name = "TIME", value_parser = parse_duration_ms, default_value = "60s")]
        timeout: u64,
    },
    /// Go on from a snapshot, on the same or another MPI
    Restart {
        #[command(flatten)]
        start: StartArgs,
        /// A job (its newest snapshot) or a snapshot's directory
        #[arg(value_name = "JOB|SNAPSHOT")]
        what: Option<String>,
    },
    /// List jobs
    Jobs,
    /// List the snapshots of a job
    Snapshots {
        /// Job name [default: the last one]
        job: Option<String>,
    },
    /// Show what a snapshot holds
    Inspect {
        /// A job or a snapshot's directory
        snapshot: String,
        /// Show one rank in full
        #[arg(long)]
        rank: Option<u32>,
    },
    /// Check every byte of a snapshot
    Verify {
        /// A job or a snapshot's directory
        snapshot: String,
    },
    /// Remove old snapshots
    Prune {
        /// Job name [default: the last one]
        job: Option<String>,
        /// Snapshots to keep
        #[arg(long, value_name = "K", default_value_t = run::KEEP_DEFAULT)]
        keep: u32,
    },
    /// The MPIs a job can run on
    #[command(subcommand)]
    Mpi(MpiCommand),
    /// Check this machine
    Doctor,
    #[command(hide = true)]
    Coordinator {
        job_dir: PathBuf,
        #[arg(long)]
        detach: bool,
        #[arg(long, value_parser = parse_duration_ms, default_value = "0s")]
        every: u64,
    },
}

#[derive(Subcommand)]
enum MpiCommand {
    /// List registered MPIs
    List,
    /// Register an MPI: builds its back end
    Add {
        /// An mpicc, or the directory that holds bin/mpicc
        #[arg(value_name = "PREFIX|MPICC")]
        what: String,
        /// What to call it
        #[arg(long)]
        name: Option<String>,
    },
    /// Forget an MPI
    Remove {
        /// Its name
        name: String,
    },
}

fn perform(cli: Cli) -> anyhow::Result<u8> {
    let output = Output { json: cli.json };
    let place = Place::new(cli.dir);
    match cli.command {
        Command::Run { start, ranks, name, front, command } => {
            let (name, front) = (name.as_deref(), front.as_deref());
            run::run(&start.into(), ranks, &place, name, front, &command, output)
        }
        Command::Restart { start, what } => {
            run::restart(&start.into(), &place, what.as_deref(), output)
        }
        Command::Exec { mpi, front, name, job_dir, socket, restore, every, keep, command } => {
            let options = exec::ExecOptions {
                mpi,
                front,
                name,
                job_dir,
                socket,
                restore,
                every_ms: every,
                keep,
            };
            match exec::exec(&options, &place, &command)? {}
        }
        Command::Checkpoint { job, stop, timeout } => {
            jobs::checkpoint(&place, job.as_deref(), stop, timeout, output)
        }
        Command::Jobs => jobs::jobs(&place, output),
        Command::Snapshots { job } => jobs::snapshots(&place, job.as_deref(), output),
        Command::Inspect { snapshot, rank } => jobs::inspect(&place, &snapshot, rank, output),
        Command::Verify { snapshot } => jobs::verify_snapshot(&place, &snapshot, output),
        Command::Prune { job, keep } => jobs::prune(&place, job.as_deref(), keep, output),
        Command::Mpi(MpiCommand::List) => mpi::list(output),
        Command::Mpi(MpiCommand::Add { what, name }) => mpi::add(&what, name.as_deref(), output),
        Command::Mpi(MpiCommand::Remove { name }) => mpi::remove(&name, output),
        Command::Doctor => doctor::doctor(output),
        Command::Coordinator { job_dir, detach, every } => {
            exec::coordinator(&job_dir, detach, every).map(|()| 0)
        }
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let json = cli.json;
    match perform(cli) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let code = exit::code_of(&error);
            eprintln!("fermata: {error:#}");
            if json {
                println!(
                    "{}",
                    serde_json::json!({"ok": false, "error": format!("{error:#}"), "code": code})
                );
            }
            ExitCode::from(code)
        }
    }
}
