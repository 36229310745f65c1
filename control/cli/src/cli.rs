// SPDX-License-Identifier: Apache-2.0
//! The table of commands and flags. Parser, `--help`, shell completions and man pages all come from
//! it; what a command does is in the module of its name.

use crate::auto::PaceArgs;
use crate::end_args::EndArgs;
use crate::exit;
use crate::files_args::{FilesArgs, FilesRule};
use crate::hooks::Hooks;
use crate::output::{parse_bytes, parse_duration_ms};
use crate::plan::PlanArgs;
use crate::site::SiteCommand;
use crate::start_args::{BehindArgs, StartArgs};
use clap::{CommandFactory, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use fermata_launch::kept::parse_which;
use fermata_launch::moved::Move;
use fermata_launch::start::KEEP_DEFAULT;
use fermata_policy::signals::SaveOn;
use fermata_sysio::Process;
use fermata_types::Checkpointer;
use std::ffi::OsString;
use std::path::PathBuf;

const OVERVIEW_EXAMPLE: &str = "\
Example:
  fermata run -n 4 --mpi openmpi --name work ./app args
  fermata checkpoint work --stop
  fermata restart work --mpi mpich";

/// `fermata ...`
#[derive(Parser)]
#[command(
    name = "fermata",
    version,
    about = "Checkpoint and restart for unmodified MPI programs",
    after_help = OVERVIEW_EXAMPLE
)]
pub struct Cli {
    /// Print one JSON value instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// Directory of jobs and snapshots [default: $FERMATA_DIR, else as fermata.toml says, else
    /// ./fermata]
    #[arg(long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// Clocks (decision 0003), or the two-phase algorithm.
pub const COLLECTIVES: [&str; 2] = ["clock", "2pc"];

/// One command.
#[derive(Subcommand)]
pub enum Command {
    /// Start a job, on this host or on several
    #[command(after_help = "\
Example:
  fermata run -n 4 --mpi openmpi --name work --every 10m ./app args
  fermata run --name work --resume --every 30m ./app args      # the whole of a batch script
  fermata run -n 8 --host node1,node2 ./app args
  fermata run -n 1 ./ocean args : -n 2 ./atmos args")]
    Run {
        #[command(flatten)]
        start: StartArgs,
        #[command(flatten)]
        end: EndArgs,
        #[command(flatten)]
        hooks: Hooks,
        /// Number of ranks, of the first of several programs; -np as well [default: what the batch
        /// system gives, else 1]
        #[arg(short = 'n', long = "np", value_name = "N",
              value_parser = clap::value_parser!(u32).range(1..))]
        ranks: Option<u32>,
        /// Job name [default: PROGRAM-NUMBER]
        #[arg(long, value_name = "JOB")]
        name: Option<String>,
        /// Continue from the newest intact snapshot of the job of that --name, else begin; a job
        /// that has finished is not run again
        #[arg(long, requires = "name")]
        resume: bool,
        /// With --resume: also if the job has finished, from its newest snapshot
        #[arg(long, requires = "resume")]
        again: bool,
        /// The MPI the program was built for, if its libraries do not tell: ompi or mpich
        #[arg(long, value_name = "NAME")]
        front: Option<String>,
        /// What makes collective calls whole in a snapshot: counting them, or, to compare with, a
        /// barrier before each
        #[arg(long, value_name = "HOW", value_parser = COLLECTIVES, default_value = COLLECTIVES[0])]
        collectives: String,
        /// What saves the ranks: native, or self for a program with a function for that (fermata.h)
        #[arg(long, value_name = "NAME", default_value_t)]
        checkpointer: Checkpointer,
        #[command(flatten)]
        files: FilesArgs,
        /// Encrypt the memory in snapshots, with your key; a restart continues so
        #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
              default_missing_value = "true")]
        encrypt: Option<bool>,
        /// The program and its arguments, also after --; further ones after : and -n N
        #[arg(trailing_var_arg = true, required = true,
              value_hint = ValueHint::CommandWithArguments)]
        command: Vec<OsString>,
    },
    /// Become one rank, under any mpirun or srun
    #[command(after_help = "\
