// SPDX-License-Identifier: Apache-2.0
//! Where a run that has lost hosts is begun again: on those that are left, with a spare host in the
//! place of each that is lost, as long as there are any. A spare that says how many ranks it takes
//! takes so many, else as many as the one before it.

use std::collections::BTreeSet;

/// A host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its name.
    pub host: String,
    /// How many ranks it takes; `None`: a share of what the others leave.
    pub ranks: Option<u32>,
}

/// The names of one host may differ in the domain.
#[must_use]
pub fn is_same_host(one: &str, other: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    short(one) == short(other)
}

/// The hosts for the next run, in their order. `ranks`: of the job; if those that are left have no
/// room for so many they share them all, whatever each was to take.
#[must_use]
pub fn places(
    hosts: &[Place],
    spares: &[Place],
    lost: &BTreeSet<String>,
    ranks: u32,
) -> Vec<Place> {
    let is_lost = |place: &&Place| lost.iter().any(|name| is_same_host(name, &place.host));
    let mut spares = spares.iter().filter(|spare| {
        !is_lost(spare) && !hosts.iter().any(|place| is_same_host(&place.host, &spare.host))
    });
    let mut left = Vec::new();
    for place in hosts {
        if !is_lost(&place) {
            left.push(place.clone());
        } else if let Some(spare) = spares.next() {
            left.push(Place { host: spare.host.clone(), ranks: spare.ranks.or(place.ranks) });
        }
    }
    let room = left.iter().try_fold(0u32, |sum, place| Some(sum.saturating_add(place.ranks?)));
    if room.is_some_and(|room| room < ranks) {
        for place in &mut left {
            place.ranks = None;
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(words: &[&str]) -> Vec<Place> {
        let place = |word: &&str| match word.split_once(':') {
            Some((host, ranks)) => Place { host: host.into(), ranks: ranks.parse().ok() },
            None => Place { host: (*word).into(), ranks: None },
        };
        words.iter().map(place).collect()
    }

    fn after(hosts: &[&str], spares: &[&str], lost: &[&str], ranks: u32) -> Vec<Place> {
        let lost = lost.iter().map(|name| (*name).to_owned()).collect();
        places(&list(hosts), &list(spares), &lost, ranks)
    }

    #[test]
    fn a_spare_takes_the_place_of_a_lost_host() {
        let hosts = ["a:2", "b:2", "c:2"];
        assert_eq!(after(&hosts, &["s", "t"], &[], 6), list(&hosts));
        assert_eq!(after(&hosts, &["s", "t"], &["b"], 6), list(&["a:2", "s:2", "c:2"]));
        assert_eq!(after(&hosts, &["s", "t:4"], &["b", "c"], 6), list(&["a:2", "s:2", "t:4"]));
        assert_eq!(after(&hosts, &["s", "t"], &["b", "s"], 6), list(&["a:2", "t:2", "c:2"]));
    }

    #[test]
    fn without_a_spare_those_that_are_left_share() {
        assert_eq!(after(&["a:2", "b:2"], &[], &["b.cluster"], 4), list(&["a"]));
        assert_eq!(after(&["a:4", "b:4"], &[], &["b"], 4), list(&["a:4"]), "there is room");
        assert_eq!(after(&["a", "b"], &["b"], &["b"], 4), list(&["a"]), "no spare of itself");
        assert_eq!(after(&["a:2", "b:2"], &["s:1"], &["b"], 4), list(&["a", "s"]));
        assert!(after(&["a"], &[], &["a"], 1).is_empty());
    }

    proptest! {
        #[test]
        fn no_host_that_is_lost_or_taken_twice_is_chosen(
            hosts in 1usize..5,
            spares in 0usize..4,
            lost in prop::collection::btree_set(0usize..9, 0..6),
        ) {
            let name = |number: usize| format!("h{number}");
            let place = |number| Place { host: name(number), ranks: Some(2) };
            let hosts: Vec<Place> = (0..hosts).map(place).collect();
            let spares: Vec<Place> = (5..5 + spares).map(place).collect();
            let lost: BTreeSet<String> = lost.into_iter().map(name).collect();
            let chosen = places(&hosts, &spares, &lost, 2);
            let names: BTreeSet<&String> = chosen.iter().map(|place| &place.host).collect();
            prop_assert_eq!(names.len(), chosen.len());
            prop_assert!(chosen.len() <= hosts.len());
            prop_assert!(chosen.iter().all(|place| !lost.contains(&place.host)));
        }
    }
}
