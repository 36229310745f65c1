// SPDX-License-Identifier: Apache-2.0
//! Snapshots that stay on hosts, for a job that is taken up again. Lenders let the stores of the
//! hosts that are left be read, and the newest snapshot that they can give is chosen.
//!
//! Where it is known which ranks will run on which host, the snapshot is made anew there: each host
//! keeps the images of the ranks that it will run (`HostStore::place`), and the job's directory
//! gets a snapshot that says so, with the heads of the images: the checks before a restart need no
//! more. Else all images are written into the job's directory. In either case every byte is looked
//! at before a rank runs, and from there on the restart is as any other.
//!
//! Invariant: a snapshot of the directory that lies on hosts was placed by this very process.

use crate::again::{last_run, left};
use crate::end_args::unix_now_ms;
use crate::exit::refused;
use crate::lenders::Lenders;
use crate::run::failure_groups;
use anyhow::{Context, Result};
use fermata_launch::batch::Batch;
use fermata_launch::hosts::{self, Hosts};
use fermata_launch::key;
use fermata_launch::mpirun::LaunchContext;
use fermata_launch::registry::Prefix;
use fermata_launch::start::Start;
use fermata_levels::{Home, Id, Item, Restart, Snapshot, choose};
use fermata_node::{RemotePeers, Survey, survey};
use fermata_storage::{
    JobDir, JobDirectory, Kept, Level, Peers, Restored, SnapshotInfo, copy_head, create_own,
    list_snapshots, note_placed, partial_image, read_manifest, read_placed,
};
use fermata_sysio::print_error;
use fermata_types::{JobRecord, Manifest};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Before a job is taken up again: what its hosts have is made a snapshot of its directory, if that
/// is newer than what is there.
///
/// # Errors
/// There is nothing in the directory, and the hosts give nothing.
pub fn before_restart(job: &JobDir, start: &Start) -> Result<()> {
    forget_placed(job);
    let Ok(mut record) = last_run(job) else { return Ok(()) };
    if record.levels.is_empty() {
        return Ok(());
    }
    if !start.hosts.is_empty() || start.hostfile.is_some() {
        // Lost may have been no more than its daemon; whoever names the host knows that it lives.
        record.lost_host.clear();
    }
    match bring(job, start, &record) {
        Err(why) if !list_snapshots(job).is_empty() => {
            print_error(format_args!("hosts give no newer snapshot: {why:#}"));
            Ok(())
        }
        other => other,
    }
}

/// After a run that is followed by another one, on the hosts of `start` if it names any. What
/// cannot be had is said.
pub fn between_runs(job: &JobDir, start: &Start, record: &JobRecord) {
    forget_placed(job);
    if record.levels.is_empty() {
        return;
    }
    if let Err(why) = bring(job, start, record) {
        print_error(format_args!("hosts give no snapshot: {why:#}"));
    }
}

/// What was placed for an earlier run may not be there any more, or elsewhere.
fn forget_placed(job: &JobDir) {
    let directory = JobDirectory::new(job.clone(), None);
    let lies_here = |path: &Path| matches!(read_placed(&job.via(path), key::own()), Ok(None));
    for placed in list_snapshots(job).iter().filter(|found| !lies_here(&found.path)) {
        directory.drop(placed.epoch);
    }
}

/// Where a job is taken up.
struct Place {
    /// The hosts that are asked.
    names: Vec<String>,
    /// The ranks of each, if that is known, and there are several.
    homes: Option<Vec<Home>>,
}

impl Place {
    /// Those that are given, those of the allocation, or those of the last run that are left.
    fn of(start: &Start, record: &JobRecord) -> Result<Self> {
        let given = Hosts::from(&start.hosts, start.hostfile.as_deref(), record.size)?;
        if given.is_none() && hosts::batch_system_names_hosts() {
            let names = Batch::detect().and_then(|batch| batch.hosts().ok()).unwrap_or_default();
            return Ok(Self { names, homes: None }); // mpirun places ranks as it likes
        }
        let words = left(&record.hosts, &record.lost_host);
        let hosts = match given {
            Some(hosts) => Some(hosts),
            None => Hosts::from(&words, None, record.size)?,
        };
        let hosts = hosts.as_ref().map_or(&[][..], Hosts::all);
        let homes = in_blocks(hosts, record.size);
        Ok(Self {
            names: hosts.iter().map(|(name, _)| name.clone()).collect(),
            homes: Some(homes).filter(|homes| homes.len() > 1),
        })
    }
}

