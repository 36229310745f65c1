// SPDX-License-Identifier: Apache-2.0
//! What happened to the job's files after the snapshot is put right or reported before a rank runs.
//!
//! A rank continues at the offsets it was saved with and writes again what it wrote after the
//! snapshot; a log that it appends to would then hold those lines twice. The image holds each open
//! file's size and time of change, so what is longer now can be cut back.
//!
//! Ranks may share a file. All of them stand still until the last one is saved, so the file had one
//! size; but a host that only reads it over NFS may have been told an older one. What a rank saw
//! that could write counts, and the most of it: another one's writes may be news to it, too.
//!
//! A file is known by its path and inode: the same path on two hosts may be two files, and a log
//! that was put in the place of the program's is not cut to that one's size.

use crate::kept;
use crate::moved::{Images, Move, Moves};
use crate::problem::refused;
use crate::report::report;
use anyhow::{Context, Result};
use fermata_storage::open_to_change;
use fermata_types::ImageFile;
use fermata_types::file_kind::{DIRECTORY, REGULAR};
use fermata_types::object_kind::NAMED;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::FileTimes;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// `O_ACCMODE` of open(2); 0 is reading only.
const ACCESS_MODE: u32 = 3;
/// Their files are made by the kernel as they are read.
const NOT_FILES: [&str; 3] = ["/proc/", "/sys/", "/dev/"];
/// But for these, unless a rank has mapped them: then images have their contents.
const MEMORY: &str = "/dev/shm/";

/// What to do about files that have changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// Cut files back to their size at the checkpoint; refuse if contents are lost.
    #[default]
    Restore,
    /// Leave every file as it is, and say what has changed.
    Keep,
    /// Refuse the restart if any file has changed.
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
    /// An image has its contents.
    kept: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Change {
    Longer(u64),
    /// Longer, and not the file that the ranks had, or not under its inode.
    Replaced(u64),
    Shorter(u64),
    /// Shorter, or written to, and the image has the contents.
    Restorable,
    Rewritten,
}

/// Path and inode.
type Key = (String, u64);
type Files = BTreeMap<Key, Saved>;

/// Adds one rank's open files.
fn merge(files: &mut Files, path: String, file: &ImageFile, own: bool) {
    let written = file.flags & ACCESS_MODE != 0;
    let saved = files.entry((path, file.inode)).or_insert(Saved {
        size: file.size,
        modified_ns: file.modified_ns,
        written,
        own,
        kept: kept::is_kept(file),
    });
    if written == saved.written {
        saved.size = saved.size.max(file.size);
    } else if written {
        saved.size = file.size;
    }
    saved.modified_ns = saved.modified_ns.max(file.modified_ns);
    saved.written |= written;
    saved.own |= own;
    saved.kept |= kept::is_kept(file);
}

/// The regular files of all images that can be read here. `rank`: whose own they are, `None`: all.
fn open_files(images: &Images, rank: Option<u32>) -> Files {
    let mut files = Files::new();
    let mut mapped = BTreeSet::new();
    for (owner, image) in images.open() {
        let named = image.objects.iter().filter(|object| object.kind == NAMED);
        mapped.extend(named.map(|object| images.path(&image, object.path_string)));
        for file in image.files.iter().filter(|file| file.kind == REGULAR) {
            let path = images.path(&image, file.path_string);
            let is_no_file = NOT_FILES.iter().any(|prefix| path.starts_with(prefix));
            if !is_no_file || path.starts_with(MEMORY) {
                merge(&mut files, path, file, rank.is_none_or(|rank| rank == owner));
            }
        }
    }
    files.retain(|(path, _), _| !path.starts_with(MEMORY) || !mapped.contains(path));
    files
}