Example:
  mpirun -n 4 fermata exec --name work ./app args")]
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
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        job_dir: Option<PathBuf>,
        /// Socket of a running coordinator [default: $FERMATA_SOCKET]
        #[arg(long, value_name = "PATH")]
        socket: Option<String>,
        /// The coordinator's host and addresses, for ranks on other hosts
        #[arg(long, hide = true, value_delimiter = ',')]
        coordinator: Vec<String>,
        /// This host keeps images here first: for hosts that do not share --dir
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        local_dir: Option<PathBuf>,
        /// This host keeps snapshots there, in a store of this name
        #[arg(long, hide = true)]
        store: Option<String>,
        /// As for run
        #[command(flatten)]
        behind: BehindArgs,
        /// As for run
        #[arg(long, hide = true, value_parser = COLLECTIVES, default_value = COLLECTIVES[0])]
        collectives: String,
        /// As for run
        #[arg(long, hide = true)]
        survive: bool,
        /// A rank that MPI_Comm_spawn made: of no job, and never saved
        #[arg(long, hide = true)]
        spawned: bool,
        /// Restore from this snapshot
        #[arg(long, value_name = "SNAPSHOT", value_hint = ValueHint::DirPath)]
        restore: Option<PathBuf>,
        /// With --restore: what to do about files that changed after the checkpoint
        #[arg(long, value_name = "RULE", value_enum, default_value_t)]
        files: FilesRule,
        /// With --restore: a directory of the job that has moved; may be repeated
        #[arg(long, value_name = "OLD=NEW", value_parser = Move::parse)]
        map: Vec<Move>,
        /// As --files of run
        #[arg(long, value_name = "WHAT", value_parser = parse_which)]
        save_files: Option<String>,
        /// As for run
        #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "1g")]
        files_limit: u64,
        /// As for run
        #[arg(long)]
        encrypt: bool,
        /// The host on which --files has been applied already
        #[arg(long, hide = true)]
        settled: Option<String>,
        /// OFFSET:PATH of the file that rank 0 reads as its standard input
        #[arg(long, hide = true)]
        stdin: Option<String>,
        #[command(flatten)]
        pace: PaceArgs,
        /// Snapshots to keep [default: 2]
        #[arg(long, value_name = "K")]
        keep: Option<u32>,
        /// What saves the ranks: native or self
        #[arg(long, value_name = "NAME", default_value_t)]
        checkpointer: Checkpointer,
        /// The program and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true,
              value_hint = ValueHint::CommandWithArguments)]
        command: Vec<OsString>,
    },
    /// Take a checkpoint and wait until it is committed
    #[command(after_help = "\
Example:
  fermata checkpoint work --stop")]
    Checkpoint {
        /// Job name [default: the running job]
        job: Option<String>,
        /// End the job once the snapshot is committed
        #[arg(long)]
        stop: bool,
        /// Time to reach a safe state, and before that for another checkpoint to end
        #[arg(long, value_name = "TIME", value_parser = parse_duration_ms, default_value = "60s")]
        timeout: u64,
    },
    /// Continue from a snapshot, on the same or another MPI
    #[command(after_help = "\
Example:
  fermata restart work --mpi mpich
  fermata restart ./fermata/work/snapshots/3
  fermata restart /archive/work/snapshots/3 --dir /scratch/jobs")]
    Restart {
        #[command(flatten)]
        start: StartArgs,
        #[command(flatten)]
        end: EndArgs,
        #[command(flatten)]
        hooks: Hooks,
        /// On this host, though the job last ran on others
        #[arg(long, conflicts_with_all = ["host", "hostfile"])]
        here: bool,
        /// What to do about files that changed after the checkpoint
        #[arg(long, value_name = "RULE", value_enum, default_value_t)]
        files: FilesRule,
        /// A directory, or file, of the job that has moved: the program, its libraries, its files
        /// and its working directory are looked for there; may be repeated, the longest OLD holds
        #[arg(long, value_name = "OLD=NEW", value_parser = Move::parse)]
        map: Vec<Move>,
        /// A job (its newest snapshot) or a snapshot's directory; with --dir, what comes is kept
        /// there and not beside that snapshot
        #[arg(value_name = "JOB|SNAPSHOT", value_hint = ValueHint::DirPath)]
        what: Option<String>,
    },
    /// List jobs
    #[command(after_help = "\
Example:
  fermata jobs --all")]
    Jobs {
        /// Those of every directory that jobs of yours were run in, on all hosts that share your
        /// home
        #[arg(long)]
        all: bool,
    },
    /// List the hosts of a running job: their ranks, how busy they are, free memory and disk
    #[command(after_help = "\
Example:
  fermata nodes work")]
    Nodes {
        /// Job name [default: the one that runs, else the one begun last]
        job: Option<String>,
    },
    /// Show what has happened to a job, over all its runs
    #[command(after_help = "\
Example:
  fermata history work")]
    History {
        /// Job name [default: the one that runs, else the one begun last]
        job: Option<String>,
    },
    /// List the snapshots of a job
    #[command(after_help = "\
Example:
  fermata snapshots work")]
    Snapshots {
        /// Job name [default: the one that runs, else the one begun last]
        job: Option<String>,
    },
    /// Show what a snapshot holds
    #[command(after_help = "\
Example:
  fermata inspect work --rank 0")]
    Inspect {
        /// A job or a snapshot's directory
        #[arg(value_hint = ValueHint::DirPath)]
        snapshot: String,
        /// Show one rank in full
        #[arg(long)]
        rank: Option<u32>,
    },
    /// Check every byte of a snapshot
    #[command(after_help = "\
