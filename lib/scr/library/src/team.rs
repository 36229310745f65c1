// SPDX-License-Identifier: Apache-2.0
//! The ranks of a job: agreeing, telling each other, and who stands for a host.

use crate::comm::Comm;
use crate::problem::Problem;
use fermata_sysio::printable;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Write};

/// Tells the user. Whether anybody takes it must not matter to the program.
pub(crate) fn print(text: &str) {
    let line = format!("scr: {}\n", printable(text));
    let _ = io::stderr().write_all(line.as_bytes());
}

/// All ranks, as one of them sees it.
pub(crate) struct Team<C> {
    comm: C,
    hosts: Vec<String>,
}

impl<C: Comm> Team<C> {
    /// Collective: tells the host of each.
    pub fn meet(comm: C, host: &str) -> Result<Self, Problem> {
        let mut team = Self { comm, hosts: Vec::new() };
        team.hosts = team.gather(&host.to_owned())?;
        Ok(team)
    }

    pub fn comm(&self) -> &C {
        &self.comm
    }

    pub fn rank(&self) -> u32 {
        self.comm.rank()
    }

    pub fn size(&self) -> u32 {
        self.comm.size()
    }

    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// The host of each rank.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    pub fn host(&self) -> &str {
        self.host_of(self.rank())
    }

    pub fn host_of(&self, rank: u32) -> &str {
        self.hosts.get(rank as usize).map_or("", String::as_str)
    }

    /// The ranks on a host.
    pub fn locals<'a>(&'a self, host: &'a str) -> impl Iterator<Item = u32> + Clone + 'a {
        (0..).zip(&self.hosts).filter(move |(_, name)| *name == host).map(|(rank, _)| rank)
    }

    /// Whether this rank does what is done once on each host.
    pub fn stands_for_host(&self) -> bool {
        self.locals(self.host()).next() == Some(self.rank())
    }

    /// Tells the user, by rank 0.
    pub fn say(&self, text: impl AsRef<str>) {
        if self.is_first() {
            print(text.as_ref());
        }
    }

    /// Tells the user what concerns this rank.
    pub fn say_own(&self, text: impl AsRef<str>) {
        print(&format!("rank {} on {}: {}", self.rank(), self.host(), text.as_ref()));
    }

    /// Collective: whether it is so everywhere.
    pub fn agree(&self, is_so: bool) -> Result<bool, Problem> {
        Ok(self.comm.min(i64::from(is_so))? == 1)
    }

    /// Collective: what rank 0 says; the others' word does not count.
    pub fn first_says(&self, is_so: bool) -> Result<bool, Problem> {
        self.agree(is_so || !self.is_first())
    }

    /// Collective: what each has done, if all have. Who has not says why.
    pub fn all<T>(&self, done: Result<T, Problem>) -> Result<T, Problem> {
        let is_done = done.is_ok();
        if let Err(problem) = &done {
            self.say_own(problem.to_string());
        }
        match (self.agree(is_done)?, done) {
            (true, Ok(value)) => Ok(value),
            _ => Err(Problem::Elsewhere),
        }
    }

    /// Collective: the greatest value.
    pub fn most(&self, value: u64) -> Result<u64, Problem> {
        let negative = -i64::try_from(value).unwrap_or(i64::MAX);
        Ok(self.comm.min(negative)?.unsigned_abs())
    }

    /// Collective: all get rank `root`'s value; the others' are not looked at.
    pub fn tell<T: Serialize + DeserializeOwned>(
        &self,
        root: u32,
        value: &T,
    ) -> Result<T, Problem> {
        let mut bytes = if self.rank() == root { encoded(value) } else { Vec::new() };
        let mut length = (bytes.len() as u64).to_le_bytes();
        self.comm.broadcast(root, &mut length)?;
        bytes.resize(usize::try_from(u64::from_le_bytes(length)).unwrap_or(0), 0);
        self.comm.broadcast(root, &mut bytes)?;
        decoded(&bytes)
    }

    /// Collective: the value of each.
    pub fn gather<T: Serialize + DeserializeOwned>(&self, value: &T) -> Result<Vec<T>, Problem> {
        const WORD: usize = size_of::<u64>();
        let mine = encoded(value);
        let words = vec![WORD; self.size() as usize];
        let lengths = self.comm.gather(&(mine.len() as u64).to_le_bytes(), &words)?;
        let lengths: Vec<usize> = lengths
            .chunks_exact(WORD)
            .map(|word| word.try_into().map_or(0, u64::from_le_bytes))
            .map(|length| usize::try_from(length).unwrap_or(0))
            .collect();
        let all = self.comm.gather(&mine, &lengths)?;
        let mut rest = all.as_slice();
        let mut values = Vec::new();
        for length in lengths {
            let (one, after) = rest.split_at(length.min(rest.len()));
            values.push(decoded(one)?);
            rest = after;
        }
        Ok(values)
    }

    /// Sends a value to one rank, and receives another one's.
    pub fn swap<T: Serialize + DeserializeOwned>(
        &self,
        to: u32,
        value: &T,
        from: u32,
    ) -> Result<T, Problem> {
        let mine = encoded(value);
        let mut length = [0; size_of::<u64>()];
        self.comm.exchange(to, &(mine.len() as u64).to_le_bytes(), from, &mut length)?;
        let mut theirs = vec![0; usize::try_from(u64::from_le_bytes(length)).unwrap_or(0)];
        self.comm.exchange(to, &mine, from, &mut theirs)?;
        decoded(&theirs)
    }
}

/// Values of this crate are maps with names, lists, numbers and texts: JSON has them all.
fn encoded<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

fn decoded<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(bytes)
        .map_err(|error| Problem::Wrong(format!("a message makes no sense: {error}")))
}
