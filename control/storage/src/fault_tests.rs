// SPDX-License-Identifier: Apache-2.0
//! Every fault at every point of a commit, in a process of its own, since most of them end it.
//! Whatever happens: a good snapshot is there, and the next commit leaves no trace of it.

use crate::verify::tests::Scratch;
use crate::{commit, discard, list_snapshots, prune, verify};
use fermata_faults::{Fault, VARIABLE};
use std::mem::ManuallyDrop;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

const PLACE: &str = "FERMATA_TEST_PLACE";
const KEEP: &str = "FERMATA_TEST_KEEP";
const SIGKILL: i32 = 9;

/// The process that meets the fault: it does what a coordinator does.
#[test]
#[ignore = "started by every_fault_of_a_commit"]
fn second_snapshot() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    let scratch = ManuallyDrop::new(Scratch(place.into()));
    let job = scratch.job();
    match commit(&job, &scratch.fill(2)) {
        Ok(_) => drop(prune(&job, std::env::var(KEEP).unwrap().parse().unwrap(), None)),
        Err(_) => discard(&job, 2),
    }
}

fn meet(scratch: &Scratch, point: &str, action: &str) -> Output {
    // What fails is given up, which some points are a part of.
    let more = if point.starts_with("discard") { ",commit-check=error:5" } else { "" };
    let keep = if point == "commit-pruning" { "1" } else { "2" };
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "fault_tests::second_snapshot", "--ignored", "--nocapture"])
        .env(PLACE, &scratch.0)
        .env(KEEP, keep)
        .env(VARIABLE, format!("{point}={action}{more}"))
        .output()
        .unwrap()
}

#[test]
fn every_fault_of_a_commit() {
    let of_commit = |name: &str| {
        ["commit-", "discard-", "coordinator-prepare"].iter().any(|part| name.starts_with(part))
    };
    let points: Vec<&str> =
        Fault::ALL.iter().map(|(name, _)| *name).filter(|name| of_commit(name)).collect();
    assert!(points.len() > 10, "{points:?}");
    for point in points {
        for action in ["kill", "sleep:1", "error:28", "flip", "short"] {
            let scratch = Scratch::new();
            scratch.snapshot(1);
            let ended = meet(&scratch, point, action);
            let said = String::from_utf8_lossy(&ended.stderr);
            let case = format!("{point}={action}: {said}");
            assert!(said.contains(&format!("fermata: fault: {point}=")), "{case}");
            assert_eq!(ended.status.signal(), (action == "kill").then_some(SIGKILL), "{case}");
            let job = scratch.job();
            let good = |epoch| verify(&job.snapshots().join(epoch), |_| {}).is_good();
            assert!(good("1") || good("2"), "{case}");
            scratch.snapshot(3);
            prune(&job, 1, None);
            assert_eq!(list_snapshots(&job).len(), 1, "{case}");
            assert!(good("3"), "{case}");
            let names = std::fs::read_dir(job.snapshots()).unwrap().count();
            assert_eq!(names, 2, "{case}: more than 3 and latest is there");
        }
    }
}
