// SPDX-License-Identifier: Apache-2.0
//! Every fault at every point of a commit, in a process of its own, since most of them end it.
//! What the commit says is so: after Ok the new snapshot verifies, but for a bit that was flipped
//! in it. Without, the one before does, and so does all that is listed. The next commit leaves no
//! trace of it.

use crate::own::Whose;
use crate::verify::tests::Scratch;
use crate::{commit, discard, list_snapshots, prune, verify};
use fermata_faults::{Fault, VARIABLE};
use fermata_sysio::print_error;
use std::mem::ManuallyDrop;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

const PLACE: &str = "FERMATA_TEST_PLACE";
const KEEP: &str = "FERMATA_TEST_KEEP";
const COMMITTED: &str = "the commit said Ok";
const FAILED: &str = "the commit said Err";
const SIGKILL: i32 = 9;

/// What the process that meets the fault says of its commit; one that was killed, or could not even
/// begin, perhaps nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Ok,
    Err,
    Nothing,
}

fn expected(point: &str, action: &str) -> Answer {
    match action {
        // What comes later is no part of the answer.
        "kill" if point.starts_with("commit-prun") => Answer::Ok,
        "kill" if point.starts_with("discard") => Answer::Err,
        "kill" => Answer::Nothing,
        _ if point.starts_with("discard") => Answer::Err,
        "error:28" if point == "coordinator-prepare" => Answer::Nothing,
        // `latest` is found again by counting.
        "error:28" if point != "commit-latest" && !point.starts_with("commit-prun") => Answer::Err,
        _ => Answer::Ok,
    }
}

/// The process that meets the fault: it does what a coordinator does.
#[test]
#[ignore = "started by every_fault_of_a_commit"]
fn second_snapshot() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    let scratch = ManuallyDrop::new(Scratch(place.into()));
    let job = scratch.job();
    match commit(&job, &scratch.fill(2), None) {
        Ok(_) => {
            print_error(format_args!("{COMMITTED}"));
            prune(&job, std::env::var(KEEP).unwrap().parse().unwrap(), None);
        }
        Err(error) => {
            print_error(format_args!("{FAILED}: {error}"));
            discard(&job, 2);
        }
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

fn answer_of(said: &str) -> Answer {
    match (said.contains(COMMITTED), said.contains(FAILED)) {
        (true, false) => Answer::Ok,
        (false, true) => Answer::Err,
        _ => Answer::Nothing,
    }
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
            let answer = answer_of(&said);
            assert_eq!(answer, expected(point, action), "{case}");
            let job = scratch.job();
            let good =
                |epoch| verify(&job.snapshots().join(epoch), Whose::Own(None), |_| {}).is_good();
            let is_damaged = action == "flip" && point == "commit-manifest";
            if answer == Answer::Ok {
                assert_eq!(list_snapshots(&job).last().map(|s| s.epoch), Some(2), "{case}");
                assert_eq!(good("2"), !is_damaged, "{case}");
            } else {
                let mut listed = list_snapshots(&job).into_iter();
                assert!(
                    listed.all(|s| verify(&s.path, Whose::Own(None), |_| {}).is_good()),
                    "{case}"
                );
            }
            // Only where it is to be pruned may the first one be gone.
            assert!(good("1") || point == "commit-pruning", "{case}");
            scratch.snapshot(3);
            prune(&job, 1, None);
            assert_eq!(list_snapshots(&job).len(), 1, "{case}");
            assert!(good("3"), "{case}");
            let names = std::fs::read_dir(job.snapshots()).unwrap().count();
            assert_eq!(names, 2, "{case}: more than 3 and latest is there");
        }
    }
}
