// SPDX-License-Identifier: Apache-2.0
//! Asking for what lies on other hosts.
//!
//! Who needs something asks, request by request, and who has it answers until it hears that this
//! was all. Who asks whom, and in which order, all know beforehand.

use crate::cache::Cache;
use crate::comm::Comm;
use crate::image::Image;
use crate::problem::Problem;
use crate::survey::What;
use crate::team::Team;
use fermata_scr::Kept;
use fermata_scr::dataset::Record;
use std::collections::BTreeMap;
use std::io;

/// Kind, rank, offset, length.
const REQUEST: usize = 4 * size_of::<u64>();
const STATUS: usize = size_of::<u64>();
/// No request asks for more.
const LENGTH_MAX: u64 = 1 << 24;
const DONE: u64 = 0;
const RECORD: u64 = 1;

fn kind(what: What) -> u64 {
    match what {
        What::Images => 2,
        What::Parities => 3,
        What::Copy => 4,
    }
}

fn what(kind: u64) -> Option<What> {
    [What::Images, What::Parities, What::Copy].into_iter().find(|what| self::kind(*what) == kind)
}

/// What this host has of a dataset.
pub(crate) struct Desk<'a> {
    cache: &'a Cache,
    kept: &'a Kept,
    open: BTreeMap<(What, u32), Image>,
}

impl<'a> Desk<'a> {
    pub fn new(cache: &'a Cache, kept: &'a Kept) -> Self {
        Self { cache, kept, open: BTreeMap::new() }
    }

    fn record(&self, rank: u32) -> io::Result<Record> {
        self.cache.read_record(self.kept, rank)
    }

    fn image(&self, what: What, rank: u32) -> io::Result<Image> {
        let record = self.record(rank)?;
        match what {
            What::Images => Image::open(&self.cache.files(self.kept.dataset.id, rank), &record.own),
            What::Parities => Image::file(&self.cache.parities(self.kept, rank), u64::MAX),
            What::Copy => Image::file(&self.cache.copy(self.kept, rank), u64::MAX),
        }
    }

    fn read(&mut self, what: What, rank: u32, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        if !self.open.contains_key(&(what, rank)) {
            self.open.insert((what, rank), self.image(what, rank)?);
        }
        self.open[&(what, rank)].read_at(bytes, offset)
    }

    /// Answers one rank until it says that it has all.
    pub fn serve<C: Comm>(&mut self, team: &Team<C>, from: u32) -> Result<(), Problem> {
        loop {
            let mut request = [0; REQUEST];
            team.comm().receive(from, &mut request)?;
            let mut words = [0; 4];
            for (word, bytes) in words.iter_mut().zip(request.chunks_exact(STATUS)) {
                *word = bytes.try_into().map_or(0, u64::from_le_bytes);
            }
            let [kind, rank, offset, length] = words;
            let rank = u32::try_from(rank).unwrap_or(u32::MAX);
            match (kind, what(kind)) {
                (DONE, _) => return Ok(()),
                (RECORD, _) => {
                    let bytes =
                        self.record(rank).and_then(|record| Ok(serde_json::to_vec(&record)?));
                    let bytes = bytes.unwrap_or_default();
                    team.comm().send(from, &(bytes.len() as u64).to_le_bytes())?;
                    team.comm().send(from, &bytes)?;
                }
                (_, what) => {
                    let length = usize::try_from(length.min(LENGTH_MAX)).unwrap_or(0);
                    let mut answer = vec![0; STATUS + length];
                    let read = what.is_some_and(|what| {
                        self.read(what, rank, offset, &mut answer[STATUS..]).is_ok()
                    });
                    answer[..STATUS].copy_from_slice(&u64::from(read).to_le_bytes());
                    team.comm().send(from, &answer)?;
                }
            }
        }
    }
}

/// Who asks: some things lie here, others elsewhere.
pub(crate) struct Client<'a, C> {
    pub team: &'a Team<C>,
    pub desk: Desk<'a>,
}

impl<C: Comm> Client<'_, C> {
    fn ask(&self, server: u32, words: [u64; 4]) -> Result<(), Problem> {
        let request: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Ok(self.team.comm().send(server, &request)?)
    }

    /// The record of a rank, as `server` has it; `None`: it has none.
    pub fn record(&mut self, server: u32, rank: u32) -> Result<Option<Record>, Problem> {
        if server == self.team.rank() {
            return Ok(self.desk.record(rank).ok());
        }
        self.ask(server, [RECORD, u64::from(rank), 0, 0])?;
        let mut length = [0; STATUS];
        self.team.comm().receive(server, &mut length)?;
        let mut bytes = vec![0; usize::try_from(u64::from_le_bytes(length)).unwrap_or(0)];
        self.team.comm().receive(server, &mut bytes)?;
        let record: Option<Record> = serde_json::from_slice(&bytes).ok();
        Ok(record.filter(|record| record.is_sound(rank)))
    }

    /// Reads what `server` has of a rank. Whether it could.
    pub fn read(
        &mut self,
        server: u32,
        what: What,
        rank: u32,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<bool, Problem> {
        if server == self.team.rank() {
            return Ok(self.desk.read(what, rank, offset, bytes).is_ok());
        }
        self.ask(server, [kind(what), u64::from(rank), offset, bytes.len() as u64])?;
        let mut answer = vec![0; STATUS + bytes.len()];
        self.team.comm().receive(server, &mut answer)?;
        bytes.copy_from_slice(&answer[STATUS..]);
        Ok(answer[..STATUS] == 1_u64.to_le_bytes())
    }

    /// Lets them do something else.
    pub fn done(&self, servers: &[u32]) -> Result<(), Problem> {
        let mut others = servers.iter().filter(|server| **server != self.team.rank());
        others.try_for_each(|server| self.ask(*server, [DONE; 4]))
    }
}
