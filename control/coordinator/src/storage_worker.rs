// SPDX-License-Identifier: Apache-2.0
//! What takes as long as the disk does, on a thread of its own: making room for a snapshot, making
//! it durable, removing old ones. Ranks and commands are answered meanwhile.

use crate::input::Input;
use crate::levels::Levels;
use crate::options::Options;
use fermata_job::{CommitPlan, DiskError, Event, ImageDone};
use fermata_storage::{
    JobDir, JobDirectory, Level, image_name, prepare, prepare_program, program_files, prune,
    remove_leftovers,
};
use fermata_types::{Checkpointer, FileRecord, ImageRecord, MANIFEST_FORMAT, Manifest};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

enum Task {
    Prepare(u32),
    Commit(CommitPlan),
    Prune,
}

/// Removes what earlier runs of the job have left. Then it takes tasks, does them one after the
/// other, and tells the server of each when it is done.
pub(crate) struct StorageWorker {
    tasks: Sender<Task>,
    /// Does them instead, where images stay on their hosts.
    levels: Option<Levels>,
    /// Tasks that are not done yet. What it does at the beginning keeps nobody, and is not counted.
    open: u32,
}

impl StorageWorker {
    pub(crate) fn start(
        options: Options,
        done: Sender<Input>,
        levels: Option<Levels>,
    ) -> io::Result<Self> {
        let (tasks, receiver) = channel();
        thread::Builder::new().spawn(move || work(&options, &receiver, &done))?;
        Ok(Self { tasks, levels, open: 0 })
    }

    /// Answered with `Event::Prepared`. False: its thread is gone.
    pub(crate) fn prepare(&mut self, epoch: u32) -> bool {
        match &self.levels {
            Some(levels) => self.count(levels.prepare(epoch)),
            None => self.give(Task::Prepare(epoch)),
        }
    }

    /// Answered with `Event::Stored`. False: its thread is gone.
    pub(crate) fn commit(&mut self, plan: CommitPlan) -> bool {
        match &self.levels {
            Some(levels) => self.count(levels.commit(plan)),
            None => self.give(Task::Commit(plan)),
        }
    }

    /// Answered with `Event::Pruned`. False: its thread is gone, or nothing is to be removed here.
    pub(crate) fn prune(&mut self) -> bool {
        self.levels.is_none() && self.give(Task::Prune)
    }

    /// The checkpoint has not come about. False: what there is of it lies in the job's directory.
    pub(crate) fn discard(&self, epoch: u32) -> bool {
        self.levels.as_ref().is_some_and(|levels| levels.discard(epoch))
    }

    /// A level is to be made of a snapshot that is stored. False: there is nobody to do it.
    pub(crate) fn promote(&self, epoch: u32, level: usize) -> bool {
        self.levels.as_ref().is_some_and(|levels| levels.promote(epoch, level))
    }

    fn give(&mut self, task: Task) -> bool {
        let given = self.tasks.send(task).is_ok();
        self.count(given)
    }

    fn count(&mut self, given: bool) -> bool {
        self.open += u32::from(given);
        given
    }

    /// One of its answers has come.
    pub(crate) fn note_done(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.open > 0
    }
}

fn work(options: &Options, tasks: &Receiver<Task>, done: &Sender<Input>) {
    survive(|| remove_leftovers(&options.job, u32::MAX));
    if done.send(Input::Done(Event::Pruned(Vec::new()))).is_err() {
        return;
    }
    let level = JobDirectory::new(options.job.clone(), options.key);
    for task in tasks {
        let answer = match task {
            Task::Prepare(epoch) => {
                let broken = || Err(DiskError::PrepareBroke);
                Event::Prepared(epoch, survive(|| make_room(options, epoch)).unwrap_or_else(broken))
            }
            Task::Commit(plan) => {
                let (epoch, broken) = (plan.epoch, || Err(DiskError::CommitBroke));
                Event::Stored(
                    epoch,
                    survive(|| store(options, &level, plan)).unwrap_or_else(broken),
                )
            }
            Task::Prune => {
                let old = survive(|| prune_job(&options.job, options.keep));
                Event::Pruned(old.unwrap_or_default())
            }
        };
        if done.send(Input::Done(answer)).is_err() {
            return;
        }
    }
}

/// Every task is answered, whatever happens in it. None: it has panicked.
fn survive<T>(act: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(act)).ok()
}

fn storage(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> DiskError {
    DiskError::Storage(error.into())
}

/// Makes the directory for a partial snapshot.
fn make_room(options: &Options, epoch: u32) -> Result<(), DiskError> {
    let made = prepare(&options.job, epoch).and_then(|_| match options.checkpointer {
        Checkpointer::Native => Ok(()),
        Checkpointer::Itself => prepare_program(&options.job, epoch),
    });
    made.map_err(storage)
}

fn prune_job(job: &JobDir, keep: u32) -> Vec<String> {
    prune(job, keep, None).iter().map(|old| old.path.display().to_string()).collect()
}

/// Returns the snapshot's directory.
fn store(options: &Options, level: &dyn Level, plan: CommitPlan) -> Result<String, DiskError> {
    let (images, files) = match options.checkpointer {
        Checkpointer::Native => (plan.images, Vec::new()),
        Checkpointer::Itself => {
            let files = program_files(&options.job, plan.epoch);
            (Vec::new(), files.map_err(storage)?)
        }
    };
    let path = level
        .put(&manifest_of(options, plan.epoch, plan.size, plan.lower, images, files))
        .map_err(storage)?;
    Ok(path.to_string_lossy().into_owned())
}

/// The manifest of a checkpoint, without the MACs of its images.
pub(crate) fn manifest_of(
    options: &Options,
    epoch: u32,
    size: u32,
    lower: String,
    images: Vec<ImageDone>,
    files: Vec<FileRecord>,
) -> Manifest {
    Manifest {
        format: MANIFEST_FORMAT,
        job: options.name.clone(),
        epoch,
        size,
        created_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        lower,
        front: options.front.clone(),
        argv: options.argv.clone(),
        programs: options.programs.clone(),
        cwd: options.cwd.clone(),
        checkpointer: options.checkpointer,
        files,
        fermata: env!("CARGO_PKG_VERSION").into(),
        images: images
            .into_iter()
            .map(|image| ImageRecord {
                rank: image.rank,
                file: image_name(image.rank),
                bytes: image.bytes,
                header_crc: image.crc,
                mac: String::new(), // in the image
                pause_ns: image.pause_ns,
                host: image.host,
            })
            .collect(),
    }
}
