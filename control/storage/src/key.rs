// SPDX-License-Identifier: Apache-2.0
//! The user's key: `fermata/key` in `$XDG_CONFIG_HOME`, else in `~/.config`. It is made when it is
//! first needed to seal something, and never again.
//!
//! Invariant: of several that make it at once, on hosts that share the directory, all get the same.

use crate::own;
use fermata_seal::Key;
use fermata_types::{hex, unhex};
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// `S_IRWXG | S_IRWXO`
const FOR_OTHERS: u32 = 0o077;

/// A key and where it lies.
#[derive(Clone, Debug)]
pub struct UserKey {
    /// The file.
    pub path: PathBuf,
    /// What is in it.
    pub key: Key,
}

/// Why there is no key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoKey {
    why: String,
    /// There is one, or it cannot be told: it is lost to this process only. Else there is none.
    pub is_out_of_reach: bool,
}

impl fmt::Display for NoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// The user's key; made if there is none yet.
///
/// # Errors
/// Why there is none.
pub fn user_key() -> Result<UserKey, NoKey> {
    find(key_at)
}

/// The user's key, for those who only look: none is made.
///
/// # Errors
/// Why there is none.
pub fn existing_key() -> Result<UserKey, NoKey> {
    find(|path, _| read(path).map_err(NoKey::in_reading))
}

fn find(key_at: impl FnOnce(&Path, Option<&Path>) -> Result<Key, NoKey>) -> Result<UserKey, NoKey> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let (config, home) = absolute("XDG_CONFIG_HOME")
        .map(|config| (config, None))
        .or_else(|| absolute("HOME").map(|home| (home.join(".config"), Some(home))))
        .ok_or_else(|| NoKey {
            why: "neither HOME nor XDG_CONFIG_HOME says where it could be kept".into(),
            is_out_of_reach: false,
        })?;
    let path = config.join("fermata/key");
    match key_at(&path, home.as_deref()) {
        Ok(key) => Ok(UserKey { path, key }),
        Err(no) => Err(NoKey { why: format!("{}: {}", path.display(), no.why), ..no }),
    }
}

impl NoKey {
    /// A file that cannot be read may be a key. One that cannot be there is none.
    fn in_reading(error: io::Error) -> Self {
        let is_none = [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind());
        Self { why: error.to_string(), is_out_of_reach: !is_none }
    }
}

/// `home`: a directory that is not made if it is not there.
fn key_at(path: &Path, home: Option<&Path>) -> Result<Key, NoKey> {
    match read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            home.map_or(Ok(()), |home| fs::metadata(home).map(drop))
                .and_then(|()| make(path, |own, path| fs::hard_link(own, path)))
                .map_err(|error| NoKey { why: error.to_string(), is_out_of_reach: false })?;
            read(path)
        }
        known => known,
    }
    .map_err(NoKey::in_reading)
}

fn read(path: &Path) -> io::Result<Key> {
    let file = own::open(path, own::Whose::Own(None))?;
    if file.metadata()?.mode() & FOR_OTHERS != 0 {
        return Err(io::Error::other("others may read it (chmod 600)"));
    }
    let text = io::read_to_string(file)?;
    unhex(text.trim()).map(Key::new).ok_or_else(|| io::Error::other("is no key"))
}

/// Under a name of its own first, which then becomes the other one, where nothing may be yet: by
/// `link`, or by renaming where the file system has no links. What is sealed with it must not
/// outlive it, so it is on disk before it is used.
fn make(path: &Path, link: impl FnOnce(&Path, &Path) -> io::Result<()>) -> io::Result<()> {
    let directory = path.parent().unwrap_or(path);
    make_directory(directory)?;
    let own = path.with_extension(hex(&fermata_sysio::random_bytes::<8>()?));
    let key = hex(&fermata_sysio::random_bytes::<32>()?);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&own)?;
    let made = writeln!(file, "{key}").and_then(|()| file.sync_all());
    let is_there = |error: &io::Error| error.kind() == ErrorKind::AlreadyExists;
    let named = made.and_then(|()| match link(&own, path) {
        Err(error) if !is_there(&error) => fermata_sysio::rename_new(&own, path),
        linked => linked,
    });
    let _ = fs::remove_file(&own);
    match named {
        Err(error) if !is_there(&error) => Err(error),
        _ => fermata_sysio::sync_directory(directory),
    }
}

fn make_directory(path: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => path.parent().map_or(Ok(()), fermata_sysio::sync_directory),
        Err(_) if path.is_dir() => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            make_directory(path.parent().ok_or(error)?).and_then(|()| make_directory(path))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::tests::Scratch;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn all_who_make_it_at_once_have_the_same() {
        let scratch = Scratch::new();
        let path = scratch.0.join("config/fermata/key");
        let make = || key_at(&path, None).unwrap();
        let keys: Vec<Key> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn what_others_can_read_is_no_key() {
        let scratch = Scratch::new();
        let path = scratch.0.join("key");
        let key = key_at(&path, None).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let no = key_at(&path, None).unwrap_err();
        assert!(no.is_out_of_reach && no.to_string().contains("others may read it"), "{no}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(key_at(&path, None).unwrap(), key);
        fs::write(&path, "not a key").unwrap();
        assert!(key_at(&path, None).unwrap_err().is_out_of_reach);
    }

    #[test]
    fn where_none_can_be_kept_there_is_none() {
        let scratch = Scratch::new();
        let file = scratch.0.join("file");
        fs::write(&file, "").unwrap();
        let no = key_at(&file.join("fermata/key"), None).unwrap_err();
        assert!(!no.is_out_of_reach, "{no}");
        let home = scratch.0.join("no home");
        let no = key_at(&home.join(".config/fermata/key"), Some(&home)).unwrap_err();
        assert!(!no.is_out_of_reach && !home.exists(), "{no}");
    }

    #[test]
    fn without_hard_links_it_is_renamed_and_replaces_none() {
        let scratch = Scratch::new();
        let path = scratch.0.join("config/fermata/key");
        let no_links = |_: &Path, _: &Path| Err(ErrorKind::PermissionDenied.into());
        make(&path, no_links).unwrap();
        let key = read(&path).unwrap();
        make(&path, no_links).unwrap();
        assert_eq!(read(&path).unwrap(), key);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
