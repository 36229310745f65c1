// SPDX-License-Identifier: Apache-2.0
//! Where a service is found: a directory of the user's that the hosts share.
//!
//! `key` is made by the first replica, in one step, so that all replicas have the same. `lead` is
//! replaced by rename by whoever claims to lead, and `alive-WHO` written over by whoever does, at
//! every look (`fermata_site::lead`).

use fermata_site::lead::Word;
use fermata_storage::open_believed;
use fermata_sysio::effective_uid;
use fermata_transport::Secret;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const KEY: &str = "key";
const LEAD: &str = "lead";
const ALIVE: &str = "alive";
/// No word is longer.
const WORD_BYTES_MAX: u64 = 64 << 10;
/// `S_IWGRP | S_IWOTH`
const WRITABLE_FOR_OTHERS: u32 = 0o022;

/// Why a directory is no place of a service, or nothing there can be used.
#[derive(Debug)]
pub enum PlaceError {
    /// There is none.
    Absent(PathBuf),
    /// It is somebody else's, or others may write to it.
    NotOurs(PathBuf),
    /// No service has ever been there.
    NoKey(PathBuf),
    /// Something in it cannot be read or made.
    File(PathBuf, io::Error),
}

impl std::fmt::Display for PlaceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Absent(path) => write!(f, "{} is not there", path.display()),
            Self::NotOurs(path) => {
                write!(
                    f,
                    "{} is not a directory of yours that nobody else can write to",
                    path.display()
                )
            }
            Self::NoKey(path) => write!(f, "no service has been started in {}", path.display()),
            Self::File(path, why) if why.to_string().contains(&*path.to_string_lossy()) => {
                write!(f, "{why}")
            }
            Self::File(path, why) => write!(f, "{}: {why}", path.display()),
        }
    }
}

impl std::error::Error for PlaceError {}

/// Who leads, and where it is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Leader {
    pub who: u64,
    pub claim: u64,
    pub host: String,
    pub addresses: Vec<String>,
}

impl Leader {
    pub(crate) fn word(&self) -> Word {
        Word { who: self.who, claim: self.claim }
    }
}

/// The place of a service.
#[derive(Clone, Debug)]
pub struct Place(PathBuf);

impl Place {
    /// One that is there.
    ///
    /// # Errors
    /// It is not, or is not the user's alone.
    pub fn open(path: &Path) -> Result<Self, PlaceError> {
        let info = fs::metadata(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => PlaceError::Absent(path.into()),
            _ => PlaceError::File(path.into(), error),
        })?;
        let is_ours = info.is_dir() && info.uid() == effective_uid();
        if !is_ours || info.mode() & WRITABLE_FOR_OTHERS != 0 {
            return Err(PlaceError::NotOurs(path.into()));
        }
        Ok(Self(path.into()))
    }

    /// The same, made first if it is missing.
    ///
    /// # Errors
    /// It cannot be made, or is not the user's alone.
    pub fn make(path: &Path) -> Result<Self, PlaceError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        match made {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                Err(PlaceError::File(path.into(), error))
            }
            _ => Self::open(path), // whatever is there
        }
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What jobs and replicas have to know.
    ///
    /// # Errors
    /// There is none, or others may read it.
    pub(crate) fn key(&self) -> Result<Secret, PlaceError> {
        let path = self.0.join(KEY);
        Secret::read(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => PlaceError::NoKey(self.0.clone()),
            _ => PlaceError::File(path, error),
        })
    }

    /// The same, drawn if there is none. Of two that draw at once both get the first one's.
    ///
    /// # Errors
    /// It cannot be written, or others may read it.
    pub(crate) fn key_or_new(&self) -> Result<Secret, PlaceError> {
        match self.key() {
            Err(PlaceError::NoKey(_)) => {}
            found => return found,
        }
        let path = self.0.join(KEY);
        let failed = |error| PlaceError::File(path.clone(), error);
        let fresh = self.0.join(format!("{KEY}-{}", random().map_err(failed)?));
        Secret::generate().and_then(|secret| secret.write(&fresh)).map_err(failed)?;
        let linked = fs::hard_link(&fresh, &path);
        let _ = fs::remove_file(&fresh);
        match linked {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(failed(error)),
            _ => self.key(),
        }
    }

    /// Who leads; `None`: nobody has said so, or what is there makes no sense.
    ///
    /// # Errors
    /// It cannot be read, or somebody else can have written it.
    pub(crate) fn leader(&self) -> Result<Option<Leader>, PlaceError> {
        let path = self.0.join(LEAD);
        let failed = |error| PlaceError::File(path.clone(), error);
        let file = match open_believed(&path, &[effective_uid()], false) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        let mut text = String::new();
        match file.take(WORD_BYTES_MAX).read_to_string(&mut text) {
            Err(error) if error.kind() != ErrorKind::InvalidData => Err(failed(error)),
            _ => Ok(serde_json::from_str(&text).ok()),
        }
    }

    /// Says who leads.
    ///
    /// # Errors
    /// What the file system says.
    pub(crate) fn say(&self, leader: &Leader) -> io::Result<()> {
        let partial = self.0.join(format!("{LEAD}-{:x}", leader.who));
        let _ = fs::remove_file(&partial);
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&partial)?;
        file.write_all(serde_json::to_string(leader)?.as_bytes())?;
        drop(file);
        fs::rename(&partial, self.0.join(LEAD))
    }

    fn alive(&self, who: u64) -> PathBuf {
        self.0.join(format!("{ALIVE}-{who:x}"))
    }

    /// A beat of that replica. Blocks as long as the file system is busy.
    ///
    /// # Errors
    /// What the file system says.
    pub(crate) fn beat(&self, who: u64, beat: u64) -> io::Result<()> {
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).mode(0o600);
        file.open(self.alive(who))?.write_all_at(&beat.to_le_bytes(), 0)
    }

    /// Its newest one; 0: there is none, or it cannot be read. Who writes it there cannot do more
    /// than make a replica seem alive.
    pub(crate) fn newest_beat(&self, who: u64) -> u64 {
        let mut bytes = [0; 8];
        let file = open_believed(&self.alive(who), &[effective_uid()], false);
        let read = file.and_then(|file| file.read_exact_at(&mut bytes, 0));
        read.map_or(0, |()| u64::from_le_bytes(bytes))
    }

    /// That replica leads no more.
    pub(crate) fn leave(&self, who: u64) {
        let _ = fs::remove_file(self.0.join(LEAD));
        let _ = fs::remove_file(self.alive(who));
    }
}

