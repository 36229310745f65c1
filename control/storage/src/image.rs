// SPDX-License-Identifier: Apache-2.0
//! Reads the image of one rank (`spec/image.toml`) and says whether it can be believed.
//!
//! The header vouches for itself and for the tables, each extent entry for its pages: by checksums,
//! against damage, and by MAC and tags, against people. Every offset comes from a file that may be
//! damaged, so each is checked against the file before it is used.

use crate::own::{self, SealProblem, Whose};
use fermata_seal::{ImageKeys, Seal, is_equal};
use fermata_types::{
    IMAGE_HEADER_BYTES, IMAGE_HEADER_CRC_OFFSET, IMAGE_HEADER_MAC_OFFSET, IMAGE_MAGIC,
    IMAGE_OLDEST, IMAGE_VERSION, ImageAction, ImageExtent, ImageFile, ImageHeader, ImageMember,
    ImageObject, ImageRegion, ImageSignal, ImageTag, ImageThread, ImageTimer, TableRef, sealing,
};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// No table of a sane image is larger.
const TABLE_BYTES_MAX: u64 = 1 << 30;
const EXTENT_BYTES_MAX: u64 = 4 << 20;

/// What is wrong with an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageProblem {
    /// There is no such file.
    #[error("the file is missing")]
    Missing,
    /// The system could not read it.
    #[error("cannot be read: {0}")]
    Io(String),
    /// It ends before it should: expected and real size.
    #[error("truncated: {1} bytes of {0} are there")]
    Truncated(u64, u64),
    /// The first bytes are not those of an image.
    #[error("not an image (wrong first bytes)")]
    NotAnImage,
    /// A version this program does not know.
    #[error(
        "image version {0}, this program reads {IMAGE_OLDEST} to {IMAGE_VERSION}: another version \
         of Fermata wrote it"
    )]
    Version(u32),
    /// The header's checksum does not fit.
    #[error("damaged: the header's checksum does not fit")]
    HeaderDamaged,
    /// A table's checksum or shape does not fit.
    #[error("damaged: the table of {0} does not fit its checksum or size")]
    TableDamaged(&'static str),
    /// Saved pages at this address have changed.
    #[error("damaged: the pages saved from {0:#x} do not fit their checksum")]
    PagesDamaged(u64),
    /// Saved pages at this address have changed, and their checksum with them.
    #[error("the pages saved from {0:#x}: {problem}", problem = SealProblem::Broken)]
    PagesForged(u64),
    /// Its seal keeps it from being used.
    #[error(transparent)]
    Sealed(SealProblem),
    /// It is encrypted, and not with the user's key.
    #[error("encrypted with another key than yours")]
    Encrypted,
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
    /// What its MAC says of header and tables.
    pub seal: Seal,
    strings: Vec<u8>,
    pub(crate) tags: Vec<ImageTag>,
    pub(crate) file: File,
    keys: Option<ImageKeys>,
}

/// Reads and checks the header block and the size of the file.
///
/// # Errors
/// Whatever is wrong with it.
pub fn read_header(path: &Path, whose: Whose) -> Result<ImageHeader, ImageProblem> {
    let mut file = own::open(path, whose)?;
    let (header, _) = header_of(&mut file)?;
    check_size(&file, &header)?;
    Ok(header)
}

fn check_size(file: &File, header: &ImageHeader) -> Result<(), ImageProblem> {
    let real = file.metadata()?.len();
    if real == header.file_bytes {
        Ok(())
    } else {
        Err(ImageProblem::Truncated(header.file_bytes, real))
    }
}

/// The header, and its block with checksum and MAC as zero.
fn header_of(file: &mut File) -> Result<(ImageHeader, Vec<u8>), ImageProblem> {
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
    if !(IMAGE_OLDEST..=IMAGE_VERSION).contains(&header.version) {
        return Err(ImageProblem::Version(header.version));
    }
    if real < header.file_bytes {
        return Err(ImageProblem::Truncated(header.file_bytes, real));
    }
    block[IMAGE_HEADER_MAC_OFFSET..][..header.mac.len()].fill(0);
    Ok((header, block))
}

