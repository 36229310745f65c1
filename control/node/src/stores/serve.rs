// SPDX-License-Identifier: Apache-2.0
//! A host's store, for others: a listener, and a thread for each line that reads.

use fermata_levels::{Id, Item};
use fermata_storage::{HostStore, Kept, PartReader};
use fermata_transport::{Connection, Listener, PendingPeer, Secret, SecureListener, next_message};
use fermata_types::{
    FrameBuffer, Message, StoreData, StoreHolds, StoreRead, StoreSums, encode_frame,
};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// A line that asks for nothing for so long is ended; who needs it again dials again.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// A reader that takes nothing for so long is given up.
const STANDSTILL_MAX: Duration = Duration::from_secs(30);
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(50);
/// The most that is read at a time: a frame holds it.
const BYTES_MAX: u32 = 8 << 20;

/// Serves the store of this host from now on, until it is dropped.
#[derive(Debug)]
pub struct StoreServer {
    addresses: Vec<String>,
    over: Arc<AtomicBool>,
}

impl StoreServer {
    /// For those who know the secret.
    ///
    /// # Errors
    /// There is no socket, or no thread.
    pub fn begin(store: HostStore, job: &str, secret: &Secret) -> io::Result<Self> {
        let listener = SecureListener::bind(secret.clone())?;
        let addresses = listener.addresses()?;
        let over = Arc::new(AtomicBool::new(false));
        let (job, is_over) = (job.to_owned(), Arc::clone(&over));
        thread::Builder::new().spawn(move || accept(listener, &store, &job, &is_over))?;
        Ok(Self { addresses, over })
    }

    /// Where it is read: `ADDRESS:PORT` for each address of this host.
    #[must_use]
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// The port, which is the same at each address.
    #[must_use]
    pub fn port(&self) -> u32 {
        let port = self.addresses.first().and_then(|it| it.rsplit(':').next()?.parse().ok());
        port.unwrap_or(0)
    }
}

impl Drop for StoreServer {
    /// Lines that are read end by themselves; what is asked of them from now on is refused.
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
    }
}

fn accept(mut listener: SecureListener, store: &HostStore, job: &str, over: &Arc<AtomicBool>) {
    while !over.load(Ordering::Acquire) {
        let Ok(pending) = listener.accept() else {
            // Out of descriptors, most likely: try again, but do not spin on it.
            thread::sleep(PAUSE_AFTER_ERROR);
            continue;
        };
        let (store, job, over) = (store.clone(), job.to_owned(), Arc::clone(over));
        // Without a thread there is nobody to hear this peer, who is sent away.
        let _ = thread::Builder::new().spawn(move || serve(pending, store, job, &over));
    }
}

fn serve(pending: Box<dyn PendingPeer>, store: HostStore, job: String, over: &AtomicBool) {
    let Ok(mut connection) = pending.admit() else { return };
    let mut line = Line { store, job, kept: None, open: None };
    // Whoever sees too little knows that this failed.
    let _ = converse(&mut connection, &mut line, over);
    connection.writer.end();
}

fn converse(connection: &mut Connection, line: &mut Line, over: &AtomicBool) -> io::Result<()> {
    connection.reader.set_timeout(Some(IDLE_MAX))?;
    connection.writer.set_timeout(STANDSTILL_MAX)?;
    let mut frames = FrameBuffer::default();
    while let Some(message) = next_message(&mut *connection.reader, &mut frames)? {
        if over.load(Ordering::Acquire) {
            break;
        }
        let answer = match message {
            Message::StoreRead(wish) => line.read(&wish),
            Message::StoreSums(wish) => line.sums(&wish),
            Message::StoreList(wish) if wish.job == line.job => {
                for holds in all_of(&line.store)? {
                    connection.writer.send(&encode_frame(&holds.into()))?;
                }
                Ok(Vec::new())
            }
            Message::StoreList(_) => Err(line.is_another()),
            other => Err(io::Error::other(format!("a store is not told {}", other.name()))),
        };
        let data = match answer {
            Ok(data) => StoreData { data, error: String::new() },
            Err(error) => StoreData { data: Vec::new(), error: error.to_string() },
        };
        connection.writer.send(&encode_frame(&data.into()))?;
    }
    Ok(())
}

/// What is open for one line: whoever reads asks for the next bytes of the same.
struct Line {
    store: HostStore,
    job: String,
    kept: Option<Kept>,
    open: Option<(Id, Item, PartReader)>,
}

impl Line {
    fn is_another(&self) -> io::Error {
        io::Error::other(format!("this is job '{}'", self.job))
    }

    fn of(&mut self, job: &str, id: Id) -> io::Result<Kept> {
        if job != self.job {
            return Err(self.is_another());
        }
        match &self.kept {
            Some(kept) if kept.snapshot.id == id => Ok(kept.clone()),
            _ => {
                let kept = self.store.read_kept(id).map_err(io::Error::other)?;
                self.kept = Some(kept.clone());
                Ok(kept)
            }
        }
    }

    fn read(&mut self, wish: &StoreRead) -> io::Result<Vec<u8>> {
        let id = Id { taken_ms: wish.taken_ms, epoch: wish.epoch };
        let strange = || io::Error::other("no host has such a thing");
        let item = Item::read(wish.kind.into(), wish.number.into()).ok_or_else(strange)?;
        if wish.job != self.job {
            return Err(self.is_another());
        }
        if wish.bytes > BYTES_MAX {
            return Err(io::Error::other("more is asked for than a frame holds"));
        }
        if !matches!(&self.open, Some((of, what, _)) if (*of, *what) == (id, item)) {
            let kept = self.of(&wish.job, id)?;
            self.open = Some((id, item, self.store.reader(&kept, item)?));
        }
        let mut data = vec![0; usize::try_from(wish.bytes).map_err(io::Error::other)?];
        match &self.open {
            Some((_, _, reader)) => reader.read_at(&mut data, wish.offset).map(|()| data),
            None => Err(strange()),
        }
    }

    fn sums(&mut self, wish: &StoreSums) -> io::Result<Vec<u8>> {
        let kept = self.of(&wish.job, Id { taken_ms: wish.taken_ms, epoch: wish.epoch })?;
        let sums = self.store.sums(&kept, wish.parities).map_err(io::Error::other)?;
        serde_json::to_vec(&sums).map_err(io::Error::other)
    }
}

/// What a host has, snapshot by snapshot.
///
/// # Errors
/// A record cannot be written down.
pub(crate) fn all_of(store: &HostStore) -> io::Result<Vec<StoreHolds>> {
    let (all, _) = store.kept();
    let holds = |kept: &Kept| -> io::Result<StoreHolds> {
        let items = store.holdings(kept);
        let pair = |item: Item| {
            let (kind, number) = item.written();
            (kind.into(), number.into())
        };
        Ok(StoreHolds {
            record: serde_json::to_vec(kept).map_err(io::Error::other)?,
            items: items.into_iter().map(|(_, item)| pair(item)).collect(),
        })
    };
    all.iter().map(holds).collect()
}
