// SPDX-License-Identifier: Apache-2.0
//! Restarts on the hosts: after a loss, on fewer of them and on others.

use super::tests::{Cluster, chain, id};
use super::*;
use fermata_levels::{Groups, Home, Id, Item, Level, Snapshot};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// The newest snapshot of a cluster, made anew with these ranks on these hosts.
fn placed(cluster: &mut Cluster, homes: &[(u32, &[u32])]) -> Result<Kept, RestoreError> {
    let (known, holdings) = cluster.gather();
    let old = known.last().unwrap();
    let home =
        |(host, ranks): &(u32, &[u32])| Home { host: format!("n{host}"), ranks: ranks.to_vec() };
    let again = Id { taken_ms: old.snapshot.id.taken_ms + 1000, epoch: old.snapshot.id.epoch };
    let homes = homes.iter().map(home).collect();
    let snapshot = Snapshot::new(again, homes, &Groups::default(), &chain("local")).unwrap();
    let new = Kept { snapshot, manifest: old.manifest.clone() };
    for home in &new.snapshot.homes {
        let store = cluster.store(&home.host);
        store.place(old, holdings.clone(), &new, &mut cluster.hosts)?;
    }
    Ok(new)
}

#[test]
fn a_lost_host_is_rebuilt_where_its_ranks_will_run() {
    let mut cluster = Cluster::new(&chain("local,xor"), &[2, 2, 2, 2]);
    cluster.make(1, &[Level::Xor]);
    cluster.lose(&BTreeSet::from([1]));
    let homes: &[(u32, &[u32])] = &[(0, &[0, 1, 2]), (2, &[3, 4, 5]), (3, &[6, 7])];
    let new = placed(&mut cluster, homes).unwrap();
    for (host, ranks) in homes {
        let store = cluster.store(&format!("n{host}"));
        assert!(store.holdings(&new).contains(&(new.snapshot.id, Item::Images)));
        for rank in *ranks {
            let path = store.image_for_restart(new.snapshot.id, *rank).unwrap();
            let image = path.join(format!("rank-{rank}.img"));
            assert_eq!(fs::read(&image).unwrap(), cluster.image(1, *rank), "rank {rank}");
            let own = [2 * host, 2 * host + 1].contains(rank);
            assert_eq!(fs::metadata(&image).unwrap().nlink() == 2, own, "rank {rank}: copied");
        }
        assert!(store.image_for_restart(new.snapshot.id, 9).is_err());
    }
    // It is a snapshot as any other: the one that it was made of is not needed any more.
    for host in [0, 2, 3] {
        cluster.store(&format!("n{host}")).drop_level(id(1), Level::Local).unwrap();
    }
    assert_eq!(cluster.restore().unwrap().kept.snapshot, new.snapshot);
}

#[test]
fn a_host_that_had_nothing_takes_the_place_of_one_that_was_lost() {
    let mut cluster = Cluster::new(&chain("local,partner"), &[1, 1, 1]);
    cluster.make(1, &[Level::Partner]);
    cluster.lose(&BTreeSet::from([2]));
    cluster.join(3);
    let new = placed(&mut cluster, &[(0, &[0]), (1, &[1]), (3, &[2])]).unwrap();
    let path = cluster.store("n3").image_for_restart(new.snapshot.id, 2).unwrap();
    assert_eq!(fs::read(path.join("rank-2.img")).unwrap(), cluster.image(1, 2));
}

#[test]
fn what_cannot_be_had_is_not_kept() {
    let mut cluster = Cluster::new(&chain("local,xor"), &[1, 1, 1]);
    cluster.make(1, &[Level::Xor]);
    cluster.lose(&BTreeSet::from([1, 2]));
    let why = placed(&mut cluster, &[(0, &[0, 1, 2])]).unwrap_err().to_string();
    assert!(why.contains("the images of n1 are lost"), "{why}");
    let (kept, _) = cluster.store("n0").kept();
    assert_eq!(kept.iter().map(|kept| kept.snapshot.id).collect::<Vec<_>>(), [id(1)]);
}

#[test]
fn what_has_changed_on_its_own_host_is_rebuilt_and_stays_as_it_is_there() {
    let mut cluster = Cluster::new(&chain("local,xor"), &[1, 1, 1]);
    cluster.make(1, &[Level::Xor]);
    let path = cluster.store("n1").kept_image(id(1), 1);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let (known, holdings) = cluster.gather();
    let snapshot = Snapshot { id: Id { taken_ms: 9000, epoch: 1 }, ..known[0].snapshot.clone() };
    let new = Kept { snapshot, manifest: known[0].manifest.clone() };
    let store = cluster.store("n1");
    let said = store.place(&known[0], holdings, &new, &mut cluster.hosts).unwrap();
    assert!(said[0].starts_with("checkpoint 1, images on n1: damaged"), "{said:?}");
    assert_eq!(said[1], "rank 1 of n1: rebuilt from xor set 0 (n0, n2)");
    assert_eq!(fs::read(store.kept_image(new.snapshot.id, 1)).unwrap(), cluster.image(1, 1));
    assert_eq!(fs::read(&path).unwrap(), bytes);
}
