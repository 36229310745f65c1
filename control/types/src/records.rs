// SPDX-License-Identifier: Apache-2.0
//! The records beside the images: what a job is, and what a snapshot consists of.
//!
//! A manifest carries its own checksum, because a restart believes what it says (which ranks exist,
//! how large their images are) before it looks at any image, and a MAC by its owner's key, which
//! anybody else cannot make. So does a job's record: it names commands that a restart runs.

use crate::{Checkpointer, Ended, Every, hex, unhex, words};
use fermata_seal::{Key, MAC_BYTES, Seal, is_equal};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::ffi::OsString;
use std::fmt;

/// The version of `manifest.json`.
pub const MANIFEST_FORMAT: u32 = 3;
/// The oldest one that is read: it has no seals.
const OLDEST_FORMAT: u32 = 2;

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
    /// MAC in the header, as hexadecimal; empty: the image is not sealed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mac: String,
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
    /// `MANIFEST_FORMAT`, or what it was when this was written.
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
                "manifest.json has format {format}, this program reads {OLDEST_FORMAT} to \
                 {MANIFEST_FORMAT}: \
                 another version of Fermata wrote it"
            ),
        }
    }
}

impl std::error::Error for ManifestError {}

#[derive(Serialize, Deserialize)]
struct Sealed {
    crc32c: u32,
    /// Which key the MAC is made with; empty: there is none.
    #[serde(default)]
    key: String,
    #[serde(default)]
    mac: String,
    manifest: Manifest,
}

/// What a MAC says to whoever has this key. `id`: of the key that it is made with, or empty.
pub fn judge(
    id: &str,
    mac: &str,
    key: Option<&Key>,
    wanted: impl Fn(&Key) -> [u8; MAC_BYTES],
) -> Seal {
    let Some(key) = key.filter(|key| id == hex(&key.id())) else {
        return if id.is_empty() { Seal::Absent } else { Seal::Others };
    };
    let fits = unhex::<MAC_BYTES>(mac).is_some_and(|mac| is_equal(&wanted(key), &mac));
    if fits { Seal::Ours } else { Seal::Broken }
}

impl Manifest {
    /// Size of all that was saved.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let images = self.images.iter().map(|image| image.bytes);
        images.chain(self.files.iter().map(|file| file.bytes)).sum()
    }

    /// What checksum and MAC are of.
    fn text(&self) -> Result<String, ManifestError> {
        serde_json::to_string(self).map_err(|e| ManifestError::Syntax(e.to_string()))
    }

    /// The text of `manifest.json`, sealed with the key, if there is one.
    ///
    /// # Errors
    /// Only if serialising fails, which no manifest can cause.
    pub fn seal(&self, key: Option<&Key>) -> Result<String, ManifestError> {
        let text = self.text()?;
        let sealed = Sealed {
            crc32c: crc32c::crc32c(text.as_bytes()),
            key: key.map_or(String::new(), |key| hex(&key.id())),
            mac: key.map_or(String::new(), |key| hex(&key.manifest_mac(text.as_bytes()))),
            manifest: self.clone(),
        };
        serde_json::to_string_pretty(&sealed)
            .map(|text| text + "\n")
            .map_err(|e| ManifestError::Syntax(e.to_string()))
    }

    /// Reads the text of a `manifest.json`, and says what its MAC tells whoever has this key.
    ///
    /// # Errors
    /// Not JSON, a wrong checksum, or an unknown format.
    pub fn unseal(text: &str, key: Option<&Key>) -> Result<(Self, Seal), ManifestError> {
        let sealed: Sealed =
            serde_json::from_str(text).map_err(|e| ManifestError::Syntax(e.to_string()))?;
        if !(OLDEST_FORMAT..=MANIFEST_FORMAT).contains(&sealed.manifest.format) {
            return Err(ManifestError::Format(sealed.manifest.format));
        }
        let text = sealed.manifest.text()?;
        if crc32c::crc32c(text.as_bytes()) != sealed.crc32c {
            return Err(ManifestError::Checksum);
        }
        let seal = judge(&sealed.key, &sealed.mac, key, |key| key.manifest_mac(text.as_bytes()));
        Ok((sealed.manifest, seal))
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
    /// Hosts that runs before it have lost, where ranks may still run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outlived: Vec<String>,
    /// This run is over: all ranks came to MPI_Finalize, and mpirun was content. As older versions
    /// have it; `ended` says more.
    pub ended_well: bool,
    /// How this run has ended. What joins this record is left out where it says nothing: records of
    /// before stay whole.
    #[serde(skip_serializing_if = "Ended::is_unknown")]
    pub ended: Ended,
    /// When it ended, seconds since 1970.
    #[serde(skip_serializing_if = "is_zero")]
    pub ended_unix_s: u64,
    /// What tells this job from others of its name, 16 hexadecimal digits: made with its
    /// directory's first record, and kept by those that follow. Empty: an older version has written
    /// it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub identity: String,
    /// Which run of the job this is, from 1 on; 0: an older version has begun it.
    #[serde(skip_serializing_if = "is_zero")]
    pub run_number: u32,
    /// Epoch this run was restored from; 0 if it began afresh.
    pub restored_epoch: u32,
    /// Newest epoch when this run began: later ones are its own.
    pub begun_after_epoch: u32,
    /// How many snapshots are kept.
    pub keep: u32,
    /// What saves its ranks.
    pub checkpointer: Checkpointer,
    /// How often it is saved of itself.
    #[serde(rename = "every_ms")]
    pub every: Every,
    /// What fails how often, for `Every::Auto`: a file's path.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub machine: String,
    /// Where the site's service was found that was asked when to save, if one was.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub site: String,
    /// The hosts that were given, `NAME:RANKS`.
    pub hosts: Vec<String>,
    /// What mpirun started commands on them with, if that was given.
    pub remote_shell: String,
    /// Each host's own directory for images, if there was one.
    pub local_dir: String,
    /// The levels of its snapshots, where they stay on the hosts.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub levels: String,
    /// Arguments for mpirun itself.
    pub mpirun_args: Vec<String>,
}

