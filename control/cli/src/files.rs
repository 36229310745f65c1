// SPDX-License-Identifier: Apache-2.0
//! What happened to the job's files after the snapshot is put right or reported before a rank runs.
//!
//! A rank goes on at the offsets it was saved with and writes again what it wrote after the
//! snapshot; a log that it appends to would then hold those lines twice. The image holds each open
//! file's size and time of change, so what is longer now can be cut back.
//!
//! Ranks may share a file. All of them stand still from before the first one is saved until each
//! itself is, so the smallest size among them is the one that all agree on. A file is known by its
//! path and inode: the same path on two hosts may be two files.

use crate::exit::refused;
use anyhow::{Context, Result};
use clap::ValueEnum;
use fermata_storage::Image;
use fermata_types::file_kind::REGULAR;
use fermata_types::{ImageFile, Manifest};
use std::collections::BTreeMap;
use std::fs::{File, FileTimes};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// `O_ACCMODE` of open(2); 0 is reading only.
const ACCESS_MODE: u32 = 3;
/// Their files are made by the kernel as they are read.
const NOT_FILES: [&str; 3] = ["/proc/", "/sys/", "/dev/"];

/// What to do about files that have changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Rule {
    /// Cut files back to their size at the checkpoint; refuse if contents are lost
    #[default]
    Restore,
    /// Leave every file as it is, and say what has changed
    Keep,
    /// Refuse the restart if any file has changed
    Fail,
}

impl Rule {
    /// As it is written on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Restore => "restore",
            Self::Keep => "keep",
            Self::Fail => "fail",
        }
    }
}

