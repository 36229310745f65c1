// SPDX-License-Identifier: Apache-2.0
//! What people read: what has happened and, as the `hint:` below it, what they can do about it. One
//! place, because the same obstacle is met in several phases. Made of plain data only.

use crate::interface::Config;
use crate::reasons::{Failure, Loss, Ranks, Refusal, Shortfall, Stranger, Unsaved};
use fermata_protocol::RankId;
use std::collections::{BTreeMap, BTreeSet};

const ENOSPC: i32 = 28;
const EDQUOT: i32 = 122;
const EPERM: i32 = 1;
const EAGAIN: i32 = 11;
const ENOMEM: i32 = 12;
const EBUSY: i32 = 16;
const ENOBUFS: i32 = 105;

const RANKS_SHOWN: usize = 8;
const HOSTS_SHOWN: usize = 4;

/// A rank holds what no image can hold.
const HINT_REFUSED: &str =
    "end that use before a checkpoint; docs/reference/limits.md lists what is refused";
/// A writer has been killed, or could not be made.
const HINT_MEMORY: &str =
    "the kernel does that where memory is short (dmesg tells): ask for more, then try again";
/// The limit of a rank's control group leaves no room for a writer, so that none was made.
const HINT_ROOM: &str =
    "raise that limit (of a batch job: ask for more memory) or free memory, then try again";
/// MPI_Finalize has been entered.
const HINT_ENDING: &str = "the job is about to end; save it earlier, or with --every";
/// A thread of a rank has not stopped.
const HINT_THREAD: &str =
    "see what that thread waits for (/proc/PID/task/ID/stack): no signal ends that system call";
/// A rank's program does not let it stop.
const HINT_HELD: &str =
    "try again; the program lets no checkpoint happen there, so --timeout must outlast it";
/// A program that saves itself has not come to a place where it can.
const HINT_ASK: &str =
    "it saves itself when all its ranks call fermata_checkpoint; --timeout must outlast that";
/// A program that cannot save itself is to do so.
const HINT_UNABLE: &str = "run the job without --checkpointer self";
/// Another checkpoint is under way.
const HINT_BUSY: &str = "try again when that one has ended";
/// No MPI_Init yet.
const HINT_BEGINNING: &str = "try again once all ranks have called MPI_Init";
/// Ranks are late on the way to a safe state.
const HINT_LATE: &str =
    "see whether the rank is stopped; if it only computes for long: --timeout 10m";

/// Why an attempt is given up that gets nowhere.
pub(crate) const NO_PROGRESS: &str = "no rank makes progress; trying again";

/// Something to tell, and what to do about it; empty: nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text {
    pub what: String,
    pub hint: String,
}

impl Text {
    fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hint: hint.into() }
    }
}

/// "what" and, on a line of its own, what to do about it.
pub(crate) fn with_hint(what: &str, hint: &str) -> String {
    if hint.is_empty() { what.to_owned() } else { format!("{what}\n  hint: {hint}") }
}

/// What texts tell of the job.
pub(crate) struct Scene<'a> {
    pub config: &'a Config,
    /// World rank -> host.
    pub hosts: &'a BTreeMap<RankId, String>,
    /// Newest committed epoch, 0 if none.
    pub committed: u32,
    /// Whether all ranks that were there have come to MPI_Finalize.
    pub has_ended_well: bool,
}

