// SPDX-License-Identifier: Apache-2.0
//! `exec`: becomes one rank. Whoever started it (our `run`, a foreign mpirun, srun) has put the
//! rank into the environment; this finds the pieces, checks them, and turns into the launcher.
//!
//! Under a foreign process manager nobody has started a coordinator. The rank with number 0 then
//! starts one, detached, and the others wait for it. All must agree on the job's name without
//! having spoken: it is made of what the process manager gives them all.

use crate::app::App;
use crate::exit::{damaged, refused};
use crate::files::{self, Rule};
use crate::jobs::{Place, unix_now_s};
use crate::registry::{Family, Prefix};
use crate::run::{KEEP_DEFAULT, check_name, start_coordinator};
use anyhow::{Context, Result};
use fermata_coordinator::Client;
use fermata_storage::{JobDir, read_manifest};
use fermata_sysio::host_name;
use fermata_types::JobRecord;
use std::convert::Infallible;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const COORDINATOR_WAIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);
/// A detached coordinator stays this long after its last rank.
const LINGER: Duration = Duration::from_secs(10);

/// Options of `exec`.
#[derive(Clone, Debug, Default)]
pub struct ExecOptions {
    /// Registered MPI below.
    pub mpi: Option<String>,
    /// Front end.
    pub front: Option<String>,
    /// Job name.
    pub name: Option<String>,
    /// Directory of this very job.
    pub job_dir: Option<PathBuf>,
    /// The coordinator's socket, if one runs.
    pub socket: Option<String>,
    /// Snapshot to restore this rank from.
    pub restore: Option<PathBuf>,
    /// What to do about files that changed after it.
    pub files: Rule,
    /// The host on which that has been done.
    pub settled: Option<String>,
    /// `OFFSET:PATH` of rank 0's standard input.
    pub stdin: Option<String>,
    /// Interval of periodic checkpoints in ms (only if a coordinator is started here).
    pub every_ms: u64,
    /// Snapshots to keep (likewise).
    pub keep: Option<u32>,
}

/// What the process manager says about this rank.
struct Manager {
    rank: u32,
    size: u32,
    family: Option<Family>,
    /// Something all ranks of the job and no other job share.
    identity: String,
}

fn number(names: &[&str]) -> Option<u32> {
    names.iter().find_map(|name| std::env::var(name).ok()?.parse().ok())
}

fn parent_identity() -> String {
    let pid = std::os::unix::process::parent_id();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Field 22, counted behind the command name, is the start time: pids come again, pairs do not.
    let begun = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.split_whitespace().nth(19))
        .unwrap_or("0")
        .to_owned();
    format!("{pid}.{begun}")
}

impl Manager {
    fn detect() -> Self {
        let text = |name: &str| std::env::var(name).ok();
        let open_mpi = text("OMPI_COMM_WORLD_RANK").is_some() || text("PMIX_RANK").is_some();
        let mpich = text("PMI_RANK").is_some();
        let identity = text("PMIX_NAMESPACE")
            .or_else(|| text("OMPI_MCA_ess_base_jobid"))
            .or_else(|| {
                let step = text("SLURM_STEP_ID").or_else(|| text("SLURM_STEPID"))?;
                Some(format!("slurm{}.{step}", text("SLURM_JOB_ID")?))
            })
            .unwrap_or_else(parent_identity);
        Self {
            rank: number(&["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"])
                .unwrap_or(0),
            size: number(&["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"]).unwrap_or(1),
            family: match (open_mpi, mpich) {
                (true, _) => Some(Family::OpenMpi),
                (_, true) => Some(Family::Mpich),
                _ => None,
            },
            identity,
        }
    }
}

/// `fermata exec`: returns only if it fails.
pub fn exec(options: &ExecOptions, place: &Place, command: &[String]) -> Result<Infallible> {
    let prefix = Prefix::find()?;
    let manager = Manager::detect();
    let lower = prefix.choose(options.mpi.as_deref(), manager.family)?;
    if let Some(family) = manager.family.filter(|family| *family != lower.family) {
        return Err(refused(format!(
            "this process manager starts {family:?} ranks, but MPI '{}' is {:?}\n  \
             hint: start with that MPI's own mpirun, or use fermata run --mpi {}",
            lower.name, lower.family, lower.name
        )));
    }
    if lower.family == Family::OpenMpi && fermata_sysio::effective_uid() == 0 {
        let allowed = |name| std::env::var_os(name).is_some();
        if !(allowed("OMPI_ALLOW_RUN_AS_ROOT") && allowed("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")) {
            return Err(refused(
                "Open MPI refuses to run as root\n  \
                 hint: set OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
            ));
        }
    }
    let app = App::resolve(command)?;
    let front = app.front(options.front.as_deref(), Some(lower.family))?;
    let launcher = prefix.launcher();
    if !launcher.exists() {
        return Err(refused(format!("{} is missing\n  hint: ./x build", launcher.display())));
    }
    let (name, socket) = coordinator_for(options, place, &manager, &app, &lower.name, front.name)?;

    let mut rank = Command::new(&launcher);
    rank.arg("--lower").arg(prefix.lower_program(&lower.name));
    rank.arg("--front").arg(app.preload(front, &prefix)?);
    rank.arg("--sites-tool").arg(prefix.sites_tool());
    rank.arg("--sites-cache").arg(prefix.sites_cache()?);
    rank.args(["--socket", &socket, "--job", &name]);
    rank.args(["--rank", &manager.rank.to_string()]);
    // What the user pre-loads is meant for the application.
    rank.args(["--lower-env", "LD_PRELOAD="]);
    for (key, value) in &lower.env {
        rank.arg("--lower-env").arg(format!("{key}={value}"));
    }
    if let Some(snapshot) = &options.restore {
        rank.arg("--restore").arg(snapshot);
    }
    prepare_files(options, manager.rank, &mut rank)?;
    rank.arg("--").args(&app.argv);
    let error = rank.exec();
    Err(error).with_context(|| format!("cannot start {}", launcher.display()))
}

