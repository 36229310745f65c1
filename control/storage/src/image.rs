// SPDX-License-Identifier: Apache-2.0
//! Reads the image of one rank (`spec/image.toml`) and says whether it can be believed.
//!
//! The header vouches for itself and for the tables, each extent entry for its pages. Every offset
//! comes from a file that may be damaged, so each is checked against the file before it is used.

use crate::own::{self, Whose};
use fermata_types::{
    IMAGE_HEADER_BYTES, IMAGE_HEADER_CRC_OFFSET, IMAGE_MAGIC, IMAGE_VERSION, ImageAction,
    ImageExtent, ImageFile, ImageHeader, ImageMember, ImageObject, ImageRegion, ImageSignal,
    ImageThread, ImageTimer, TableRef,
};
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// No table of a sane image is larger.
const TABLE_BYTES_MAX: u64 = 1 << 30;
const EXTENT_BYTES_MAX: u64 = 4 << 20;

/// What is wrong with an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageProblem {
    /// There is no such file.
    Missing,
    /// The system could not read it.
    Io(String),
    /// It ends before it should: expected and real size.
    Truncated(u64, u64),
    /// The first bytes are not those of an image.
    NotAnImage,
    /// A version this program does not know.
    Version(u32),
    /// The header's checksum does not fit.
    HeaderDamaged,
    /// A table's checksum or shape does not fit.
    TableDamaged(&'static str),
    /// Saved pages at this address have changed.
    PagesDamaged(u64),
}

impl fmt::Display for ImageProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(f, "the file is missing"),
            Self::Io(why) => write!(f, "cannot be read: {why}"),
            Self::Truncated(want, have) => {
                write!(f, "truncated: {have} bytes of {want} are there")
            }
            Self::NotAnImage => write!(f, "not an image (wrong first bytes)"),
            Self::Version(version) => {
                write!(
                    f,
                    "image version {version}, this program reads {IMAGE_VERSION}: \
                     another version of Fermata wrote it"
                )
            }
            Self::HeaderDamaged => write!(f, "damaged: the header's checksum does not fit"),
            Self::TableDamaged(name) => {
                write!(f, "damaged: the table of {name} does not fit its checksum or size")
            }
            Self::PagesDamaged(address) => {
                write!(f, "damaged: the pages saved from {address:#x} do not fit their checksum")
            }
        }
    }
}

impl From<std::io::Error> for ImageProblem {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::NotFound => Self::Missing,
            _ => Self::Io(error.to_string()),
        }
    }
}

/// An image with its tables.
#[derive(Debug)]
pub struct Image {
    /// The header.
    pub header: ImageHeader,
    /// CRC32C of the header block, as the header says itself.
    pub header_crc: u32,
    /// Mappings.
    pub regions: Vec<ImageRegion>,
    /// Shared memory.
    pub objects: Vec<ImageObject>,
    /// Runs of saved pages.
    pub extents: Vec<ImageExtent>,
    /// Threads.
    pub threads: Vec<ImageThread>,
    /// Open files.
    pub files: Vec<ImageFile>,
    /// Locks, epoll members, inotify watches.
    pub members: Vec<ImageMember>,
    /// Signal actions.
    pub actions: Vec<ImageAction>,
    /// Signals that were pending.
    pub signals: Vec<ImageSignal>,
    /// Interval timers.
    pub timers: Vec<ImageTimer>,
    strings: Vec<u8>,
    file: File,
}

/// Reads and checks the header block and the size of the file.
///
/// # Errors
/// Whatever is wrong with it.
pub fn read_header(path: &Path, whose: Whose) -> Result<ImageHeader, ImageProblem> {
    open(path, whose).map(|(header, _)| header)
}

fn open(path: &Path, whose: Whose) -> Result<(ImageHeader, File), ImageProblem> {
    let mut file = own::open(path, whose)?;
    let real = file.metadata()?.len();
    let mut block = vec![0; IMAGE_HEADER_BYTES];
    if real < block.len() as u64 {
        return Err(ImageProblem::Truncated(block.len() as u64, real));
    }
    file.read_exact(&mut block)?;
    let header = ImageHeader::parse(&block).ok_or(ImageProblem::NotAnImage)?;
    if header.magic != IMAGE_MAGIC {
        return Err(ImageProblem::NotAnImage);
    }
    // The checksum first: a flipped bit in the version is damage, not another version.
    block[IMAGE_HEADER_CRC_OFFSET..IMAGE_HEADER_CRC_OFFSET + 4].fill(0);
    if crc32c::crc32c(&block) != header.header_crc {
        return Err(ImageProblem::HeaderDamaged);
    }
    if header.version != IMAGE_VERSION {
        return Err(ImageProblem::Version(header.version));
    }
    if real != header.file_bytes {
        return Err(ImageProblem::Truncated(header.file_bytes, real));
    }
    Ok((header, file))
}

