// SPDX-License-Identifier: Apache-2.0
//! Images on a host's own disk: where they lie, and how they travel to the coordinator and back.

use crate::endpoint::Endpoint;
use fermata_levels::Id;
use fermata_storage::{
    JobDir, StorageError, Whose, create_own, discard, image_name, open_file, open_own_directory,
    partial_image, prepare,
};
use fermata_transport::{Connection, next_message};
use fermata_types::{Chunk, FrameBuffer, GetImage, Message, PutImage, encode_frame};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Images on their way at a time. More are no faster, and each takes a connection of its own.
const TRANSFERS_MAX: usize = 4;
/// A coordinator that has no room for a connection just now is called again: so often, first after
/// this time, then after twice as much each.
const REDIALS: u32 = 5;
const REDIAL_AFTER: Duration = Duration::from_millis(200);
/// A transfer that stands still for this long is given up.
const STANDSTILL_MAX: Duration = Duration::from_secs(30);
/// Time for the coordinator to flush an image that it has received.
const FLUSH_MAX: Duration = Duration::from_secs(600);
const CHUNK_BYTES: usize = 1 << 20;

/// The images of one run of a job on this host, and the way to its coordinator.
#[derive(Clone, Debug)]
pub struct LocalImages {
    endpoint: Endpoint,
    place: JobDir,
    slots: Arc<Slots>,
    /// Held while the directory is in use.
    _lock: Arc<File>,
}

/// Where the image is that a rank is restored from.
#[derive(Debug)]
pub(crate) enum Brought {
    /// In this directory, where it has been brought.
    Here(PathBuf),
    /// In this host's store.
    InStore(Id),
}

/// Counts the transfers under way.
#[derive(Debug, Default)]
struct Slots {
    taken: Mutex<usize>,
    freed: Condvar,
}

impl Slots {
    /// Waits for its turn, which ends with what is returned.
    fn take(&self) -> Slot<'_> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = self
            .freed
            .wait_while(taken, |taken| *taken >= TRANSFERS_MAX)
            .unwrap_or_else(PoisonError::into_inner);
        *taken += 1;
        Slot(self)
    }
}

struct Slot<'a>(&'a Slots);

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.freed.notify_one();
    }
}

impl LocalImages {
    /// The directory.
    pub(crate) fn root(&self) -> &Path {
        self.place.path()
    }

