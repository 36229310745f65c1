// SPDX-License-Identifier: Apache-2.0
//! What an output is: its files, and who keeps what of them.

use fermata_levels::{Id, Snapshot};
use fermata_parity::Sums;
use serde::{Deserialize, Serialize};

/// What a dataset is for: bits of `SCR_Start_output`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Flags(u32);

impl Flags {
    /// It can be restarted.
    pub const CHECKPOINT: Self = Self(1);
    /// It has to reach the prefix directory.
    pub const OUTPUT: Self = Self(2);

    /// From what a program passes; `None`: there is no such flag.
    #[must_use]
    pub fn of(bits: i32) -> Option<Self> {
        u32::try_from(bits).ok().filter(|bits| *bits < 4).map(Self)
    }

    /// Both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it can be restarted.
    #[must_use]
    pub fn is_checkpoint(self) -> bool {
        self.0 & Self::CHECKPOINT.0 != 0
    }

    /// Whether it has to reach the prefix directory.
    #[must_use]
    pub fn is_output(self) -> bool {
        self.0 & Self::OUTPUT.0 != 0
    }
}

/// A dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dataset {
    /// Its number; a later one has a greater one.
    pub id: u32,
    /// What the program calls it.
    pub name: String,
    /// What it is for.
    pub flags: Flags,
    /// How many checkpoints there were up to it.
    pub checkpoint: u32,
    /// When it was taken, milliseconds.
    pub taken_ms: u64,
    /// Ranks of the job.
    pub ranks: u32,
}

/// A file of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Its path below the prefix directory.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Its CRC32C; none: it was written to the prefix directory by the program.
    pub crc: Option<u32>,
}

impl File {
    /// Its name in the cache: the last part of its path.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// The files of a rank, in the order in which it has named them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    /// Whose.
    pub rank: u32,
    /// Which.
    pub files: Vec<File>,
}

impl Files {
    /// All of them.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Whether each stays in its place: what is read from a disk may be anything.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let stays = |file: &File| {
            let parts = || file.path.split('/');
            parts().all(|part| !part.is_empty() && part != "." && part != "..")
        };
        let mut names: Vec<&str> = self.files.iter().map(File::name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        self.files.iter().all(stays) && names.len() == count
    }

    /// The file that a program asks for by its path, or by its name alone.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<&File> {
        let by_path = self.files.iter().find(|file| file.path == path);
        let name = path.rsplit('/').next().unwrap_or(path);
        by_path.or_else(|| self.files.iter().find(|file| file.name() == name))
    }
}

/// A dataset that hosts keep, in one arrangement of ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// What it is.
    pub dataset: Dataset,
    /// Sets and partners; each rank is a home, and the time is that of the arrangement.
    pub snapshot: Snapshot,
    /// Parities of its sets.
    pub parities: u32,
}

impl Kept {
    /// What names it on disks.
    #[must_use]
    pub fn id(&self) -> Id {
        self.snapshot.id
    }

    /// When it was arranged.
    #[must_use]
    pub fn made_ms(&self) -> u64 {
        self.snapshot.id.taken_ms
    }

    /// The name of a rank in it.
    #[must_use]
    pub fn name(&self, rank: u32) -> &str {
        self.snapshot.homes.get(rank as usize).map_or("", |home| home.host.as_str())
    }

    /// Whose copy a rank keeps.
    #[must_use]
    pub fn copy_on(&self, rank: u32) -> Option<u32> {
        (0..).zip(&self.snapshot.partners).find(|(_, keeper)| **keeper == rank).map(|(of, _)| of)
    }

    /// Whether numbers are those of its ranks: what is read from a disk may be anything.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let homes = &self.snapshot.homes;
        self.snapshot.is_sound()
            && homes.len() == self.dataset.ranks as usize
            && self.snapshot.id.epoch == self.dataset.id
            && (0..).zip(homes).all(|(rank, home)| home.ranks == [rank])
            && self.snapshot.sets.iter().all(|set| set.len() > self.parities as usize)
    }
}

/// What a rank knows of a dataset beside its own files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its own files.
    pub own: Files,
    /// Those of the members of its set, it among them, in the set's order; else of whom it keeps a
    /// copy.
    pub others: Vec<Files>,
    /// Bytes of all of the set's longest member: what parities are over.
    pub longest: u64,
    /// Checksums of the set.
    pub sums: Sums,
}

impl Record {
    /// The files of a rank, if they are known here.
    #[must_use]
    pub fn files_of(&self, rank: u32) -> Option<&Files> {
        std::iter::once(&self.own).chain(&self.others).find(|files| files.rank == rank)
    }

    /// Whether no list leads elsewhere.
    #[must_use]
    pub fn is_sound(&self, rank: u32) -> bool {
        self.own.rank == rank && self.own.is_sound() && self.others.iter().all(Files::is_sound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(paths: &[&str]) -> Files {
        let file = |path: &&str| File { path: (*path).into(), bytes: 1, crc: None };
        Files { rank: 0, files: paths.iter().map(file).collect() }
    }

    #[test]
    fn a_list_does_not_lead_elsewhere() {
        assert!(files(&["a/b", "c"]).is_sound());
        for wrong in ["../a", "a/../b", "/a", "a//b", "", "a/."] {
            assert!(!files(&[wrong]).is_sound(), "{wrong}");
        }
        assert!(!files(&["x/a", "y/a"]).is_sound(), "two of one name");
    }

    #[test]
    fn a_file_is_found_by_path_or_by_name() {
        let list = files(&["ckpt.1/rank_0", "ckpt.1/mesh"]);
        assert_eq!(list.find("ckpt.1/mesh").unwrap().name(), "mesh");
        assert_eq!(list.find("rank_0").unwrap().path, "ckpt.1/rank_0");
        assert_eq!(list.find("rank_1"), None);
    }

    #[test]
    fn flags_are_two_bits() {
        let both = Flags::of(3).unwrap();
        assert_eq!(both, Flags::CHECKPOINT.with(Flags::OUTPUT));
        assert!(both.is_checkpoint() && both.is_output());
        assert!(!Flags::of(0).unwrap().is_checkpoint());
        assert_eq!((Flags::of(4), Flags::of(-1)), (None, None));
    }
}
