// SPDX-License-Identifier: Apache-2.0
//! What the machine has the job's history say.

use super::*;
use fermata_types::{Aborting, AskedBy, CheckpointFailed, CheckpointTaken, JobEvent};
use std::collections::BTreeSet;

fn events(world: &World) -> Vec<JobEvent> {
    let event = |action: &Action| match action {
        Action::History(event) => Some((**event).clone()),
        _ => None,
    };
    world.log.iter().filter_map(event).collect()
}

fn taken(world: &World) -> CheckpointTaken {
    match &events(world)[..] {
        [JobEvent::Checkpoint(taken)] => taken.clone(),
        other => panic!("{other:?}"),
    }
}

fn failed(world: &World) -> CheckpointFailed {
    match &events(world)[..] {
        [JobEvent::FailedCheckpoint(failed)] => failed.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_committed_checkpoint_has_its_figures() {
    let mut world = World::new(2);
    world.ask(true);
    world.now += 3;
    world.clocks(1, &[&[], &[]]);
    for conn in 0..2 {
        world.now += 10 * (conn + 1);
        let Targets { version, list, .. } = world.targets(conn);
        world.say(conn, Parked { epoch: 1, version, list });
    }
    world.now += 5;
    for conn in 0..2 {
        world.say(conn, Sent { epoch: 1, list: vec![] });
    }
    for conn in 0..2 {
        world.say(conn, Drained { epoch: 1, kept: 1, kept_bytes: 8 });
    }
    for conn in 0..2 {
        world.now += 100;
        let (bytes, pause_ns) = (4096 * (conn + 1), 7000 * (2 - conn));
        world.say(conn, Saved { epoch: 1, bytes, pause_ns, ..Saved::default() });
    }
    world.now += 20;
    assert!(events(&world).is_empty(), "it is not committed yet");
    world.event(Event::Stored(1, Ok("/s/1".into())));
    let taken = taken(&world);
    assert_eq!((taken.epoch, taken.asked_by, taken.stop), (1, AskedBy::Command, true));
    assert_eq!((taken.attempts, taken.ranks, taken.messages_kept), (1, 2, 2));
    let phases = taken.phases_ms;
    assert_eq!((phases.wait, phases.park, phases.drain), (0, 33, 5));
    assert_eq!((phases.save, phases.commit, taken.total_ms), (200, 20, 258));
    let spread = |s: fermata_types::Spread| (s.min, s.median, s.max, s.rank);
    assert_eq!(taken.bytes, 3 * 4096);
    assert_eq!(spread(taken.rank_bytes), (4096, 4096, 8192, 1));
    assert_eq!(spread(taken.rank_pause_us), (7, 7, 14, 0));
    assert_eq!(spread(taken.rank_park_ms), (13, 13, 33, 1));
    assert_eq!(spread(taken.rank_save_ms), (100, 100, 200, 1));
}

#[test]
fn a_failed_checkpoint_says_why_whoever_has_asked() {
    let mut world = World::new(2);
    world.ask(false);
    world.event(Event::Closed(CLIENT)); // nobody waits for the answer
    world.now += 40;
    world.clocks(1, &[&[], &[]]);
    world.say(1, Failed { epoch: 1, message: "a socket is open".into() });
    let failed = failed(&world);
    assert_eq!((failed.epoch, failed.asked_by, failed.attempts), (1, AskedBy::Command, 1));
    assert_eq!((failed.phase.as_str(), failed.total_ms), ("parking", 40));
    assert!(failed.reason.contains("a socket is open"), "{}", failed.reason);
    assert_eq!(failed.phases_ms.park, 40);
}

#[test]
fn what_is_refused_is_no_event() {
    let mut world = World::new(2);
    world.say(0, Finalizing {});
    world.ask(false);
    assert_eq!(world.answer().outcome, 2);
    assert!(events(&world).is_empty());
}

#[test]
fn the_first_rank_to_leave_is_the_first_that_had_not_come_to_mpi_finalize() {
    let mut world = World::new(4);
    let nobody = BTreeSet::new();
    world.say(0, Finalizing {});
    world.event(Event::Closed(0));
    assert_eq!(world.machine.first_to_leave(&nobody), None);
    world.event(Event::Closed(3));
    world.event(Event::Closed(1));
    assert_eq!(world.machine.first_to_leave(&nobody), Some((3, "h1".into())));
    assert_eq!(world.machine.first_to_leave(&BTreeSet::from([3])), None, "it left a word");
}

#[test]
fn an_abort_is_told_from_one_that_a_loss_has_brought_about() {
    let mut world = World::new(4);
    world.say(0, Aborting { code: 3 });
    world.event(Event::Closed(1)); // mpirun ends the others
    assert_eq!(world.machine.abort_after_loss(), None);
    world.say(2, Aborting { code: 15 });
    world.say(3, Aborting { code: 16 });
    assert_eq!(world.machine.abort_after_loss(), Some(15));
}
