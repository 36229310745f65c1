// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::snapshot::Home;

fn id(epoch: u32) -> Id {
    Id { taken_ms: u64::from(epoch), epoch }
}

/// Four hosts with two ranks each, in two sets; the partner of each is two further.
fn snapshot(epoch: u32) -> Snapshot {
    Snapshot {
        id: id(epoch),
        homes: (0..4)
            .map(|n| Home { host: format!("n{n}"), ranks: vec![2 * n, 2 * n + 1] })
            .collect(),
        sets: vec![vec![0, 1, 2, 3]],
        partners: vec![2, 3, 0, 1],
    }
}

/// All that was made of these snapshots, on the hosts that live.
fn holdings(of: &[(u32, &[Level])], dead: &[u32]) -> Holdings {
    let mut all = Holdings::new();
    for host in (0..4).filter(|host| !dead.contains(host)) {
        let mine = all.entry(format!("n{host}")).or_default();
        for (epoch, levels) in of {
            mine.insert((id(*epoch), Item::Images));
            for level in *levels {
                match level {
                    Level::Partner => mine.insert((id(*epoch), Item::Copy((host + 2) % 4))),
                    Level::Xor | Level::Rs(_) => {
                        mine.insert((id(*epoch), Item::Parities(level.parities())))
                    }
                    Level::Local | Level::Shared => false,
                };
            }
        }
    }
    all
}

fn none() -> BTreeSet<Id> {
    BTreeSet::new()
}

#[test]
fn images_are_taken_from_where_they_are() {
    let holdings = holdings(&[(7, &[Level::Xor])], &[]);
    let restart = choose(&[snapshot(7)], &holdings, &none()).unwrap();
    assert_eq!(restart.sources, vec![Source::Home; 4]);
    assert_eq!(restart.sentences(), Vec::<String>::new());
}

#[test]
fn a_lost_host_is_taken_from_its_partner_or_rebuilt() {
    let by_copy = holdings(&[(7, &[Level::Partner, Level::Xor])], &[1]);
    let restart = choose(&[snapshot(7)], &by_copy, &none()).unwrap();
    assert_eq!(restart.sentences(), ["ranks 2, 3 of n1: from the copy on n3"]);
    let by_set = holdings(&[(7, &[Level::Xor])], &[1]);
    let restart = choose(&[snapshot(7)], &by_set, &none()).unwrap();
    assert_eq!(restart.sentences(), ["ranks 2, 3 of n1: rebuilt from xor set 0 (n0, n2, n3)"]);
}

/// The pair is lost, and what one of them kept for the other with it.
#[test]
fn a_lost_pair_needs_two_parities() {
    let snapshots = [snapshot(6), snapshot(7)];
    let made = [(6, &[Level::Rs(2)][..]), (7, &[Level::Partner, Level::Xor])];
    let restart = choose(&snapshots, &holdings(&made, &[1, 3]), &none()).unwrap();
    assert_eq!(restart.snapshot.id, id(6));
    assert_eq!(
        restart.lost[0].to_string(),
        "checkpoint 7: the images of n1 are lost; no copy is on n3; xor set 0 rebuilds 1 and \
         has lost n1, n3"
    );
    assert_eq!(restart.sentences()[1], "ranks 6, 7 of n3: rebuilt from rs2 set 0 (n0, n2)");
}

#[test]
fn what_hosts_have_lost_is_taken_from_the_directory() {
    let holdings = holdings(&[(7, &[])], &[0]);
    let restart = choose(&[snapshot(7)], &holdings, &BTreeSet::from([id(7)])).unwrap();
    assert_eq!(restart.sentences(), ["ranks 0, 1 of n0: from the job's directory"]);
    assert_eq!(restart.sources[1], Source::Home);
}

#[test]
fn where_nothing_is_whole_all_is_said() {
    let made = [(6, &[Level::Partner][..]), (7, &[])];
    let all = [snapshot(6), snapshot(7)];
    let why = choose(&all, &holdings(&made, &[0, 2]), &none()).unwrap_err();
    assert_eq!(
        why.to_string(),
        "no checkpoint is whole on the hosts that live\n  checkpoint 7: the images of n0 are lost; \
         no copy is on n2\n  checkpoint 6: the images of n0 are lost; no copy is on n2"
    );
    let mut alone = snapshot(7);
    alone.partners.clear();
    let why = choose(&[alone], &holdings(&made, &[2]), &none()).unwrap_err();
    assert!(why.to_string().ends_with("of n2 are lost; no other host has kept them"), "{why}");
}

#[test]
fn a_record_that_makes_no_sense_is_none() {
    let mut strange = [snapshot(7), snapshot(7), snapshot(7), snapshot(7)];
    strange[0].sets.push(vec![9]);
    strange[1].partners = vec![0];
    strange[2].homes[1].ranks = vec![0];
    strange[3].sets.push(vec![1]);
    let holdings = holdings(&[(7, &[Level::Xor])], &[1]);
    for snapshot in strange {
        assert!(!snapshot.is_sound());
        assert!(choose(&[snapshot], &holdings, &none()).is_err());
    }
}

#[test]
fn a_host_without_ranks_is_not_missed() {
    let mut snapshot = snapshot(7);
    snapshot.homes[2].ranks.clear();
    let restart = choose(&[snapshot], &holdings(&[(7, &[])], &[2]), &none()).unwrap();
    assert_eq!(restart.sources, vec![Source::Home; 4]);
}