/// Every table in its order, with its name and the size of an entry.
pub(crate) fn table_list(header: &ImageHeader) -> [(&'static str, &TableRef, usize); 11] {
    [
        ("regions", &header.regions, ImageRegion::BYTES),
        ("objects", &header.objects, ImageObject::BYTES),
        ("extents", &header.extents, ImageExtent::BYTES),
        ("threads", &header.threads, ImageThread::BYTES),
        ("files", &header.files, ImageFile::BYTES),
        ("members", &header.members, ImageMember::BYTES),
        ("actions", &header.actions, ImageAction::BYTES),
        ("signals", &header.signals, ImageSignal::BYTES),
        ("timers", &header.timers, ImageTimer::BYTES),
        ("strings", &header.strings, 1),
        ("tags", &header.tags, ImageTag::BYTES),
    ]
}

/// What the MAC of header and tables says to whoever has that key, and the image's keys if it is
/// made with it.
fn judge<'a>(
    header: &ImageHeader,
    whose: Whose,
    parts: impl IntoIterator<Item = &'a [u8]>,
) -> (Seal, Option<ImageKeys>) {
    if header.sealing == sealing::UNSEALED {
        return (Seal::Absent, None);
    }
    let Some(key) = whose.key().filter(|key| key.id() == header.key_id) else {
        return (Seal::Others, None);
    };
    let keys = key.image(&header.salt);
    let fits = is_equal(&keys.mac(parts), &header.mac);
    (if fits { Seal::Ours } else { Seal::Broken }, Some(keys))
}

/// Writes header and tables of an image to an empty file, which has holes where the pages were.
/// `read`: so many bytes of it from there on.
///
/// # Errors
/// It is no image, or cannot be read or written.
pub fn copy_head(
    mut read: impl FnMut(u64, &mut [u8]) -> io::Result<()>,
    to: &File,
) -> Result<(), ImageProblem> {
    let mut block = vec![0; IMAGE_HEADER_BYTES];
    read(0, &mut block)?;
    let header = ImageHeader::parse(&block).ok_or(ImageProblem::NotAnImage)?;
    if header.magic != IMAGE_MAGIC {
        return Err(ImageProblem::NotAnImage);
    }
    to.set_len(header.file_bytes)?;
    to.write_all_at(&block, 0)?;
    for (name, table, _) in table_list(&header) {
        let damaged = || ImageProblem::TableDamaged(name);
        let end = table.offset.checked_add(table.bytes).ok_or_else(damaged)?;
        if end > header.file_bytes || table.bytes > TABLE_BYTES_MAX {
            return Err(damaged());
        }
        let mut bytes = vec![0; usize::try_from(table.bytes).map_err(|_| damaged())?];
        read(table.offset, &mut bytes)?;
        to.write_all_at(&bytes, table.offset)?;
    }
    Ok(())
}

impl Image {
    /// Reads the header and all tables; the pages are left for `check_pages`.
    ///
    /// # Errors
    /// Whatever is wrong with them.
    pub fn open(path: &Path, whose: Whose) -> Result<Self, ImageProblem> {
        let image = Self::of_file(own::open(path, whose)?, whose)?;
        image.check_size()?;
        Ok(image)
    }