/// The files of a restored rank as they were, and rank 0's standard input. MPI_Init has not begun:
/// no rank runs on before every rank has come here.
fn prepare_files(options: &ExecOptions, number: u32, rank: &mut Command) -> Result<()> {
    if let Some(snapshot) = &options.restore {
        if options.settled.as_ref() != Some(&host_name()) {
            let manifest = read_manifest(snapshot).map_err(|why| damaged(why.to_string()))?;
            files::settle(snapshot, &manifest, Some(number), options.files)?;
        }
    }
    let Some((offset, path)) = options.stdin.as_ref().and_then(|text| text.split_once(':')) else {
        return Ok(());
    };
    if number == 0 && options.restore.is_none() {
        let mut file = File::open(path).with_context(|| format!("cannot open {path}"))?;
        file.seek(SeekFrom::Start(offset.parse()?))?;
        rank.stdin(file);
    }
    Ok(())
}

/// Name and socket of this rank's coordinator, which is started if it has to be.
fn coordinator_for(
    options: &ExecOptions,
    place: &Place,
    manager: &Manager,
    app: &App,
    lower: &str,
    front: &str,
) -> Result<(String, String)> {
    let given = options.socket.clone().or_else(|| std::env::var("FERMATA_SOCKET").ok());
    let name = match &options.name {
        Some(name) => name.clone(),
        None => {
            let program = Path::new(&app.argv[0]).file_name().unwrap_or_default();
            let tag = crc(&manager.identity);
            format!("{:.40}-{tag:08x}", program.to_string_lossy())
        }
    };
    check_name(&name)?;
    if let Some(socket) = given {
        return Ok((name, socket));
    }
    let job = match &options.job_dir {
        Some(path) => JobDir::at(path.clone()),
        None => place.job(&name),
    };
    if manager.rank == 0 {
        let record = JobRecord {
            job: name.clone(),
            argv: app.argv.clone(),
            cwd: std::env::current_dir()?.to_string_lossy().into_owned(),
            size: manager.size,
            lower: lower.into(),
            front: front.into(),
            socket: String::new(),
            coordinator_pid: 0,
            started_unix_s: unix_now_s(),
            restored_epoch: 0,
            keep: options.keep.unwrap_or(KEEP_DEFAULT),
        };
        job.create()?;
        job.write_record(&record)?;
        start_detached(&job, options.every_ms)?;
    }
    let socket = wait_for_coordinator(&job, &name)?;
    Ok((name, socket))
}

/// FNV-1a: a short tag that all ranks compute alike.
fn crc(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Through a child that ends at once, so that the application has no child it did not make.
fn start_detached(job: &JobDir, every_ms: u64) -> Result<()> {
    let status = Command::new(std::env::current_exe()?)
        .args(["coordinator", "--detach", "--every"])
        .arg(format!("{every_ms}ms"))
        .arg(job.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("cannot start the coordinator")?;
    if status.success() {
        Ok(())
    } else {
        Err(anyhow::anyhow!("the coordinator did not start: {status}"))
    }
}

fn wait_for_coordinator(job: &JobDir, name: &str) -> Result<String> {
    let begun = Instant::now();
    while begun.elapsed() < COORDINATOR_WAIT {
        if let Ok(record) = job.read_record() {
            if !record.socket.is_empty() && Client::connect(&record.socket, name).is_ok() {
                return Ok(record.socket);
            }
        }
        thread::sleep(POLL);
    }
    Err(refused(format!(
        "no coordinator of job '{name}' came up within {} s ({})\n  \
         hint: jobs on several hosts are not supported yet; on one host look into coordinator.log",
        COORDINATOR_WAIT.as_secs(),
        job.path().display()
    )))
}

/// The hidden command `coordinator`: serves a job until its ranks are gone.
pub fn coordinator(job_dir: &Path, detach: bool, every_ms: u64) -> Result<()> {
    if detach {
        // The standard streams are /dev/null already: mpirun must not wait for ours.
        Command::new(std::env::current_exe()?)
            .args(["coordinator", "--every", &format!("{every_ms}ms")])
            .arg(job_dir)
            .spawn()
            .context("cannot start the coordinator")?;
        return Ok(());
    }
    // Not the leader of a group, being a child; so this cannot fail in a way that matters.
    let _ = fermata_sysio::leave_session();
    let job = JobDir::at(std::fs::canonicalize(job_dir)?);
    let mut record = job.read_record()?;
    start_coordinator(&job, &mut record, every_ms, Some(LINGER))?.wait();
    Ok(())
}
