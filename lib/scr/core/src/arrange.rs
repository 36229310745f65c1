// SPDX-License-Identifier: Apache-2.0
//! Sets and partners of ranks. To `fermata-levels` each rank is a home, and what fails together, by
//! default the ranks of a host, is a group: a set has at most one rank of each group where that can
//! be, and partners are of different groups.

use crate::dataset::{Dataset, Kept};
use crate::descriptor::Scheme;
use fermata_levels::{Arrangement, ArrangementError, Chain, Home, Id, Level, Snapshot};
use std::collections::BTreeMap;

/// Where a rank is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its host.
    pub host: String,
    /// Its value of the group that fails together.
    pub group: String,
}

/// The most ranks of one group.
fn largest<'a>(groups: impl Iterator<Item = &'a String>) -> usize {
    let mut count: BTreeMap<&String, usize> = BTreeMap::new();
    groups.for_each(|group| *count.entry(group).or_default() += 1);
    count.into_values().max().unwrap_or(1)
}

/// Arranges a dataset over ranks. Fewer ranks than parities want have fewer parities; one has none.
///
/// # Errors
/// The ranks cannot be arranged, which is a bug.
pub fn arrange(
    dataset: Dataset,
    made_ms: u64,
    places: &[Place],
    scheme: Scheme,
    set_size: u32,
) -> Result<Kept, ArrangementError> {
    let ranks = u32::try_from(places.len()).unwrap_or(u32::MAX);
    let parities = scheme.parities().min(ranks.saturating_sub(1));
    let level = match scheme {
        Scheme::Partner if ranks > 1 => Some(Level::Partner),
        _ if parities > 0 => Some(Level::of_parities(parities)),
        _ => None,
    };
    let chain = level.map_or_else(|| "local".into(), |level| format!("local,{level}"));
    // Levels that are written by `Display` are read.
    let chain: Chain = chain.parse().map_err(|_| ArrangementError::NoPartner(ranks))?;
    let hosts: Vec<String> = places.iter().map(|place| place.host.clone()).collect();
    let groups: Vec<String> = places.iter().map(|place| place.group.clone()).collect();
    // As many sets as the largest group has ranks, so that each set needs only one of them; but
    // where there are too few groups for that, a set is as large as it is wanted.
    let most = largest(hosts.iter()).max(largest(groups.iter()));
    let apart = u32::try_from(places.len() / most).unwrap_or(u32::MAX);
    let set = if apart > parities { set_size.min(apart) } else { set_size };
    let set = set.max(parities + 1);
    let groupings = if hosts == groups { vec![hosts.clone()] } else { vec![hosts.clone(), groups] };
    let arrangement = Arrangement::new(ranks, &groupings, &chain, set)?;
    let home = |(rank, host): (u32, &String)| Home {
        host: format!("rank {rank} of {host}"),
        ranks: vec![rank],
    };
    let partners = match level {
        Some(Level::Partner) => arrangement.partners(u64::from(dataset.id)),
        _ => Vec::new(),
    };
    let snapshot = Snapshot {
        id: Id { taken_ms: made_ms, epoch: dataset.id },
        homes: (0..).zip(&hosts).map(home).collect(),
        sets: arrangement.sets().to_vec(),
        partners,
    };
    Ok(Kept { dataset, snapshot, parities })
}

