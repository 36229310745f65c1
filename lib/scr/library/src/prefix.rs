// SPDX-License-Identifier: Apache-2.0
//! The directory that all hosts see: files under the names that the program has given, and beside
//! them in `.scr` the index, a summary for each dataset, and the halt file.
//!
//! Invariant: a dataset is in the index when all of its files and its summary are durable; it is
//!            out of it before any of them goes.

use crate::cache::{beside, read_json, remove_all, write_json, write_whole};
use crate::image::{PIECE, checksum, open};
use crate::problem::Problem;
use fermata_scr::{Dataset, File, Files, Halt, Index};
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};

/// No halt file is longer.
const HALT_MAX: u64 = 1 << 16;

/// The files of a dataset, by rank.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub dataset: Dataset,
    pub ranks: Vec<Files>,
}

/// The directory.
#[derive(Clone, Debug)]
pub(crate) struct Prefix {
    root: PathBuf,
    /// Without links: a working directory is known like that.
    real: PathBuf,
}

impl Prefix {
    /// `root` is absolute.
    pub fn new(root: PathBuf) -> Self {
        let real = fs::canonicalize(&root).unwrap_or_else(|_| root.clone());
        Self { root, real }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    fn hidden(&self) -> PathBuf {
        self.root.join(".scr")
    }

    pub fn halt_file(&self) -> PathBuf {
        self.hidden().join("halt.scr")
    }

    fn index_file(&self) -> PathBuf {
        self.hidden().join("index.scr")
    }

    fn summary_file(&self, id: u32) -> PathBuf {
        self.hidden().join(format!("scr.dataset.{id}")).join("summary.scr")
    }

    /// Makes the hidden directory.
    pub fn make(&self) -> Result<(), Problem> {
        let path = self.hidden();
        fs::create_dir_all(&path).map_err(Problem::file("make", &path))
    }

    /// Where a file of a dataset is.
    pub fn path(&self, file: &File) -> PathBuf {
        self.root.join(&file.path)
    }

    /// The path below this directory that a program means by `name`. `None`: it is outside.
    pub fn below(&self, name: &str, cwd: &Path) -> Option<String> {
        let path = normal(&cwd.join(name));
        let below = path.strip_prefix(&self.root).or_else(|_| path.strip_prefix(&self.real));
        let below = below.ok()?.to_str()?;
        (!below.is_empty() && !below.starts_with(".scr/")).then(|| below.to_owned())
    }

    /// None is an empty one.
    pub fn read_index(&self) -> Result<Index, Problem> {
        let path = self.index_file();
        match read_json(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Index::default()),
            read => read.map_err(Problem::file("read", &path)),
        }
    }

    pub fn write_index(&self, index: &Index) -> Result<(), Problem> {
        let path = self.index_file();
        write_json(&path, index, true).map_err(Problem::file("write", &path))
    }

    pub fn read_summary(&self, dataset: &Dataset) -> Result<Summary, Problem> {
        let path = self.summary_file(dataset.id);
        let summary: Summary = read_json(&path).map_err(Problem::file("read", &path))?;
        let mut ranks = (0..).zip(&summary.ranks);
        let is_sound = summary.dataset == *dataset
            && summary.ranks.len() == dataset.ranks as usize
            && ranks.all(|(rank, files)| files.rank == rank && files.is_sound());
        if is_sound {
            return Ok(summary);
        }
        Err(Problem::Wrong(format!("{} is no summary of {}", path.display(), dataset.name)))
    }

    pub fn write_summary(&self, summary: &Summary) -> Result<(), Problem> {
        let path = self.summary_file(summary.dataset.id);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        made.and_then(|()| write_json(&path, summary, true)).map_err(Problem::file("write", &path))
    }

    /// The conditions, if there is a file.
    pub fn read_halt(&self) -> Result<Option<Halt>, Problem> {
        let path = self.halt_file();
        let mut text = String::new();
        // Whoever may write it may end the job.
        match open(&path).and_then(|file| file.take(HALT_MAX).read_to_string(&mut text)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.map_err(Problem::file("read", &path))?,
        };
        Halt::read(&text).map(Some).map_err(|error| Problem::Halt { file: path, error })
    }

    pub fn write_halt(&self, halt: &Halt) -> Result<(), Problem> {
        let path = self.halt_file();
        write_whole(&path, halt.to_string().as_bytes(), false)
            .map_err(Problem::file("write", &path))
    }