/// `same`: it has the inode that it was saved with.
fn change(saved: &Saved, bytes: u64, modified_ns: u64, same: bool) -> Option<Change> {
    match bytes.cmp(&saved.size) {
        std::cmp::Ordering::Greater if same => Some(Change::Longer(bytes)),
        std::cmp::Ordering::Greater => Some(Change::Replaced(bytes)),
        std::cmp::Ordering::Less if same && saved.kept => Some(Change::Restorable),
        std::cmp::Ordering::Equal if same && saved.kept && modified_ns != saved.modified_ns => {
            Some(Change::Restorable)
        }
        std::cmp::Ordering::Less => Some(Change::Shorter(bytes)),
        std::cmp::Ordering::Equal if modified_ns != saved.modified_ns => Some(Change::Rewritten),
        std::cmp::Ordering::Equal => None,
    }
}

/// One line about a change that is not undone.
fn sentence(path: &str, saved: &Saved, change: &Change) -> String {
    let (how, bytes) = match change {
        Change::Longer(bytes) => ("longer", bytes),
        Change::Replaced(bytes) => ("another file, and longer", bytes),
        Change::Shorter(bytes) => ("shorter", bytes),
        Change::Rewritten | Change::Restorable => {
            return format!("{path}: has been written to since the checkpoint");
        }
    };
    format!("{path}: is {how} than at the checkpoint, {bytes} bytes instead of {}", saved.size)
}

/// The file is asked once more when it is open: since the look its name may have been given to
/// another one, which is nobody's to cut.
fn cut_back(path: &str, inode: u64, saved: &Saved) -> std::io::Result<()> {
    let file = open_to_change(Path::new(path))?;
    let info = file.metadata()?;
    if info.ino() != inode || info.len() < saved.size {
        return Err(std::io::Error::other("it is another file than a moment ago"));
    }
    file.set_len(saved.size)?;
    // Its time too, so that the file is again what was saved; only its owner may do that.
    let modified = UNIX_EPOCH + Duration::from_nanos(saved.modified_ns);
    let _ = file.set_times(FileTimes::new().set_modified(modified));
    Ok(())
}

/// What has changed of the files that the ranks had open and that are here. A file that is missing
/// is left to the rank itself: it may be on its own host.
fn changes(files: &Files, rule: Rule) -> Result<Vec<(&Key, &Saved, Change)>> {
    let mut changed = Vec::new();
    for (key, saved) in files.iter().filter(|(_, saved)| saved.own) {
        let (path, inode) = key;
        let Ok(info) = std::fs::metadata(path) else { continue };
        if info.file_type().is_fifo() {
            return Err(refused(format!(
                "cannot reopen what the job had:\n  {path}: is a pipe now, and was a file\n  \
                 hint: put the file back"
            ))); // a rank would wait for the pipe's other end
        }
        // Where several files had this path, each on its host, this is the one with its inode.
        let twins = files.keys().filter(|(other, _)| other == path).count();
        if !info.is_file() || (twins > 1 && info.ino() != *inode) {
            continue;
        }
        let modified_ns = info.mtime() as i128 * 1_000_000_000 + i128::from(info.mtime_nsec());
        let modified_ns = u64::try_from(modified_ns).unwrap_or(0);
        let now = change(saved, info.len(), modified_ns, info.ino() == *inode);
        changed.extend(now.map(|change| (key, saved, change)));
    }
    let lost = |saved: &Saved, change: &Change| match rule {
        Rule::Restore => match change {
            Change::Shorter(_) => true,
            Change::Replaced(_) => saved.written,
            Change::Longer(_) | Change::Rewritten | Change::Restorable => false,
        },
        Rule::Keep => false,
        Rule::Fail => true,
    };
    let refusals: Vec<_> =
        changed.iter().filter(|(_, saved, change)| lost(saved, change)).collect();
    if refusals.is_empty() {
        return Ok(changed);
    }
    let replaced = refusals.iter().any(|(_, _, change)| matches!(change, Change::Replaced(_)));
    let lines: Vec<String> =
        refusals.iter().map(|((path, _), saved, change)| sentence(path, saved, change)).collect();
    Err(refused(format!(
        "files of the job have changed:\n  {}\n  \
         hint: bring them back{}, or continue with them as they are: --files keep",
        lines.join("\n  "),
        if replaced { " (a copy: cut to that size with truncate -s)" } else { "" }
    )))
}

