// SPDX-License-Identifier: Apache-2.0
//! The coordinator's UNIX socket. Its directory is removed when the user logs out, but a job under
//! nohup lives on: the socket is looked after, and comes back where it was, or elsewhere if nothing
//! can be made there any more; the job's record says so then.

use crate::input::Input;
use fermata_seal::{Key, Seal};
use fermata_storage::{JobDir, StorageError, within};
use fermata_transport::{
    Listener, PendingPeer, UnixTransport, is_waiting, remove_socket, runtime_dir,
};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// So often it is looked after.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The job's directory may hang.
const RECORD_WAIT: Duration = Duration::from_secs(5);

/// Where the socket is; `None`: the coordinator has ended, and it must not come back.
#[derive(Clone)]
pub(crate) struct SocketPlace(Arc<Mutex<Option<PathBuf>>>);

impl SocketPlace {
    fn lock(&self) -> MutexGuard<'_, Option<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the socket for good.
    pub(crate) fn leave(&self) {
        if let Some(path) = self.lock().take() {
            remove_socket(&path);
        }
    }
}

pub(crate) struct LocalListener {
    transport: UnixTransport,
    place: SocketPlace,
    job: JobDir,
    /// What the job's record is sealed with.
    key: Option<Key>,
    /// What the job's record says.
    recorded: PathBuf,
    notes: Sender<Input>,
    /// The last note: once is enough.
    noted: String,
}

impl LocalListener {
    pub(crate) fn open(
        path: &Path,
        job: JobDir,
        key: Option<Key>,
        notes: Sender<Input>,
    ) -> io::Result<Self> {
        let transport = listen(path)?;
        let recorded = path.to_owned();
        let place = SocketPlace(Arc::new(Mutex::new(Some(path.to_owned()))));
        Ok(Self { transport, place, job, key, recorded, notes, noted: String::new() })
    }

    pub(crate) fn place(&self) -> SocketPlace {
        self.place.clone()
    }

    /// False: the coordinator has ended.
    fn look_after(&mut self) -> bool {
        let place = self.place.clone();
        let mut place = place.lock();
        let Some(path) = place.as_mut() else { return false };
        if !self.transport.is_in_place() {
            match self.bind_anew(path) {
                Ok(fresh) => {
                    self.note(format!("the socket was removed; it is {} now", fresh.display()));
                    *path = fresh;
                }
                Err(error) => self.note(format!("the socket was removed: {error}")),
            }
        }
        if self.recorded != *path {
            let (job, key) = (self.job.clone(), self.key);
            let socket = path.to_string_lossy().into_owned();
            within(RECORD_WAIT, move || record(&job, key.as_ref(), socket));
            self.recorded.clone_from(path);
        }
        true
    }

    fn bind_anew(&mut self, before: &Path) -> io::Result<PathBuf> {
        let fresh = runtime_dir()?.join(before.file_name().unwrap_or_default());
        self.transport = listen(&fresh)?;
        Ok(fresh)
    }

    fn note(&mut self, text: String) {
        if text != self.noted {
            let _ = self.notes.send(Input::Note(text.clone()));
            self.noted = text;
        }
    }
}

fn listen(path: &Path) -> io::Result<UnixTransport> {
    let transport = UnixTransport::bind(path)?;
    transport.set_timeout(LOOK_EVERY)?;
    Ok(transport)
}

fn record(job: &JobDir, key: Option<&Key>, socket: String) -> Result<(), StorageError> {
    let (mut record, seal) = job.read_sealed_record(key)?;
    record.socket = socket;
    // What somebody else has written there does not become ours.
    job.write_record(&record, key.filter(|_| seal == Seal::Ours))
}

impl Listener for LocalListener {
    fn accept(&mut self) -> io::Result<Box<dyn PendingPeer>> {
        loop {
            match self.transport.accept() {
                Err(error) if is_waiting(&error) && self.look_after() => {}
                answer => return answer,
            }
        }
    }
}