impl Scene<'_> {
    pub(crate) fn refusal(&self, refusal: &Refusal) -> Text {
        match refusal {
            Refusal::Stopped => {
                let hint = format!("it continues with: {}", self.config.restart);
                Text::new("the job is being stopped", hint)
            }
            Refusal::Busy { epoch, phase } => {
                let what = format!("checkpoint {epoch} is already being taken ({phase})");
                Text::new(what, HINT_BUSY)
            }
            Refusal::NoRank => Text::new("no rank has returned from MPI_Init yet", HINT_BEGINNING),
            Refusal::Missing(ranks) => {
                let what = format!("{} not returned from MPI_Init yet", self.name_ranks(ranks));
                Text::new(what, HINT_BEGINNING)
            }
            Refusal::Finalizing(ranks) => {
                let what = format!("{} entered MPI_Finalize", self.name_ranks(ranks));
                Text::new(what, HINT_ENDING)
            }
            Refusal::Ended(ranks) => {
                Text::new(format!("{} come to the end", self.name_ranks(ranks)), HINT_ENDING)
            }
            Refusal::Lost(ranks) => {
                Text::new(format!("{} left the job", self.name_ranks(ranks)), self.hint_for_loss())
            }
        }
    }

    pub(crate) fn failure(&self, failure: &Failure) -> Text {
        match failure {
            Failure::Over => {
                let hint = if self.has_ended_well { String::new() } else { self.hint_for_loss() };
                Text::new("the job has ended", hint)
            }
            Failure::DirectoryLate => {
                Text::new("that has taken too long", self.hint_for_directory())
            }
            Failure::Disk(what) => Text::new(what, self.hint_for_directory()),
            Failure::Held(rank, what) => {
                Text::new(format!("{} {what}", self.name_rank(*rank)), HINT_HELD)
            }
            Failure::NotCalled(ranks) => {
                Text::new(format!("{} not called it in time", self.name_ranks(ranks)), HINT_ASK)
            }
            Failure::NotAble(ranks) => {
                let what = format!("{} not called fermata_self_save", self.name_ranks(ranks));
                Text::new(what, HINT_UNABLE)
            }
            Failure::Late(ranks) => Text::new(self.lateness(ranks), HINT_LATE),
            Failure::WritingLate(ranks) => {
                let place = &self.config.snapshots;
                let hint = format!("see whether the disk of {place} still answers");
                Text::new(self.lateness(ranks), hint)
            }
            Failure::NotSaved(unsaved) => {
                Text::new(self.not_saved(unsaved), self.hint_for_image(unsaved.errno))
            }
            Failure::RankRefuses(rank, what) => {
                Text::new(format!("{}: {what}", self.name_rank(*rank)), HINT_REFUSED)
            }
            Failure::Finalizing(rank) => {
                let what = format!("{} has entered MPI_Finalize", self.name_rank(*rank));
                Text::new(what, HINT_ENDING)
            }
            Failure::Ended(rank) => {
                Text::new(format!("{} has come to its end", self.name_rank(*rank)), HINT_ENDING)
            }
            Failure::Left(rank) => {
                let what = format!("{} has left the job", self.name_rank(*rank));
                Text::new(what, self.hint_for_loss())
            }
            Failure::HostLost { loss, is_silent } => {
                Text::new(host_lost(loss), self.hint_for_host(*is_silent))
            }
        }
    }

    /// Why a rank could not write its image.
    pub(crate) fn not_saved(&self, unsaved: &Unsaved) -> String {
        let who = self.name_rank(unsaved.rank);
        match unsaved.message.as_str() {
            "" => format!("{who}: errno {}", unsaved.errno),
            text => format!("{who}: {text}"),
        }
    }

    /// What ranks that wait in fermata_checkpoint hear when others do not come.
    pub(crate) fn not_called(&self, ranks: &Ranks) -> String {
        format!("{} not called fermata_checkpoint in time", self.name_ranks(ranks))
    }

    pub(crate) fn shortfall(&self, shortfall: &Shortfall) -> String {
        match shortfall {
            Shortfall::HostLost(loss) => host_lost(loss),
            Shortfall::Ranks(ranks) => {
                format!("{} ended without MPI_Finalize", self.name_ranks(ranks))
            }
        }
    }

    fn lateness(&self, ranks: &Ranks) -> String {
        format!("{} not done so in time", self.name_ranks(ranks))
    }

    /// A rank could not write its image.
    fn hint_for_image(&self, errno: i32) -> String {
        let place = &self.config.snapshots;
        match errno {
            ENOSPC | EDQUOT => format!("make room on the disk of {place}, then try again"),
            // The ranks refuse by these what no image can hold, now or ever.
            EPERM | EAGAIN => HINT_REFUSED.into(),
            // A thread stays where no signal reaches it.
            EBUSY => HINT_THREAD.into(),
            ENOMEM => HINT_MEMORY.into(),
            ENOBUFS => HINT_ROOM.into(),
            _ => self.hint_for_directory(),
        }
    }

    /// The directory of snapshots does not do what it should.
    fn hint_for_directory(&self) -> String {
        format!("{} must exist, be writable and have room; then try again", self.config.snapshots)
    }

    /// A rank is gone, and the job with it.
    fn hint_for_loss(&self) -> String {
        match self.committed {
            0 => format!("no snapshot of job {} exists; start it again", self.config.job),
            epoch => format!("continue from checkpoint {epoch}: {}", self.config.restart),
        }
    }

    /// A host is out of reach, and nobody knows what its ranks do.
    fn hint_for_host(&self, is_silent: bool) -> String {
        let hint = self.hint_for_loss();
        if is_silent {
            hint
        } else {
            format!("its ranks may run on; when the job has ended, {hint}")
        }
    }

    /// "rank 3", with its host where there are several.
    fn name_rank(&self, rank: RankId) -> String {
        self.list_by_host(&BTreeSet::from([rank]))
    }

    /// "rank 3 has" / "ranks 1, 2 have", with their hosts where there are several.
    fn name_ranks(&self, ranks: &Ranks) -> String {
        let verb = if ranks.len() == 1 { "has" } else { "have" };
        format!("{} {verb}", self.list_by_host(ranks))
    }

    fn list_by_host(&self, ranks: &Ranks) -> String {
        let all: BTreeSet<&String> = self.hosts.values().collect();
        if all.len() < 2 {
            return list_ranks(ranks);
        }
        let mut by_host: BTreeMap<&str, Ranks> = BTreeMap::new();
        for rank in ranks {
            let host = self.hosts.get(rank).map_or("unknown", String::as_str);
            by_host.entry(host).or_default().insert(*rank);
        }
        let mut parts: Vec<String> = by_host
            .iter()
            .take(HOSTS_SHOWN)
            .map(|(host, ranks)| format!("{} on host {host}", list_ranks(ranks)))
            .collect();
        if by_host.len() > HOSTS_SHOWN {
            parts.push(format!("others on {} more hosts", by_host.len() - HOSTS_SHOWN));
        }
        parts.join(", ")
    }
}

