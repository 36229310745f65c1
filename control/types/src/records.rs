// SPDX-License-Identifier: Apache-2.0
//! The records beside the images: what a job is, and what a snapshot consists of.
//!
//! A manifest carries its own checksum, because a restart believes what it says (which ranks exist,
//! how large their images are) before it looks at any image.

use crate::{Checkpointer, words};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;

/// The version of `manifest.json`.
pub const MANIFEST_FORMAT: u32 = 2;

/// One rank's image in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageRecord {
    /// World rank.
    pub rank: u32,
    /// File name inside the snapshot directory.
    pub file: String,
    /// Size of the whole file.
    pub bytes: u64,
    /// CRC32C of the header block, which in turn vouches for the tables and the extents.
    pub header_crc: u32,
    /// How long the rank stood still.
    pub pause_ns: u64,
    /// Host it ran on.
    pub host: String,
}

/// A file that the program has saved itself in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Where it lies inside the snapshot directory.
    pub path: String,
    /// Its size.
    pub bytes: u64,
}

/// One of the programs of a job that has several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramRecord {
    /// Its ranks: those behind the ranks of the programs before it.
    pub ranks: u32,
    /// The program and its arguments.
    #[serde(with = "words")]
    pub argv: Vec<OsString>,
}

/// `manifest.json` of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// `MANIFEST_FORMAT`.
    pub format: u32,
    /// Job name.
    pub job: String,
    /// Number of the checkpoint.
    pub epoch: u32,
    /// Ranks in the job.
    pub size: u32,
    /// When it was committed, seconds since 1970.
    pub created_unix_s: u64,
    /// Name of the lower half's MPI, for people.
    pub lower: String,
    /// The application's MPI family as a front end's name.
    pub front: String,
    /// The application and its arguments; of several programs the first one's.
    #[serde(with = "words")]
    pub argv: Vec<OsString>,
    /// Each of several programs; else none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramRecord>,
    /// Where the job was started.
    pub cwd: String,
    /// What saved the ranks, and so what a restart needs.
    #[serde(default)]
    pub checkpointer: Checkpointer,
    /// One record per rank, ascending; of checkpointers that make images.
    pub images: Vec<ImageRecord>,
    /// What a program that saves itself has left, by path.
    #[serde(default)]
    pub files: Vec<FileRecord>,
    /// The version of Fermata that wrote it, if it said so. Whatever joins this record is left out
    /// where it is empty: the checksum of an older manifest is over its own text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fermata: String,
}

/// Why a manifest cannot be believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManifestError {
    /// The text is not the JSON it should be.
    Syntax(String),
    /// The checksum does not fit the content.
    Checksum,
    /// Another program's version wrote it.
    Format(u32),
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(why) => write!(f, "manifest.json cannot be read: {why}"),
            Self::Checksum => write!(f, "manifest.json is damaged: its checksum does not fit"),
            Self::Format(format) => write!(
                f,
                "manifest.json has format {format}, this program reads {MANIFEST_FORMAT}: \
                 another version of Fermata wrote it"
            ),
        }
    }
}

impl std::error::Error for ManifestError {}

#[derive(Serialize, Deserialize)]
struct Sealed {
    crc32c: u32,
    manifest: Manifest,
}

impl Manifest {
    /// Size of all that was saved.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let images = self.images.iter().map(|image| image.bytes);
        images.chain(self.files.iter().map(|file| file.bytes)).sum()
    }

    fn checksum(&self) -> Result<u32, ManifestError> {
        let text = serde_json::to_string(self).map_err(|e| ManifestError::Syntax(e.to_string()))?;
        Ok(crc32c::crc32c(text.as_bytes()))
    }

    /// The text of `manifest.json`.
    ///
    /// # Errors
    /// Only if serialising fails, which no manifest can cause.
    pub fn seal(&self) -> Result<String, ManifestError> {
        let sealed = Sealed { crc32c: self.checksum()?, manifest: self.clone() };
        serde_json::to_string_pretty(&sealed)
            .map(|text| text + "\n")
            .map_err(|e| ManifestError::Syntax(e.to_string()))
    }

    /// Reads the text of a `manifest.json`.
    ///
    /// # Errors
    /// Not JSON, a wrong checksum, or an unknown format.
    pub fn unseal(text: &str) -> Result<Self, ManifestError> {
        let sealed: Sealed =
            serde_json::from_str(text).map_err(|e| ManifestError::Syntax(e.to_string()))?;
        if sealed.manifest.format != MANIFEST_FORMAT {
            return Err(ManifestError::Format(sealed.manifest.format));
        }
        if sealed.manifest.checksum()? != sealed.crc32c {
            return Err(ManifestError::Checksum);
        }
        Ok(sealed.manifest)
    }
}