Example:
  fermata verify work")]
    Verify {
        /// A job or a snapshot's directory
        #[arg(value_hint = ValueHint::DirPath)]
        snapshot: String,
    },
    /// Seal a snapshot with your own key: somebody else's, or one made where you had none. What is
    /// restarted runs as you, so know where it comes from. All of it is checked first; what fails
    /// changes nothing, and what is interrupted can be done again
    #[command(after_help = "\
Example:
  fermata trust ./copied/work/snapshots/3")]
    Trust {
        /// A job or a snapshot's directory
        #[arg(value_hint = ValueHint::DirPath)]
        snapshot: String,
    },
    /// Remove old snapshots; those that are damaged do not count as kept
    #[command(after_help = "\
Example:
  fermata prune work --keep 1")]
    Prune {
        /// Job name [default: the one that runs, else the one begun last]
        job: Option<String>,
        /// Snapshots to keep
        #[arg(long, value_name = "K", default_value_t = KEEP_DEFAULT)]
        keep: u32,
    },
    /// Show what fermata.toml, of the site, of yours and of this directory, say
    #[command(after_help = "\
Example:
  fermata config")]
    Config,
    /// The MPIs a job can run on
    #[command(
        subcommand,
        after_help = "\
Example:
  fermata mpi add /opt/openmpi-5 --name openmpi5"
    )]
    Mpi(MpiCommand),
    /// Jobs that save to one file system, one after the other instead of at once
    #[command(
        subcommand,
        after_help = "\
Example:
  fermata site serve --site ~/site --bandwidth 2GB/s
  fermata run --every 30m --site ~/site ./app args
  fermata site status --site ~/site"
    )]
    Site(SiteCommand),
    /// Plan checkpoints: which levels, how often, and what that costs. Nothing is started
    #[command(after_help = "\
Example:
  fermata plan machine.toml
  fermata plan --nodes 512 --bytes-per-node 64GB --mttf node=10y --shared 100GB/s")]
    Plan {
        #[command(flatten)]
        machine: PlanArgs,
    },
    /// Explain this machine: what is there, what is missing, what to do
    #[command(after_help = "\
Example:
  fermata doctor --dir /scratch/jobs")]
    Doctor,
    /// Print a shell's completions
    #[command(after_help = "\
Example:
  fermata completions bash > ~/.local/share/bash-completion/completions/fermata")]
    Completions {
        /// bash, zsh, fish, elvish or powershell
        shell: Shell,
    },
    /// Write the man pages, one per command
    #[command(after_help = "\
Example:
  fermata man ~/.local/share/man/man1")]
    Man {
        /// Where to; made if it does not exist
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        target: PathBuf,
    },
    #[command(hide = true)]
    Coordinator {
        job_dir: PathBuf,
        #[arg(long)]
        detach: bool,
        #[arg(long)]
        network: bool,
        #[arg(long)]
        restored: Option<PathBuf>,
        #[command(flatten)]
        pace: PaceArgs,
        #[arg(long, default_value_t = 1)]
        nodes: u32,
        #[arg(long)]
        outlives: Option<Process>,
    },
    #[command(hide = true)]
    Guard {
        #[arg(long, value_parser = SaveOn::parse)]
        save_on: SaveOn,
        #[arg(long)]
        job_dir: PathBuf,
        #[arg(long)]
        name: String,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<OsString>,
    },
    #[command(hide = true)]
    Daemon {
        job: String,
        #[arg(long)]
        detach: bool,
        #[arg(long)]
        socket: PathBuf,
        #[arg(long, value_delimiter = ',')]
        address: Vec<String>,
        #[arg(long)]
        local_dir: Option<PathBuf>,
        #[arg(long)]
        store: Option<String>,
        #[command(flatten)]
        behind: BehindArgs,
    },
    /// Lends what this host keeps of a job's snapshots to whoever takes the job up again
    #[command(hide = true)]
    Lend {
        store: String,
        #[arg(long, value_delimiter = ',')]
        address: Vec<String>,
        #[arg(long)]
        local_dir: PathBuf,
    },
}

/// `fermata mpi ...`
#[derive(Subcommand)]
pub enum MpiCommand {
    /// List registered MPIs
    #[command(after_help = "\
Example:
  fermata mpi list")]
    List,
    /// Register an MPI: builds its back end
    #[command(after_help = "\
Example:
  fermata mpi add mpicc.mpich --name mpich
  fermata mpi add /opt/openmpi-5")]
    Add {
        /// An mpicc, or the directory that holds bin/mpicc
        #[arg(value_name = "PREFIX|MPICC", value_hint = ValueHint::AnyPath)]
        what: String,
        /// What to call it
        #[arg(long)]
        name: Option<String>,
    },
    /// Forget an MPI
    #[command(after_help = "\
Example:
  fermata mpi remove openmpi5")]
    Remove {
        /// Its name
        name: String,
    },
}

impl Cli {
    /// The table with the exit codes below its help, as everything that is printed shows it.
    pub fn table() -> clap::Command {
        Self::command().after_long_help(format!("{OVERVIEW_EXAMPLE}\n\n{}", exit::table()))
    }
}