/// As both mpiruns place ranks. In the order of their names, as snapshots have them.
fn in_blocks(hosts: &[(String, u32)], size: u32) -> Vec<Home> {
    let mut first = 0;
    let mut ranks: BTreeMap<&String, Vec<u32>> = BTreeMap::new();
    for (name, room) in hosts {
        let count = (*room).min(size - first);
        ranks.entry(name).or_default().extend(first..first + count);
        first += count;
    }
    ranks.retain(|_, ranks| !ranks.is_empty());
    ranks.into_iter().map(|(host, ranks)| Home { host: host.clone(), ranks }).collect()
}

fn bring(job: &JobDir, start: &Start, record: &JobRecord) -> Result<()> {
    let Place { names, homes } = Place::of(start, record)?;
    if names.is_empty() {
        return Err(refused(
            "the job's snapshots lie on its hosts, and its record names none\n  \
             hint: --host a,b,c",
        ));
    }
    let prefix = Prefix::find()?;
    let lower = prefix.choose(start.mpi.as_deref().or(Some(&record.lower)), None)?;
    let remote_shell = start.remote_shell.clone().or_else(|| Some(record.remote_shell.clone()));
    let start = Start {
        remote_shell: remote_shell.filter(|shell| !shell.is_empty()),
        mpirun_args: record.mpirun_args.clone(),
        ..start.clone()
    };
    let context = LaunchContext { prefix: &prefix, lower: &lower, start: &start, hosts: None };
    let directory = match &start.local_dir {
        Some(directory) => directory.clone(),
        None => PathBuf::from(&record.local_dir),
    };
    let store = record.store();
    let mut lenders = Lenders::begin(&context, &store, &names, &directory)?;
    let done = take(job, &store, &mut lenders, |id| arranged(id, homes.clone()?, &start, record));
    lenders.end();
    done
}

/// A snapshot on the hosts that the run will be on; `None`: they are not known, or too few.
fn arranged(id: Id, homes: Vec<Home>, start: &Start, record: &JobRecord) -> Option<Snapshot> {
    let chain = start.levels.clone().or_else(|| record.levels.parse().ok())?;
    let chain = chain.on(u32::try_from(homes.len()).ok()?)?;
    Snapshot::new(id, homes, &failure_groups(start), &chain).ok()
}

/// On the hosts if that can be, else into the job's directory.
fn take(
    job: &JobDir,
    store: &str,
    lenders: &mut Lenders,
    arranged: impl Fn(Id) -> Option<Snapshot>,
) -> Result<()> {
    let hosts = lenders.wait()?;
    let mut peers = lenders.peers(store);
    let survey = survey(&hosts, &mut peers);
    survey.silent.iter().for_each(|text| print_error(format_args!("{text}")));
    match place(job, &survey, lenders, &mut peers, arranged) {
        Ok(true) => return Ok(()),
        Ok(false) => {}
        Err(why) => print_error(format_args!("not restarted where images lie: {why:#}")),
    }
    let to = job.snapshots().join("gathered.partial");
    make_empty(job, &to)?;
    let found = survey.gather(&mut peers, key::own(), &job.via(&to));
    let kept = found.map_err(anyhow::Error::from).and_then(|found| settle(job, &to, &found));
    let _ = fs::remove_dir_all(job.via(&to));
    kept
}

fn make_empty(job: &JobDir, directory: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(job.via(directory));
    Ok(DirBuilder::new().mode(0o700).create(job.via(directory))?)
}

