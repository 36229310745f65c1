// SPDX-License-Identifier: Apache-2.0
//! Images on their way between hosts and the job's directory, for jobs whose hosts do not share it.
//!
//! Invariant: where a file lies is decided here, by job, epoch and rank; a peer names no paths.
//! Invariant: an image is called stored when it is complete and flushed, not before.
//! Invariant: the image that a rank is restored from is the one that the manifest lists.

use crate::options::Options;
use fermata_storage::{JobDir, Whose, image_name, open_file, partial_image, read_placed};
use fermata_transport::{Connection, next_message};
use fermata_types::{
    Chunk, FrameBuffer, GetImage, IMAGE_HEADER_BYTES, Image, ImageHeader, ImagePlaced, Manifest,
    Message, PutImage, Stored, encode_frame, hex,
};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::Duration;

/// A transfer that stands still for this long is given up.
const STANDSTILL_MAX: Duration = Duration::from_secs(30);
const CHUNK_BYTES: usize = 1 << 20;

pub(crate) struct ImageServer {
    name: String,
    job: JobDir,
    restored: Option<PathBuf>,
    /// It lies on the hosts.
    placed: Option<ImagePlaced>,
    /// The MAC of each rank's image in that, as its manifest lists it; empty: it has none.
    macs: BTreeMap<u32, String>,
}

impl ImageServer {
    /// `manifest`: of the snapshot that the run is restored from.
    pub(crate) fn new(options: &Options, manifest: Option<&Manifest>) -> Self {
        let images = manifest.map_or(&[][..], |manifest| &manifest.images);
        let restored = options.restored.as_ref();
        let placed = restored.and_then(|path| read_placed(path, Whose::Own(options.key)).ok()?);
        let placed = placed.map(|kept| kept.snapshot.id);
        Self {
            placed: placed.map(|id| ImagePlaced { epoch: id.epoch, taken_ms: id.taken_ms }),
            macs: images.iter().map(|image| (image.rank, image.mac.clone())).collect(),
            name: options.name.clone(),
            job: options.job.clone(),
            restored: options.restored.clone(),
        }
    }

    /// The job's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Takes an image in and says how that went.
    pub(crate) fn take(&self, mut connection: Connection, mut frames: FrameBuffer, put: &PutImage) {
        let result = self.store(&mut connection, &mut frames, put);
        let error = result.err().map_or(String::new(), |error| error.to_string());
        let _ = connection.writer.send(&encode_frame(&Stored { error }.into()));
        connection.writer.end();
    }

    fn store(
        &self,
        connection: &mut Connection,
        frames: &mut FrameBuffer,
        put: &PutImage,
    ) -> io::Result<()> {
        if put.job != self.name {
            return Err(io::Error::other(format!("this is job '{}'", self.name)));
        }
        connection.reader.set_timeout(Some(STANDSTILL_MAX))?;
        let path = partial_image(&self.job, put.epoch, put.rank);
        let at = |what: &str, error: io::Error| {
            io::Error::new(error.kind(), format!("cannot {what} {}: {error}", path.display()))
        };
        // Fails if the checkpoint has been given up meanwhile: then its directory is gone.
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(self.job.via(&path))
            .map_err(|error| at("make", error))?;
        let mut left = put.bytes;
        while left > 0 {
            let Some(Message::Chunk(chunk)) = next_message(&mut *connection.reader, frames)? else {
                return Err(io::Error::other("the image broke off"));
            };
            left = left
                .checked_sub(chunk.data.len() as u64)
                .ok_or_else(|| io::Error::other("the image is longer than announced"))?;
            file.write_all(&chunk.data).map_err(|error| at("write", error))?;
        }
        file.sync_all().map_err(|error| at("flush", error))
    }

    /// Sends the image a rank of this run is restored from.
    pub(crate) fn give(&self, mut connection: Connection, wish: &GetImage) {
        // A daemon that sees too few bytes knows that this failed.
        let _ = self.send(&mut connection, wish);
        connection.writer.end();
    }

