// SPDX-License-Identifier: Apache-2.0
//! Processes that keep snapshots on hosts, killed in the middle of it.
#![allow(clippy::cast_possible_truncation)]

use super::tests::{Cluster, Scratch, chain, id};
use fermata_levels::Level;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PLACE: &str = "FERMATA_TEST_HOSTS";
const ALL: &str = "local,partner,xor,rs2";
const RANKS_OF: [u32; 4] = [1, 2, 0, 1];

/// Takes snapshots, makes their levels, and drops old ones, until it is killed. What is done is
/// said in a file: a line for each level.
#[test]
#[ignore = "started by a_kill_at_any_moment_loses_nothing"]
fn snapshots_without_end() {
    let Some(place) = std::env::var_os(PLACE).map(PathBuf::from) else { return };
    let said = place.join("said");
    let chain = chain(ALL);
    let mut cluster = ManuallyDrop::new(Cluster::at(Scratch(place), &chain, &RANKS_OF));
    let mut file = fs::File::create(said).unwrap();
    for epoch in 1..200 {
        let kept = cluster.make(epoch, &[]);
        for level in chain.levels() {
            cluster.promote(&kept, *level);
            writeln!(file, "{epoch} {level}").unwrap();
        }
        for level in chain.levels().iter().rev().filter(|_| epoch > 1) {
            for store in cluster.hosts.0.values() {
                store.drop_level(id(epoch - 1), *level).unwrap();
            }
        }
    }
}

#[test]
fn a_kill_at_any_moment_loses_nothing() {
    let chain = chain(ALL);
    let read = |scratch: &Scratch| -> String {
        fs::read_to_string(scratch.0.join("said")).unwrap_or_default()
    };
    let mut most = 0;
    for round in 0..12_u64 {
        let scratch = Scratch::new();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "levels::host::killed_tests::snapshots_without_end", "--ignored"])
            .env(PLACE, &scratch.0)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // Then it is in the middle of something.
        let begun = Instant::now();
        while read(&scratch).lines().count() < round as usize {
            assert!(begun.elapsed() < Duration::from_secs(100), "nothing is done");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(5 * (round % 4)));
        child.kill().unwrap();
        child.wait().unwrap();
        let said = read(&scratch);
        let mut cluster = Cluster::at(scratch, &chain, &RANKS_OF);
        let dead: BTreeSet<u32> = [0, 1, 3].into_iter().take((round % 3) as usize).collect();
        cluster.lose(&dead);
        let lines = said.lines().filter_map(|line| line.split_once(' '));
        let done = lines.map(|(epoch, level)| (epoch.parse().unwrap(), level.parse().unwrap()));
        let promised = done.filter(|(_, level): &(u32, Level)| cluster.promises(&[*level], &dead));
        let newest = promised.map(|(epoch, _)| epoch).max().unwrap_or(0);
        match cluster.restore() {
            Ok(restored) => assert!(restored.restart.snapshot.id.epoch >= newest, "{said}"),
            Err(error) => assert_eq!(newest, 0, "{error}: {said}"),
        }
        most = newest.max(most);
    }
    assert!(most > 0, "nothing was ever done");
}
