// SPDX-License-Identifier: Apache-2.0
//! What the programs of one run of a job know and nobody else: 32 random bytes, new at each start
//! of a coordinator. They travel in a file that only the owner may read, or in the environment that
//! a process manager hands to its ranks; never on a command line, which every user of a host can
//! read.

use crate::error::{SecretProblem, TransportError};
use fermata_types::{hex, unhex};
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

const BYTES: usize = 32;
/// `O_NONBLOCK` of open(2) on x86-64.
const NON_BLOCKING: i32 = 0o4000;

/// A job's secret. Prints as nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; BYTES]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// The environment variable that carries one.
    pub const VARIABLE: &'static str = "FERMATA_SECRET";
    /// The name of its file in a job's directory.
    pub const FILE: &'static str = "secret";

    /// A fresh one.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn generate() -> io::Result<Self> {
        fermata_sysio::random_bytes().map(Self)
    }

    /// As text, for the file and the environment.
    #[must_use]
    pub fn to_text(&self) -> String {
        hex(&self.0)
    }

    /// From its text; `None` if it is none.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        unhex(text.trim()).map(Self)
    }

    /// Writes it to `path` by rename, readable by the owner alone.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let partial = path.with_extension("partial");
        let _ = fs::remove_file(&partial);
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial)?;
        file.write_all(self.to_text().as_bytes())?;
        drop(file);
        fs::rename(&partial, path)
    }

    /// Reads it from `path`.
    ///
    /// # Errors
    /// There is none, it is no secret, or others than the owner may read it.
    pub fn read(path: &Path) -> io::Result<Self> {
        // Not waited for, as a pipe would be.
        let mut file = OpenOptions::new().read(true).custom_flags(NON_BLOCKING).open(path)?;
        let bad = |why| io::Error::from(TransportError::SecretFile { path: path.to_owned(), why });
        let info = file.metadata()?;
        if !info.is_file() || info.uid() != fermata_sysio::effective_uid() {
            return Err(bad(SecretProblem::NotOurs));
        }
        if info.mode() & 0o077 != 0 {
            return Err(bad(SecretProblem::Readable));
        }
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Self::from_text(&text).ok_or_else(|| bad(SecretProblem::NoSecret))
    }

    /// A number that all who know it compute alike (FNV-1a), and that tells little of it: 64 of its
    /// 256 bits.
    pub(crate) fn tag(&self) -> u64 {
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        self.0.iter().fold(0xcbf2_9ce4_8422_2325, mix)
    }

    pub(crate) fn bytes(&self) -> &[u8; BYTES] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn comes_back_from_its_file_unless_others_may_read_it() {
        let path = std::env::temp_dir().join(format!("fermata-secret-{}", std::process::id()));
        let secret = Secret::generate().unwrap();
        secret.write(&path).unwrap();
        assert!(Secret::read(&path).unwrap() == secret);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(Secret::read(&path).is_err());
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn only_whole_secrets_are_taken() {
        let text = Secret::generate().unwrap().to_text();
        assert!(Secret::from_text(&text).is_some());
        assert!(Secret::from_text(&text[1..]).is_none());
        assert!(Secret::from_text(&text.replace(|c: char| c.is_ascii_hexdigit(), "g")).is_none());
        assert_eq!(format!("{:?}", Secret::generate().unwrap()), "Secret(..)");
    }
}
