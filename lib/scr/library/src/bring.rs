// SPDX-License-Identifier: Apache-2.0
//! Brings the files of a dataset to where their ranks are now.
//!
//! All ranks walk through the same list, one entry for each rank whose files are not there: it
//! asks, those who have something for it answer, all others pass on to the next entry. As the order
//! is the same everywhere, nobody waits in a circle, and entries that share nobody go at a time.

use crate::cache::{Cache, layout, remove_all};
use crate::comm::Comm;
use crate::desk::{Client, Desk};
use crate::image::{self, Image, PIECE};
use crate::problem::Problem;
use crate::survey::{Found, What};
use crate::team::Team;
use fermata_levels::Source;
use fermata_levels::restart::Restart;
use fermata_parity::{Members, Part, WorkError, rebuild};
use fermata_scr::{Files, Kept};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// What of a rank is not what it was. `None`: something else has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bad {
    rank: u32,
    /// Its files, else its parities or its copy.
    images: bool,
}

/// What came of it.
pub(crate) enum Brought {
    /// All files are there.
    Whole {
        /// Those of this rank.
        mine: Files,
        /// Whether any had to be brought.
        moved: bool,
    },
    /// Something is not what it was, and is taken for lost in the survey now.
    Lost,
    /// It cannot be had.
    Failed,
}

/// What a rank does for one entry of the list.
struct Entry {
    client: u32,
    /// Who answers, by what it has.
    servers: BTreeMap<(What, u32), u32>,
    source: Source,
}

/// Collective: brings all files of what has been chosen.
pub(crate) fn bring<C: Comm>(
    team: &Team<C>,
    cache: &Cache,
    found: &mut Found,
    choice: &Restart,
) -> Result<Brought, Problem> {
    let bad = check(team, cache, found, choice)?;
    if !bad.is_empty() {
        lose(found, &bad);
        return Ok(Brought::Lost);
    }
    let Some(entries) = entries(team, found, choice) else { return Ok(Brought::Failed) };
    let kept = found.kept.clone();
    let mut mine = Ok(None);
    for entry in &entries {
        if entry.client == team.rank() {
            let client = Client { team, desk: Desk::new(cache, &kept) };
            let mut fetching = Fetching { client, entry, kept: &kept, cache };
            mine = fetching.fetch()?.map(Some);
            let servers: BTreeSet<u32> = entry.servers.values().copied().collect();
            fetching.client.done(&servers.into_iter().collect::<Vec<u32>>())?;
        } else if entry.servers.values().any(|server| *server == team.rank()) {
            Desk::new(cache, &kept).serve(team, entry.client)?;
        }
    }
    let mine = mine.and_then(|files| match files {
        Some(files) => Ok(files),
        None => cache.read_record(&kept, team.rank()).map(|record| record.own).map_err(|_| None),
    });
    let said = team.gather(&(mine.is_ok(), mine.as_ref().err().copied().flatten()))?;
    let bad: Vec<Bad> = said.iter().filter_map(|(_, bad)| *bad).collect();
    let is_whole = said.iter().all(|(is_there, _)| *is_there);
    if let (true, Ok(mine)) = (is_whole, mine) {
        return Ok(Brought::Whole { mine, moved: !entries.is_empty() });
    }
    if bad.is_empty() {
        return Ok(Brought::Failed);
    }
    lose(found, &bad);
    Ok(Brought::Lost)
}

fn lose(found: &mut Found, bad: &[Bad]) {
    for Bad { rank, images } in bad {
        if *images {
            found.lose(*rank, What::Images);
        } else {
            found.lose(*rank, What::Parities);
            found.lose(*rank, What::Copy);
        }
    }
}

/// Who reads for `client` what lies on a host: itself, if it is there.
fn server<C: Comm>(team: &Team<C>, host: &str, rank: u32, client: u32) -> u32 {
    if team.host_of(client) == host {
        return client;
    }
    let locals: Vec<u32> = team.locals(host).collect();
    locals.get(rank as usize % locals.len().max(1)).copied().unwrap_or(client)
}