impl Image {
    /// Reads the header and all tables; the pages are left for `check_pages`.
    ///
    /// # Errors
    /// Whatever is wrong with them.
    pub fn open(path: &Path, whose: Whose) -> Result<Self, ImageProblem> {
        let (header, mut file) = open(path, whose)?;
        let mut table = |name, table: &TableRef, entry| {
            read_table(&mut file, header.file_bytes, name, table, entry)
        };
        let regions = table("regions", &header.regions, ImageRegion::BYTES)?;
        let objects = table("objects", &header.objects, ImageObject::BYTES)?;
        let extents = table("extents", &header.extents, ImageExtent::BYTES)?;
        let threads = table("threads", &header.threads, ImageThread::BYTES)?;
        let files = table("files", &header.files, ImageFile::BYTES)?;
        let members = table("members", &header.members, ImageMember::BYTES)?;
        let actions = table("actions", &header.actions, ImageAction::BYTES)?;
        let signals = table("signals", &header.signals, ImageSignal::BYTES)?;
        let timers = table("timers", &header.timers, ImageTimer::BYTES)?;
        let strings = table("strings", &header.strings, 1)?;
        Ok(Self {
            regions: entries(&regions, ImageRegion::BYTES, ImageRegion::parse),
            objects: entries(&objects, ImageObject::BYTES, ImageObject::parse),
            extents: entries(&extents, ImageExtent::BYTES, ImageExtent::parse),
            threads: entries(&threads, ImageThread::BYTES, ImageThread::parse),
            files: entries(&files, ImageFile::BYTES, ImageFile::parse),
            members: entries(&members, ImageMember::BYTES, ImageMember::parse),
            actions: entries(&actions, ImageAction::BYTES, ImageAction::parse),
            signals: entries(&signals, ImageSignal::BYTES, ImageSignal::parse),
            timers: entries(&timers, ImageTimer::BYTES, ImageTimer::parse),
            header_crc: header.header_crc,
            strings,
            header,
            file,
        })
    }

    /// Reads every saved page. `progress` gets the bytes of each extent.
    ///
    /// # Errors
    /// The first extent that is damaged.
    pub fn check_pages(&mut self, mut progress: impl FnMut(u64)) -> Result<(), ImageProblem> {
        let mut buffer = Vec::new();
        for index in 0..self.extents.len() {
            self.read_pages(index, &mut buffer)?;
            progress(buffer.len() as u64);
        }
        Ok(())
    }

    /// Reads the pages of one extent.
    ///
    /// # Errors
    /// There is no such extent, or it is damaged.
    pub fn read_pages(&mut self, index: usize, buffer: &mut Vec<u8>) -> Result<(), ImageProblem> {
        let Some(extent) = self.extents.get(index) else {
            return Err(ImageProblem::TableDamaged("extents"));
        };
        let end = extent.offset.checked_add(extent.bytes);
        if extent.bytes > EXTENT_BYTES_MAX || end.is_none_or(|e| e > self.header.file_bytes) {
            return Err(ImageProblem::TableDamaged("extents"));
        }
        buffer.resize(usize::try_from(extent.bytes).unwrap_or(0), 0);
        self.file.seek(SeekFrom::Start(extent.offset))?;
        self.file.read_exact(buffer)?;
        if crc32c::crc32c(buffer) != extent.crc {
            return Err(ImageProblem::PagesDamaged(extent.address));
        }
        Ok(())
    }

    /// The string at that offset of the string table; empty if there is none.
    #[must_use]
    pub fn string(&self, offset: u32) -> String {
        let rest = self.strings.get(offset as usize..).unwrap_or_default();
        let end = rest.iter().position(|b| *b == 0).unwrap_or(rest.len());
        String::from_utf8_lossy(&rest[..end]).into_owned()
    }
}

fn read_table(
    file: &mut File,
    file_bytes: u64,
    name: &'static str,
    table: &TableRef,
    entry_bytes: usize,
) -> Result<Vec<u8>, ImageProblem> {
    let damaged = || ImageProblem::TableDamaged(name);
    let end = table.offset.checked_add(table.bytes).ok_or_else(damaged)?;
    if end > file_bytes
        || table.bytes > TABLE_BYTES_MAX
        || table.count.checked_mul(entry_bytes as u64) != Some(table.bytes)
    {
        return Err(damaged());
    }
    let mut bytes = vec![0; usize::try_from(table.bytes).map_err(|_| damaged())?];
    file.seek(SeekFrom::Start(table.offset))?;
    file.read_exact(&mut bytes)?;
    if crc32c::crc32c(&bytes) != table.crc {
        return Err(damaged());
    }
    Ok(bytes)
}

fn entries<T>(bytes: &[u8], size: usize, parse: fn(&[u8]) -> Option<T>) -> Vec<T> {
    bytes.chunks_exact(size).filter_map(parse).collect()
}
