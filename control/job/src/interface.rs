// SPDX-License-Identifier: Apache-2.0
//! What the machine hears and wants, as plain data. The shell that performs it puts figures into
//! JSON and gives errors of the disk their text.

use fermata_plan::pace::Every;
use fermata_site::{Answer, JobId, Offer};
use fermata_types::{Checkpointer, JobEvent, Message};

/// A connection, numbered by the shell; never reused.
pub type Conn = u64;

/// How the coordinator behaves.
#[derive(Clone, Debug)]
pub struct Config {
    /// Job name; agents of another job are turned away.
    pub job: String,
    /// The command that continues from the newest snapshot, wherever it is read.
    pub restart: String,
    /// Directory of the job's snapshots, as the ranks see it.
    pub snapshots: String,
    /// Epoch of the images that the job is restored from, 0 if none; numbering continues after it
    /// and after the newest committed one.
    pub last_epoch: u32,
    /// Newest committed epoch, 0 if none.
    pub committed_epoch: u32,
    /// When the job saves of itself.
    pub every: Every,
    /// What the site's service is told of the job; `None`: it is not asked.
    pub site: Option<SiteJob>,
    /// Time to reach a safe state for checkpoints nobody gave a time for.
    pub timeout_ms: u64,
    /// Time for writing the images, after the safe state.
    pub save_timeout_ms: u64,
    /// How long a rank may take to stop its threads when its image is cut.
    pub quiesce_ms: u32,
    /// What saves the ranks.
    pub checkpointer: Checkpointer,
}

/// A job that asks the site's service before it saves.
#[derive(Clone, Copy, Debug)]
pub struct SiteJob {
    /// A number of this run's own, drawn at random.
    pub job: JobId,
    /// Hosts that it is on.
    pub nodes: u32,
    /// Of the images that it is restored from, 0 if it is not.
    pub restored_bytes: u64,
}

/// What the world tells the machine.
#[derive(Debug)]
pub enum Event {
    /// A peer of our own user has connected and sent its first frame.
    Message(Conn, Message),
    /// A connection has ended.
    Closed(Conn),
    /// A host, or the way to it, is lost, and with it these connections.
    HostLost {
        /// Its name.
        host: String,
        /// What the system said.
        why: String,
        /// Nothing is heard of it. Else its daemon alone may be gone, and its ranks run on.
        silent: bool,
        /// The connections of its agents.
        conns: Vec<Conn>,
    },
    /// The job is over: whoever waits for an answer gets it now.
    Over,
    /// The answer to `Action::Prepare`.
    Prepared(u32, Result<(), DiskError>),
    /// The answer to `Action::Commit`: the snapshot's directory, or what went wrong.
    Stored(u32, Result<String, DiskError>),
    /// The answer to `Action::Prune`: the old snapshots that are gone. Said once at the beginning.
    Pruned(Vec<String>),
    /// The answer to `Action::Promote`: the level is made. It took so long.
    Promoted {
        /// Its place among the run's.
        level: usize,
        /// Milliseconds.
        took_ms: u64,
    },
    /// The answer to `Action::Promote`: it is not made, and will not be.
    PromotionFailed {
        /// Its place among the run's.
        level: usize,
    },
    /// All ranks are to end: mpirun cannot end those of some host any more.
    EndRanks,
    /// The site's service has answered the offer of this number.
    Advised(u64, Answer),
    /// Time has passed.
    Tick,
}

/// Why the shell could not do with the disk what it was to do.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The thread for it has ended.
    #[error("nobody is there to store it")]
    NobodyStores,
    /// Making the directory has panicked.
    #[error("making its directory broke off")]
    PrepareBroke,
    /// Making the snapshot durable has panicked.
    #[error("storing it broke off")]
    CommitBroke,
    /// What the storage says.
    #[error(transparent)]
    Storage(Box<dyn std::error::Error + Send + Sync>),
}

/// One rank's part in a finished snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageDone {
    /// World rank.
    pub rank: u32,
    /// Size of the image.
    pub bytes: u64,
    /// CRC32C of its header block.
    pub crc: u32,
    /// How long the rank stood still.
    pub pause_ns: u64,
    /// Host the rank runs on.
    pub host: String,
}

/// What has to become durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitPlan {
    /// The checkpoint.
    pub epoch: u32,
    /// World size.
    pub size: u32,
    /// Name of the MPI below, as the agents told.
    pub lower: String,
    /// One per rank, ascending.
    pub images: Vec<ImageDone>,
}