/// Whether the rule lets the job continue with its files. Nothing is changed.
///
/// # Errors
/// The rule refuses the restart.
pub fn check(images: &Images, rule: Rule) -> Result<()> {
    changes(&open_files(images, None), rule).map(|_| ())
}

/// What the programs of these images consist of and have open, by its path now; not what a restart
/// makes itself, nor what no host has as a file.
fn needed(images: &Images) -> BTreeSet<String> {
    let mut needed = BTreeSet::new();
    for (_, image) in images.open() {
        let code = image.regions.iter().filter(|region| region.build_id_string != 0);
        let open = image.files.iter().filter(|file| match file.kind {
            REGULAR | DIRECTORY => file.values[0] == 0,
            _ => false,
        });
        let keeps = !image.string(image.header.save_files_string).is_empty();
        let cwd = Some(image.header.cwd_string).filter(|_| !keeps);
        let offsets = code.map(|region| region.path_string).chain(open.map(|f| f.path_string));
        needed.extend(offsets.chain(cwd).map(|offset| images.path(&image, offset)));
    }
    needed.retain(|path| {
        path.starts_with('/') && !NOT_FILES.iter().any(|prefix| path.starts_with(prefix))
    });
    needed
}

fn is_missing(path: &str) -> bool {
    matches!(std::fs::metadata(path), Err(error) if error.kind() == ErrorKind::NotFound)
}

/// How a directory that was `then` may have come to be `now`: without the parts at the end that
/// both have. None if they are the same.
fn difference(then: &Path, now: &Path) -> Option<(PathBuf, PathBuf)> {
    let (mut then, mut now) = (then, now);
    while then != now && then.file_name().is_some() && then.file_name() == now.file_name() {
        (then, now) = (then.parent()?, now.parent()?);
    }
    (then != now).then(|| (then.to_owned(), now.to_owned()))
}

/// The `--map` by which everything would be found, if the job's directory `then` is now `now`.
fn guess(missing: &[String], then: &Path, now: &Path) -> Option<String> {
    let (from, to) = difference(then, now)?;
    let option = format!("{}={}", from.display(), to.display());
    let moves = Moves::of(vec![Move::parse(&option).ok()?]);
    missing.iter().all(|path| !is_missing(&moves.path(path))).then_some(option)
}

/// Whether everything is here that ranks on this host need. `cwd`: their working directory.
///
/// # Errors
/// The restart is refused: something is missing.
pub fn check_there(images: &Images, cwd: &str) -> Result<()> {
    let missing: Vec<String> = needed(images).into_iter().filter(|p| is_missing(p)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    const SHOWN: usize = 8;
    let more = match missing.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("\n  and {more} more"),
    };
    let here = std::env::current_dir().unwrap_or_default();
    let hint = match guess(&missing, Path::new(cwd), &here) {
        Some(option) => format!("they are found with --map {option}"),
        None => "put them back, or tell where they are now: --map OLD=NEW".into(),
    };
    Err(refused(format!(
        "cannot reopen what the job had:\n  {}: is missing{more}\n  hint: {hint}",
        missing[..missing.len().min(SHOWN)].join(": is missing\n  ")
    )))
}

