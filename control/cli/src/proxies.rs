// SPDX-License-Identifier: Apache-2.0
//! The daemons of hydra, by which MPICH's mpirun has its ranks on each host: its children, or those
//! of the remote shells that are. It takes one for alive as long as the line to it is open, and
//! ranks hold that open when they outlive it: so a job whose proxy has died runs on to
//! `MPI_Finalize`, and fails there or hangs.
//!
//! Invariant: while all ranks are there, none of them has been ended by its proxy's end.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// So long a proxy may be gone while all ranks seem to be there: a host that is lost with it is
/// known by then.
const GONE_MAX: Duration = Duration::from_secs(5);

/// What is known of an mpirun's proxies.
pub enum Proxies {
    /// Not all ranks have come up so far.
    Unknown {
        /// The children that mpirun has had.
        seen: BTreeSet<u32>,
    },
    /// These processes are they, or the remote shells before them.
    Known {
        /// Their pids.
        pids: BTreeSet<u32>,
        /// Since when one is gone and all ranks are there.
        gone: Option<Instant>,
    },
    /// There is not one for each host: some other launcher is in between.
    Others,
}

impl Default for Proxies {
    fn default() -> Self {
        Self::Unknown { seen: BTreeSet::new() }
    }
}

impl Proxies {
    /// Whether they are to be looked at as often as can be: one that dies when the ranks have just
    /// come up must have been seen before.
    pub fn are_unknown(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }

    /// Whether one has died while all its ranks live on. `children`: the living ones of mpirun;
    /// `hosts`: how many have ranks; 0: not all ranks are there, or one has come to its end.
    pub fn have_missed(&mut self, children: BTreeSet<u32>, hosts: usize, now: Instant) -> bool {
        match self {
            Self::Unknown { seen } => {
                seen.extend(&children);
                if hosts > 0 {
                    let seen = std::mem::take(seen);
                    let all = [children, seen].into_iter().find(|pids| pids.len() == hosts);
                    *self = all.map_or(Self::Others, |pids| Self::Known { pids, gone: None });
                }
                false
            }
            Self::Known { pids, gone } => {
                if hosts == 0 || pids.is_subset(&children) {
                    *gone = None;
                } else {
                    gone.get_or_insert(now);
                }
                gone.is_some_and(|since| now - since > GONE_MAX)
            }
            Self::Others => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER: Duration = Duration::from_millis(5001);

    fn pids(pids: &[u32]) -> BTreeSet<u32> {
        pids.iter().copied().collect()
    }

    /// Of two hosts, with ranks on both.
    fn known(now: Instant) -> Proxies {
        let mut proxies = Proxies::default();
        assert!(!proxies.have_missed(pids(&[7]), 0, now), "the second is being started");
        assert!(!proxies.have_missed(pids(&[7, 9]), 2, now));
        proxies
    }

    #[test]
    fn one_that_dies_while_all_ranks_are_there_is_missed() {
        let now = Instant::now();
        let mut proxies = known(now);
        assert!(!proxies.have_missed(pids(&[7]), 2, now));
        assert!(!proxies.have_missed(pids(&[7]), 2, now + GONE_MAX));
        assert!(proxies.have_missed(pids(&[7]), 2, now + LATER));
    }

    #[test]
    fn one_that_dies_before_all_ranks_are_seen_is_missed() {
        let now = Instant::now();
        let mut proxies = Proxies::default();
        assert!(!proxies.have_missed(pids(&[7, 9]), 0, now));
        assert!(!proxies.have_missed(pids(&[7]), 2, now), "the ranks have come up");
        assert!(!proxies.have_missed(pids(&[7]), 2, now));
        assert!(proxies.have_missed(pids(&[7]), 2, now + LATER));
    }

    #[test]
    fn one_that_ends_with_its_ranks_is_not() {
        let now = Instant::now();
        let mut proxies = known(now);
        assert!(!proxies.have_missed(pids(&[7]), 2, now));
        assert!(!proxies.have_missed(pids(&[7]), 0, now + GONE_MAX), "a rank has left");
        assert!(!proxies.have_missed(pids(&[7]), 0, now + 2 * LATER));
    }

    #[test]
    fn those_of_programs_that_ranks_have_started_may_come_and_go() {
        let now = Instant::now();
        let mut proxies = known(now);
        for (children, at) in [(&[7, 9, 11][..], now), (&[7, 9], now + LATER)] {
            assert!(!proxies.have_missed(pids(children), 2, at));
        }
    }

    #[test]
    fn where_there_is_not_one_for_each_host_nothing_is_known() {
        let now = Instant::now();
        let mut proxies = Proxies::default();
        assert!(!proxies.have_missed(pids(&[7]), 2, now), "srun, for example");
        assert!(!proxies.have_missed(pids(&[]), 2, now + LATER));
        assert!(!proxies.have_missed(pids(&[]), 2, now + 2 * LATER));
    }
}