/// What the machine wants done, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Send a frame.
    Send(Conn, Message),
    /// Send a command the end of what it asked for.
    Answer(Conn, Reply),
    /// End a connection.
    Close(Conn),
    /// Make the directory for a partial snapshot; answer with `Prepared`.
    Prepare(u32),
    /// Make the snapshot durable and rename it; answer with `Stored`.
    Commit(CommitPlan),
    /// Remove the partial snapshot.
    Discard(u32),
    /// Make this level of a snapshot that is stored; answer with `Promoted` or `PromotionFailed`.
    Promote {
        /// The snapshot.
        epoch: u32,
        /// Its place among the run's.
        level: usize,
    },
    /// Remove old snapshots; answer with `Pruned`. No checkpoint begins before.
    Prune,
    /// A signal that is to save the job has come to a rank, or to a process that becomes one; the
    /// process runs on, or its own handler has run.
    Signalled {
        /// World rank, once known.
        rank: Option<u32>,
        /// Its number, 1 to 64.
        signal: u32,
    },
    /// Offer the site's service this; answer with `Advised` of this number, if it does.
    Offer(u64, Offer),
    /// Tell the site's service that this lease is no longer used.
    LeaseDone(u64),
    /// For the log.
    Log(String),
    /// For the job's history.
    History(Box<JobEvent>),
}

/// How a command ended at the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Ok,
    /// Tried and failed; the job continues.
    Failed,
    /// Not tried.
    Refused,
}

impl Outcome {
    /// As ANSWER and ASKED have it.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Self::Ok => 0,
            Self::Failed => 1,
            Self::Refused => 2,
        }
    }

    /// What ANSWER says; a number that is not known is a failure.
    #[must_use]
    pub fn of(number: u32) -> Self {
        match number {
            0 => Self::Ok,
            2 => Self::Refused,
            _ => Self::Failed,
        }
    }
}

/// What a command is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// How it ended.
    pub outcome: Outcome,
    /// What happened and, below it, what to do.
    pub message: String,
    /// The snapshot's directory, empty if there is none.
    pub snapshot: String,
    /// The same for programs.
    pub figures: Figures,
}

/// What a program may read of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Figures {
    /// No checkpoint has begun.
    Refused {
        /// Because another one is under way: a command may wait for its end and ask again.
        busy: bool,
    },
    /// A checkpoint has failed.
    Failed {
        /// Number of its last attempt.
        epoch: u32,
        /// Where it was.
        phase: &'static str,
        /// Attempts made.
        attempts: u32,
        /// Time since it was asked for.
        milliseconds: u64,
    },
    /// A checkpoint is committed.
    Committed(CommitFigures),
    /// How the job is.
    Status(StatusView),
}

/// What a committed checkpoint took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitFigures {
    /// Its number.
    pub epoch: u32,
    /// Ranks saved.
    pub ranks: usize,
    /// Size of all images.
    pub bytes: u64,
    /// Size of the largest.
    pub bytes_max: u64,
    /// How long the rank stood still that did so longest.
    pub pause_ns_max: u64,
    /// Time to the safe state.
    pub safe_state_ms: u64,
    /// Time to the commit.
    pub milliseconds: u64,
    /// Messages that ranks have received early and keep.
    pub messages_kept: u64,
    /// Attempts made.
    pub attempts: u32,
}

/// The job as `status` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusView {
    /// Job name.
    pub job: String,
    /// World size, once known.
    pub size: Option<u32>,
    /// Ranks that have returned from MPI_Init and are there.
    pub ready: usize,
    /// Newest committed epoch, 0 if none.
    pub committed_epoch: u32,
    /// A checkpoint with `stop` has ended the job.
    pub stopped: bool,
    /// Of the checkpoint under way, or "none".
    pub phase: &'static str,
    /// Why no checkpoint can be taken now.
    pub refusal: Option<String>,
    /// How the last checkpoint ended; empty: there was none.
    pub last: String,
    /// All agents.
    pub ranks: Vec<RankView>,
}

/// What is known of one rank, for `status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankView {
    /// World rank, once known.
    pub rank: Option<u32>,
    /// Process id on its host.
    pub pid: u32,
    /// Host name.
    pub host: String,
    /// One word.
    pub state: &'static str,
}
