// SPDX-License-Identifier: Apache-2.0
//! Which snapshot a restart takes, and each image from where, by what living hosts still have.

use crate::level::{Level, PARITIES_MAX};
use crate::snapshot::{Holdings, Id, Item, Snapshot};
use std::collections::BTreeSet;
use std::fmt;

/// Where the images of one home come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// From where they were written.
    Home,
    /// From the host of this name, which keeps a copy.
    Copy(String),
    /// Rebuilt from what members of its set have.
    Rebuilt {
        /// The set's number.
        set: usize,
        /// Its parities.
        parities: u32,
        /// The members that are whole, by their numbers as homes.
        from: Vec<u32>,
    },
    /// From the job's directory.
    Shared,
}

/// A snapshot that can be restarted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restart {
    /// Which.
    pub snapshot: Snapshot,
    /// Where the images of each of its homes come from.
    pub sources: Vec<Source>,
    /// Newer ones, which cannot be.
    pub lost: Vec<Lost>,
}

/// Why the images of a home cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Only its home had them.
    Only,
    /// Nobody has a copy.
    NoCopy {
        /// The host that kept one.
        partner: String,
    },
    /// Too many of its set are lost.
    Set {
        /// The set's number.
        set: usize,
        /// Its parities.
        parities: u32,
        /// The hosts whose images or parities are lost.
        lost: Vec<String>,
    },
}

/// A snapshot that cannot be restarted, by the first home whose images cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Which snapshot.
    pub id: Id,
    /// Whose images are lost.
    pub host: String,
    /// Each way that has been tried.
    pub reasons: Vec<Reason>,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Only => f.write_str("no other host has kept them"),
            Self::NoCopy { partner } => write!(f, "no copy is on {partner}"),
            Self::Set { set, parities, lost } => {
                let level = Level::of_parities(*parities);
                write!(f, "{level} set {set} rebuilds {parities} and has lost {}", lost.join(", "))
            }
        }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "checkpoint {}: the images of {} are lost", self.id.epoch, self.host)?;
        self.reasons.iter().try_for_each(|reason| write!(f, "; {reason}"))
    }
}

/// There is no snapshot that can be restarted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no checkpoint is whole on the hosts that live{}",
    .0.iter().map(|lost| format!("\n  {lost}")).collect::<String>()
)]
pub struct Impossible(pub Vec<Lost>);

impl Restart {
    /// What is done for each home whose images are not where they were written, a sentence each.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        self.sentences_of(|_| true)
    }

    /// The same of those homes that have wanted ranks.
    pub fn sentences_of(&self, is_wanted: impl Fn(u32) -> bool) -> Vec<String> {
        let all = self.snapshot.homes.iter().zip(&self.sources);
        let wanted = all.filter(|(home, _)| home.ranks.iter().any(|rank| is_wanted(*rank)));
        let said = wanted.filter_map(|(home, source)| {
            let how = self.how(source)?;
            let ranks: Vec<String> = home.ranks.iter().map(u32::to_string).collect();
            let word = if ranks.len() == 1 { "rank" } else { "ranks" };
            Some(format!("{word} {} of {}: {how}", ranks.join(", "), home.host))
        });
        said.collect()
    }

    fn how(&self, source: &Source) -> Option<String> {
        match source {
            Source::Home => None,
            Source::Copy(host) => Some(format!("from the copy on {host}")),
            Source::Shared => Some("from the job's directory".into()),
            Source::Rebuilt { set, parities, from } => {
                let level = Level::of_parities(*parities);
                let names: Vec<&str> = from.iter().map(|home| self.host(*home)).collect();
                Some(format!("rebuilt from {level} set {set} ({})", names.join(", ")))
            }
        }
    }

    fn host(&self, home: u32) -> &str {
        self.snapshot.homes.get(home as usize).map_or("", |home| home.host.as_str())
    }
}

