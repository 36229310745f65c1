// SPDX-License-Identifier: Apache-2.0
//! Whose file it is that was opened.
//!
//! An image is a program that runs as whoever restarts it, and a job's directory is written to. A
//! name says nothing about either: what it leads to may change after a look. So the descriptor is
//! asked: what counts is a regular file, or a directory, that belongs to the user and that nobody
//! else may write to. Opening never waits: a pipe is refused.

use fermata_seal::{Key, Seal};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Who may have written what is read, and the user's key, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Whoever: it is only looked at. What is sealed with this key must be as it was.
    Anybodys(Option<Key>),
    /// The user alone: it is believed. It has to be sealed with this key; without a key nothing is
    /// sealed that can be believed, and the owner alone counts.
    Own(Option<Key>),
    /// The user alone, who has a key that cannot be used: nothing is believed.
    Nobodys,
}

/// Why a seal keeps something from being used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealProblem {
    /// Something has been changed by somebody who has not the key.
    #[error("changed since it was sealed, by somebody who has not your key")]
    Broken,
    /// There is none, though the user has a key.
    #[error(
        "not sealed with your key: made where there was none, or by somebody else; if you know \
         where it comes from, fermata trust takes it over"
    )]
    Absent,
    /// It is of another key.
    #[error(
        "sealed with another key than yours: by somebody else, or with an earlier key; if you know \
         where it comes from, fermata trust takes it over"
    )]
    Others,
    /// The user has no key to compare it with.
    #[error(
        "sealed, and there is no key here to check that with: fermata/key must be in \
         $XDG_CONFIG_HOME or ~/.config, as it was when this was saved"
    )]
    NoKey,
    /// The user's key cannot be used.
    #[error(
        "your key, fermata/key in $XDG_CONFIG_HOME or ~/.config, cannot be used, so nothing shows \
         whether this is yours"
    )]
    UnusableKey,
}

impl Whose {
    /// The user's key.
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        match self {
            Self::Anybodys(key) | Self::Own(key) => key.as_ref(),
            Self::Nobodys => None,
        }
    }

    /// Whether a seal that says this lets something be used.
    ///
    /// # Errors
    /// It does not.
    pub fn accept(&self, seal: Seal) -> Result<(), SealProblem> {
        match (self, seal) {
            (_, Seal::Broken) => Err(SealProblem::Broken),
            (Self::Own(Some(_)), Seal::Absent) => Err(SealProblem::Absent),
            (Self::Own(Some(_)), Seal::Others) => Err(SealProblem::Others),
            (Self::Own(None), Seal::Others) => Err(SealProblem::NoKey),
            (Self::Nobodys, _) => Err(SealProblem::UnusableKey),
            _ => Ok(()),
        }
    }
}

/// `S_IWGRP | S_IWOTH`
const WRITABLE_FOR_OTHERS: u32 = 0o022;
/// open(2) on x86-64; the standard library has no names for them.
const NON_BLOCKING: i32 = 0o4000;
const DIRECTORY: i32 = 0o20_0000;
const NO_FOLLOW: i32 = 0o40_0000;
/// `ELOOP`
const IS_LINK: i32 = 40;

fn refused(why: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, why.into())
}

fn no_file() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "is no regular file")
}

fn check_user(info: &Metadata) -> io::Result<()> {
    let user = fermata_sysio::effective_uid();
    if info.uid() != user {
        return Err(refused(format!("belongs to user {}, not to you (user {user})", info.uid())));
    }
    Ok(())
}

fn check(info: &Metadata) -> io::Result<()> {
    check_user(info)?;
    check_mode(info)
}

fn check_mode(info: &Metadata) -> io::Result<()> {
    if info.mode() & WRITABLE_FOR_OTHERS != 0 {
        return Err(refused(format!("others may write to it (mode {:o})", info.mode() & 0o7777)));
    }
    Ok(())
}

/// Opens a regular file for reading.
///
/// # Errors
/// What open(2) says; it is no regular file; it is not the user's own.
pub fn open(path: &Path, whose: Whose) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(NON_BLOCKING).open(path)?;
    let info = file.metadata()?;
    if !info.is_file() {
        return Err(no_file());
    }
    if !matches!(whose, Whose::Anybodys(_)) {
        check(&info)?;
    }
    Ok(file)
}

/// Opens a regular file for reading that is believed: one of these users owns it, and nobody else
/// may write to it. The file that has this name itself, unless `through_links`.
///
/// # Errors
/// What open(2) says; it is no regular file; it is somebody else's.
pub fn open_believed(path: &Path, owners: &[u32], through_links: bool) -> io::Result<File> {
    let flags = NON_BLOCKING | if through_links { 0 } else { NO_FOLLOW };
    let open = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = open.map_err(|error| match error.raw_os_error() {
        Some(IS_LINK) if !through_links => refused("is a link"),
        _ => error,
    })?;
    let info = file.metadata()?;
    if !info.is_file() {
        return Err(no_file());
    }
    if !owners.contains(&info.uid()) {
        return Err(refused(format!("belongs to user {}", info.uid())));
    }
    check_mode(&info)?;
    Ok(file)
}