/// For serde, which hands over a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

const KEY_FIELD: &str = "key";
const MAC_FIELD: &str = "mac";

impl JobRecord {
    /// The text of `job.json`: the record, with the MAC of all else in it if there is a key.
    ///
    /// # Errors
    /// Only if serialising fails, which no record can cause.
    pub fn seal(&self, key: Option<&Key>) -> serde_json::Result<String> {
        let mut fields: Map<String, Value> = serde_json::from_value(serde_json::to_value(self)?)?;
        if let Some(key) = key {
            let mac = key.job_mac(&serde_json::to_vec(&fields)?);
            fields.insert(KEY_FIELD.into(), hex(&key.id()).into());
            fields.insert(MAC_FIELD.into(), hex(&mac).into());
        }
        serde_json::to_string_pretty(&fields)
    }

    /// Reads the text of a `job.json`, and says what its MAC tells whoever has this key. It is of
    /// every field that is there, also of those that this version does not know.
    ///
    /// # Errors
    /// It is no JSON, or not of a record.
    pub fn unseal(text: &str, key: Option<&Key>) -> serde_json::Result<(Self, Seal)> {
        let mut fields: Map<String, Value> = serde_json::from_str(text)?;
        let mut taken = |name| match fields.remove(name) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        let (id, mac) = (taken(KEY_FIELD), taken(MAC_FIELD));
        let sealed = serde_json::to_vec(&fields)?;
        let record = serde_json::from_value(Value::Object(fields))?;
        Ok((record, judge(&id, &mac, key, |key| key.job_mac(&sealed))))
    }

    /// What its identity is, if that is one.
    #[must_use]
    pub fn identity(&self) -> Option<[u8; 8]> {
        unhex(&self.identity)
    }

    /// What the stores of its hosts are called.
    #[must_use]
    pub fn store(&self) -> String {
        format!("{}.{}", self.job, self.identity)
    }

    /// Hosts that it or runs before it have lost.
    #[must_use]
    pub fn lost_hosts(&self) -> Vec<String> {
        let lost = [&self.lost_host].into_iter().filter(|host| !host.is_empty());
        self.outlived.iter().chain(lost).cloned().collect()
    }

    /// Whether its run has come to its end, and nothing is left to do.
    #[must_use]
    pub fn has_finished(&self) -> bool {
        self.ended_well || self.ended == Ended::Finished
    }

    /// The record of a run that ends now.
    pub fn end(&mut self, ended: Ended, unix_s: u64) {
        self.ended_well = ended == Ended::Finished;
        if let Ended::Lost { host } = &ended {
            self.lost_host.clone_from(host);
        }
        self.ended = ended;
        self.ended_unix_s = unix_s;
    }

    /// Whether it says where a job runs and what starts it there.
    #[must_use]
    pub fn has_commands(&self) -> bool {
        let lists = [&self.hosts, &self.mpirun_args];
        let words = [&self.remote_shell, &self.local_dir];
        !(lists.iter().all(|list| list.is_empty()) && words.iter().all(|word| word.is_empty()))
    }

    /// Without what a restart would run, or reach out to.
    #[must_use]
    pub fn without_commands(self) -> Self {
        Self {
            hosts: vec![],
            mpirun_args: vec![],
            remote_shell: String::new(),
            local_dir: String::new(),
            levels: String::new(),
            ..self
        }
    }
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