/// The newest snapshot that can be restarted. `shared`: those that are whole in the job's
/// directory.
///
/// # Errors
/// None can.
pub fn choose(
    snapshots: &[Snapshot],
    holdings: &Holdings,
    shared: &BTreeSet<Id>,
) -> Result<Restart, Impossible> {
    let mut newest: Vec<&Snapshot> = snapshots.iter().filter(|s| s.is_sound()).collect();
    newest.sort_by_key(|snapshot| std::cmp::Reverse(snapshot.id));
    let mut lost = Vec::new();
    for snapshot in newest {
        let known = Known { snapshot, holdings };
        match known.sources(shared.contains(&snapshot.id)) {
            Ok(sources) => return Ok(Restart { snapshot: snapshot.clone(), sources, lost }),
            Err(why) => lost.push(why),
        }
    }
    Err(Impossible(lost))
}

struct Known<'a> {
    snapshot: &'a Snapshot,
    holdings: &'a Holdings,
}

impl Known<'_> {
    fn sources(&self, is_shared: bool) -> Result<Vec<Source>, Lost> {
        let homes = (0u32..).zip(&self.snapshot.homes);
        let of_home = homes.map(|(number, home)| match self.source(number) {
            Ok(source) => Ok(source),
            Err(_) if is_shared => Ok(Source::Shared),
            Err(reasons) => Err(Lost { id: self.snapshot.id, host: home.host.clone(), reasons }),
        });
        of_home.collect()
    }

    fn source(&self, home: u32) -> Result<Source, Vec<Reason>> {
        let has_none = self.snapshot.homes.get(home as usize).is_none_or(|h| h.ranks.is_empty());
        if has_none || self.has(home, Item::Images) {
            return Ok(Source::Home);
        }
        if let Some(host) = self.copy_of(home) {
            return Ok(Source::Copy(host));
        }
        let mut reasons = Vec::new();
        if let Some(partner) = self.snapshot.partners.get(home as usize) {
            reasons.push(Reason::NoCopy { partner: self.name(*partner) });
        }
        for parities in 1..=PARITIES_MAX {
            match self.rebuilt(home, parities) {
                Some(Ok(source)) => return Ok(source),
                Some(Err(reason)) => reasons.push(reason),
                None => {}
            }
        }
        if reasons.is_empty() {
            reasons.push(Reason::Only);
        }
        Err(reasons)
    }

    /// By so many parities; `None`: nobody has any.
    fn rebuilt(&self, home: u32, parities: u32) -> Option<Result<Source, Reason>> {
        let (set, members) = self.snapshot.set_of(home)?;
        let has_parities = |member: &u32| self.has(*member, Item::Parities(parities));
        if !members.iter().any(has_parities) {
            return None;
        }
        let is_whole = |member: &&u32| self.has(**member, Item::Images) && has_parities(member);
        let from: Vec<u32> = members.iter().filter(is_whole).copied().collect();
        if members.len() - from.len() <= parities as usize {
            return Some(Ok(Source::Rebuilt { set, parities, from }));
        }
        let lost = members.iter().filter(|member| !is_whole(member));
        let lost = lost.map(|member| self.name(*member)).collect();
        Some(Err(Reason::Set { set, parities, lost }))
    }

    fn name(&self, home: u32) -> String {
        self.snapshot.homes.get(home as usize).map_or_else(String::new, |home| home.host.clone())
    }

    fn has(&self, home: u32, item: Item) -> bool {
        let Some(home) = self.snapshot.homes.get(home as usize) else { return false };
        let holdings = self.holdings.get(&home.host);
        holdings.is_some_and(|holdings| holdings.contains(&(self.snapshot.id, item)))
    }

    fn copy_of(&self, home: u32) -> Option<String> {
        let copy = (self.snapshot.id, Item::Copy(home));
        let mut hosts = self.holdings.iter();
        hosts.find(|(_, holdings)| holdings.contains(&copy)).map(|(host, _)| host.clone())
    }
}

#[cfg(test)]
#[path = "restart_tests.rs"]
mod tests;
