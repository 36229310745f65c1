// SPDX-License-Identifier: Apache-2.0
//! Seals an image with another key, in its file: looked at as a whole first, then written.
//!
//! What is new stands behind all that the image has, so nothing of it is lost: until the header is
//! written, in one piece, it is the image that it was, and it can be made that again.

use crate::error::Cause;
use crate::image::{Image, ImageProblem, read_table, table_list};
use crate::own::{self, Whose};
use fermata_seal::{ImageKeys, Key, Seal};
use fermata_types::{IMAGE_HEADER_BYTES, IMAGE_VERSION, ImageHeader, sealing};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What sealing an image changes in its file.
#[derive(Debug)]
pub(crate) struct Reseal {
    /// As it will be.
    pub header: ImageHeader,
    tags: Vec<u8>,
    /// The header's block and the size of the image, as they are.
    before: (Vec<u8>, u64),
    pub(crate) file: File,
}

/// An image of the user's own that may be written to, whoever has sealed it. What an interrupted
/// `Reseal` has left behind it does not count.
pub(crate) fn open(path: &Path, key: &Key) -> Result<Image, ImageProblem> {
    let image = Image::of_file(own::open_to_seal(path)?, Whose::Anybodys(Some(*key)))?;
    if image.seal == Seal::Ours {
        image.check_size()?;
    }
    Ok(image)
}

impl Reseal {
    /// Of the image at that path, if it has the header that is expected.
    ///
    /// # Errors
    /// It has not, or as `plan`.
    pub fn open(
        path: &Path,
        key: &Key,
        is_expected: impl Fn(&ImageHeader) -> bool,
    ) -> Result<Self, Cause> {
        let image = open(path, key)?;
        if !is_expected(&image.header) {
            return Err(Cause::Exchanged);
        }
        Ok(Self::plan(image, key, |_| {})?)
    }

    /// Reads all of an image that somebody knows to be good. `progress` gets bytes as they are
    /// read.
    ///
    /// # Errors
    /// It is damaged, or encrypted with another key.
    pub fn plan(
        mut image: Image,
        key: &Key,
        mut progress: impl FnMut(u64),
    ) -> Result<Self, ImageProblem> {
        if image.header.sealing == sealing::ENCRYPTED {
            return Err(ImageProblem::Encrypted);
        }
        let mut block = vec![0; IMAGE_HEADER_BYTES];
        image.file.read_exact_at(&mut block, 0)?;
        let before = (block, image.header.file_bytes);
        image.header.sealing = sealing::AUTHENTIC;
        image.header.key_id = key.id();
        image.header.salt = fermata_sysio::random_bytes()?;
        let keys = key.image(&image.header.salt);
        let (mut pages, mut tags) = (Vec::new(), Vec::new());
        for index in 0..image.extents.len() {
            image.read_as_stored(index, &mut pages)?;
            progress(pages.len() as u64);
            tags.extend(keys.tag(&pages));
        }
        let header = seal_header(&mut image, &keys, &tags)?;
        Ok(Self { header, tags, before, file: image.file })
    }

    /// Writes the table of tags. The image is what it was, but for what is behind it.
    ///
    /// # Errors
    /// What the file system says.
    pub fn append_tags(&self) -> io::Result<()> {
        self.file.write_all_at(&self.tags, self.header.tags.offset)?;
        self.file.set_len(self.header.file_bytes)?;
        self.file.sync_all()
    }

    /// Writes the header that fits the tags.
    ///
    /// # Errors
    /// What the file system says.
    pub fn put_header(&self) -> io::Result<()> {
        self.file.write_all_at(&block_of(&self.header), 0)?;
        self.file.sync_all()
    }

    /// Makes the image what it was.
    ///
    /// # Errors
    /// What the file system says.
    pub fn undo(&self) -> io::Result<()> {
        self.file.write_all_at(&self.before.0, 0)?;
        self.file.set_len(self.before.1)?;
        self.file.sync_all()
    }

    /// All of it; what fails is undone.
    ///
    /// # Errors
    /// What the file system says.
    pub fn put(&self) -> io::Result<()> {
        self.append_tags().and_then(|()| self.put_header()).inspect_err(|_| _ = self.undo())
    }
}

/// The header with these tags, behind all else, its MAC and its checksum.
fn seal_header(
    image: &mut Image,
    keys: &ImageKeys,
    tags: &[u8],
) -> Result<ImageHeader, ImageProblem> {
    let mut header = image.header.clone();
    header.tags.offset = header.file_bytes.next_multiple_of(8);
    header.tags.count = image.extents.len() as u64;
    header.tags.bytes = tags.len() as u64;
    header.tags.crc = crc32c::crc32c(tags);
    header.file_bytes = header.tags.offset + header.tags.bytes;
    header.version = IMAGE_VERSION;
    header.mac.fill(0);
    header.header_crc = 0;
    let mut parts = vec![block_of(&header)];
    for (name, table, entry_bytes) in table_list(&header) {
        parts.push(match name {
            "tags" => tags.to_vec(),
            _ => read_table(&mut image.file, header.file_bytes, name, table, entry_bytes)?,
        });
    }
    header.mac = keys.mac(parts.iter().map(Vec::as_slice));
    header.header_crc = crc32c::crc32c(&block_of(&header));
    Ok(header)
}

fn block_of(header: &ImageHeader) -> Vec<u8> {
    let mut block = Vec::new();
    header.write(&mut block);
    block.resize(IMAGE_HEADER_BYTES, 0);
    block
}