/// Compares the checksums of all files that are used: each where it lies.
fn check<C: Comm>(
    team: &Team<C>,
    cache: &Cache,
    found: &Found,
    choice: &Restart,
) -> Result<Vec<Bad>, Problem> {
    let mut used = BTreeSet::new();
    for (rank, source) in (0..).zip(&choice.sources) {
        match source {
            Source::Home => drop(used.insert(rank)),
            Source::Rebuilt { from, .. } => used.extend(from),
            Source::Copy(_) | Source::Shared => {}
        }
    }
    let mut bad = Vec::new();
    for rank in used {
        let Some(host) = found.place(rank, What::Images, team.host_of(rank)) else { continue };
        let reads = server(team, host, rank, rank);
        if reads == team.rank() {
            if let Err(error) = cache.check(&found.kept, rank) {
                let name = &found.kept.dataset.name;
                team.say_own(format!("{name}: files of rank {rank} in the cache: {error}"));
                bad.push(Bad { rank, images: true });
            }
        }
    }
    Ok(team.gather(&bad)?.concat())
}

/// An entry for each rank whose files are not on its host. `None`: something is nowhere.
fn entries<C: Comm>(team: &Team<C>, found: &Found, choice: &Restart) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    for (client, source) in (0..).zip(&choice.sources) {
        let near = team.host_of(client);
        let mut servers = BTreeMap::new();
        let mut wants = |what, rank| {
            let host = found.place(rank, what, near)?;
            servers.insert((what, rank), server(team, host, rank, client));
            Some(host == near)
        };
        match source {
            Source::Home if wants(What::Images, client)? => continue,
            Source::Home => {}
            Source::Copy(keeper) => {
                let homes = &found.kept.snapshot.homes;
                let keeper = homes.iter().position(|home| home.host == *keeper)?;
                wants(What::Copy, u32::try_from(keeper).ok()?)?;
            }
            Source::Rebuilt { from, .. } => {
                for rank in from {
                    wants(What::Images, *rank)?;
                    wants(What::Parities, *rank)?;
                }
            }
            Source::Shared => return None,
        }
        entries.push(Entry { client, servers, source: source.clone() });
    }
    Some(entries)
}

/// What is done for each rank whose files are brought, a sentence each.
pub(crate) fn sentences(kept: &Kept, choice: &Restart, hosts: &[String]) -> Vec<String> {
    let mut said = Vec::new();
    for ((rank, source), host) in (0..).zip(&choice.sources).zip(hosts) {
        let how = match source {
            Source::Home if kept.name(rank) == format!("rank {rank} of {host}") => continue,
            Source::Home => format!("moved to {host}"),
            Source::Copy(keeper) => format!("from the copy that {keeper} has kept"),
            Source::Rebuilt { set, parities, from } => {
                let names: Vec<&str> = from.iter().map(|rank| kept.name(*rank)).collect();
                let level = fermata_levels::Level::of_parities(*parities);
                format!("rebuilt from {level} set {set} ({})", names.join(", "))
            }
            Source::Shared => continue,
        };
        said.push(format!("{}: {}: {how}", kept.dataset.name, kept.name(rank)));
    }
    said
}

/// A rank that gets its files.
struct Fetching<'a, C> {
    client: Client<'a, C>,
    entry: &'a Entry,
    kept: &'a Kept,
    cache: &'a Cache,
}

type Fetched<T = ()> = Result<T, Option<Bad>>;

