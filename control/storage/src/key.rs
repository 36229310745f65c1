// SPDX-License-Identifier: Apache-2.0
//! The user's key: `fermata/key` in `$XDG_CONFIG_HOME`, else in `~/.config`. It is made when it is
//! first needed, and never again.
//!
//! Invariant: of several that make it at once, on hosts that share the directory, all get the same.

use crate::own;
use fermata_seal::Key;
use fermata_types::{hex, unhex};
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

/// The user's key; made if there is none yet.
///
/// # Errors
/// One line that says why there is none.
pub fn user_key() -> Result<UserKey, String> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let config = absolute("XDG_CONFIG_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".config")))
        .ok_or("neither HOME nor XDG_CONFIG_HOME says where it could be kept")?;
    let path = config.join("fermata/key");
    let key = key_at(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(UserKey { path, key })
}

fn key_at(path: &Path) -> io::Result<Key> {
    match read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => make(path).and_then(|()| read(path)),
        known => known,
    }
}

fn read(path: &Path) -> io::Result<Key> {
    let file = own::open(path, own::Whose::Own(None))?;
    if file.metadata()?.mode() & FOR_OTHERS != 0 {
        return Err(io::Error::other("others may read it (chmod 600)"));
    }
    let text = io::read_to_string(file)?;
    unhex(text.trim()).map(Key::new).ok_or_else(|| io::Error::other("is no key"))
}

/// Under a name of its own first, which is then linked to where nothing may be yet.
fn make(path: &Path) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let own = path.with_extension(hex(&fermata_sysio::random_bytes::<8>()?));
    let key = hex(&fermata_sysio::random_bytes::<32>()?);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&own)?;
    let made = writeln!(file, "{key}").and_then(|()| file.sync_all());
    let linked = made.and_then(|()| match fs::hard_link(&own, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    });
    let _ = fs::remove_file(&own);
    linked
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
        let make = || key_at(&path).unwrap();
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
        let key = key_at(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(key_at(&path).unwrap_err().to_string().contains("others may read it"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(key_at(&path).unwrap(), key);
        fs::write(&path, "not a key").unwrap();
        assert!(key_at(&path).is_err());
    }
}
