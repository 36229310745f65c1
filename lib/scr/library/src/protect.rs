// SPDX-License-Identifier: Apache-2.0
//! Parities and copies of a dataset that ranks have written, made by all of them at a time.
//!
//! A member of a set computes the stripes of which it holds a parity, one after the other, and so
//! do all others, in lock step: when a member asks for the piece of the member `d` behind it, it is
//! asked for its own by the member `d` before it, at the same offset, as all of a set count as long
//! as the longest. So every read is one exchange, and nobody serves anybody.
//!
//! Invariant: a rank whose disk fails exchanges zeros until the end and says so then: the others
//!            would wait for it.

use crate::cache::{Cache, layout};
use crate::comm::{Comm, CommError};
use crate::image::{Image, PIECE};
use crate::problem::Problem;
use crate::team::Team;
use fermata_parity::{Layout, Members, Part, Sum, Sums, WorkError, encode};
use fermata_scr::dataset::Record;
use fermata_scr::descriptor::Scheme;
use fermata_scr::{Dataset, Files, Kept, Place, arrange};
use fermata_storage::create_own;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// How a dataset is kept.
pub(crate) struct Plan<'a> {
    pub places: &'a [Place],
    pub scheme: Scheme,
    pub set_size: u32,
    /// When it is arranged.
    pub made_ms: u64,
}

/// Collective: makes what the plan says of a dataset whose files lie in the cache, and lets it
/// exist. `mine`: the files of this rank.
pub(crate) fn protect<C: Comm>(
    team: &Team<C>,
    cache: &Cache,
    dataset: &Dataset,
    mine: &Files,
    plan: &Plan,
) -> Result<Kept, Problem> {
    let Plan { places, scheme, set_size, made_ms } = plan;
    let kept = arrange(dataset.clone(), *made_ms, places, *scheme, *set_size)?;
    let directory = cache.files(dataset.id, team.rank());
    let opened = cache.make_rank(dataset.id, team.rank()).and_then(|()| {
        Image::open(&directory, mine).map_err(Problem::file("read files in", &directory))
    });
    let work = Work { team, cache, kept: &kept, mine, image: &team.all(opened)? };
    let record = work.record()?;
    let written = record.and_then(|record| cache.write_record(&kept, team.rank(), &record));
    team.all(written)?;
    let stands = team.stands_for_host();
    let exists = if stands { cache.write_kept(&kept) } else { Ok(()) };
    team.all(exists)?;
    Ok(kept)
}

struct Work<'a, C> {
    team: &'a Team<C>,
    cache: &'a Cache,
    kept: &'a Kept,
    mine: &'a Files,
    image: &'a Image,
}