impl<C: Comm> Fetching<'_, C> {
    /// The outer error is the MPI's.
    fn fetch(&mut self) -> Result<Fetched<Files>, Problem> {
        let (id, me) = (self.kept.dataset.id, self.entry.client);
        let place = self.cache.files(id, me);
        let new = place.with_extension("new");
        let Some((&(what, rank), &server)) = self.entry.servers.first_key_value() else {
            return Ok(Err(None));
        };
        let bad = Some(Bad { rank, images: what == What::Images });
        let Some(record) = self.client.record(server, rank)? else { return Ok(Err(bad)) };
        let Some(files) = record.files_of(me).cloned() else { return Ok(Err(bad)) };
        let made = remove_all(&new)
            .map_err(Problem::file("remove", &new))
            .and_then(|()| self.cache.make_rank(id, me))
            .and_then(|()| fs::create_dir(&new).map_err(Problem::file("make", &new)))
            .and_then(|()| Image::create(&new, &files).map_err(Problem::file("write", &new)));
        let image = match made {
            Ok(image) => image,
            Err(problem) => return Ok(Err(self.own(&problem))),
        };
        let fetched = match &self.entry.source {
            Source::Rebuilt { set, from, .. } => {
                let members = self.kept.snapshot.sets.get(*set).cloned().unwrap_or_default();
                let lost = (0..members.len()).filter(|at| !from.contains(&members[*at])).collect();
                let longest = record.longest;
                let Some(layout) = layout(self.kept, me, longest) else { return Ok(Err(bad)) };
                let mut asking = Asking { fetching: self, members: &members, image: &image };
                match rebuild(&layout, &record.sums, &lost, &mut asking) {
                    Ok(()) => Ok(()),
                    Err(WorkError::Members(Stop::Comm(problem))) => return Err(problem),
                    Err(WorkError::Members(Stop::Bad(bad))) => Err(bad),
                    Err(WorkError::Changed(shard)) => Err(members
                        .get(shard.member)
                        .map(|rank| Bad { rank: *rank, images: shard.part == Part::Image })),
                    Err(other) => Err(self.own(&Problem::Wrong(other.to_string()))),
                }
            }
            _ => self.copy(server, what, rank, &files, &image)?,
        };
        drop(image);
        Ok(fetched.and_then(|()| self.put(&new, &place, &files, bad)).map(|()| files))
    }

    fn own(&self, problem: &Problem) -> Option<Bad> {
        self.client.team.say_own(problem.to_string());
        None
    }

    fn copy(
        &mut self,
        server: u32,
        what: What,
        rank: u32,
        files: &Files,
        image: &Image,
    ) -> Result<Fetched, Problem> {
        let mut at = 0;
        let mut bytes = vec![0; PIECE];
        while at < files.bytes() {
            let length = usize::try_from(files.bytes() - at).unwrap_or(PIECE).min(PIECE);
            let piece = &mut bytes[..length];
            if !self.client.read(server, what, rank, at, piece)? {
                return Ok(Err(Some(Bad { rank, images: what == What::Images })));
            }
            if let Err(error) = image.write_at(piece, at) {
                return Ok(Err(self.own(&Problem::Wrong(format!("cannot write: {error}")))));
            }
            at += length as u64;
        }
        Ok(Ok(()))
    }

    /// What has been brought becomes the files of this rank, if it is what it was.
    fn put(&self, new: &Path, place: &Path, files: &Files, bad: Option<Bad>) -> Fetched {
        if let Err(error) = image::check(new, files) {
            self.client.team.say_own(format!("{}: {error}", self.kept.dataset.name));
            return Err(bad);
        }
        let put = remove_all(place).and_then(|()| fs::rename(new, place));
        put.map_err(|error| self.own(&Problem::file("rename", new)(error)))
    }
}

/// Why a rebuilding stops.
#[derive(Debug, thiserror::Error)]
enum Stop {
    #[error(transparent)]
    Comm(Problem),
    #[error("what a member has cannot be read")]
    Bad(Option<Bad>),
}

/// The members of a set: those that are whole are asked, and of those that are lost the own one is
/// written.
struct Asking<'a, 'b, C> {
    fetching: &'a mut Fetching<'b, C>,
    members: &'a [u32],
    image: &'a Image,
}

impl<C: Comm> Members for Asking<'_, '_, C> {
    type Error = Stop;

    fn read(
        &mut self,
        member: usize,
        part: Part,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), Stop> {
        let rank = self.members.get(member).copied().unwrap_or(u32::MAX);
        let what = if part == Part::Image { What::Images } else { What::Parities };
        let bad = || Stop::Bad(Some(Bad { rank, images: part == Part::Image }));
        let server = *self.fetching.entry.servers.get(&(what, rank)).ok_or_else(bad)?;
        let read = self.fetching.client.read(server, what, rank, offset, bytes);
        if read.map_err(Stop::Comm)? { Ok(()) } else { Err(bad()) }
    }

    fn write(&mut self, member: usize, part: Part, offset: u64, bytes: &[u8]) -> Result<(), Stop> {
        let is_mine = self.members.get(member) == Some(&self.fetching.entry.client);
        if !is_mine || part != Part::Image {
            return Ok(());
        }
        self.image.write_at(bytes, offset).map_err(|error| {
            Stop::Bad(self.fetching.own(&Problem::Wrong(format!("cannot write: {error}"))))
        })
    }
}
