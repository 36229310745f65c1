// SPDX-License-Identifier: Apache-2.0
//! Seals a whole snapshot with a key, for somebody who knows where it comes from.
//!
//! All of it is looked at before anything is written: each image is the one that the manifest
//! lists, and what names this key has been changed by nobody else. What is looked at is what is
//! written to: every file is opened once, in a directory that is the user's own. What fails is
//! undone. What is interrupted leaves each image as one or the other, and the manifest that is to
//! come beside it: the next takeover continues from there.

use crate::error::{Cause, Operation, StorageError};
use crate::image::Image;
use crate::own::{self, Whose};
use crate::reseal::{self, Reseal};
use crate::snapshot::{describe, unseal};
use crate::verify::{check_listed, check_name, manifest_problems};
use fermata_seal::{Key, Seal};
use fermata_types::{ImageRecord, MANIFEST_FILE, MANIFEST_FORMAT, Manifest};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

const PARTIAL: &str = "manifest.json.partial";

/// A snapshot that can be sealed with a key.
#[derive(Debug)]
pub struct Takeover {
    snapshot: PathBuf,
    directory: File,
    /// What the manifest will list.
    manifest: Manifest,
    /// Its text.
    text: String,
    pub(crate) reseals: Vec<Reseal>,
}

impl Takeover {
    /// Looks at all of a snapshot. `progress` gets bytes as they are read.
    ///
    /// # Errors
    /// It is damaged, it is not what its manifest lists, somebody has changed it who has not the
    /// key, it is encrypted with another one, or others may write to it.
    pub fn of(
        snapshot: &Path,
        key: &Key,
        mut progress: impl FnMut(u64),
    ) -> Result<Self, StorageError> {
        let directory = own::open_directory(snapshot)
            .map_err(|error| StorageError::at(Operation::Use, snapshot, error))?;
        let via = via(&directory);
        let whose = Whose::Anybodys(Some(*key));
        let path = snapshot.join(MANIFEST_FILE);
        let text = own::read_to_string(&via.join(MANIFEST_FILE), Whose::Own(None))
            .map_err(|error| StorageError::at(Operation::Read, &path, error))?;
        let unusable = |why: Cause| StorageError::at(Operation::Use, &path, why);
        let (mut manifest, _) = unseal(&text, whose).map_err(unusable)?;
        let problems = manifest_problems(snapshot, &manifest);
        if !problems.is_empty() {
            return Err(StorageError::at(Operation::Use, snapshot, Cause::Problems(problems)));
        }
        let begun = begun(&via, key, &manifest);
        let mut reseals = Vec::new();
        let listed = manifest.clone();
        for (index, record) in manifest.images.iter_mut().enumerate() {
            let path = snapshot.join(&record.file);
            let reseal = open_listed(&via, index, &listed, begun.as_ref(), key)
                .and_then(|image| plan(image, key, record, &mut progress));
            reseals.extend(reseal.map_err(|why| StorageError::at(Operation::Seal, &path, why))?);
        }
        manifest.format = MANIFEST_FORMAT;
        let text = manifest.seal(Some(key)).map_err(|why| unusable(why.into()))?;
        Ok(Self { snapshot: snapshot.to_owned(), directory, manifest, text, reseals })
    }

    /// Writes the seals.
    ///
    /// # Errors
    /// What the file system says. The snapshot is what it was then.
    pub fn carry_out(&self) -> Result<&Manifest, StorageError> {
        let failed = |cause: Cause| StorageError::at(Operation::Seal, &self.snapshot, cause);
        let written = self
            .append_tags()
            .and_then(|()| self.put_partial())
            .and_then(|()| self.put_headers())
            .and_then(|()| self.rename_partial());
        if let Err(error) = written {
            return Err(failed(match self.undo() {
                Ok(()) => error.into(),
                Err(undo) => Cause::NotUndone { failed: error, undo },
            }));
        }
        fermata_sysio::sync_directory(&via(&self.directory))
            .map_err(|error| failed(error.into()))?;
        Ok(&self.manifest)
    }

    pub(crate) fn append_tags(&self) -> io::Result<()> {
        self.reseals.iter().try_for_each(Reseal::append_tags)
    }

    pub(crate) fn put_partial(&self) -> io::Result<()> {
        let via = via(&self.directory);
        let mut file = own::create(&via.join(PARTIAL))?;
        file.write_all(self.text.as_bytes())?;
        file.sync_all()?;
        fermata_sysio::sync_directory(&via)
    }

    pub(crate) fn put_headers(&self) -> io::Result<()> {
        self.reseals.iter().try_for_each(Reseal::put_header)
    }

    fn rename_partial(&self) -> io::Result<()> {
        let via = via(&self.directory);
        fs::rename(via.join(PARTIAL), via.join(MANIFEST_FILE))
    }

    /// The partial manifest goes last: where an image cannot be made what it was, it tells.
    fn undo(&self) -> io::Result<()> {
        let images = self.reseals.iter().map(Reseal::undo);
        images.fold(Ok(()), io::Result::and)?;
        match fs::remove_file(via(&self.directory).join(PARTIAL)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// The way into an open directory.
fn via(directory: &File) -> PathBuf {
    Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string())
}

/// What an interrupted takeover was about to list of the same snapshot.
fn begun(via: &Path, key: &Key, manifest: &Manifest) -> Option<Manifest> {
    let text = own::read_to_string(&via.join(PARTIAL), Whose::Own(None)).ok()?;
    let (begun, _) = unseal(&text, Whose::Own(Some(*key))).ok()?;
    (without_seals(&begun) == without_seals(manifest)).then_some(begun)
}

fn without_seals(manifest: &Manifest) -> Manifest {
    let mut manifest = Manifest { format: MANIFEST_FORMAT, ..manifest.clone() };
    for image in &mut manifest.images {
        (image.bytes, image.header_crc) = (0, 0);
        image.mac.clear();
    }
    manifest
}

/// The image that the manifest lists at that place, or that an interrupted takeover has sealed.
fn open_listed(
    via: &Path,
    index: usize,
    manifest: &Manifest,
    begun: Option<&Manifest>,
    key: &Key,
) -> Result<Image, Cause> {
    let record = &manifest.images[index];
    check_name(record)?;
    let image = reseal::open(&via.join(&record.file), key)?;
    let begun = begun.filter(|_| image.seal == Seal::Ours);
    check_listed(&image.header, manifest, record)
        .or_else(|why| begun.map_or(Err(why), |b| check_listed(&image.header, b, &b.images[index])))
        .map(|()| image)
}

/// Lists the image as it will be. Nothing is to be written to one that this key has sealed.
fn plan(
    mut image: Image,
    key: &Key,
    record: &mut ImageRecord,
    progress: &mut impl FnMut(u64),
) -> Result<Option<Reseal>, Cause> {
    if image.seal == Seal::Ours {
        describe(record, &image.header);
        image.check_pages(progress)?;
        return Ok(None);
    }
    let reseal = Reseal::plan(image, key, progress)?;
    describe(record, &reseal.header);
    Ok(Some(reseal))
}
