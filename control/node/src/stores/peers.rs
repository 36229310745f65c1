// SPDX-License-Identifier: Apache-2.0
//! The stores of other hosts, read from here. A line to each that is needed, dialled when it is,
//! and once more when it has broken.

use fermata_levels::{Id, Item};
use fermata_parity::Sums;
use fermata_storage::{HostStore, Kept, Peers};
use fermata_transport::{Connection, Secret, dial_any, next_message};
use fermata_types::{
    FrameBuffer, Message, StoreData, StoreHolds, StoreList, StoreRead, StoreSums, encode_frame,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A host that says nothing for so long counts as lost.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// As much as is asked for at a time.
const PIECE: usize = 4 << 20;

/// Where the stores of hosts are read, by their names; whoever hears of one adds it.
#[derive(Clone, Debug, Default)]
pub struct Places(Arc<Mutex<BTreeMap<String, Vec<String>>>>);

impl Places {
    /// This host's store is read there now.
    pub fn add(&self, host: &str, addresses: Vec<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(host.to_owned(), addresses);
    }

    /// All hosts of which that is known.
    #[must_use]
    pub fn hosts(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    fn of(&self, host: &str) -> Option<Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(host).cloned()
    }
}

struct Line {
    connection: Connection,
    frames: FrameBuffer,
}

/// Stores by their hosts' names; the own one, if there is one, without a line.
pub struct RemotePeers {
    job: String,
    secret: Secret,
    places: Places,
    own: Option<HostStore>,
    lines: BTreeMap<String, Line>,
}

impl RemotePeers {
    /// Those of a job.
    #[must_use]
    pub fn new(job: &str, secret: Secret, places: Places, own: Option<HostStore>) -> Self {
        Self { job: job.to_owned(), secret, places, own, lines: BTreeMap::new() }
    }

    /// What a host has: each snapshot with what there is of it.
    ///
    /// # Errors
    /// It cannot be reached, or says what makes no sense.
    pub fn list(&mut self, host: &str) -> io::Result<Vec<(Kept, BTreeSet<Item>)>> {
        let (holds, _) = self.ask(host, &StoreList { job: self.job.clone() }.into())?;
        holds.iter().map(read_holds).collect()
    }

    /// The answer to a question; a line that has broken, perhaps since nothing was asked for long,
    /// is made once more.
    fn ask(&mut self, host: &str, question: &Message) -> io::Result<(Vec<StoreHolds>, Vec<u8>)> {
        let had_line = self.lines.contains_key(host);
        let asked = match self.ask_once(host, question) {
            Err(_) if had_line => self.ask_once(host, question),
            other => other,
        };
        let (holds, answer) = asked?;
        match answer.error.is_empty() {
            true => Ok((holds, answer.data)),
            false => Err(io::Error::other(answer.error)),
        }
    }

    fn ask_once(
        &mut self,
        host: &str,
        question: &Message,
    ) -> io::Result<(Vec<StoreHolds>, StoreData)> {
        let mut line = match self.lines.remove(host) {
            Some(line) => line,
            None => self.dial(host)?,
        };
        line.connection.writer.send(&encode_frame(question))?;
        let mut holds = Vec::new();
        loop {
            match next_message(&mut *line.connection.reader, &mut line.frames)? {
                Some(Message::StoreHolds(one)) => holds.push(one),
                Some(Message::StoreData(answer)) => {
                    // Only a line that is in order is kept.
                    self.lines.insert(host.to_owned(), line);
                    return Ok((holds, answer));
                }
                Some(other) => {
                    return Err(io::Error::other(format!("its store said {}", other.name())));
                }
                None => return Err(io::Error::other("its store has ended the line")),
            }
        }
    }

    fn dial(&self, host: &str) -> io::Result<Line> {
        let unknown = || io::Error::other(format!("where the store of {host} is is not known"));
        let addresses = self.places.of(host).ok_or_else(unknown)?;
        let mut connection = dial_any(&addresses, &self.secret)?;
        connection.reader.set_timeout(Some(SILENCE_MAX))?;
        Ok(Line { connection, frames: FrameBuffer::default() })
    }

    fn own(&self, host: &str) -> Option<&HostStore> {
        self.own.as_ref().filter(|store| store.host() == host)
    }
}

fn read_holds(holds: &StoreHolds) -> io::Result<(Kept, BTreeSet<Item>)> {
    let kept: Kept = serde_json::from_slice(&holds.record).map_err(io::Error::other)?;
    // What only a newer version knows is nothing to us.
    let items = holds.items.iter().filter_map(|(kind, number)| Item::read(*kind, *number));
    Ok((kept, items.collect()))
}

impl Peers for RemotePeers {
    fn read(
        &mut self,
        host: &str,
        kept: &Kept,
        item: Item,
        offset: u64,
        bytes: &mut [u8],
    ) -> io::Result<()> {
        if let Some(store) = self.own(host) {
            return store.reader(kept, item)?.read_at(bytes, offset);
        }
        let Id { taken_ms, epoch } = kept.snapshot.id;
        let (kind, number) = item.written();
        let mut at = offset;
        for piece in bytes.chunks_mut(PIECE) {
            let length = u32::try_from(piece.len()).map_err(io::Error::other)?;
            let job = self.job.clone();
            let wish = StoreRead { job, epoch, taken_ms, kind, number, offset: at, bytes: length };
            let (_, data) = self.ask(host, &wish.into())?;
            if data.len() != piece.len() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            piece.copy_from_slice(&data);
            at += u64::from(length);
        }
        Ok(())
    }

    fn sums(&mut self, host: &str, kept: &Kept, parities: u32) -> io::Result<Sums> {
        if let Some(store) = self.own(host) {
            return store.sums(kept, parities).map_err(io::Error::other);
        }
        let Id { taken_ms, epoch } = kept.snapshot.id;
        let wish = StoreSums { job: self.job.clone(), epoch, taken_ms, parities };
        let (_, data) = self.ask(host, &wish.into())?;
        serde_json::from_slice(&data).map_err(io::Error::other)
    }
}