    /// The same of an open file. There may be more behind the image.
    pub(crate) fn of_file(mut file: File, whose: Whose) -> Result<Self, ImageProblem> {
        let (header, block) = header_of(&mut file)?;
        let mut tables = Vec::new();
        for (name, table, entry_bytes) in table_list(&header) {
            tables.push(read_table(&mut file, header.file_bytes, name, table, entry_bytes)?);
        }
        let parts = std::iter::once(&block).chain(&tables).map(Vec::as_slice);
        let (seal, keys) = judge(&header, whose, parts);
        whose.accept(seal).map_err(ImageProblem::Sealed)?;
        let mut tables = tables.into_iter();
        let mut next = || tables.next().unwrap_or_default();
        let image = Self {
            regions: entries(&next(), ImageRegion::BYTES, ImageRegion::parse),
            objects: entries(&next(), ImageObject::BYTES, ImageObject::parse),
            extents: entries(&next(), ImageExtent::BYTES, ImageExtent::parse),
            threads: entries(&next(), ImageThread::BYTES, ImageThread::parse),
            files: entries(&next(), ImageFile::BYTES, ImageFile::parse),
            members: entries(&next(), ImageMember::BYTES, ImageMember::parse),
            actions: entries(&next(), ImageAction::BYTES, ImageAction::parse),
            signals: entries(&next(), ImageSignal::BYTES, ImageSignal::parse),
            timers: entries(&next(), ImageTimer::BYTES, ImageTimer::parse),
            strings: next(),
            tags: entries(&next(), ImageTag::BYTES, ImageTag::parse),
            header_crc: header.header_crc,
            seal,
            header,
            file,
            keys,
        };
        let wanted = if seal == Seal::Absent { 0 } else { image.extents.len() };
        if image.tags.len() != wanted {
            return Err(ImageProblem::TableDamaged("tags"));
        }
        Ok(image)
    }

    /// Whether the file ends where the image does.
    pub(crate) fn check_size(&self) -> Result<(), ImageProblem> {
        check_size(&self.file, &self.header)
    }

    /// Reads every saved page. `progress` gets the bytes of each extent.
    ///
    /// # Errors
    /// The first extent that is damaged.
    pub fn check_pages(&mut self, mut progress: impl FnMut(u64)) -> Result<(), ImageProblem> {
        let mut buffer = Vec::new();
        for index in 0..self.extents.len() {
            self.read_as_stored(index, &mut buffer)?;
            progress(buffer.len() as u64);
            self.open_pages(index, &mut buffer)?;
        }
        Ok(())
    }

    /// Reads the pages of one extent.
    ///
    /// # Errors
    /// There is no such extent, it is damaged or forged, or encrypted with another key.
    pub fn read_pages(&mut self, index: usize, buffer: &mut Vec<u8>) -> Result<(), ImageProblem> {
        self.read_as_stored(index, buffer)?;
        let is_opened = self.open_pages(index, buffer)?;
        if !is_opened && self.header.sealing == sealing::ENCRYPTED {
            return Err(ImageProblem::Encrypted);
        }
        Ok(())
    }

    /// What the file has of an extent.
    pub(crate) fn read_as_stored(
        &mut self,
        index: usize,
        buffer: &mut Vec<u8>,
    ) -> Result<(), ImageProblem> {
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

    /// Checks the tag of what an extent has, and decrypts it. False: there is no key for that.
    fn open_pages(&self, index: usize, pages: &mut [u8]) -> Result<bool, ImageProblem> {
        let Some(keys) = &self.keys else { return Ok(false) };
        let (extent, tag) = (&self.extents[index], &self.tags[index].tag);
        let fits = if self.header.sealing == sealing::ENCRYPTED {
            keys.decrypt(index as u64, pages, tag)
        } else {
            is_equal(&keys.tag(pages), tag)
        };
        if fits { Ok(true) } else { Err(ImageProblem::PagesForged(extent.address)) }
    }

    /// The string at that offset of the string table; empty if there is none.
    #[must_use]
    pub fn string(&self, offset: u32) -> String {
        let rest = self.strings.get(offset as usize..).unwrap_or_default();
        let end = rest.iter().position(|b| *b == 0).unwrap_or(rest.len());
        String::from_utf8_lossy(&rest[..end]).into_owned()
    }
}

pub(crate) fn read_table(
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
