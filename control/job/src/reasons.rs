// SPDX-License-Identifier: Apache-2.0
//! Why something is not done, as plain data. `texts.rs` has the words.

use fermata_protocol::RankId;
use std::collections::BTreeSet;

/// Some ranks.
pub(crate) type Ranks = BTreeSet<RankId>;

/// Why no checkpoint can be taken now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The job is being stopped.
    Stopped,
    /// Another one is under way.
    Busy { epoch: u32, phase: &'static str },
    /// No rank has returned from MPI_Init.
    NoRank,
    /// These have not returned from MPI_Init.
    Missing(Ranks),
    /// These have entered MPI_Finalize.
    Finalizing(Ranks),
    /// These have come to their end.
    Ended(Ranks),
    /// These have left before.
    Lost(Ranks),
}

impl Refusal {
    /// Whether it passes by itself, once all ranks are there.
    pub(crate) fn is_beginning(&self) -> bool {
        matches!(self, Self::NoRank | Self::Missing(_))
    }
}

/// Why a checkpoint has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The job has ended.
    Over,
    /// The directory for the images was not there in time.
    DirectoryLate,
    /// The disk, in the words of the shell.
    Disk(String),
    /// A rank does this instead of parking.
    Held(RankId, String),
    /// These have not called fermata_checkpoint in time.
    NotCalled(Ranks),
    /// These have not called fermata_self_save, and are to save themselves.
    NotAble(Ranks),
    /// These have not done their part in time.
    Late(Ranks),
    /// These have not written their images in time.
    WritingLate(Ranks),
    /// A rank could not write its image.
    NotSaved(Unsaved),
    /// A rank takes no part.
    RankRefuses(RankId, String),
    /// A rank has entered MPI_Finalize.
    Finalizing(RankId),
    /// A rank has come to its end.
    Ended(RankId),
    /// A rank has left before that.
    Left(RankId),
    /// A host is lost.
    HostLost { loss: Loss, is_silent: bool },
}

/// Why a rank could not write its image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unsaved {
    pub rank: RankId,
    pub errno: i32,
    /// What the rank says of it, if anything.
    pub message: String,
}

/// A host that was lost with ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loss {
    pub host: String,
    /// What the system said.
    pub why: String,
    pub ranks: Ranks,
}

/// Why a job that is over has not ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shortfall {
    /// Of a lost host the others' mpirun ends the rest.
    HostLost(Loss),
    /// These have ended without MPI_Finalize.
    Ranks(Ranks),
}

/// Why a peer is turned away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stranger {
    /// A command of another job.
    Command(String),
    /// An agent of another job.
    Agent(String),
    /// There cannot be such a rank.
    NoSuchRank { rank: RankId, size: u32 },
    /// There is this rank already.
    SecondRank(RankId),
    /// It says what it may not say.
    Says(&'static str),
}