    fn send(&self, connection: &mut Connection, wish: &GetImage) -> io::Result<()> {
        connection.writer.set_timeout(STANDSTILL_MAX)?;
        if let Some(placed) = self.placed.as_ref().filter(|_| wish.job == self.name) {
            return connection.writer.send(&encode_frame(&placed.clone().into()));
        }
        let (mut file, mut image) = match self.open(wish) {
            Ok((file, image)) => (Some(file), image),
            Err(error) => (None, Image { epoch: 0, bytes: 0, error: error.to_string() }),
        };
        connection.writer.send(&encode_frame(&image.clone().into()))?;
        let mut data = vec![0; CHUNK_BYTES];
        while let (Some(file), 1..) = (&mut file, image.bytes) {
            let want = usize::try_from(image.bytes).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
            file.read_exact(&mut data[..want])?;
            let chunk = Chunk { data: data[..want].to_vec() };
            connection.writer.send(&encode_frame(&chunk.into()))?;
            image.bytes -= want as u64;
        }
        Ok(())
    }

    fn open(&self, wish: &GetImage) -> io::Result<(File, Image)> {
        let snapshot = self
            .restored
            .as_ref()
            .filter(|_| wish.job == self.name)
            .ok_or_else(|| io::Error::other("this run of the job was not restored"))?;
        let path = snapshot.join(image_name(wish.rank));
        let at = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display()))
        };
        let file = open_file(&path, Whose::Own(None)).map_err(at)?;
        let bytes = file.metadata().map_err(at)?.len();
        let listed = self.macs.get(&wish.rank).is_some_and(|mac| is_image(&file, mac));
        if !listed {
            return Err(at(io::Error::other("it is not the image that the manifest lists")));
        }
        let epoch = snapshot.file_name().and_then(|name| name.to_str()?.parse().ok()).unwrap_or(0);
        Ok((file, Image { epoch, bytes, error: String::new() }))
    }
}

/// Whether an image is the one with that MAC, as far as its header tells. Whoever restores it
/// checks that it is made with the key.
fn is_image(file: &File, mac: &str) -> bool {
    let mut block = vec![0; IMAGE_HEADER_BYTES];
    let header = file.read_exact_at(&mut block, 0).ok().and_then(|()| ImageHeader::parse(&block));
    mac.is_empty() || header.is_some_and(|header| hex(&header.mac) == mac)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fermata_storage::{create_own, samples};
    use fermata_types::IMAGE_HEADER_MAC_OFFSET;

    #[test]
    fn only_the_image_that_the_manifest_lists_is_sent() {
        let snapshot = std::env::temp_dir().join(format!("fermata-images-{}", std::process::id()));
        std::fs::create_dir_all(&snapshot).unwrap();
        let (mut bytes, _) = samples::image("melt", 1, 0, 1);
        bytes[IMAGE_HEADER_MAC_OFFSET..][..32].fill(7);
        create_own(&snapshot.join(image_name(0))).unwrap().write_all(&bytes).unwrap();
        let gives = |macs: &[(u32, String)]| {
            let server = ImageServer {
                name: "melt".into(),
                job: JobDir::at(snapshot.clone()),
                restored: Some(snapshot.clone()),
                placed: None,
                macs: macs.iter().cloned().collect(),
            };
            server.open(&GetImage { job: "melt".into(), rank: 0 }).is_ok()
        };
        assert!(gives(&[(0, hex(&[7; 32]))]));
        assert!(gives(&[(0, String::new())]), "where nothing is sealed");
        assert!(!gives(&[(0, hex(&[8; 32]))]), "an image of another run");
        assert!(!gives(&[(1, hex(&[7; 32]))]), "a rank that is not listed");
        assert!(!gives(&[]), "a manifest that is not believed");
        std::fs::remove_dir_all(&snapshot).unwrap();
    }
}
