// SPDX-License-Identifier: Apache-2.0
//! The files of a rank as one, in the order of its list: parities are over that, and copies travel
//! as that. What is behind the end are zeros that nobody stores.

use fermata_scr::Files;
use fermata_storage::{Whose, create_own, open_file};
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// As much as is read or written at a time.
pub(crate) const PIECE: usize = 1 << 20;

/// A file of the program's, which it has made with the rights that it wants: the directory above is
/// closed, or the program's affair.
pub(crate) fn open(path: &Path) -> io::Result<fs::File> {
    open_file(path, Whose::Anybodys(None))
}

/// Files one after the other, each from an offset on.
#[derive(Debug, Default)]
pub(crate) struct Image {
    files: Vec<(u64, u64, fs::File)>,
}

impl Image {
    /// Of files that lie in this directory.
    pub fn open(directory: &Path, list: &Files) -> io::Result<Self> {
        Self::of(list, |name| open(&directory.join(name)))
    }

    /// Makes them, empty, in this directory.
    pub fn create(directory: &Path, list: &Files) -> io::Result<Self> {
        Self::of(list, |name| create_own(&directory.join(name)))
    }

    /// One file.
    pub fn file(path: &Path, bytes: u64) -> io::Result<Self> {
        Ok(Self { files: vec![(0, bytes, open(path)?)] })
    }

    fn of(list: &Files, open: impl Fn(&str) -> io::Result<fs::File>) -> io::Result<Self> {
        let (mut begin, mut files) = (0, Vec::new());
        for file in &list.files {
            files.push((begin, file.bytes, open(file.name())?));
            begin += file.bytes;
        }
        Ok(Self { files })
    }

    /// Reads from there on, zeros behind the end.
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        bytes.fill(0);
        for (file, at, from, to) in self.parts(offset, bytes.len()) {
            file.read_exact_at(&mut bytes[from..to], at)?;
        }
        Ok(())
    }

    /// Writes from there on; what is behind the end is dropped.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut parts = self.parts(offset, bytes.len());
        parts.try_for_each(|(file, at, from, to)| file.write_all_at(&bytes[from..to], at))
    }

    /// What of each file is in so many bytes from there on: where in the file, and in the bytes.
    fn parts(
        &self,
        offset: u64,
        length: usize,
    ) -> impl Iterator<Item = (&fs::File, u64, usize, usize)> {
        let end = offset.saturating_add(length as u64);
        self.files.iter().filter_map(move |(begin, bytes, file)| {
            let from = offset.max(*begin);
            let to = end.min(begin.saturating_add(*bytes));
            let place = |at: u64| usize::try_from(at - offset).ok();
            (from < to).then_some((file, from - begin, place(from)?, place(to)?))
        })
    }
}

/// The CRC32C of a file, and its size.
pub(crate) fn checksum(path: &Path) -> io::Result<(u64, u32)> {
    let file = open(path)?;
    let (mut at, mut crc, mut bytes) = (0_u64, 0, vec![0; PIECE]);
    loop {
        match file.read_at(&mut bytes, at)? {
            0 => return Ok((at, crc)),
            read => {
                crc = crc32c::crc32c_append(crc, &bytes[..read]);
                at += read as u64;
            }
        }
    }
}

/// Whether the files in a directory are those of a list.
pub(crate) fn check(directory: &Path, list: &Files) -> io::Result<()> {
    for file in &list.files {
        let (bytes, crc) = checksum(&directory.join(file.name()))?;
        if bytes != file.bytes || file.crc.is_some_and(|wanted| wanted != crc) {
            let why = format!("{} is not what was written", file.name());
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::Scratch;
    use fermata_scr::File;

    #[test]
    fn files_are_read_and_written_as_one() {
        let scratch = Scratch::new("image");
        let file = |path: &str, bytes| File { path: path.into(), bytes, crc: None };
        let list = Files { rank: 0, files: vec![file("x/a", 3), file("b", 0), file("c", 4)] };
        let image = Image::create(&scratch.0, &list).unwrap();
        image.write_at(b"012", 0).unwrap();
        image.write_at(b"3456789", 3).unwrap();
        let read = |offset, length| {
            let mut bytes = vec![9; length];
            Image::open(&scratch.0, &list).unwrap().read_at(&mut bytes, offset).unwrap();
            bytes
        };
        assert_eq!(read(0, 9), b"0123456\0\0");
        assert_eq!((read(2, 2), read(7, 2)), (b"23".to_vec(), vec![0, 0]));
        assert_eq!(fs::read(scratch.0.join("c")).unwrap(), b"3456");
        let (bytes, crc) = checksum(&scratch.0.join("c")).unwrap();
        assert_eq!((bytes, crc), (4, crc32c::crc32c(b"3456")));
        let good = File { crc: Some(crc), ..file("c", 4) };
        let wrong = File { crc: Some(1), ..file("c", 4) };
        let list = |file| Files { rank: 0, files: vec![file] };
        check(&scratch.0, &list(good)).unwrap();
        assert!(check(&scratch.0, &list(wrong)).unwrap_err().to_string().starts_with("c is not"));
    }
}
