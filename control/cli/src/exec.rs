// SPDX-License-Identifier: Apache-2.0
//! `exec`: becomes one rank. Whoever started it (our `run`, a foreign mpirun, srun) has put the
//! rank into the environment; this finds the pieces, checks them, and turns into the launcher.
//!
//! Under a foreign process manager nobody has started a coordinator. The rank with number 0 then
//! starts one, detached, and the others wait for its record in the job's directory. All must agree
//! on the job's name without having spoken: it is made of what the process manager gives them all,
//! on every host.

use crate::auto;
use crate::detached;
use crate::exit::{damaged, refused};
use crate::jobs::{JobsDir, unix_now_s};
use crate::ownership::check_owner;
use crate::reach::{self, CoordinatorAddr, Local, tag};
use crate::restart::refuse_placed;
use crate::service::Service;
use crate::state::state_of;
use anyhow::{Context, Result};
use fermata_coordinator::Client;
use fermata_launch::allocation;
use fermata_launch::app::App;
use fermata_launch::files::{self, Rule};
use fermata_launch::guarded;
use fermata_launch::hosts::check_shares;
use fermata_launch::manager::Manager;
use fermata_launch::moved::{Images, Moves};
use fermata_launch::mpi::Lower;
use fermata_launch::names::{check_name, name_after};
use fermata_launch::rank::{ImagePlan, RankPlan};
use fermata_launch::registry::Prefix;
use fermata_launch::start::{KEEP_DEFAULT, SaveFiles};
use fermata_launch::{environment, kept, key, limits, parts, programs, surviving, versions};
use fermata_storage::{JobDir, read_manifest};
use fermata_sysio::{Process, host_name};
use fermata_transport::Secret;
use fermata_types::{Checkpointer, Every, JobRecord, Manifest, PROGRAM_DIRECTORY, words};
use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

const COORDINATOR_WAIT: Duration = Duration::from_secs(30);
/// So often a rank that waits for it looks whether another run has the job.
const BESIDE_WAIT: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(50);

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
    /// The coordinator's host, then its addresses for other hosts.
    pub coordinator: Vec<String>,
    /// This host's own directory for images.
    pub local_dir: Option<PathBuf>,
    /// This host keeps snapshots there, in a store of this name.
    pub store: Option<String>,
    /// What it may take for making levels of them.
    pub behind: fermata_launch::behind::Behind,
    /// What makes collective calls whole.
    pub collectives: String,
    /// The death of this rank ends nobody else.
    pub survive: bool,
    /// MPI_Comm_spawn made this process: it belongs to no job, and nobody saves it.
    pub spawned: bool,
    /// Snapshot to restore this rank from.
    pub restore: Option<PathBuf>,
    /// What to do about files that changed after it.
    pub files: Rule,
    /// Directories that have moved since.
    pub moves: Moves,
    /// Files whose contents are saved.
    pub save_files: SaveFiles,
    /// Images are encrypted.
    pub encrypt: bool,
    /// The host on which that has been done.
    pub settled: Option<String>,
    /// `OFFSET:PATH` of rank 0's standard input.
    pub stdin: Option<String>,
    /// How often the job is saved of itself (only if a coordinator is started here).
    pub every: Every,
    /// What fails how often (likewise).
    pub machine: Option<PathBuf>,
    /// Where the site's service is found.
    pub site: Option<PathBuf>,
    /// Snapshots to keep (likewise).
    pub keep: Option<u32>,
    /// What saves the ranks (likewise), unless a snapshot says.
    pub checkpointer: Checkpointer,
}

