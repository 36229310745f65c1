// SPDX-License-Identifier: Apache-2.0
//! What the caches of all hosts have.

use crate::cache::{Cache, Part};
use crate::comm::Comm;
use crate::problem::Problem;
use crate::team::Team;
use fermata_levels::{Holdings, Id, Item};
use fermata_scr::Kept;
use std::collections::BTreeMap;

/// What of a rank there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// Its files.
    Images,
    /// Its parities.
    Parities,
    /// The copy that it keeps.
    Copy,
}

/// A part, and the host that has it.
#[derive(Clone, Debug)]
struct Placed {
    host: String,
    part: Part,
}

/// A dataset in one arrangement, and all parts of it.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub kept: Kept,
    /// In the list of caches.
    pub store: usize,
    parts: Vec<Placed>,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Survey {
    pub found: Vec<Found>,
}

impl Placed {
    fn has(&self, what: What) -> bool {
        match what {
            What::Images => self.part.images,
            What::Parities => self.part.parities,
            What::Copy => self.part.copy,
        }
    }
}

impl Found {
    /// A host that has it, this one if it does.
    pub fn place(&self, rank: u32, what: What, near: &str) -> Option<&str> {
        let all = self.parts.iter().filter(|placed| placed.part.rank == rank && placed.has(what));
        all.max_by_key(|placed| placed.host == near).map(|placed| placed.host.as_str())
    }

    /// It is not what it was, wherever it lies.
    pub fn lose(&mut self, rank: u32, what: What) {
        for Placed { part, .. } in self.parts.iter_mut().filter(|placed| placed.part.rank == rank) {
            match what {
                What::Images => part.images = false,
                What::Parities => part.parities = false,
                What::Copy => part.copy = false,
            }
        }
    }
}

impl Survey {
    /// Collective: each host says what it has.
    pub fn of<C: Comm>(team: &Team<C>, caches: &[Cache]) -> Result<Self, Problem> {
        let stands = team.stands_for_host();
        let mine: Vec<(usize, Kept, Vec<Part>)> = (0..)
            .zip(caches)
            .filter(|_| stands)
            .flat_map(|(store, cache)| {
                let of_cache = cache.all().into_iter();
                of_cache.map(move |kept| {
                    let parts = cache.parts(&kept);
                    (store, kept, parts)
                })
            })
            .collect();
        let said: Vec<(usize, Id, Vec<Part>)> =
            mine.iter().map(|(store, kept, parts)| (*store, kept.id(), parts.clone())).collect();
        let said = team.gather(&said)?;
        let mut parts: BTreeMap<(Id, usize), (u32, Vec<Placed>)> = BTreeMap::new();
        for (rank, of_host) in (0..).zip(said) {
            let host = team.host_of(rank);
            for (store, id, found) in of_host {
                let placed = found.into_iter().map(|part| Placed { host: host.to_owned(), part });
                parts.entry((id, store)).or_insert((rank, Vec::new())).1.extend(placed);
            }
        }
        let mut found = Vec::new();
        for ((id, store), (knows, parts)) in parts {
            // One of those who know a dataset tells the others.
            let own = mine.iter().find(|(at, kept, _)| (*at, kept.id()) == (store, id));
            let told = team.tell(knows, &own.map(|(_, kept, _)| kept.clone()))?;
            let kept: Option<Kept> = told;
            found.extend(kept.map(|kept| Found { kept, store, parts }));
        }
        Ok(Self { found })
    }

    /// What hosts have, as `fermata-levels` wants it: by the names of ranks.
    pub fn holdings(&self) -> Holdings {
        let mut holdings = Holdings::new();
        for Found { kept, parts, .. } in &self.found {
            for Placed { part, .. } in parts {
                let name = kept.name(part.rank).to_owned();
                let of_rank = holdings.entry(name).or_default();
                let copied = kept.copy_on(part.rank).filter(|_| part.copy).map(Item::Copy);
                let parities = part.parities.then_some(Item::Parities(kept.parities));
                let images = part.images.then_some(Item::Images);
                let items = [images, parities, copied].into_iter().flatten();
                of_rank.extend(items.map(|item| (kept.id(), item)));
            }
        }
        holdings
    }

    /// By what names it.
    pub fn get(&mut self, id: Id) -> Option<&mut Found> {
        self.found.iter_mut().find(|found| found.kept.id() == id)
    }

    /// The greatest number of a dataset; 0: there is none.
    pub fn last(&self) -> u32 {
        self.found.iter().map(|found| found.kept.dataset.id).max().unwrap_or(0)
    }
}