/// A number that nobody else has drawn.
pub(crate) fn random() -> io::Result<u64> {
    fermata_sysio::random_bytes().map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn directory(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("fermata-place-{name}-{}", std::process::id()))
    }

    #[test]
    fn all_who_begin_at_once_have_one_key() {
        let place = Place::make(&directory("keys")).unwrap();
        let drawn: Vec<Secret> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| place.key_or_new().unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(drawn.iter().all(|key| *key == place.key().unwrap()));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "nothing is left beside it");
        fs::remove_dir_all(place.path()).unwrap();
    }

    #[test]
    fn what_others_can_write_or_read_is_not_used() {
        let dir = directory("others");
        let place = Place::make(&dir).unwrap();
        let leader =
            Leader { who: 1, claim: 2, host: "h".into(), addresses: vec!["[::1]:1".into()] };
        place.say(&leader).unwrap();
        assert_eq!(place.leader().unwrap(), Some(leader));
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        set(&dir.join(LEAD), 0o622);
        assert!(matches!(place.leader(), Err(PlaceError::File(..))));
        fs::remove_file(dir.join(LEAD)).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.join(LEAD)).unwrap();
        assert!(matches!(place.leader(), Err(PlaceError::File(..))), "no link is followed");
        place.key_or_new().unwrap();
        set(&dir.join(KEY), 0o640);
        assert!(matches!(place.key(), Err(PlaceError::File(..))));
        set(&dir, 0o770);
        assert!(matches!(Place::open(&dir), Err(PlaceError::NotOurs(_))));
        fs::remove_dir_all(&dir).unwrap();
        assert!(matches!(Place::open(&dir), Err(PlaceError::Absent(_))));
    }

    #[test]
    fn what_makes_no_sense_is_nobodys_word() {
        let place = Place::make(&directory("sense")).unwrap();
        assert_eq!(place.leader().unwrap(), None);
        for text in [&b"{\"who\": 1"[..], b"\xff\xfe"] {
            fs::write(place.path().join(LEAD), text).unwrap();
            set_own(&place.path().join(LEAD));
            assert_eq!(place.leader().unwrap(), None);
        }
        fs::remove_dir_all(place.path()).unwrap();
    }

    fn set_own(path: &Path) {
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
}