/// `fermata exec`: returns only if it fails.
pub fn exec(options: &ExecOptions, place: &JobsDir, command: &[OsString]) -> Result<Infallible> {
    environment::take_back();
    if !options.spawned {
        environment::ignore_signals_to_save_on();
    }
    guarded::begin_rank();
    let found = detect(options)?;
    let app = match App::resolve(command) {
        Ok(app) => app,
        Err(why) if options.spawned => return without_us(command, why),
        Err(why) => return Err(why),
    };
    let resolved = resolve(options, place, &found, app)?;
    let image = resolved.image().map(|snapshot| (snapshot, resolved.images_of(&found, snapshot)));
    let plan = plan(&found, &resolved, image.as_ref().map(|(_, images)| images))?;
    let mut rank = Command::new(&plan.launcher);
    rank.args(plan.arguments());
    prepare_files(&resolved.options, image, found.manager.rank, &mut rank)?;
    rank.env_remove(Secret::VARIABLE).env_remove(environment::SAVE_ON);
    if options.survive {
        let job = &resolved.job;
        std::process::exit(surviving::run_beside(&mut rank, found.manager.rank, job)?);
    }
    let error = rank.exec();
    Err(error).with_context(|| format!("cannot start {}", plan.launcher.display()))
}

/// What there is here, whatever is to be run.
struct Detected {
    prefix: Prefix,
    manager: Manager,
    lower: Lower,
}

/// Looks where this rank is, and whether ranks can be started here.
fn detect(options: &ExecOptions) -> Result<Detected> {
    let prefix = Prefix::find()?;
    let manager = Manager::detect();
    let lower = prefix.choose(options.mpi.as_deref(), manager.family)?;
    manager.check(&lower)?;
    if let Some(why) = limits::address_space_refusal() {
        return Err(refused(if manager.is_first_here { why } else { String::new() }));
    }
    Ok(Detected { prefix, manager, lower })
}

/// The rank's place in its job.
struct Resolved {
    /// As given, but with the checkpointer that a snapshot says.
    options: ExecOptions,
    app: App,
    /// The job's name.
    name: String,
    job: JobDir,
    /// Where the agent connects.
    socket: String,
    /// Of the snapshot that it is restored from, if it can be read here.
    manifest: Option<Manifest>,
    /// That snapshot, as this host sees it.
    snapshot: Option<PathBuf>,
}

impl Resolved {
    fn saves_itself(&self) -> bool {
        self.options.checkpointer == Checkpointer::Itself
    }

    /// The snapshot with the rank's image; a program that saves itself has none.
    fn image(&self) -> Option<&Path> {
        self.snapshot.as_deref().filter(|_| !self.saves_itself())
    }

    /// What a program that saves itself has saved.
    fn state(&self) -> Option<PathBuf> {
        let snapshot = self.snapshot.as_ref().filter(|_| self.saves_itself())?;
        Some(snapshot.join(PROGRAM_DIRECTORY))
    }

    /// The rank's image, with its front end where it is now.
    fn images_of(&self, found: &Detected, snapshot: &Path) -> Images {
        let its_own = snapshot.canonicalize().ok().and_then(|path| JobDir::with_snapshot(&path));
        let jobs = [Some(self.job.clone()), its_own];
        let images = Images::one(snapshot, found.manager.rank, self.options.moves.clone());
        parts::found(&found.prefix, jobs.iter().flatten(), images)
    }
}

/// Finds the job, its coordinator, which is started if nobody has, and the snapshot.
fn resolve(options: &ExecOptions, place: &JobsDir, found: &Detected, app: App) -> Result<Resolved> {
    let front = app.front(options.front.as_deref(), Some(found.lower.family))?;
    let launcher = found.prefix.launcher();
    if !launcher.exists() {
        return Err(refused(format!("{} is missing\n  hint: ./x build", launcher.display())));
    }
    if let Some(snapshot) = options.restore.as_ref().filter(|path| path.is_dir()) {
        check_owner(snapshot)?;
    }
    let manifest = manifest_of(options)?;
    let checkpointer = manifest.as_ref().map_or(options.checkpointer, |m| m.checkpointer);
    let options = ExecOptions { checkpointer, ..options.clone() };
    check_shares(options.checkpointer, options.local_dir.as_deref())?;
    let (name, socket) = if options.spawned {
        ("spawned".to_owned(), String::new())
    } else {
        coordinator_for(&options, place, &found.manager, &app, &found.lower.name, front.name)?
    };
    let snapshot = visible_snapshot(&options, &socket, found.manager.rank)?;
    let job = job_of(&options, place, &name);
    Ok(Resolved { options, app, name, job, socket, manifest, snapshot })
}