    /// Under `dir`, in a directory that no other run uses. Removes what dead runs left there.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn new(dir: &Path, endpoint: Endpoint) -> io::Result<Self> {
        let prefix = format!("{}@{}-", endpoint.job, fermata_sysio::host_name());
        remove_leftovers(dir, &prefix);
        let since_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let path = dir.join(format!("{prefix}{}-{since_s}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        let lock = open_own_directory(&path)?;
        fermata_sysio::try_lock(&lock)?;
        Ok(Self { endpoint, place: JobDir::at(path), slots: Arc::default(), _lock: Arc::new(lock) })
    }

    /// Makes the directory for the images of a checkpoint.
    ///
    /// # Errors
    /// What the file system says, with the path.
    pub(crate) fn prepare(&self, epoch: u32) -> Result<(), StorageError> {
        prepare(&self.place, epoch).map(|_| ())
    }

    /// Where a rank's image goes.
    pub(crate) fn path(&self, epoch: u32, rank: u32) -> PathBuf {
        partial_image(&self.place, epoch, rank)
    }

    /// Removes the images of a checkpoint.
    pub(crate) fn discard(&self, epoch: u32) {
        discard(&self.place, epoch);
    }

    /// Removes everything.
    pub(crate) fn remove_all(&self) {
        let _ = fs::remove_dir_all(self.place.path());
    }

    /// A connection of its own to the coordinator.
    fn dial(&self) -> io::Result<Connection> {
        for attempt in 0..REDIALS {
            match self.endpoint.dial() {
                Ok(connection) => return Ok(connection),
                Err(_) => thread::sleep(REDIAL_AFTER * 2u32.pow(attempt)),
            }
        }
        self.endpoint.dial()
    }

    /// Brings a finished image to the coordinator and returns when it is on disk there.
    pub(crate) fn put(&self, epoch: u32, rank: u32) -> io::Result<()> {
        let path = self.path(epoch, rank);
        self.bring(&path, epoch, rank, |_| ())?;
        let _ = fs::remove_file(&path);
        Ok(())
    }

    /// The same with an image that lies somewhere, and stays there. `sent` is called after some
    /// bytes each, so many.
    pub(crate) fn bring(
        &self,
        path: &Path,
        epoch: u32,
        rank: u32,
        mut sent: impl FnMut(u64),
    ) -> io::Result<()> {
        let _slot = self.slots.take();
        let mut file = open_file(path, Whose::Own(None))?;
        let bytes = file.metadata()?.len();
        let mut connection = self.dial()?;
        connection.writer.set_timeout(STANDSTILL_MAX)?;
        let job = self.endpoint.job.clone();
        connection.writer.send(&encode_frame(&PutImage { job, epoch, rank, bytes }.into()))?;
        let mut left = bytes;
        let mut data = vec![0; CHUNK_BYTES];
        while left > 0 {
            let want = usize::try_from(left).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
            file.read_exact(&mut data[..want])?;
            left -= want as u64;
            let chunk = encode_frame(&Chunk { data: data[..want].to_vec() }.into());
            // The coordinator closes at once when it cannot store; its reason says more than ours.
            if let Err(error) = connection.writer.send(&chunk) {
                return Err(hear_stored(&mut connection).err().unwrap_or(error));
            }
            sent(want as u64);
        }
        hear_stored(&mut connection)
    }

    /// Fetches the image this rank is to be restored from, unless it was placed on this host.
    pub(crate) fn get(&self, rank: u32) -> io::Result<Brought> {
        let _slot = self.slots.take();
        let mut connection = self.dial()?;
        connection.reader.set_timeout(Some(STANDSTILL_MAX))?;
        let job = self.endpoint.job.clone();
        connection.writer.send(&encode_frame(&GetImage { job, rank }.into()))?;
        let mut frames = FrameBuffer::default();
        let image = match next_message(&mut *connection.reader, &mut frames)? {
            Some(Message::Image(image)) => image,
            Some(Message::ImagePlaced(m)) => {
                return Ok(Brought::InStore(Id { taken_ms: m.taken_ms, epoch: m.epoch }));
            }
            _ => return Err(io::Error::other("the coordinator does not answer")),
        };
        if !image.error.is_empty() {
            return Err(io::Error::other(image.error));
        }
        let directory = self.place.path().join("restored").join(image.epoch.to_string());
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let path = directory.join(image_name(rank));
        let mut file = create_own(&path)?;
        let mut have = 0;
        while have < image.bytes {
            let Some(Message::Chunk(chunk)) = next_message(&mut *connection.reader, &mut frames)?
            else {
                return Err(io::Error::other("the image broke off"));
            };
            file.write_all(&chunk.data)?;
            have += chunk.data.len() as u64;
        }
        connection.writer.end();
        Ok(Brought::Here(directory))
    }
}

fn hear_stored(connection: &mut Connection) -> io::Result<()> {
    connection.reader.set_timeout(Some(FLUSH_MAX))?;
    match next_message(&mut *connection.reader, &mut FrameBuffer::default())? {
        Some(Message::Stored(stored)) if stored.error.is_empty() => Ok(()),
        Some(Message::Stored(stored)) => Err(io::Error::other(stored.error)),
        _ => Err(io::Error::other("the line to the coordinator broke")),
    }
}

/// The user's own directories of this job and host whose daemon is no more. Its lock tells, also
/// after the host was started anew and its process id went to another program.
fn remove_leftovers(dir: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix));
        let is_left =
            || open_own_directory(&entry.path()).is_ok_and(|f| fermata_sysio::try_lock(&f).is_ok());
        if is_ours && is_left() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn few_images_travel_at_a_time() {
        let (slots, now, most) = (Slots::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..3 * TRANSFERS_MAX {
                scope.spawn(|| {
                    let _slot = slots.take();
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(20));
                    now.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert!((1..=TRANSFERS_MAX).contains(&most.into_inner()));
    }
}
