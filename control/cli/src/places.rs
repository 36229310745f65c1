// SPDX-License-Identifier: Apache-2.0
//! Where this user's jobs are, for `jobs --all`: `$XDG_STATE_HOME/fermata/places` holds a link to
//! each directory of jobs, made when a job of it is run. Hosts that share the home share that, so a
//! job of any of them is found from any other, a login node say.
//!
//! Links need no lock, also on a network file system, and no two hosts can tear one. What is lost
//! here is found again by the next run, so nothing that fails here is told.

use crate::reach::tag;
use std::env;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Directories whose names come to one tag; more than that nobody has.
const SAME_TAG_MAX: u32 = 16;
/// A directory that has gone, or is on another host's own disk, is looked for so long.
const FORGOTTEN: Duration = Duration::from_secs(30 * 24 * 3600);

fn index() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    Some(state?.join("fermata/places"))
}

/// A job of this directory is run.
pub fn note(dir: &Path) {
    if let (Some(index), Ok(dir)) = (index(), fs::canonicalize(dir)) {
        note_in(&index, &dir);
    }
}

fn note_in(index: &Path, dir: &Path) {
    if fermata_storage::make_own(index).is_err() {
        return;
    }
    let tag = tag(&dir.to_string_lossy());
    for number in 0..SAME_TAG_MAX {
        let link = index.join(format!("{tag:08x}-{number}"));
        match symlink(dir, &link) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                if fs::read_link(&link).is_ok_and(|before| before == dir) {
                    return;
                }
            }
            _ => return,
        }
    }
}

/// All that are there, from this host.
pub fn all() -> Vec<PathBuf> {
    index().map_or_else(Vec::new, |index| all_in(&index))
}

fn all_in(index: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for link in fs::read_dir(index).into_iter().flatten().flatten() {
        let Ok(dir) = fs::read_link(link.path()) else { continue };
        if dir.is_dir() {
            found.push(dir);
            continue;
        }
        let made = link.metadata().and_then(|info| info.modified()).ok(); // of the link itself
        if made.and_then(|made| made.elapsed().ok()).is_some_and(|age| age > FORGOTTEN) {
            let _ = fs::remove_file(link.path());
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_noted_once_and_passed_over_while_it_is_not_there() {
        let scratch = env::temp_dir().join(format!("fermata-places-{}", std::process::id()));
        let (index, one, two) = (scratch.join("index"), scratch.join("one"), scratch.join("two"));
        for dir in [&one, &two] {
            fs::create_dir_all(dir).unwrap();
            note_in(&index, dir);
            note_in(&index, dir);
        }
        assert_eq!(fs::read_dir(&index).unwrap().count(), 2);
        assert_eq!(all_in(&index), [one.clone(), two.clone()]);
        fs::remove_dir(&two).unwrap();
        assert_eq!(all_in(&index), std::slice::from_ref(&one));
        fs::create_dir(&two).unwrap();
        assert_eq!(all_in(&index), [one, two], "it may have been on another disk");
        fs::remove_dir_all(&scratch).unwrap();
    }

    #[test]
    fn names_that_come_to_one_tag_are_told_apart() {
        let scratch = env::temp_dir().join(format!("fermata-same-tag-{}", std::process::id()));
        let (index, one) = (scratch.join("index"), scratch.join("one"));
        fs::create_dir_all(&one).unwrap();
        fs::create_dir_all(&index).unwrap();
        let taken = index.join(format!("{:08x}-0", tag(&one.to_string_lossy())));
        symlink(&scratch, taken).unwrap();
        note_in(&index, &one);
        assert_eq!(all_in(&index), [scratch.clone(), one]);
        fs::remove_dir_all(&scratch).unwrap();
    }
}