/// What the launcher is told. `images`: the rank's own.
fn plan(found: &Detected, resolved: &Resolved, images: Option<&Images>) -> Result<RankPlan> {
    let Detected { prefix, manager, lower } = found;
    let options = &resolved.options;
    if options.encrypt {
        key::check_encryption(options.checkpointer)?;
    }
    let set_by_user = |key: &str| key.starts_with("OMPI_MCA_") && std::env::var_os(key).is_some();
    let lower_env = lower.env.iter().filter(|(key, _)| !set_by_user(key));
    let image = resolved.image().zip(images).map(|(snapshot, images)| ImagePlan {
        snapshot: snapshot.to_owned(),
        mac: resolved.manifest.as_ref().and_then(|manifest| mac_of(manifest, manager.rank)),
        moves: images.moves.pairs().map(|(from, to)| (from.to_owned(), to.to_owned())).collect(),
    });
    let SaveFiles { which, limit } = &options.save_files;
    let moved = images.and_then(kept::moved_option);
    Ok(RankPlan {
        launcher: prefix.launcher(),
        lower: prefix.lower_program(&lower.name),
        fronts: prefix.front(""),
        sites_tool: prefix.sites_tool(),
        sites_shared: prefix.sites_shared(),
        sites_cache: prefix.sites_cache().ok(),
        fermata: prefix.fermata()?,
        socket: resolved.socket.clone(),
        job: resolved.name.clone(),
        rank: manager.rank,
        collectives: options.collectives.clone(),
        ranks: std::path::absolute(resolved.job.ranks_path())?,
        key: key::found().map(|user| user.path.clone()),
        encrypt: options.encrypt,
        lower_env: lower_env.map(|(key, value)| (key.clone(), value.clone())).collect(),
        state: resolved.state().map(std::path::absolute).transpose()?,
        image,
        save_files: kept::launcher_option(which.as_deref(), *limit)?.or(moved),
        save_on: environment::signals_to_save_on(),
        argv: resolved.app.argv.clone(),
    })
}

/// The snapshot that this rank is restored from, as this host sees it.
fn visible_snapshot(options: &ExecOptions, socket: &str, rank: u32) -> Result<Option<PathBuf>> {
    let restore = match (&options.restore, &options.local_dir) {
        (Some(_), Some(_)) => Some(reach::fetch_image(socket, rank)?),
        (restore, _) => restore.clone(),
    };
    if let Some(snapshot) = restore.as_ref().filter(|path| !path.is_dir()) {
        return Err(refused(format!(
            "host {} cannot see the snapshot {}\n  \
             hint: put it on a directory that all hosts share, or add --local-dir DIR",
            fermata_sysio::host_name(),
            snapshot.display()
        )));
    }
    Ok(restore)
}

/// The manifest of the snapshot that this rank is to continue from. With a directory of this host's
/// own the coordinator has it, and sends no other images than those that it lists; the launcher
/// believes what is not sealed where there is no key, so none may be out of reach here.
fn manifest_of(options: &ExecOptions) -> Result<Option<Manifest>> {
    let Some(snapshot) = &options.restore else { return Ok(None) };
    if options.local_dir.is_some() {
        return key::check_in_reach().map(|()| None);
    }
    if !snapshot.is_dir() {
        return Ok(None);
    }
    refuse_placed(snapshot)?;
    read_manifest(snapshot, key::own()).map(Some).map_err(|why| damaged(why.to_string()))
}

/// The MAC that a manifest lists of a rank's image. A rank that it does not list has none, and its
/// image is of another job's size, or missing: the launcher says so.
fn mac_of(manifest: &Manifest, rank: u32) -> Option<String> {
    let image = manifest.images.iter().find(|image| image.rank == rank)?;
    Some(image.mac.clone()).filter(|mac| !mac.is_empty())
}

