// SPDX-License-Identifier: Apache-2.0
use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn chain(list: &str) -> Chain {
    list.parse().unwrap()
}

fn groups(of_host: &[u32]) -> Vec<String> {
    of_host.iter().map(|group| format!("g{group}")).collect()
}

#[test]
fn a_set_has_one_host_of_each_rack() {
    let racks = groups(&[0, 0, 1, 1, 2, 2, 3, 3]);
    let arranged =
        Arrangement::new(8, std::slice::from_ref(&racks), &chain("local,partner,xor"), 4).unwrap();
    assert_eq!(arranged.sets().len(), 2);
    assert_eq!(weak_sets(arranged.sets(), std::slice::from_ref(&racks)), []);
    for turn in 0..8 {
        for (host, partner) in arranged.partners(turn).iter().enumerate() {
            assert_ne!(racks[host], racks[*partner as usize], "turn {turn}");
        }
    }
    assert_ne!(arranged.partners(0), arranged.partners(1), "they rotate");
}

#[test]
fn racks_of_two_ask_for_two_sets_of_any_size() {
    let racks = groups(&[0, 0, 1, 1, 2, 2, 3, 3]);
    let arranged =
        Arrangement::new(8, std::slice::from_ref(&racks), &chain("local,xor"), 8).unwrap();
    assert_eq!(arranged.sets().len(), 2, "one set has both hosts of each rack");
    assert_eq!(weak_sets(arranged.sets(), &[racks]), []);
}

#[test]
fn what_a_rack_breaks_is_named() {
    let racks = groups(&[0, 0, 0, 1]);
    let arranged =
        Arrangement::new(4, std::slice::from_ref(&racks), &chain("local,xor"), 4).unwrap();
    assert_eq!(weak_sets(arranged.sets(), &[racks]), [(0, "g0".to_owned())]);
}

#[test]
fn too_few_hosts_are_said() {
    let why =
        |hosts, list: &str| Arrangement::new(hosts, &[], &chain(list), 8).unwrap_err().to_string();
    assert_eq!(why(1, "local,partner"), "level partner needs 2 hosts, and the job has 1");
    assert_eq!(why(1, "local,xor"), "1 parities need 2 hosts, and the job has 1");
    assert_eq!(why(3, "local,rs3"), "3 parities need 4 hosts, and the job has 3");
    let alone = Arrangement::new(1, &[], &chain("local,shared"), 8).unwrap();
    assert_eq!((alone.sets().len(), alone.partners(3)), (0, vec![]));
    let wrong = Arrangement::new(3, &[groups(&[0, 1])], &chain("local"), 8).unwrap_err();
    assert_eq!(wrong, ArrangementError::Groups { hosts: 3, groups: 2 });
}

proptest! {
    #[test]
    fn sets_are_a_partition_with_more_members_than_parities(
        hosts in 2_u32..70, set in 1_u32..20, parities in 1_u32..5, per_rack in 1_u32..9,
    ) {
        let parities = parities.min(hosts - 1);
        let list = format!("local,partner,{}", crate::Level::of_parities(parities));
        let racks = groups(&(0..hosts).map(|host| host / per_rack).collect::<Vec<_>>());
        let racks = [racks];
        let arranged = Arrangement::new(hosts, &racks, &chain(&list), set).unwrap();
        let mut all: Vec<u32> = arranged.sets().iter().flatten().copied().collect();
        all.sort_unstable();
        prop_assert_eq!(all, (0..hosts).collect::<Vec<_>>());
        for members in arranged.sets() {
            prop_assert!(members.len() > parities as usize);
        }
        if per_rack.min(hosts) <= hosts / (parities + 1) {
            prop_assert_eq!(weak_sets(arranged.sets(), &racks), []);
        }
        for turn in 0..4 {
            let partners = arranged.partners(turn);
            prop_assert!((0..hosts).zip(&partners).all(|(host, partner)| host != *partner));
            let keepers: BTreeSet<u32> = partners.iter().copied().collect();
            prop_assert_eq!(keepers.len(), hosts as usize, "each keeps one");
        }
    }
}