/// "rank 3" / "ranks 1, 2", shortened when there are many.
fn list_ranks(ranks: &Ranks) -> String {
    let list: Vec<String> = ranks.iter().take(RANKS_SHOWN).map(u32::to_string).collect();
    let more = ranks.len().saturating_sub(RANKS_SHOWN);
    match (ranks.len(), more) {
        (1, _) => format!("rank {}", list[0]),
        (_, 0) => format!("ranks {}", list.join(", ")),
        _ => format!("ranks {} and {more} more", list.join(", ")),
    }
}

pub(crate) fn host_lost(loss: &Loss) -> String {
    let Loss { host, why, ranks } = loss;
    if ranks.is_empty() {
        return format!("host {host} is lost ({why})");
    }
    format!("host {host} is lost with {} ({why})", list_ranks(ranks))
}

pub(crate) fn turned_away(stranger: &Stranger) -> String {
    match stranger {
        Stranger::Command(job) => format!("a command asked for job '{job}'"),
        Stranger::Agent(job) => format!("an agent of job '{job}' came"),
        Stranger::NoSuchRank { rank, size } => {
            format!("an agent claims to be rank {rank} of {size}, which cannot be")
        }
        Stranger::SecondRank(rank) => format!("a second process claims to be rank {rank}"),
        Stranger::Says(name) => format!("{name} from a peer that may not say it"),
    }
}

pub(crate) fn no_checkpoint(what: &str) -> String {
    format!("no checkpoint: {what}")
}

pub(crate) fn attempt_begins(epoch: u32, number: u32) -> String {
    let what = if number == 1 { "begins" } else { "tries again" };
    format!("checkpoint {epoch} {what}")
}

pub(crate) fn attempt_fails(epoch: u32, reason: &str) -> String {
    format!("checkpoint {epoch}: {reason}")
}

pub(crate) fn attempt_tries_again(epoch: u32, reason: &str) -> String {
    format!("checkpoint {epoch}: {reason}; trying again")
}

pub(crate) fn failed(epoch: u32, phase: &str, what: &str, job_continues: bool) -> String {
    let rest = if job_continues { "; the job continues" } else { "" };
    format!("checkpoint {epoch} failed while {phase}: {what}{rest}")
}

pub(crate) fn committed(epoch: u32, directory: &str) -> String {
    format!("checkpoint {epoch} is committed: {directory}")
}

pub(crate) fn stored_too_early(epoch: u32) -> String {
    format!("checkpoint {epoch} was stored before it was complete")
}

pub(crate) fn removed(path: &str) -> String {
    format!("removed the old snapshot {path}")
}

pub(crate) fn replanned(interval_s: f64) -> String {
    format!("saves every {interval_s:.1} s from now on: so it is planned for what it takes")
}

/// A checkpoint has begun by the site's leave, or without: so long after it was due, or before.
pub(crate) fn advised(lease: Option<u64>, late_ms: i64) -> String {
    let late_s = late_ms.unsigned_abs() as f64 / 1e3;
    let when = if late_ms < 0 { "before" } else { "after" };
    match lease {
        Some(lease) => format!("the site has given lease {lease}, {late_s:.1} s {when} it was due"),
        None => format!("the site does not answer: saved as planned, {late_s:.1} s {when} due"),
    }
}

pub(crate) fn all_ready(size: u32) -> String {
    format!("all {size} ranks are ready")
}

pub(crate) fn signalled(rank: Option<RankId>, signal: u32) -> String {
    let who = rank.map_or_else(|| "a process that is no rank".to_owned(), |r| format!("rank {r}"));
    format!("signal {signal} has come to {who}")
}

pub(crate) fn no_rank(name: &str) -> String {
    format!("{name} from a process without a rank")
}

/// The job in a line: a checkpoint that is under way, else who is there.
pub(crate) fn status(
    checkpoint: Option<(u32, &str)>,
    size: Option<u32>,
    ready: usize,
    agents: usize,
) -> String {
    match (checkpoint, size) {
        (Some((epoch, phase)), _) => format!("checkpoint {epoch}: {phase}"),
        (None, None) => format!("{agents} processes, none has called MPI_Init"),
        (None, Some(size)) => format!("{ready} of {size} ranks ready"),
    }
}
