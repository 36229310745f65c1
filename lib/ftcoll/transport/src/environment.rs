// SPDX-License-Identifier: Apache-2.0
//! Joining a job by what its launcher has put into the environment: `FTCOLL_KEY` (64 hexadecimal
//! digits), `FTCOLL_RANK`, `FTCOLL_SIZE`, and `FTCOLL_DIR`, a directory that all processes see,
//! only their user can enter, and each leaves its address in. Optional: `FTCOLL_ADDRESS` (where
//! to listen, an IP; else this host alone), `FTCOLL_TIMEOUT_MS`, `FTCOLL_DEADLINE_MS`,
//! `FTCOLL_ONLY_SILENCE=1` (a connection that breaks is no death), and `FTCOLL_TRANSPORT` (`tcp`,
//! or `ucx`).

use crate::error::JoinError;
use crate::key::Key;
use crate::world::{Door, Options, Transport, World};
use fermata_ftcoll::Rank;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const STEP: Duration = Duration::from_millis(5);

fn read<T>(
    name: &'static str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, JoinError> {
    let Ok(text) = std::env::var(name) else { return Ok(None) };
    let parsed = parse(&text).map(Some);
    parsed.ok_or(JoinError::Variable { name, problem: "is none" })
}

fn need<T>(name: &'static str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, JoinError> {
    read(name, parse)?.ok_or(JoinError::Variable { name, problem: "is not set" })
}

fn milliseconds(text: &str) -> Option<Duration> {
    let count: u64 = text.parse().ok()?;
    (count > 0).then_some(Duration::from_millis(count))
}

/// What the environment says of how to take part.
///
/// # Errors
/// A variable is no address or no number.
pub fn options() -> Result<Options, JoinError> {
    let mut options = Options::default();
    if let Some(ip) = read("FTCOLL_ADDRESS", |text| text.parse::<IpAddr>().ok())? {
        options.address = SocketAddr::new(ip, 0);
    }
    if let Some(timeout) = read("FTCOLL_TIMEOUT_MS", milliseconds)? {
        options.timeout = timeout;
    }
    if let Some(deadline) = read("FTCOLL_DEADLINE_MS", milliseconds)? {
        options.deadline = deadline;
    }
    if let Some(only_silence) = read("FTCOLL_ONLY_SILENCE", |text| text.parse::<u8>().ok())? {
        options.heeds_closing = only_silence == 0;
    }
    if let Some(transport) = read("FTCOLL_TRANSPORT", transport)? {
        options.transport = transport;
    }
    Ok(options)
}

fn transport(text: &str) -> Option<Transport> {
    match text {
        "tcp" => Some(Transport::Tcp),
        "ucx" => Some(Transport::Ucx),
        _ => None,
    }
}

/// The key that the launcher has handed over.
///
/// # Errors
/// There is none.
pub fn key() -> Result<Key, JoinError> {
    need("FTCOLL_KEY", Key::from_text)
}

/// Joins the job. Blocks until all its processes have, or the time for that is over.
///
/// # Errors
/// A variable is missing or wrong, others can write to the directory, or as [`Door::meet`].
pub fn join() -> Result<World, JoinError> {
    let number = |text: &str| text.parse::<Rank>().ok();
    let (rank, size) = (need("FTCOLL_RANK", number)?, need("FTCOLL_SIZE", number)?);
    let directory = need("FTCOLL_DIR", |text| Some(PathBuf::from(text)))?;
    let options = options()?;
    let door = Door::open(key()?, options)?;
    if rank >= size {
        return Err(JoinError::Rank { rank, size });
    }
    check(&directory)?;
    let system = JoinError::at("FTCOLL_DIR");
    let partial = directory.join(format!("{rank}.partial"));
    fs::write(&partial, door.address().to_string()).map_err(&system)?;
    fs::rename(&partial, directory.join(rank.to_string())).map_err(&system)?;
    let until = Instant::now() + options.meeting;
    let addresses: Result<Vec<_>, _> =
        (0..size).map(|other| address_of(&directory, other, size, until)).collect();
    door.meet(rank, &addresses?)
}

fn check(directory: &Path) -> Result<(), JoinError> {
    let problem = |problem| JoinError::Directory { path: directory.to_owned(), problem };
    let info = fs::metadata(directory).map_err(|_| problem("is not there"))?;
    if !info.is_dir() || info.uid() != rustix::process::geteuid().as_raw() {
        return Err(problem("is no directory of this user"));
    }
    if info.mode() & 0o077 != 0 {
        return Err(problem("is open to others"));
    }
    Ok(())
}

/// Where a process listens. One that has not said so in time gets an address where nobody does.
fn address_of(
    directory: &Path,
    rank: Rank,
    size: Rank,
    until: Instant,
) -> Result<SocketAddr, JoinError> {
    let path = directory.join(rank.to_string());
    loop {
        if let Ok(text) = fs::read_to_string(&path) {
            let address = text.parse().ok();
            let (index, count) = (rank as usize, size as usize);
            return address.ok_or(JoinError::Address { index, count, text });
        }
        if Instant::now() >= until {
            return Ok(SocketAddr::from(([127, 0, 0, 1], 1)));
        }
        std::thread::sleep(STEP);
    }
}
