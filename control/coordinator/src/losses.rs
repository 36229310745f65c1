// SPDX-License-Identifier: Apache-2.0
//! Hosts that are lost while they have ranks. One whose daemon comes back within its timeout is no
//! longer lost: the network has only been away for a while.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A host that is lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostHost {
    /// Its name.
    pub name: String,
    /// Nothing is heard of it any more. Else its daemon has closed the line, which takes ranks out
    /// of checkpoints but does not harm them.
    pub is_silent: bool,
}

/// By name, whether they are silent.
#[derive(Default)]
pub(crate) struct Losses(Mutex<BTreeMap<String, bool>>);

impl Losses {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, name: &str, is_silent: bool) {
        self.lock().insert(name.to_owned(), is_silent);
    }

    pub(crate) fn remove(&self, name: &str) {
        self.lock().remove(name);
    }

    /// A silent one, if there is any.
    pub(crate) fn worst(&self) -> Option<LostHost> {
        let lost = self.lock();
        let (name, is_silent) = lost.iter().max_by_key(|(_, is_silent)| **is_silent)?;
        Some(LostHost { name: name.clone(), is_silent: *is_silent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_host_counts_before_one_whose_daemon_has_gone_and_one_that_is_back_does_not() {
        let losses = Losses::default();
        assert_eq!(losses.worst(), None);
        losses.add("a", true);
        losses.add("b", false);
        assert_eq!(losses.worst(), Some(LostHost { name: "a".into(), is_silent: true }));
        losses.remove("a");
        assert_eq!(losses.worst(), Some(LostHost { name: "b".into(), is_silent: false }));
        losses.remove("b");
        assert_eq!(losses.worst(), None);
    }
}