    /// Copies a file here. What is copied has the checksum that it had when it was written.
    pub fn put(&self, from: &Path, file: &File) -> Result<(), Problem> {
        let to = self.path(file);
        let copy = || {
            to.parent().map_or(Ok(()), fs::create_dir_all)?;
            let new = beside(&to, "new");
            let written = create(&new)?;
            copy(from, &written, file.crc)?;
            written.sync_all()?;
            fs::rename(&new, &to)?;
            to.parent().map_or(Ok(()), fermata_sysio::sync_directory)
        };
        copy().map_err(Problem::file("copy to", &to))
    }

    /// Copies a file from here, likewise.
    pub fn get(&self, file: &File, to: &Path) -> Result<(), Problem> {
        let from = self.path(file);
        let copied = create(to).and_then(|to| copy(&from, &to, file.crc));
        copied.map_err(Problem::file("copy", &from))
    }

    /// Whether a file is here, with its size and, if it is known, its checksum.
    pub fn check(&self, file: &File) -> Result<(), Problem> {
        let path = self.path(file);
        let check = || {
            let is_whole = match file.crc {
                Some(crc) => checksum(&path)? == (file.bytes, crc),
                None => fs::metadata(&path)?.len() == file.bytes,
            };
            if is_whole { Ok(()) } else { Err(changed()) }
        };
        check().map_err(Problem::file("use", &path))
    }

    /// Removes the files of a dataset, directories that become empty, and its summary.
    pub fn remove(&self, dataset: &Dataset) -> Result<(), Problem> {
        if let Ok(summary) = self.read_summary(dataset) {
            for file in summary.ranks.iter().flat_map(|files| &files.files) {
                self.remove_file(&self.path(file))?;
            }
        }
        self.forget(dataset.id)
    }

    /// Removes a summary.
    pub fn forget(&self, id: u32) -> Result<(), Problem> {
        let path = self.summary_file(id);
        let directory = path.parent().unwrap_or(&path);
        remove_all(directory).map_err(Problem::file("remove", directory))
    }

    /// Removes a file, and the directories above it that become empty.
    pub fn remove_file(&self, path: &Path) -> Result<(), Problem> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Problem::file("remove", path)(error));
            }
            _ => {}
        }
        let above = path.ancestors().skip(1).take_while(|directory| *directory != self.root);
        for directory in above.filter(|directory| directory.starts_with(&self.root)) {
            if fs::remove_dir(directory).is_err() {
                break; // another file is in it, or another rank was faster
            }
        }
        Ok(())
    }
}

/// A path without `.` and `..`, as it is written.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

fn changed() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "it is not what was written")
}

/// Makes a file with the rights that others of the program's have.
fn create(path: &Path) -> io::Result<fs::File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => OpenOptions::new().write(true).create_new(true).open(path),
    }
}

fn copy(from: &Path, mut to: &fs::File, crc: Option<u32>) -> io::Result<()> {
    let from = open(from)?;
    let (mut at, mut sum, mut bytes) = (0_u64, 0, vec![0; PIECE]);
    loop {
        let read = from.read_at(&mut bytes, at)?;
        if read == 0 {
            break;
        }
        to.write_all(&bytes[..read])?;
        sum = crc32c::crc32c_append(sum, &bytes[..read]);
        at += read as u64;
    }
    if crc.is_some_and(|crc| crc != sum) { Err(changed()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::Scratch;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn names_lead_below_or_nowhere() {
        let prefix = Prefix::new("/p/x".into());
        let below = |name: &str| prefix.below(name, Path::new("/p/x/run"));
        assert_eq!(below("a").unwrap(), "run/a");
        assert_eq!(below("../a/./b").unwrap(), "a/b");
        assert_eq!(below("/p/x/c").unwrap(), "c");
        for outside in ["/p/xy/c", "../../c", "/p/x", "/p/x/.scr/index.scr"] {
            assert_eq!(below(outside), None, "{outside}");
        }
    }

    #[test]
    fn files_come_and_go_whole() {
        let scratch = Scratch::new("prefix");
        let prefix = Prefix::new(scratch.0.join("p"));
        prefix.make().unwrap();
        let from = scratch.0.join("from");
        fs::write(&from, "text").unwrap();
        let file = |crc| File { path: "a/b/c".into(), bytes: 4, crc: Some(crc) };
        let good = file(crc32c::crc32c(b"text"));
        fs::set_permissions(&from, Permissions::from_mode(0o664)).unwrap(); // as of umask 002
        assert!(prefix.put(&from, &file(1)).is_err());
        assert!(!prefix.path(&good).exists());
        prefix.put(&from, &good).unwrap();
        prefix.check(&good).unwrap();
        fs::write(prefix.path(&good), "next").unwrap();
        assert!(prefix.check(&good).is_err() && prefix.get(&good, &from).is_err());
        prefix.remove_file(&prefix.path(&good)).unwrap();
        assert!(!prefix.root().join("a").exists() && prefix.root().exists());
    }
}
