// SPDX-License-Identifier: Apache-2.0
//! The records beside the images: what a job is, and what a snapshot consists of.
//!
//! A manifest carries its own checksum, because a restart believes what it says (which ranks exist,
//! how large their images are) before it looks at any image, and a MAC by its owner's key, which
//! anybody else cannot make.

use crate::{Checkpointer, hex, unhex, words};
use fermata_seal::{Key, MAC_BYTES, Seal, is_equal};
use serde::{Deserialize, Serialize};
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

impl Sealed {
    /// What the MAC says to whoever has this key.
    fn seal(&self, key: Option<&Key>, text: &str) -> Seal {
        let Some(key) = key.filter(|key| self.key == hex(&key.id())) else {
            return if self.key.is_empty() { Seal::Absent } else { Seal::Others };
        };
        let mac = unhex::<MAC_BYTES>(&self.mac).unwrap_or_default();
        let fits = is_equal(&key.manifest_mac(text.as_bytes()), &mac);
        if fits { Seal::Ours } else { Seal::Broken }
    }
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
        let seal = sealed.seal(key, &text);
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
                mac: String::new(),
                pause_ns: 1,
                host: "a".into(),
            }],
            checkpointer: Checkpointer::Itself,
            files: vec![FileRecord { path: "program/state".into(), bytes: 7 }],
            fermata: "0.1.0".into(),
        }
    }

    const KEY: Key = Key::new([1; 32]);

    #[test]
    fn a_manifest_comes_back() {
        let text = manifest().seal(None).unwrap();
        assert_eq!(Manifest::unseal(&text, None).unwrap(), (manifest(), Seal::Absent));
        assert!(text.contains("\"checkpointer\": \"self\""), "{text}");
        assert_eq!(manifest().bytes(), 8192 + 7);
    }

    #[test]
    fn a_manifest_of_one_program_does_not_speak_of_several() {
        assert!(
            !manifest().seal(None).unwrap().contains("programs"),
            "or older ones lose their seal"
        );
    }

    #[test]
    fn a_manifest_of_before_is_read() {
        let text = r#"{"crc32c": 2441001658, "manifest":
            {"format":2,"job":"melt","epoch":3,"size":1,"created_unix_s":1,"lower":"openmpi",
             "front":"ompi","argv":["./app"],"cwd":"/","checkpointer":"native","images":[],
             "files":[]}}"#; // format 2: nothing of seals
        let (read, seal) = Manifest::unseal(text, Some(&KEY)).unwrap();
        assert_eq!((read.job.as_str(), read.fermata.as_str(), seal), ("melt", "", Seal::Absent));
    }

    #[test]
    fn a_changed_value_is_noticed() {
        let text = manifest().seal(None).unwrap().replace("8192", "8193");
        assert_eq!(Manifest::unseal(&text, None), Err(ManifestError::Checksum));
    }

    #[test]
    fn a_seal_is_of_one_key_and_one_text() {
        let text = manifest().seal(Some(&KEY)).unwrap();
        let says = |text: &str, key: Option<&Key>| Manifest::unseal(text, key).unwrap().1;
        assert_eq!(says(&text, Some(&KEY)), Seal::Ours);
        assert_eq!(says(&text, None), Seal::Others);
        assert_eq!(says(&text, Some(&Key::new([2; 32]))), Seal::Others);
        assert_eq!(says(&manifest().seal(None).unwrap(), Some(&KEY)), Seal::Absent);
        // Anybody can make the checksum fit.
        let other = Manifest { epoch: 4, ..manifest() };
        let mut sealed: Sealed = serde_json::from_str(&other.seal(None).unwrap()).unwrap();
        let ours: Sealed = serde_json::from_str(&text).unwrap();
        (sealed.key, sealed.mac) = (ours.key, ours.mac);
        let forged = serde_json::to_string(&sealed).unwrap();
        assert_eq!(says(&forged, Some(&KEY)), Seal::Broken);
    }

    #[test]
    fn a_manifest_of_an_unknown_format_is_refused_by_its_number() {
        let old = Manifest { format: 1, ..manifest() };
        let text = serde_json::to_string(&serde_json::json!({"crc32c": 0, "manifest": old}));
        assert_eq!(Manifest::unseal(&text.unwrap(), Some(&KEY)), Err(ManifestError::Format(1)));
    }
}
