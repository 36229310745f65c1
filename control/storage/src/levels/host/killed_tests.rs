// SPDX-License-Identifier: Apache-2.0
//! Processes that keep snapshots on hosts, killed in the middle of it.
#![allow(clippy::cast_possible_truncation)]

use super::tests::{Cluster, Scratch, chain, id};
use fermata_faults::{Fault, VARIABLE};
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

fn said_in(scratch: &Scratch) -> String {
    fs::read_to_string(scratch.0.join("said")).unwrap_or_default()
}

fn child_in(scratch: &Scratch) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "levels::host::killed_tests::snapshots_without_end", "--ignored"])
        .env(PLACE, &scratch.0);
    command
}

/// The hosts are started again, without those that are dead, and give what was said to be done:
/// the newest snapshot of it, or a newer one.
fn newest_of_what_was_said(scratch: Scratch, dead: &BTreeSet<u32>, case: &str) -> u32 {
    let said = said_in(&scratch);
    let mut cluster = Cluster::at(scratch, &chain(ALL), &RANKS_OF);
    cluster.lose(dead);
    let lines = said.lines().filter_map(|line| line.split_once(' '));
    let done = lines.map(|(epoch, level)| (epoch.parse().unwrap(), level.parse().unwrap()));
    let promised = done.filter(|(_, level): &(u32, Level)| cluster.promises(&[*level], dead));
    let newest = promised.map(|(epoch, _)| epoch).max().unwrap_or(0);
    match cluster.restore() {
        Ok(restored) => assert!(restored.restart.snapshot.id.epoch >= newest, "{case}: {said}"),
        Err(error) => assert_eq!(newest, 0, "{case}: {error}: {said}"),
    }
    newest
}

#[test]
fn a_kill_at_any_moment_loses_nothing() {
    let mut most = 0;
    for round in 0..12_u64 {
        let scratch = Scratch::new();
        let mut child = child_in(&scratch).stdout(Stdio::null()).spawn().unwrap();
        // Then it is in the middle of something.
        let begun = Instant::now();
        while said_in(&scratch).lines().count() < round as usize {
            assert!(begun.elapsed() < Duration::from_secs(100), "nothing is done");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(5 * (round % 4)));
        child.kill().unwrap();
        child.wait().unwrap();
        let dead: BTreeSet<u32> = [0, 1, 3].into_iter().take((round % 3) as usize).collect();
        most = most.max(newest_of_what_was_said(scratch, &dead, "killed"));
    }
    assert!(most > 0, "nothing was ever done");
}

/// Each point, how often each host comes there for one snapshot, whether a call follows, and what
/// is left of two snapshots if it is met in the second: with all hosts, and without the first.
const POINTS: [(&str, usize, bool, [u32; 2]); 8] = [
    ("keep-begun", 1, true, [1, 1]),
    ("keep-rename", 1, true, [1, 1]),
    ("keep-renamed", 1, false, [1, 1]),
    ("make-begun", 3, true, [2, 1]),
    ("make-made", 3, false, [2, 1]),
    // The partners have their copies.
    ("note-begun", 2, true, [2, 2]),
    ("note-rename", 2, true, [2, 2]),
    ("note-noted", 2, false, [2, 2]),
];

#[test]
fn every_point_of_a_level_is_tried() {
    let of_level = |name: &str| ["keep-", "make-", "note-"].iter().any(|it| name.starts_with(it));
    let all = Fault::ALL.iter().map(|(name, _)| *name).filter(|name| of_level(name));
    assert_eq!(all.collect::<Vec<_>>(), POINTS.map(|(name, ..)| name));
}

/// On the second host.
#[test]
fn a_fault_at_any_point_loses_nothing() {
    for (point, times, is_call, left) in POINTS {
        let actions = if is_call { &["kill", "error:28"][..] } else { &["kill"] };
        for (action, dead) in actions.iter().flat_map(|a| [(a, None), (a, Some(0_u32))]) {
            let scratch = Scratch::new();
            let fault = format!("{point}#{}={action}", RANKS_OF.len() * times + 2);
            let ended = child_in(&scratch).env(VARIABLE, &fault).output().unwrap();
            let case = format!("{fault}: {}", String::from_utf8_lossy(&ended.stderr));
            assert!(case.contains(&format!("fermata: fault: {point}=")), "{case}");
            let newest = newest_of_what_was_said(scratch, &dead.into_iter().collect(), &case);
            assert_eq!(newest, left[usize::from(dead.is_some())], "{case}");
        }
    }
}