/// A host or another group whose loss the arrangement does not outlive. `None`: it outlives any
/// one.
#[must_use]
pub fn weak<'a>(kept: &Kept, places: &'a [Place]) -> Option<&'a str> {
    let group = |rank: u32| places.get(rank as usize).map(|place| place.group.as_str());
    for set in &kept.snapshot.sets {
        let mut count: BTreeMap<&str, u32> = BTreeMap::new();
        for group in set.iter().filter_map(|rank| group(*rank)) {
            *count.entry(group).or_default() += 1;
        }
        if let Some((name, _)) = count.into_iter().find(|(_, members)| *members > kept.parities) {
            return Some(name);
        }
    }
    let mut pairs = (0..).zip(&kept.snapshot.partners);
    pairs.find(|(rank, keeper)| group(*rank) == group(**keeper)).and_then(|(rank, _)| group(rank))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Flags;
    use proptest::prelude::*;

    fn places(hosts: &[&str]) -> Vec<Place> {
        hosts.iter().map(|host| Place { host: (*host).into(), group: (*host).into() }).collect()
    }

    fn dataset(ranks: usize) -> Dataset {
        Dataset {
            id: 3,
            name: "ckpt.3".into(),
            flags: Flags::CHECKPOINT,
            checkpoint: 3,
            taken_ms: 1,
            ranks: u32::try_from(ranks).unwrap(),
        }
    }

    fn kept(places: &[Place], scheme: Scheme, set: u32) -> Kept {
        let kept = arrange(dataset(places.len()), 5, places, scheme, set).unwrap();
        assert!(kept.is_sound(), "{kept:?}");
        kept
    }

    #[test]
    fn a_set_has_one_rank_of_each_host() {
        let places = places(&["a", "a", "b", "b", "c", "c", "d", "d"]);
        let kept = kept(&places, Scheme::Xor, 8);
        assert_eq!(kept.snapshot.sets.len(), 2);
        assert_eq!(weak(&kept, &places), None);
        assert_eq!(kept.name(2), "rank 2 of b");
    }

    #[test]
    fn one_host_protects_files_and_says_that_it_is_weak() {
        let places = places(&["a"; 4]);
        for scheme in [Scheme::Xor, Scheme::Rs(2), Scheme::Partner] {
            let kept = kept(&places, scheme, 8);
            assert_eq!(weak(&kept, &places), Some("a"), "{scheme:?}");
            let is_one = kept.snapshot.sets == [[0, 1, 2, 3]];
            assert!(is_one || kept.snapshot.partners.len() == 4, "{kept:?}");
        }
        assert_eq!(weak(&kept(&places, Scheme::Single, 8), &places), None);
    }

    #[test]
    fn one_rank_has_only_itself() {
        for scheme in [Scheme::Single, Scheme::Partner, Scheme::Xor, Scheme::Rs(3)] {
            let kept = kept(&places(&["a"]), scheme, 8);
            assert!(kept.snapshot.sets.is_empty() && kept.snapshot.partners.is_empty());
        }
        assert_eq!(kept(&places(&["a", "b"]), Scheme::Rs(3), 8).parities, 1);
    }

    #[test]
    fn a_copy_has_one_keeper() {
        let places = places(&["a", "a", "b", "b"]);
        let kept = kept(&places, Scheme::Partner, 8);
        let mut kept_of: Vec<u32> = (0..4).map(|rank| kept.copy_on(rank).unwrap()).collect();
        kept_of.sort_unstable();
        assert_eq!(kept_of, [0, 1, 2, 3]);
        assert_eq!(weak(&kept, &places), None);
    }

    proptest! {
        /// Hosts with equally many ranks, in any order: the loss of one is survived.
        #[test]
        fn any_host_can_be_lost(
            hosts in 2_usize..7,
            each in 1_usize..5,
            set in 2_u32..10,
            scheme in prop_oneof![Just(Scheme::Partner), Just(Scheme::Xor), Just(Scheme::Rs(2))],
            by_turns in any::<bool>(),
        ) {
            let name = |rank: usize| if by_turns { rank % hosts } else { rank / each };
            let names: Vec<String> =
                (0..hosts * each).map(|rank| format!("h{}", name(rank))).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let places = places(&names);
            let kept = kept(&places, scheme, set);
            // Two parities over two hosts want three members of a set.
            if kept.parities < 2 || hosts > 2 {
                prop_assert_eq!(weak(&kept, &places), None, "{:?}", kept.snapshot);
            }
        }

        #[test]
        fn any_places_are_arranged(
            hosts in proptest::collection::vec(0_u8..4, 1..20),
            set in 1_u32..10,
            parities in 0_u32..5,
        ) {
            let names: Vec<String> = hosts.iter().map(|host| format!("h{host}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let scheme = match parities {
                0 => Scheme::Partner,
                1 => Scheme::Xor,
                more => Scheme::Rs(more),
            };
            kept(&places(&names), scheme, set);
        }
    }
}
