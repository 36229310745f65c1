// SPDX-License-Identifier: Apache-2.0
//! The images of a home, read and written as one: ranks in ascending order, one after the other.
//! Parities are computed over that, and copies travel as that.

use super::record::Kept;
use crate::layout::image_name;
use crate::own::{self, Whose};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Files one after the other, each from an offset on.
#[derive(Debug)]
pub struct PartReader {
    files: Vec<(u64, u64, File)>,
}

impl PartReader {
    /// The images of a home, which lie in this directory.
    pub(super) fn images(directory: &Path, kept: &Kept, home: u32) -> io::Result<Self> {
        let open = |rank| own::open(&directory.join(image_name(rank)), Whose::Own(None));
        files_of(kept, home, open).map(|files| Self { files })
    }

    /// One file.
    pub(super) fn file(path: &Path, bytes: u64) -> io::Result<Self> {
        let file = own::open(path, Whose::Own(None))?;
        Ok(Self { files: vec![(0, bytes, file)] })
    }

    /// Reads from there on, as much as there is room for.
    ///
    /// # Errors
    /// What read(2) says, or there is not as much.
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let wanted = bytes.len();
        let mut done = 0;
        for (file, at, length) in pieces(&self.files, offset, wanted) {
            file.read_exact_at(&mut bytes[done..done + length], at)?;
            done += length;
        }
        if done == wanted { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

impl PartReader {
    /// Makes durable what others have written.
    pub(super) fn flush(&self) -> io::Result<()> {
        self.files.iter().try_for_each(|(_, _, file)| file.sync_all())
    }
}

/// The same for writing. Of a rank that is not wanted what is written is passed over.
#[derive(Debug)]
pub(super) struct PartWriter {
    files: Vec<(u64, u64, Option<File>)>,
}

impl PartWriter {
    /// Makes the images of those ranks of a home that are wanted, empty, in this directory.
    pub(super) fn images(
        directory: &Path,
        kept: &Kept,
        home: u32,
        is_wanted: impl Fn(u32) -> bool,
    ) -> io::Result<Self> {
        let make = |rank| {
            let made = is_wanted(rank).then(|| own::create(&directory.join(image_name(rank))));
            made.transpose()
        };
        files_of(kept, home, make).map(|files| Self { files })
    }

    /// From where to where files are that are wanted.
    pub(super) fn wanted(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let wanted = self.files.iter().filter(|(_, _, file)| file.is_some());
        wanted.map(|(begin, bytes, _)| (*begin, begin + bytes))
    }

    /// Makes one file.
    pub(super) fn file(path: &Path, bytes: u64) -> io::Result<Self> {
        let file = own::create(path)?;
        file.set_len(bytes)?;
        Ok(Self { files: vec![(0, bytes, Some(file))] })
    }

    pub(super) fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        for (file, at, length) in pieces(&self.files, offset, bytes.len()) {
            if let Some(file) = file {
                file.write_all_at(&bytes[done..done + length], at)?;
            }
            done += length;
        }
        if done == bytes.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Makes what has been written durable.
    pub(super) fn flush(&self) -> io::Result<()> {
        self.files.iter().filter_map(|(_, _, file)| file.as_ref()).try_for_each(File::sync_all)
    }
}

/// The ranks of a home: where each begins, its bytes, and what `open` gives for it.
fn files_of<F>(
    kept: &Kept,
    home: u32,
    open: impl Fn(u32) -> io::Result<F>,
) -> io::Result<Vec<(u64, u64, F)>> {
    let mut begin = 0;
    let mut files = Vec::new();
    for (rank, bytes) in kept.images_of(home) {
        files.push((begin, bytes, open(rank)?));
        begin += bytes;
    }
    Ok(files)
}

/// What of each file is between `offset` and `offset + length`: where in it, and how much.
fn pieces<F>(
    files: &[(u64, u64, F)],
    offset: u64,
    length: usize,
) -> impl Iterator<Item = (&F, u64, usize)> {
    let end = offset.saturating_add(length as u64);
    files.iter().filter_map(move |(begin, bytes, file)| {
        let from = offset.max(*begin);
        let to = end.min(begin.saturating_add(*bytes));
        let length = usize::try_from(to.checked_sub(from)?).ok()?;
        (length > 0).then_some((file, from - begin, length))
    })
}
