// SPDX-License-Identifier: Apache-2.0
//! Copies and parities, made on one host from what the others have. Every host only reads from
//! others and writes to its own disk: nobody has to be allowed to write elsewhere.

use super::part::PartWriter;
use super::record::Kept;
use super::store::{HostStore, make_private, partial_of, set_of};
use crate::error::{Cause, Operation, StorageError};
use fermata_faults::{Fault, failing, fault};
use fermata_levels::Item;
use fermata_parity::{Members, Part, Sum, Sums, WorkError, encode};
use std::fs;
use std::io;

/// As much of a copy as is read at a time.
const PIECE: usize = 1 << 20;

/// The stores of the hosts of a job, by their names; the own one among them.
pub trait Peers {
    /// Reads from what a host has of a snapshot.
    ///
    /// # Errors
    /// It does not have it, or cannot be reached.
    fn read(
        &mut self,
        host: &str,
        kept: &Kept,
        item: Item,
        offset: u64,
        bytes: &mut [u8],
    ) -> io::Result<()>;

    /// The checksums of a host's set.
    ///
    /// # Errors
    /// It has none, or cannot be reached.
    fn sums(&mut self, host: &str, kept: &Kept, parities: u32) -> io::Result<Sums>;
}

/// The name of a home.
pub(super) fn name(kept: &Kept, home: u32) -> &str {
    kept.snapshot.homes.get(home as usize).map_or("", |home| home.host.as_str())
}

/// Copies the images of a home that are wanted from a host that has them all.
pub(super) fn copy(
    kept: &Kept,
    from: (&str, Item),
    peers: &mut impl Peers,
    to: &PartWriter,
) -> io::Result<()> {
    let mut data = vec![0; PIECE];
    for (mut at, end) in to.wanted() {
        while at < end {
            let length = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
            peers.read(from.0, kept, from.1, at, &mut data[..length])?;
            to.write_at(&data[..length], at)?;
            at += length as u64;
        }
    }
    Ok(())
}

impl HostStore {
    /// Makes the copy of a home's images: level `partner`.
    ///
    /// # Errors
    /// They cannot be read or written, or are not those that the manifest lists.
    pub fn make_copy(
        &self,
        kept: &Kept,
        home: u32,
        peers: &mut impl Peers,
    ) -> Result<(), StorageError> {
        let path = self.images_path(kept.snapshot.id, Item::Copy(home));
        let partial = partial_of(&path);
        let _ = fs::remove_dir_all(&partial);
        let made = failing(Fault::MakeBegun)
            .and_then(|()| make_private(&partial))
            .and_then(|()| PartWriter::images(&partial, kept, home, |_| true))
            .map_err(|e| StorageError::at(Operation::Make, &partial, e))?;
        copy(kept, (name(kept, home), Item::Images), peers, &made)
            .and_then(|()| made.flush())
            .and_then(|()| fermata_sysio::sync_directory(&partial))
            .map_err(|e| StorageError::at(Operation::Write, &partial, e))?;
        self.check_images(kept, home, &partial)?;
        fault(Fault::MakeMade);
        self.give_name(&path)
    }

    /// Makes this host's parities of its set, of so many. They are not kept before they are noted,
    /// with the checksums that all members return.
    ///
    /// # Errors
    /// Images cannot be read, or parities not be written.
    pub fn make_parities(
        &self,
        kept: &Kept,
        parities: u32,
        peers: &mut impl Peers,
    ) -> Result<Vec<Sum>, StorageError> {
        let partial = partial_of(&self.parities_path(kept.snapshot.id, parities));
        let no_part = || Cause::NoPart(self.host().to_owned());
        let set = kept.snapshot.home_of(self.host()).ok_or_else(no_part);
        let (members, layout, mine) = set
            .and_then(|home| set_of(kept, home, parities))
            .map_err(|why| StorageError::at(Operation::Make, &partial, why))?;
        let file = failing(Fault::MakeBegun)
            .and_then(|()| PartWriter::file(&partial, layout.parity_bytes()))
            .map_err(|e| StorageError::at(Operation::Make, &partial, e))?;
        let mut work = Encoding { kept, members: &members, mine, file: &file, peers };
        let is_mine = |stripe: &usize| layout.stripe(*stripe).1.iter().any(|s| s.member == mine);
        let mut sums = Vec::new();
        for stripe in (0..layout.stripes()).filter(is_mine) {
            let made = encode(&layout, stripe, &mut work).map_err(|why| cause(why, kept, &members));
            sums.extend(made.map_err(|why| StorageError::at(Operation::Write, &partial, why))?);
        }
        file.flush().map_err(|e| StorageError::at(Operation::Flush, &partial, e))?;
        fault(Fault::MakeMade);
        Ok(sums)
    }
}

/// A member of a set is a home.
pub(super) fn cause(error: WorkError<io::Error>, kept: &Kept, members: &[u32]) -> Cause {
    let host = |member: usize| members.get(member).map_or("", |home| name(kept, *home));
    match error {
        WorkError::Members(error) => Cause::Io(error),
        WorkError::Changed(shard) => {
            Cause::Parity(format!("what {} has is not what it was", host(shard.member)))
        }
        WorkError::Wrong(shard) => {
            Cause::Parity(format!("what was rebuilt of {} is not what it was", host(shard.member)))
        }
        other => Cause::Parity(other.to_string()),
    }
}

/// Images are read from whoever has them; of the parities only the host's own are written: the
/// other members write theirs.
struct Encoding<'a, P> {
    kept: &'a Kept,
    members: &'a [u32],
    mine: usize,
    file: &'a PartWriter,
    peers: &'a mut P,
}

impl<P: Peers> Members for Encoding<'_, P> {
    type Error = io::Error;

    fn read(&mut self, member: usize, _: Part, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let host = name(self.kept, self.members[member]);
        self.peers.read(host, self.kept, Item::Images, offset, bytes)
    }

    fn write(&mut self, member: usize, _: Part, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if member == self.mine { self.file.write_at(bytes, offset) } else { Ok(()) }
    }
}
