// SPDX-License-Identifier: Apache-2.0
//! Files with a name whose contents are in the snapshot as well (`run --files save`): which they
//! are to be, and how a restart makes them again where they are missing.

use crate::moved::Images;
use crate::problem::refused;
use crate::report::report;
use anyhow::{Context, Result};
use fermata_storage::{Image, ImageProblem, Whose, open_file, open_to_change};
use fermata_sysio::host_name;
use fermata_types::ImageFile;
use fermata_types::file_kind::{DIRECTORY, REGULAR};
use std::fs::{DirBuilder, File, FileTimes, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{
    DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown,
};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, UNIX_EPOCH};

/// Instead of `--files`.
pub const VARIABLE: &str = "FERMATA_FILES";
/// Of directories that nobody had open, so that nobody knows what they were.
const DIRECTORY_MODE: u32 = 0o700;

/// Which open files are saved with their contents, as the launcher is told: "" for none.
///
/// # Errors
/// The text is neither `save`, `save=DIR:DIR` nor `leave`.
pub fn parse_which(text: &str) -> Result<String, String> {
    let Some(rest) = text.strip_prefix("save") else {
        let none = text == "leave" || text.is_empty();
        return none.then(String::new).ok_or(format!("'{text}' is neither save nor leave"));
    };
    if rest.is_empty() {
        return Ok("written".into());
    }
    let Some(list) = rest.strip_prefix('=') else {
        return Err(format!("'{text}' is neither save nor save=DIR:DIR"));
    };
    let mut directories = Vec::new();
    for name in list.split(':').filter(|name| !name.is_empty()) {
        let absolute = std::path::absolute(name).map_err(|error| format!("'{name}': {error}"))?;
        // Descriptors know the directory by its real name.
        let real = absolute.canonicalize().unwrap_or(absolute);
        directories.push(real.to_string_lossy().into_owned());
    }
    if directories.is_empty() {
        return Err("save= wants directories".into());
    }
    Ok(directories.join(":"))
}

/// The reverse of `parse_which`.
pub fn text_of(which: &str) -> String {
    match which {
        "" => "leave".into(),
        "written" => "save".into(),
        list => format!("save={list}"),
    }
}

/// The command line's choice, else that of the environment; `None`: nobody has said anything.
///
/// # Errors
/// The environment has a text that means nothing.
pub fn chosen(which: Option<&str>) -> Result<Option<String>> {
    match (which, std::env::var(VARIABLE)) {
        (Some(which), _) => Ok(Some(which.to_owned())),
        (None, Ok(text)) => {
            parse_which(&text).map(Some).map_err(|why| refused(format!("{VARIABLE}: {why}")))
        }
        (None, Err(_)) => Ok(None),
    }
}

/// The launcher's option, if there is anything to tell it.
///
/// # Errors
/// As `chosen`.
pub fn launcher_option(which: Option<&str>, limit: u64) -> Result<Option<String>> {
    let some = chosen(which)?.filter(|which| !which.is_empty());
    Ok(some.map(|which| format!("{limit}:{which}")))
}

/// The launcher's option of a restart for which directories have moved that the image saves files
/// of; `None`: what the image has is right.
pub fn moved_option(images: &Images) -> Option<String> {
    let (_, image) = images.open().next()?;
    let saved = image.string(image.header.save_files_string);
    let (limit, which) = saved.split_once(':')?;
    if images.moves.is_empty() || !which.starts_with('/') {
        return None;
    }
    let moved: Vec<_> = which.split(':').map(|directory| images.moves.path(directory)).collect();
    Some(format!("{limit}:{}", moved.join(":")))
}

/// Whether this file's contents are in the image.
pub fn is_kept(file: &ImageFile) -> bool {
    file.kind == REGULAR && file.values[0] == 1
}

fn make_directories(path: &Path, mode: u32) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(mode).create(path)?;
    report(format_args!("{}: made again", path.display()));
    Ok(())
}

