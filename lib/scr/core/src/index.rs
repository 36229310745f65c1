// SPDX-License-Identifier: Apache-2.0
//! What the prefix directory has: a table, and which of it a run begins with.

use crate::dataset::{Dataset, Flags};
use serde::{Deserialize, Serialize};

/// A dataset that lies there whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What it is.
    pub dataset: Dataset,
    /// It could not be read, or the program has refused it.
    #[serde(default)]
    pub failed: bool,
}

/// All of them, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// The checkpoint that a run begins with; none: the newest.
    #[serde(default)]
    pub current: Option<String>,
    entries: Vec<Entry>,
}

impl Index {
    /// Takes a dataset that has been copied whole. One of the same number or name is forgotten. A
    /// checkpoint is the current one from now on.
    pub fn add(&mut self, dataset: Dataset) {
        self.entries
            .retain(|entry| entry.dataset.id != dataset.id && entry.dataset.name != dataset.name);
        if dataset.flags.is_checkpoint() {
            self.current = Some(dataset.name.clone());
        }
        self.entries.push(Entry { dataset, failed: false });
        self.entries.sort_by_key(|entry| entry.dataset.id);
    }

    /// By name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.dataset.name == name)
    }

    /// By number.
    #[must_use]
    pub fn has(&self, id: u32) -> bool {
        self.entries.iter().any(|entry| entry.dataset.id == id)
    }

    /// All of them.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The greatest number; 0: there is none.
    #[must_use]
    pub fn last(&self) -> u32 {
        self.entries.last().map_or(0, |entry| entry.dataset.id)
    }

    /// Forgets a dataset. What was current is then the newest checkpoint before it.
    pub fn drop(&mut self, id: u32) -> Option<Dataset> {
        let at = self.entries.iter().position(|entry| entry.dataset.id == id)?;
        let dataset = self.entries.remove(at).dataset;
        if self.current.as_ref() == Some(&dataset.name) {
            let before = self.entries[..at].iter().rev();
            self.current = before
                .map(|entry| &entry.dataset)
                .find(|dataset| dataset.flags.is_checkpoint())
                .map(|dataset| dataset.name.clone());
        }
        Some(dataset)
    }

    /// A dataset that is not to be tried again.
    pub fn fail(&mut self, id: u32) {
        for entry in &mut self.entries {
            entry.failed |= entry.dataset.id == id;
        }
    }

    /// Whether there is a checkpoint of this name, which is the current one from now on.
    pub fn set_current(&mut self, name: &str) -> bool {
        let is_there = self.get(name).is_some_and(|entry| entry.dataset.flags.is_checkpoint());
        if is_there {
            self.current = Some(name.to_owned());
            self.entries
                .iter_mut()
                .filter(|e| e.dataset.name == name)
                .for_each(|e| e.failed = false);
        }
        is_there
    }

    /// Checkpoints that a job of so many ranks can begin with, newest first; none is newer than the
    /// current one.
    #[must_use]
    pub fn candidates(&self, ranks: u32) -> Vec<&Dataset> {
        let current = self.current.as_ref().and_then(|name| self.get(name));
        let limit = current.map_or(u32::MAX, |entry| entry.dataset.id);
        let fits = |entry: &&Entry| {
            let dataset = &entry.dataset;
            let is_checkpoint = dataset.flags.is_checkpoint();
            !entry.failed && is_checkpoint && dataset.id <= limit && dataset.ranks == ranks
        };
        self.entries.iter().rev().filter(fits).map(|entry| &entry.dataset).collect()
    }

    /// Checkpoints beyond the newest `keep`, which may go; 0: all are kept. Outputs stay.
    #[must_use]
    pub fn beyond(&self, keep: usize) -> Vec<u32> {
        if keep == 0 {
            return Vec::new();
        }
        let plain = self.entries.iter().rev().map(|entry| &entry.dataset);
        let plain = plain.filter(|dataset| dataset.flags == Flags::CHECKPOINT);
        plain.skip(keep).map(|dataset| dataset.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dataset(id: u32, flags: Flags) -> Dataset {
        Dataset {
            id,
            name: format!("set.{id}"),
            flags,
            checkpoint: id,
            taken_ms: u64::from(id),
            ranks: 4,
        }
    }

    fn index(ids: &[u32]) -> Index {
        let mut index = Index::default();
        ids.iter().for_each(|id| index.add(dataset(*id, Flags::CHECKPOINT)));
        index
    }

    fn ids(index: &Index) -> Vec<u32> {
        index.candidates(4).iter().map(|dataset| dataset.id).collect()
    }

    #[test]
    fn the_newest_comes_first() {
        let mut index = index(&[1, 3, 2]);
        assert_eq!(ids(&index), [2, 1], "3 was followed by 2, which is current");
        index.add(dataset(4, Flags::CHECKPOINT));
        index.add(dataset(5, Flags::OUTPUT));
        assert_eq!(ids(&index), [4, 3, 2, 1]);
        assert_eq!(index.candidates(5), Vec::<&Dataset>::new());
        index.fail(4);
        assert_eq!(ids(&index), [3, 2, 1]);
        assert_eq!(index.last(), 5);
    }

    #[test]
    fn a_run_begins_with_the_current_one() {
        let mut index = index(&[1, 2, 3]);
        assert!(index.set_current("set.2") && !index.set_current("set.9"));
        assert_eq!(ids(&index), [2, 1]);
        assert_eq!(index.drop(2).unwrap().name, "set.2");
        assert_eq!((index.current.as_deref(), ids(&index)), (Some("set.1"), vec![1]));
        index.drop(1);
        assert_eq!((index.current.as_deref(), ids(&index)), (None, vec![3]));
        assert_eq!(index.drop(1), None);
    }

    #[test]
    fn a_window_keeps_outputs() {
        let mut index = index(&[1, 2, 4, 5]);
        index.add(dataset(3, Flags::CHECKPOINT.with(Flags::OUTPUT)));
        assert_eq!(index.beyond(2), [2, 1]);
        assert_eq!(index.beyond(0), Vec::<u32>::new());
    }

    #[test]
    fn one_name_is_one_dataset() {
        let mut index = index(&[1, 2]);
        let again = Dataset { name: "set.1".into(), ..dataset(3, Flags::CHECKPOINT) };
        index.add(again);
        assert_eq!(ids(&index), [3, 2]);
    }
}