/// The programs of a job, of one that has no list of them as well.
#[must_use]
pub fn each_program(
    programs: &[ProgramRecord],
    argv: &[OsString],
    size: u32,
) -> Vec<ProgramRecord> {
    if programs.is_empty() {
        return vec![ProgramRecord { ranks: size, argv: argv.to_vec() }];
    }
    programs.to_vec()
}

/// `job.json`: what commands need to find and restart a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobRecord {
    /// Job name.
    pub job: String,
    /// The application and its arguments; of several programs the first one's.
    #[serde(with = "words")]
    pub argv: Vec<OsString>,
    /// Each of several programs; else none.
    pub programs: Vec<ProgramRecord>,
    /// Where it was started.
    pub cwd: String,
    /// Ranks it was started with; 0 if a foreign process manager decides.
    pub size: u32,
    /// Name of the registered MPI below.
    pub lower: String,
    /// Front end's name.
    pub front: String,
    /// What the process manager calls this run, if it started the ranks by itself.
    pub run: String,
    /// The coordinator's host.
    pub host: String,
    /// The coordinator's socket, on that host.
    pub socket: String,
    /// Where other hosts find the coordinator; empty if it does not listen there.
    pub addresses: Vec<String>,
    /// The coordinator's process.
    pub coordinator_pid: u32,
    /// When this run of the job began, seconds since 1970.
    pub started_unix_s: u64,
    /// A host that this run has lost; empty: none.
    pub lost_host: String,
    /// This run is over: all ranks came to MPI_Finalize, and mpirun was content.
    pub ended_well: bool,
    /// Epoch this run was restored from; 0 if it began afresh.
    pub restored_epoch: u32,
    /// Newest epoch when this run began: later ones are its own.
    pub begun_after_epoch: u32,
    /// How many snapshots are kept.
    pub keep: u32,
    /// What saves its ranks.
    pub checkpointer: Checkpointer,
    /// Interval of periodic checkpoints in ms, 0 = none.
    pub every_ms: u64,
    /// The hosts that were given, `NAME:RANKS`.
    pub hosts: Vec<String>,
    /// What mpirun started commands on them with, if that was given.
    pub remote_shell: String,
    /// Each host's own directory for images, if there was one.
    pub local_dir: String,
    /// Arguments for mpirun itself.
    pub mpirun_args: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        Manifest {
            format: MANIFEST_FORMAT,
            job: "melt".into(),
            epoch: 3,
            size: 1,
            created_unix_s: 1,
            lower: "openmpi".into(),
            front: "ompi".into(),
            argv: vec!["./app".into()],
            programs: vec![],
            cwd: "/".into(),
            images: vec![ImageRecord {
                rank: 0,
                file: "rank-0.img".into(),
                bytes: 8192,
                header_crc: 5,
                pause_ns: 1,
                host: "a".into(),
            }],
            checkpointer: Checkpointer::Itself,
            files: vec![FileRecord { path: "program/state".into(), bytes: 7 }],
            fermata: "0.1.0".into(),
        }
    }

    #[test]
    fn a_sealed_manifest_comes_back() {
        let text = manifest().seal().unwrap();
        assert_eq!(Manifest::unseal(&text).unwrap(), manifest());
        assert!(text.contains("\"checkpointer\": \"self\""), "{text}");
        assert_eq!(manifest().bytes(), 8192 + 7);
    }

    #[test]
    fn a_manifest_of_one_program_does_not_speak_of_several() {
        assert!(!manifest().seal().unwrap().contains("programs"), "or older ones lose their seal");
    }

    #[test]
    fn a_manifest_of_before_is_read() {
        let text = r#"{"crc32c": 2441001658, "manifest":
            {"format":2,"job":"melt","epoch":3,"size":1,"created_unix_s":1,"lower":"openmpi",
             "front":"ompi","argv":["./app"],"cwd":"/","checkpointer":"native","images":[],
             "files":[]}}"#;
        let read = Manifest::unseal(text).unwrap();
        assert_eq!((read.job.as_str(), read.fermata.as_str()), ("melt", ""));
    }

    #[test]
    fn a_changed_value_is_noticed() {
        let text = manifest().seal().unwrap().replace("8192", "8193");
        assert_eq!(Manifest::unseal(&text), Err(ManifestError::Checksum));
    }
}