fn damaged(problem: &ImageProblem) -> io::Error {
    io::Error::other(problem.to_string())
}

/// Calls `take` with offset and bytes of what the image has of a file; between them are zeros.
fn each_part(
    image: &mut Image,
    file: &ImageFile,
    mut take: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = Vec::new();
    for index in file.first_extent..file.first_extent.saturating_add(file.extent_count) {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        image.read_pages(index, &mut buffer).map_err(|problem| damaged(&problem))?;
        let at = image.extents[index].address;
        let left = usize::try_from(file.size.saturating_sub(at)).unwrap_or(usize::MAX);
        take(at, &buffer[..buffer.len().min(left)])?;
    }
    Ok(())
}

/// Gives `to` the contents that the image has.
fn fill(image: &mut Image, file: &ImageFile, to: &File) -> io::Result<()> {
    to.set_len(0)?;
    to.set_len(file.size)?;
    each_part(image, file, |at, bytes| to.write_all_at(bytes, at))?;
    let modified = UNIX_EPOCH + Duration::from_nanos(file.modified_ns);
    let _ = to.set_times(FileTimes::new().set_modified(modified)); // only its owner may
    to.sync_all()
}

/// Whether a file is, byte by byte, what the image has.
fn is_equal(image: &mut Image, file: &ImageFile, there: &File) -> io::Result<bool> {
    let mut equal = there.metadata()?.len() == file.size;
    let (mut end, mut found) = (0, Vec::new());
    let compare = |from: u64, bytes: &[u8], found: &mut Vec<u8>| -> io::Result<bool> {
        found.resize(bytes.len(), 0);
        there.read_exact_at(found, from)?;
        Ok(found == bytes)
    };
    let is_zero = |from: u64, to: u64, found: &mut Vec<u8>| -> io::Result<bool> {
        let zeros = vec![0; 1 << 16];
        let mut at = from;
        while at < to {
            let bytes = usize::try_from(to - at).unwrap_or(usize::MAX).min(zeros.len());
            if !compare(at, &zeros[..bytes], found)? {
                return Ok(false);
            }
            at += bytes as u64;
        }
        Ok(true)
    };
    each_part(image, file, |at, bytes| {
        equal = equal && is_zero(end, at, &mut found)? && compare(at, bytes, &mut found)?;
        end = at + bytes.len() as u64;
        Ok(())
    })?;
    Ok(equal && is_zero(end, file.size, &mut found)?)
}

/// Makes a file under a name of its own, and gives it the one that it is to have when `fill` has
/// filled it: another rank of this host may make it as well, or look whether it is there, and must
/// not meet it half filled. Whoever comes first has made it (returns true).
fn make_whole(
    path: &Path,
    mode: u32,
    fill: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<bool> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let own = format!(".fermata-{}-{}-{number}", host_name(), std::process::id());
    let own = path.with_file_name(own);
    let _ = std::fs::remove_file(&own); // of an earlier process of this number that was killed
    // Nobody else is to read it before it has its permissions.
    let new = File::options().write(true).create_new(true).mode(mode & 0o700).open(&own)?;
    let named = fill(&new).and_then(|()| match std::fs::hard_link(&own, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(_) if path.exists() => Ok(false),
        Err(_) => std::fs::rename(&own, path).map(|()| true), // where there are no links
        Ok(()) => Ok(true),
    });
    let _ = std::fs::remove_file(&own);
    named
}

fn make_file(image: &mut Image, file: &ImageFile, path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        make_directories(parent, DIRECTORY_MODE)?;
    }
    let mode = u32::try_from(file.values[1] & 0o7777).unwrap_or(0o600);
    // If another rank has made it meanwhile: it has the same contents.
    let made = make_whole(path, mode, |new| {
        fill(image, file, new)?;
        let owner = |shift: u32| u32::try_from(file.values[2] >> shift & 0xffff_ffff).ok();
        let _ = fchown(new, owner(32), owner(0)); // only root may give it to somebody else
        new.set_permissions(Permissions::from_mode(mode))
    })?;
    if made {
        report(format_args!("{}: made again, {} bytes", path.display(), file.size));
    }
    Ok(())
}