/// Makes a file that passes for the user's own whatever the umask is. What had that name is not
/// written to: it may be a link, or have another name.
///
/// # Errors
/// What unlink(2) and open(2) say.
pub fn create(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => OpenOptions::new().write(true).create_new(true).mode(0o600).open(path),
    }
}

/// Opens a regular file of the user's, through no link, for reading and for writing at its end; one
/// that is missing is made.
///
/// # Errors
/// What open(2) says; it is no regular file; it is somebody else's.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(NON_BLOCKING | NO_FOLLOW)
        .open(path)?;
    let info = file.metadata()?;
    if !info.is_file() {
        return Err(no_file());
    }
    check_user(&info)?;
    Ok(file)
}

/// Opens a regular file, whoever's, for writing to what it has.
///
/// # Errors
/// What open(2) says; it is no regular file.
pub fn open_to_change(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).custom_flags(NON_BLOCKING).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(no_file()) }
}

/// Opens a regular file of the user's own, through no link, for reading and for writing to what it
/// has.
///
/// # Errors
/// What open(2) says, or it is not.
pub(crate) fn open_to_seal(path: &Path) -> io::Result<File> {
    let flags = NON_BLOCKING | NO_FOLLOW;
    let open = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
    let file = open.map_err(|error| match error.raw_os_error() {
        Some(IS_LINK) => refused("is a link: what it leads to is not written to"),
        _ => error,
    })?;
    let info = file.metadata()?;
    if !info.is_file() {
        return Err(no_file());
    }
    check(&info)?;
    Ok(file)
}

/// The text of a regular file.
///
/// # Errors
/// As `open`, and what read(2) says.
pub fn read_to_string(path: &Path, whose: Whose) -> io::Result<String> {
    let mut text = String::new();
    io::Read::read_to_string(&mut open(path, whose)?, &mut text)?;
    Ok(text)
}

/// Opens a directory of the user's own. A link to one is none.
///
/// # Errors
/// What open(2) says, or it is not.
pub fn open_directory(path: &Path) -> io::Result<File> {
    let open = OpenOptions::new().read(true).custom_flags(DIRECTORY | NO_FOLLOW).open(path);
    match open {
        Ok(directory) => check(&directory.metadata()?).map(|()| directory),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            Err(refused("it is a link, or no directory"))
        }
        Err(error) => Err(error),
    }
}

/// Makes a directory, and those above it, that others may read; or takes from an own one that is
/// there what others may do beyond that.
///
/// # Errors
/// What mkdir(2) and open(2) say, or it is not the user's own.
pub fn make_own(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(path)?;
    let mode = fs::symlink_metadata(path)?.mode();
    if mode & WRITABLE_FOR_OTHERS != 0 {
        // Of another user's it fails, and is said below.
        let _ = fs::set_permissions(path, Permissions::from_mode(mode & 0o755));
    }
    open_directory(path).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn scratch(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("fermata-own-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        path
    }

    #[test]
    fn what_others_may_write_is_not_own() {
        let path = scratch("modes");
        let file = path.join("file");
        fs::write(&file, "text").unwrap();
        for (mode, is_own) in [(0o600, true), (0o644, true), (0o664, false), (0o602, false)] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(open(&file, Whose::Own(None)).is_ok(), is_own, "{mode:o}");
            assert!(open(&file, Whose::Anybodys(None)).is_ok());
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(open_directory(&path).unwrap_err().to_string().contains("777"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        open_directory(&path).unwrap();
        let link = path.join("link");
        symlink(&path, &link).unwrap();
        assert!(open_directory(&link).is_err());
        assert!(make_own(&link).is_err());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o775)).unwrap();
        make_own(&path).unwrap();
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn what_is_believed_has_an_owner_and_a_name_of_its_own() {
        let path = scratch("believed");
        let (file, link) = (path.join("file"), path.join("link"));
        fs::write(&file, "text").unwrap();
        symlink(&file, &link).unwrap();
        let user = fermata_sysio::effective_uid();
        let why = |path: &Path, owners: &[u32], through_links| {
            open_believed(path, owners, through_links).err().map(|error| error.to_string())
        };
        assert_eq!(why(&file, &[user + 1, user], false), None);
        assert_eq!(why(&file, &[user + 1], false), Some(format!("belongs to user {user}")));
        assert_eq!(why(&link, &[user], true), None);
        assert_eq!(why(&link, &[user], false).as_deref(), Some("is a link"));
        assert!(why(&path, &[user], true).is_some(), "a directory");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o620)).unwrap();
        assert!(why(&file, &[user], false).unwrap().contains("others may write to it"));
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let path = scratch("links");
        let (thesis, link) = (path.join("thesis"), path.join("link"));
        fs::write(&thesis, "ten years of work").unwrap();
        symlink(&thesis, &link).unwrap();
        assert!(open_to_append(&link).is_err());
        create(&link).unwrap();
        assert!(!link.is_symlink());
        open_to_append(&link).unwrap();
        assert_eq!(fs::read_to_string(&thesis).unwrap(), "ten years of work");
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn a_pipe_is_refused_at_once() {
        let path = scratch("pipe");
        let pipe = path.join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let why = open(&pipe, Whose::Anybodys(None)).unwrap_err();
        assert_eq!(why.to_string(), "is no regular file");
        fs::remove_dir_all(&path).unwrap();
    }
}