/// The newest snapshot is made anew on the hosts, and the job's directory gets the heads. False: it
/// cannot be known where ranks will run.
fn place(
    job: &JobDir,
    survey: &Survey,
    lenders: &mut Lenders,
    peers: &mut RemotePeers,
    arranged: impl Fn(Id) -> Option<Snapshot>,
) -> Result<bool> {
    let all: Vec<Snapshot> = survey.known.values().map(|kept| kept.snapshot.clone()).collect();
    let restart = choose(&all, &survey.holdings, &BTreeSet::new())?;
    let old = restart.snapshot.id;
    let manifest = &survey.known.get(&old).context("it is one of those that are known")?.manifest;
    let Some(snapshot) = arranged(Id { taken_ms: unix_now_ms(), ..old }) else { return Ok(false) };
    // A host that calls itself otherwise than it is called cannot be told.
    if !snapshot.homes.iter().all(|home| lenders.has(&home.host)) {
        return Ok(false);
    }
    if is_there(job, manifest)? {
        return Ok(true);
    }
    let new = Kept { snapshot, manifest: manifest.clone() };
    let said = lenders.place(old, &new)?;
    tell(&restart, said);
    let to = job.snapshots().join("placed.partial");
    make_empty(job, &to)?;
    let done = copy_heads(&new, peers, &job.via(&to)).and_then(|()| {
        note_placed(&job.via(&to), &new, key::found().map(|user| &user.key))?;
        commit(job, &to, manifest)
    });
    let _ = fs::remove_dir_all(job.via(&to));
    done.map(|()| true)
}

/// The heads of all images, from the hosts that keep them.
fn copy_heads(kept: &Kept, peers: &mut RemotePeers, directory: &Path) -> Result<()> {
    for home in &kept.snapshot.homes {
        let mut begin = 0;
        for rank in &home.ranks {
            let image = kept.manifest.images.iter().find(|image| image.rank == *rank);
            let image = image.context("every rank has an image")?;
            let file = create_own(&directory.join(&image.file))?;
            let read = |at, bytes: &mut [u8]| {
                peers.read(&home.host, kept, Item::Images, begin + at, bytes)
            };
            copy_head(read, &file)
                .and_then(|()| Ok(file.sync_all()?))
                .with_context(|| format!("rank {rank} on {}", home.host))?;
            begin += image.bytes;
        }
    }
    Ok(())
}

/// The gathered images are a snapshot of the job's directory from here on.
fn settle(job: &JobDir, from: &Path, found: &Restored) -> Result<()> {
    found.notes.iter().for_each(|text| print_error(format_args!("{text}")));
    if is_there(job, &found.kept.manifest)? {
        return Ok(());
    }
    tell(&found.restart, found.restart.sentences());
    commit(job, from, &found.kept.manifest)
}

/// What is taken, and, sentence by sentence, from where.
fn tell(restart: &Restart, said: impl IntoIterator<Item = String>) {
    let Id { epoch, .. } = restart.snapshot.id;
    restart.lost.iter().for_each(|lost| print_error(format_args!("{lost}")));
    print_error(format_args!("checkpoint {epoch} is taken from the hosts"));
    for text in said {
        print_error(format_args!("  {text}"));
    }
}

/// Whether the directory has that one, or a newer one.
///
/// # Errors
/// It has another one of that number.
fn is_there(job: &JobDir, manifest: &Manifest) -> Result<bool> {
    let is_as_new = |newest: &SnapshotInfo| newest.epoch >= manifest.epoch;
    let Some(newest) = list_snapshots(job).pop().filter(is_as_new) else { return Ok(false) };
    let is_same =
        read_manifest(&newest.path, key::own()).is_ok_and(|there| there.images == manifest.images);
    if newest.epoch > manifest.epoch || is_same {
        return Ok(true);
    }
    Err(refused(format!(
        "{} is another snapshot than checkpoint {} of the hosts\n  \
         hint: remove the one that is not wanted, or restart the directory by its path",
        newest.path.display(),
        manifest.epoch
    )))
}

/// What lies in this directory is a snapshot of the job's.
fn commit(job: &JobDir, from: &Path, manifest: &Manifest) -> Result<()> {
    let partial = partial_image(job, manifest.epoch, 0);
    let partial = partial.parent().context("a snapshot lies in a directory")?;
    let _ = fs::remove_dir_all(job.via(partial));
    fs::rename(job.via(from), job.via(partial))?;
    let level = JobDirectory::new(job.clone(), key::found().map(|user| user.key));
    level.put(manifest)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_placed_in_blocks() {
        let host = |name: &str| (name.to_owned(), 3);
        let homes = in_blocks(&[host("b"), host("a"), host("c")], 5);
        let home = |host: &str, ranks: &[u32]| Home { host: host.into(), ranks: ranks.to_vec() };
        assert_eq!(homes, [home("a", &[3, 4]), home("b", &[0, 1, 2])]);
    }
}