/// Makes what these images have and what is missing here.
///
/// # Errors
/// A file or a directory cannot be made.
pub fn make_missing(images: &Images) -> Result<()> {
    for (_, mut image) in images.open() {
        if image.string(image.header.save_files_string).is_empty() {
            continue;
        }
        let made = |path: &str| format!("cannot make {path} again from the snapshot");
        for file in image.files.clone() {
            let path = images.path(&image, file.path_string);
            if file.kind == DIRECTORY && file.values[0] == 1 {
                let mode = u32::try_from(file.values[1] & 0o7777).unwrap_or(DIRECTORY_MODE);
                make_directories(Path::new(&path), mode).with_context(|| made(&path))?;
            } else if file.kind == REGULAR && file.values[0] == 2 {
                let parent = Path::new(&path).parent().unwrap_or(Path::new("/"));
                make_directories(parent, DIRECTORY_MODE).with_context(|| made(&path))?;
            } else if is_kept(&file) && !Path::new(&path).exists() {
                make_file(&mut image, &file, Path::new(&path)).with_context(|| made(&path))?;
            }
        }
        let directory = images.path(&image, image.header.cwd_string);
        make_directories(Path::new(&directory), DIRECTORY_MODE)
            .with_context(|| made(&directory))?;
    }
    Ok(())
}

/// Gives a file that is there the contents that an image has of it, if it has others. `rank`: only
/// that rank's image. Returns whether it had.
///
/// # Errors
/// It cannot be read or written, or the image is damaged.
pub fn write_back(images: &Images, path: &str, rank: Option<u32>) -> Result<bool> {
    // On another host the same path may be another file.
    let look = || format!("cannot look at {path}");
    let there = open_file(Path::new(path), Whose::Anybodys(None)).with_context(look)?;
    let inode = there.metadata().with_context(look)?.ino();
    let own = |(owner, _): &(u32, Image)| rank.is_none_or(|rank| rank == *owner);
    for (_, mut image) in images.open().filter(own) {
        let found = |file: &&ImageFile| {
            is_kept(file) && file.inode == inode && images.path(&image, file.path_string) == path
        };
        let Some(file) = image.files.iter().find(found).cloned() else { continue };
        if is_equal(&mut image, &file, &there).unwrap_or(false) {
            return Ok(false);
        }
        // The very file that was looked at, whatever has its name by now.
        let to = open_to_change(&Path::new("/proc/self/fd").join(there.as_raw_fd().to_string()));
        to.and_then(|to| fill(&mut image, &file, &to))
            .with_context(|| format!("cannot write the contents of {path} back"))?;
        return Ok(true);
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved() {
        assert_eq!(parse_which("save"), Ok("written".into()));
        assert_eq!(parse_which("leave"), Ok(String::new()));
        assert_eq!(parse_which("save=/:/nowhere/at/all"), Ok("/:/nowhere/at/all".into()));
        assert!(parse_which("save=").is_err());
        assert!(parse_which("saved").is_err());
        assert!(parse_which("restore").is_err());
    }

    #[test]
    fn two_that_make_the_same_file() {
        use std::io::Write;
        let directory = std::env::temp_dir().join(format!("fermata-kept-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("file");
        let fill = |mut file: &File| file.write_all(b"whole");
        let made = make_whole(&path, 0o640, |file| {
            // A second one comes, makes it and continues while the first one has filled half of it.
            file.write_all_at(b"wh", 0)?;
            assert!(!path.exists());
            assert!(make_whole(&path, 0o640, fill)?);
            file.write_all_at(b"whole", 0)
        });
        assert!(!made.unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        let failed = make_whole(&directory.join("other"), 0o640, |_| Err(io::Error::other("full")));
        assert!(failed.is_err());
        let names = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["file"]);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