/// A spawned program that is none for us (static, say) is the MPI's own affair.
fn without_us(command: &[OsString], why: anyhow::Error) -> Result<Infallible> {
    let error = Command::new(&command[0]).args(&command[1..]).exec();
    let name = words::shown(&command[0]);
    Err(why.context(format!("cannot start the spawned program {name}: {error}")))
}

/// The files of a restored rank as they were, and rank 0's standard input. MPI_Init has not begun:
/// no rank runs on before every rank has come here.
fn prepare_files(
    options: &ExecOptions,
    image: Option<(&Path, Images)>,
    number: u32,
    rank: &mut Command,
) -> Result<()> {
    let restores = image.is_some();
    if let Some((_, own)) = &image {
        kept::make_missing(own)?;
    }
    let settled = options.settled.as_ref() == Some(&host_name());
    if let Some((snapshot, own)) = image.filter(|_| !settled) {
        // Of a snapshot on another host's disk only this rank's image has been brought here.
        versions::check(&own, "")?;
        programs::check(&own)?;
        let images = if options.local_dir.is_some() {
            own
        } else {
            let manifest =
                read_manifest(snapshot, key::own()).map_err(|why| damaged(why.to_string()))?;
            Images::of(snapshot, &manifest, own.moves)
        };
        files::settle(&images, Some(number), options.files)?;
    }
    let Some((offset, path)) = options.stdin.as_ref().and_then(|text| text.split_once(':')) else {
        return Ok(());
    };
    if number == 0 && !restores {
        let mut file = File::open(path).with_context(|| format!("cannot open {path}"))?;
        file.seek(SeekFrom::Start(offset.parse()?))?;
        rank.stdin(file);
    }
    Ok(())
}

fn job_of(options: &ExecOptions, place: &JobsDir, name: &str) -> JobDir {
    options.job_dir.clone().map_or_else(|| place.job(name), JobDir::at)
}

/// The number of a snapshot of this job; 0 of any other.
fn epoch_in(job: &JobDir, snapshot: &Path) -> u32 {
    let (Ok(path), Ok(own)) = (snapshot.canonicalize(), job.snapshots().canonicalize()) else {
        return 0;
    };
    let name = path.strip_prefix(own).ok().and_then(Path::to_str);
    name.and_then(|name| name.parse().ok()).unwrap_or(0)
}

/// The job's name, and the socket that this rank's agent is to connect to.
fn coordinator_for(
    options: &ExecOptions,
    place: &JobsDir,
    manager: &Manager,
    app: &App,
    lower: &str,
    front: &str,
) -> Result<(String, String)> {
    let name = match &options.name {
        Some(name) => name.clone(),
        None => format!("{}-{:08x}", name_after(&app.argv[0]), tag(&manager.identity)),
    };
    check_name(&name)?;
    let job = job_of(options, place, &name);
    let (store, behind) = (options.store.as_deref(), &options.behind);
    let local = options.local_dir.as_deref().map(|dir| Local { dir, store, behind });
    let given = options.socket.clone().or_else(|| std::env::var("FERMATA_SOCKET").ok());
    if let Some(socket) = given {
        let (host, addresses) = options.coordinator.split_first().map_or_else(
            || (String::new(), Vec::new()),
            |(host, addresses)| (host.clone(), addresses.to_vec()),
        );
        let found_at = CoordinatorAddr { host, socket, addresses };
        if !found_at.is_here() && local.is_none() {
            check_shared(&job, &found_at)?;
        }
        let socket = socket_for(&name, &job, &found_at, local)
            .map_err(|error| refused(format!("{error:#}\n  hint: {NETWORK_HINT}")))?;
        return Ok((name, socket));
    }
    if manager.rank == 0 {
        let record = JobRecord {
            job: name.clone(),
            run: manager.identity.clone(),
            argv: app.argv.clone(),
            cwd: std::env::current_dir()?.to_string_lossy().into_owned(),
            size: manager.size,
            lower: lower.into(),
            front: front.into(),
            started_unix_s: unix_now_s(),
            restored_epoch: options.restore.as_ref().map_or(0, |path| epoch_in(&job, path)),
            keep: options.keep.unwrap_or(KEEP_DEFAULT),
            every: options.every,
            machine: auto::recorded(options.machine.as_deref()),
            site: auto::recorded(options.site.as_deref()),
            checkpointer: options.checkpointer,
            ..JobRecord::default()
        };
        let service = Service {
            every: options.every,
            machine: options.machine.clone(),
            site: options.site.as_deref().map(|site| auto::recorded(Some(site)).into()),
            nodes: manager.hosts(),
            network: local.is_some() || manager.may_span_hosts() || allocation::is_in_batch_job(),
            restored: options.restore.clone(),
            // This process becomes the rank, or the script that will start it.
            outlives: Some(Process::of(std::process::id())),
            ..Service::default()
        };
        key::tell_if_missing();
        detached::begin(&job, &record, &service)?;
        if options.restore.is_none() {
            parts::keep(&Prefix::find()?, &job, front);
        }
    }
    let socket = wait_for_coordinator(&job, &name, &manager.identity, local)?;
    Ok((name, socket))
}