impl<C: Comm> Work<'_, C> {
    /// What this rank notes, or why it cannot; an error of the MPI is the outer one.
    fn record(&self) -> Result<Result<Record, Problem>, Problem> {
        let mut record = Record {
            own: self.mine.clone(),
            others: Vec::new(),
            longest: self.mine.bytes(),
            sums: Sums::default(),
        };
        let rank = self.team.rank();
        let mut done = Ok(());
        if let Some((_, members)) = self.kept.snapshot.set_of(rank) {
            done = self.parities(members, &mut record)?;
        }
        if let Some(keeper) = self.kept.snapshot.partners.get(rank as usize) {
            done = self.copy(*keeper, &mut record)?;
        }
        Ok(done.map(|()| record))
    }

    /// What each member of a set has, in its order; `value` is this one's.
    fn among<T>(&self, members: &[u32], value: &T) -> Result<Vec<T>, Problem>
    where
        T: serde::Serialize + serde::de::DeserializeOwned + Clone,
    {
        let count = members.len();
        let me = members.iter().position(|rank| *rank == self.team.rank()).unwrap_or(0);
        let mut all = vec![value.clone(); count];
        for distance in 1..count {
            let from = (me + distance) % count;
            let to = (me + count - distance) % count;
            all[from] = self.team.swap(members[to], value, members[from])?;
        }
        Ok(all)
    }

    fn parities(
        &self,
        members: &[u32],
        record: &mut Record,
    ) -> Result<Result<(), Problem>, Problem> {
        let rank = self.team.rank();
        record.others = self.among(members, self.mine)?;
        record.longest = record.others.iter().map(Files::bytes).max().unwrap_or(0);
        let Some(layout) = layout(self.kept, rank, record.longest) else { return Ok(Ok(())) };
        let path = self.cache.parities(self.kept, rank);
        let file = create_own(&path).and_then(|file| {
            file.set_len(layout.parity_bytes())?;
            Ok(file)
        });
        let me = members.iter().position(|member| *member == rank).unwrap_or(0);
        let (file, failed) = file.map_or_else(|why| (None, Some(why)), |file| (Some(file), None));
        let (team, image, piece) = (self.team, self.image, Vec::new());
        let mut step = Step { team, image, members, me, piece, file, failed };
        let mut sums: Vec<Sum> = Vec::new();
        for place in 0..layout.parities() {
            let stripe = (me + layout.members() - place) % layout.members();
            sums.extend(self.stripe(&layout, stripe, &mut step)?);
        }
        let all = self.among(members, &sums)?.concat();
        record.sums = Sums::of(&layout, &all);
        Ok(step.failed.map_or(Ok(()), |error| Err(Problem::file("write", &path)(error))))
    }

    fn stripe(
        &self,
        layout: &Layout,
        stripe: usize,
        step: &mut Step<'_, C>,
    ) -> Result<Vec<Sum>, Problem> {
        encode(layout, stripe, step).map_err(|error| match error {
            WorkError::Members(error) => Problem::Comm(error),
            other => Problem::Wrong(other.to_string()),
        })
    }

    /// Sends the own files to the rank that keeps a copy of them, and keeps those of another one.
    fn copy(&self, keeper: u32, record: &mut Record) -> Result<Result<(), Problem>, Problem> {
        let rank = self.team.rank();
        let of = self.kept.copy_on(rank).unwrap_or(rank);
        let theirs: Files = self.team.swap(keeper, self.mine, of)?;
        let (sends, receives) = (self.mine.bytes(), theirs.bytes());
        let path = self.cache.copy(self.kept, rank);
        let mut file = create_own(&path);
        let mut failed = None;
        let (mut from, mut to) = (vec![0; PIECE], vec![0; PIECE]);
        let mut at = 0;
        let most = self.team.most(sends)?;
        while at < most {
            let piece =
                |bytes: u64| usize::try_from(bytes.saturating_sub(at)).unwrap_or(PIECE).min(PIECE);
            let (sent, received) = (&mut from[..piece(sends)], &mut to[..piece(receives)]);
            failed = failed.or(self.image.read_at(sent, at).err());
            self.team.comm().exchange(keeper, sent, of, received)?;
            if let Ok(file) = &mut file {
                failed = failed.or(file.write_all_at(received, at).err());
            }
            at += PIECE as u64;
        }
        record.others = vec![theirs];
        let failed = file.err().or(failed);
        Ok(failed.map_or(Ok(()), |error| Err(Problem::file("write", &path)(error))))
    }
}

/// A member of a set in lock step with the others.
struct Step<'a, C> {
    team: &'a Team<C>,
    image: &'a Image,
    members: &'a [u32],
    me: usize,
    /// What is sent.
    piece: Vec<u8>,
    file: Option<File>,
    failed: Option<io::Error>,
}

impl<C: Comm> Members for Step<'_, C> {
    type Error = CommError;

    fn read(
        &mut self,
        member: usize,
        _: Part,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), CommError> {
        let count = self.members.len();
        let distance = (member + count - self.me) % count;
        let asks = (self.me + count - distance) % count;
        self.piece.resize(bytes.len(), 0);
        if let Err(error) = self.image.read_at(&mut self.piece, offset) {
            self.failed.get_or_insert(error);
        }
        self.team.comm().exchange(self.members[asks], &self.piece, self.members[member], bytes)
    }

    /// The other parities of a stripe are computed by who holds them.
    fn write(
        &mut self,
        member: usize,
        _: Part,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), CommError> {
        if let Some(file) = self.file.as_ref().filter(|_| member == self.me) {
            if let Err(error) = file.write_all_at(bytes, offset) {
                self.failed.get_or_insert(error);
            }
        }
        Ok(())
    }
}