/// A file as all the ranks that had it open remember it.
#[derive(Debug, PartialEq, Eq)]
struct Saved {
    size: u64,
    modified_ns: u64,
    written: bool,
    own: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Change {
    Longer(u64),
    Shorter(u64),
    Rewritten,
}

type Files = BTreeMap<(String, u64), Saved>;

/// Adds one rank's open files.
fn merge(files: &mut Files, path: String, file: &ImageFile, own: bool) {
    let written = file.flags & ACCESS_MODE != 0;
    let saved = files.entry((path, file.inode)).or_insert(Saved {
        size: file.size,
        modified_ns: file.modified_ns,
        written,
        own,
    });
    saved.size = saved.size.min(file.size);
    saved.modified_ns = saved.modified_ns.max(file.modified_ns);
    saved.written |= written;
    saved.own |= own;
}

/// The images of a snapshot, by rank.
pub fn images_of(snapshot: &Path, manifest: &Manifest) -> Vec<(u32, PathBuf)> {
    let place = |file: &String| snapshot.join(file);
    manifest.images.iter().map(|image| (image.rank, place(&image.file))).collect()
}

/// The regular files of all images that can be read here. `rank`: whose own they are, `None`: all.
fn open_files(images: &[(u32, PathBuf)], rank: Option<u32>) -> Files {
    let mut files = Files::new();
    for (owner, path) in images {
        let Ok(image) = Image::open(path) else { continue };
        for file in image.files.iter().filter(|file| file.kind == REGULAR) {
            let path = image.string(file.path_string);
            if !NOT_FILES.iter().any(|prefix| path.starts_with(prefix)) {
                merge(&mut files, path, file, rank.is_none_or(|rank| rank == *owner));
            }
        }
    }
    files
}

fn change(saved: &Saved, bytes: u64, modified_ns: u64) -> Option<Change> {
    match bytes.cmp(&saved.size) {
        std::cmp::Ordering::Greater => Some(Change::Longer(bytes)),
        std::cmp::Ordering::Less => Some(Change::Shorter(bytes)),
        std::cmp::Ordering::Equal if modified_ns != saved.modified_ns => Some(Change::Rewritten),
        std::cmp::Ordering::Equal => None,
    }
}

/// One line about a change that is not undone.
fn sentence(path: &str, saved: &Saved, change: &Change) -> String {
    let (how, bytes) = match change {
        Change::Longer(bytes) => ("longer", bytes),
        Change::Shorter(bytes) => ("shorter", bytes),
        Change::Rewritten => return format!("{path}: has been written to since the checkpoint"),
    };
    format!("{path}: is {how} than at the checkpoint, {bytes} bytes instead of {}", saved.size)
}

fn cut_back(path: &str, saved: &Saved) -> std::io::Result<()> {
    let file = File::options().write(true).open(path)?;
    file.set_len(saved.size)?;
    // Its time too, so that the file is again what was saved; only its owner may do that.
    let modified = UNIX_EPOCH + Duration::from_nanos(saved.modified_ns);
    let _ = file.set_times(FileTimes::new().set_modified(modified));
    Ok(())
}

/// What has changed of the files that the ranks had open and that are here. A file that is missing
/// is left to the rank itself: it may be on its own host.
fn changes(files: &Files, rule: Rule) -> Result<Vec<(&String, &Saved, Change)>> {
    let mut changed = Vec::new();
    for ((path, inode), saved) in files.iter().filter(|(_, saved)| saved.own) {
        let Ok(info) = std::fs::metadata(path) else { continue };
        // Where several files had this path, each on its host, this is the one with its inode.
        let twins = files.keys().filter(|(other, _)| other == path).count();
        if !info.is_file() || (twins > 1 && info.ino() != *inode) {
            continue;
        }
        let modified_ns = info.mtime() as i128 * 1_000_000_000 + i128::from(info.mtime_nsec());
        let now = change(saved, info.len(), u64::try_from(modified_ns).unwrap_or(0));
        changed.extend(now.map(|change| (path, saved, change)));
    }
    let lost = |change: &Change| match rule {
        Rule::Restore => matches!(change, Change::Shorter(_)),
        Rule::Keep => false,
        Rule::Fail => true,
    };
    let refusals: Vec<String> = changed
        .iter()
        .filter(|(_, _, change)| lost(change))
        .map(|(path, saved, change)| sentence(path, saved, change))
        .collect();
    if refusals.is_empty() {
        return Ok(changed);
    }
    Err(refused(format!(
        "files of the job have changed:\n  {}\n  \
         hint: bring them back, or go on with them as they are: --files keep",
        refusals.join("\n  ")
    )))
}

/// Whether the rule lets the job go on with its files. Nothing is changed.
///
/// # Errors
/// The rule refuses the restart.
pub fn check(images: &[(u32, PathBuf)], rule: Rule) -> Result<()> {
    changes(&open_files(images, None), rule).map(|_| ())
}

/// Applies the rule to the ranks' files. `rank`: only to that rank's.
///
/// # Errors
/// The rule refuses the restart, or a file cannot be cut back.
pub fn settle(images: &[(u32, PathBuf)], rank: Option<u32>, rule: Rule) -> Result<()> {
    let files = open_files(images, rank);
    for (path, saved, change) in changes(&files, rule)? {
        if rule == Rule::Restore && saved.written && matches!(change, Change::Longer(_)) {
            cut_back(path, saved).with_context(|| format!("cannot cut back {path}"))?;
            let Change::Longer(bytes) = change else { continue };
            eprintln!("fermata: {path}: cut back from {bytes} to {} bytes", saved.size);
        } else {
            eprintln!("fermata: {}; it stays as it is", sentence(path, saved, &change));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(size: u64, modified_ns: u64) -> Saved {
        Saved { size, modified_ns, written: true, own: true }
    }

    #[test]
    fn size_and_time_tell_what_has_changed() {
        assert_eq!(change(&saved(10, 5), 10, 5), None);
        assert_eq!(change(&saved(10, 5), 12, 9), Some(Change::Longer(12)));
        assert_eq!(change(&saved(10, 5), 9, 9), Some(Change::Shorter(9)));
        assert_eq!(change(&saved(10, 5), 10, 9), Some(Change::Rewritten));
    }

    #[test]
    fn ranks_that_share_a_file_agree_on_the_smallest_size() {
        let mut files = Files::new();
        let file = |size, inode, flags| ImageFile {
            fd: 3,
            kind: REGULAR,
            flags,
            fd_flags: 0,
            offset: 0,
            size,
            inode,
            modified_ns: size,
            path_string: 0,
            same_as: -1,
            values: [0; 4],
            first_extent: 0,
            extent_count: 0,
        };
        merge(&mut files, "/log".into(), &file(100, 7, 0), false);
        merge(&mut files, "/log".into(), &file(90, 7, 1), true);
        merge(&mut files, "/log".into(), &file(50, 8, 1), true);
        assert_eq!(files.len(), 2);
        let shared = &files[&("/log".to_owned(), 7)];
        assert_eq!(shared, &Saved { size: 90, modified_ns: 100, written: true, own: true });
    }
}