const NETWORK_HINT: &str = "hosts must reach each other over TCP, and each host's /tmp must be its \
                            own; see coordinator.log in the job's directory";

/// Without a directory of its own this host has to see the one that the coordinator writes to.
/// Better refused now than at the first checkpoint.
fn check_shared(job: &JobDir, found_at: &CoordinatorAddr) -> Result<()> {
    let shared = job.read_record().is_ok_and(|record| record.addresses == found_at.addresses);
    if shared {
        return Ok(());
    }
    Err(refused(format!(
        "host {} does not share the job's directory {} of host {}\n  \
         hint: --dir on a directory that all hosts share, or --local-dir DIR to collect images",
        fermata_sysio::host_name(),
        job.path().display(),
        found_at.host
    )))
}

/// The coordinator's own socket, or that of this host's daemon.
fn socket_for(
    name: &str,
    job: &JobDir,
    found_at: &CoordinatorAddr,
    local: Option<Local>,
) -> Result<String> {
    if found_at.is_here() && local.is_none() {
        return Ok(found_at.socket.clone());
    }
    let secret = reach::secret(Some(job))?;
    reach::daemon_socket(name, found_at, &secret, local).with_context(|| {
        let here = fermata_sysio::host_name();
        format!("host {here} cannot reach the coordinator of job '{name}' on {}", found_at.host)
    })
}

/// Waits until rank 0 has started it. A record of an earlier run is told by its `run`.
fn wait_for_coordinator(
    job: &JobDir,
    name: &str,
    run: &str,
    local: Option<Local>,
) -> Result<String> {
    let begun = Instant::now();
    let mut last = None;
    let mut look_at = BESIDE_WAIT;
    while begun.elapsed() < COORDINATOR_WAIT {
        if let Ok(record) = job.read_record() {
            // Rank 0 has been refused then.
            if record.run != run && begun.elapsed() >= look_at {
                let state = state_of(job, &record);
                if state.is_at_work() {
                    return Err(state.refusal(job));
                }
                look_at = begun.elapsed() + BESIDE_WAIT;
            }
            if record.run == run && !record.socket.is_empty() {
                let found_at = CoordinatorAddr::from(&record);
                match socket_for(name, job, &found_at, local) {
                    Ok(socket) if socket != record.socket => return Ok(socket),
                    Ok(socket) if Client::connect(&socket, name).is_ok() => return Ok(socket),
                    Ok(_) => {}
                    Err(error) => last = Some(error),
                }
            }
        }
        thread::sleep(POLL);
    }
    let why = last.map_or(String::new(), |error| format!(": {error:#}"));
    Err(refused(format!(
        "host {}: no coordinator of job '{name}' came up within {} s ({}){why}\n  \
         hint: the directory must be the same on all hosts; {NETWORK_HINT}",
        fermata_sysio::host_name(),
        COORDINATOR_WAIT.as_secs(),
        job.path().display()
    )))
}
