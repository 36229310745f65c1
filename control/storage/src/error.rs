// SPDX-License-Identifier: Apache-2.0
//! What can go wrong with what lies on disk: which operation, where, and why.

use crate::image::ImageProblem;
use crate::own::SealProblem;
use fermata_types::ManifestError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Something could not be done.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {}: {cause}", .path.display())]
pub struct StorageError {
    /// What was to be done.
    pub operation: Operation,
    /// With this.
    pub path: PathBuf,
    /// Why it could not be.
    pub cause: Cause,
}

impl StorageError {
    pub(crate) fn at(operation: Operation, path: &Path, cause: impl Into<Cause>) -> Self {
        Self { operation, path: path.to_owned(), cause: cause.into() }
    }
}

/// What was to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Make a file or directory.
    Make,
    /// Believe or enter what is there.
    Use,
    /// Take a rank's image into a snapshot.
    UseImage,
    /// Read a file or directory.
    Read,
    /// Write a file.
    Write,
    /// Make durable what has been written.
    Flush,
    /// Give a snapshot its name.
    Commit,
    /// Take the right to run a job.
    Lock,
    /// List a file of a program's.
    List,
    /// Keep it.
    Keep,
    /// Seal a snapshot, or what it has.
    Seal,
    /// Seal a rank's image with another key than its host has.
    SealImage,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Make => "make",
            Self::Use => "use",
            Self::UseImage => "use the image",
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Commit => "commit",
            Self::Lock => "lock",
            Self::List => "list",
            Self::Keep => "keep",
            Self::Seal => "seal",
            Self::SealImage => "seal the image",
        })
    }
}

/// Why it could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// What the system says.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// What is wrong with an image.
    #[error(transparent)]
    Image(#[from] ImageProblem),
    /// What is wrong with a manifest.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// What is wrong with a job's record, or keeps one from being written.
    #[error(transparent)]
    Record(#[from] serde_json::Error),
    /// A seal keeps something from being used.
    #[error(transparent)]
    Seal(#[from] SealProblem),
    /// An image of a snapshot that is to be committed is another one.
    #[error("it is not the image that rank reported")]
    NotReported,
    /// An image is not what it was a moment ago.
    #[error("it has been exchanged")]
    Exchanged,
    /// A snapshot that nobody could restart: the manifest would have no seal, and its images one.
    #[error(
        "the rank's host has a key, and where the job was started there is none\n  hint: start it \
         where your key is in $XDG_CONFIG_HOME or ~/.config, as on that host"
    )]
    NoKeyToCommit,
    /// A file's name is none that manifests can have.
    #[error("its name is not UTF-8")]
    NotUtf8,
    /// A program has left something else.
    #[error("it is neither a file nor a directory")]
    NeitherFileNorDirectory,
    /// A file of that name is something else.
    #[error("it is no lock of a job")]
    NoLock,
    /// A name that leads out of the directory is no name a commit ever wrote.
    #[error("a strange file name")]
    StrangeName,
    /// An image is of another job.
    #[error("belongs to job '{is}', not '{wanted}'")]
    OtherJob {
        /// As the image says.
        is: String,
        /// As the manifest says.
        wanted: String,
    },
    /// An image is of another checkpoint.
    #[error("is of checkpoint {is}, not {wanted}")]
    OtherEpoch {
        /// As the image says.
        is: u32,
        /// As the manifest says.
        wanted: u32,
    },
    /// An image is of another rank: rank and size of the job.
    #[error("is of rank {} of {}, not {} of {}", .is.0, .is.1, .wanted.0, .wanted.1)]
    OtherRank {
        /// As the image says.
        is: (u32, u32),
        /// As the manifest says.
        wanted: (u32, u32),
    },
    /// An image's size, checksum or MAC is another one.
    #[error("is not the file the manifest describes")]
    NotDescribed,
    /// A level has no snapshot of that number.
    #[error("there is no such snapshot")]
    NoSnapshot,
    /// What is wrong with a snapshot, a sentence each.
    #[error("{}", .0.join("\n  "))]
    Problems(Vec<String>),
    /// A record of a host's store is damaged.
    #[error("its checksum does not fit")]
    RecordDamaged,
    /// A record of a host's store is not one that a host writes.
    #[error("it makes no sense: {0}")]
    RecordStrange(&'static str),
    /// A host has no part in a snapshot.
    #[error("{0} has no part in it")]
    NoPart(String),
    /// Parities cannot be made, or an image not be rebuilt.
    #[error("parities: {0}")]
    Parity(String),
    /// Something has failed, and so has undoing it.
    #[error(
        "{failed}; nor can it be made what it was: {undo}\n  hint: seal it again when that is \
         mended"
    )]
    NotUndone {
        /// What has failed.
        failed: io::Error,
        /// Why it cannot be undone.
        undo: io::Error,
    },
}