/// Applies the rule to the ranks' files. `rank`: only to that rank's.
///
/// # Errors
/// The rule refuses the restart, or a file cannot be cut back.
pub fn settle(images: &Images, rank: Option<u32>, rule: Rule) -> Result<()> {
    let files = open_files(images, rank);
    for ((path, inode), saved, change) in changes(&files, rule)? {
        let longer = saved.written && matches!(change, Change::Longer(_));
        if rule == Rule::Restore && (change == Change::Restorable || (saved.kept && longer)) {
            if kept::write_back(images, path, rank)? {
                report(format_args!("{path}: has the contents of the checkpoint again"));
            }
        } else if rule == Rule::Restore && longer {
            cut_back(path, *inode, saved).with_context(|| format!("cannot cut back {path}"))?;
            let Change::Longer(bytes) = change else { continue };
            report(format_args!("{path}: cut back from {bytes} to {} bytes", saved.size));
        } else {
            report(format_args!("{}; it stays as it is", sentence(path, saved, &change)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(size: u64, modified_ns: u64) -> Saved {
        Saved { size, modified_ns, written: true, own: true, kept: false }
    }

    #[test]
    fn size_time_and_inode_tell_what_has_changed() {
        assert_eq!(change(&saved(10, 5), 10, 5, true), None);
        assert_eq!(change(&saved(10, 5), 12, 9, true), Some(Change::Longer(12)));
        assert_eq!(change(&saved(10, 5), 9, 9, true), Some(Change::Shorter(9)));
        assert_eq!(change(&saved(10, 5), 10, 9, true), Some(Change::Rewritten));
        // A copy of the directory is as good as the directory; what must not be cut is no copy.
        assert_eq!(change(&saved(10, 5), 10, 5, false), None);
        assert_eq!(change(&saved(10, 5), 12, 9, false), Some(Change::Replaced(12)));
        // What the image has can be written back, but not over another file.
        let kept = Saved { kept: true, ..saved(10, 5) };
        assert_eq!(change(&kept, 9, 9, true), Some(Change::Restorable));
        assert_eq!(change(&kept, 10, 9, true), Some(Change::Restorable));
        assert_eq!(change(&kept, 12, 9, true), Some(Change::Longer(12)));
        assert_eq!(change(&kept, 9, 9, false), Some(Change::Shorter(9)));
        assert_eq!(change(&kept, 10, 5, true), None);
    }

    #[test]
    fn what_was_looked_at_is_cut_and_no_other_file() {
        let directory = std::env::temp_dir().join(format!("fermata-cut-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (log, thesis) = (directory.join("log"), directory.join("thesis"));
        std::fs::write(&log, "0123456789 and more").unwrap();
        std::fs::write(&thesis, "ten years of work").unwrap();
        let inode = std::fs::metadata(&log).unwrap().ino();
        std::fs::rename(&log, directory.join("aside")).unwrap();
        std::os::unix::fs::symlink(&thesis, &log).unwrap();
        let path = log.to_str().unwrap();
        assert!(cut_back(path, inode, &saved(10, 5)).is_err());
        assert_eq!(std::fs::read(&thesis).unwrap(), b"ten years of work");
        std::fs::rename(directory.join("aside"), &log).unwrap();
        cut_back(path, inode, &saved(10, 5)).unwrap();
        assert_eq!(std::fs::read(&log).unwrap(), b"0123456789");
        std::fs::remove_dir_all(&directory).unwrap();
    }

    fn file(size: u64, inode: u64, flags: u32) -> ImageFile {
        ImageFile {
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
        }
    }

    #[test]
    fn what_two_directories_differ_in() {
        let pair = |a: &str, b: &str| Some((PathBuf::from(a), PathBuf::from(b)));
        let of = |a: &str, b: &str| difference(Path::new(a), Path::new(b));
        assert_eq!(of("/a/run/1", "/b/run/1"), pair("/a", "/b"));
        assert_eq!(of("/a", "/b/c"), pair("/a", "/b/c"));
        assert_eq!(of("/run", "/b/run"), pair("/", "/b"));
        assert_eq!(of("/a/b", "/a/b"), None);
    }

    #[test]
    fn a_shared_file_has_the_size_that_those_who_wrote_saw() {
        let files = [file(80, 7, 0), file(90, 7, 1), file(100, 7, 2), file(120, 7, 0)];
        for first in 0..files.len() {
            let mut merged = Files::new();
            for (rank, _) in files.iter().enumerate() {
                let file = &files[(first + rank) % files.len()];
                merge(&mut merged, "/log".into(), file, rank == 0);
            }
            let expected =
                Saved { size: 100, modified_ns: 120, written: true, own: true, kept: false };
            assert_eq!(merged[&("/log".to_owned(), 7)], expected);
        }
        let mut read = Files::new();
        merge(&mut read, "/input".into(), &file(80, 7, 0), true);
        merge(&mut read, "/input".into(), &file(90, 7, 0), true);
        merge(&mut read, "/input".into(), &file(50, 8, 0), true);
        assert_eq!(read.len(), 2);
        assert_eq!(read[&("/input".to_owned(), 7)].size, 90);
    }
}
