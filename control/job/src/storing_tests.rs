// SPDX-License-Identifier: Apache-2.0
//! What the shell does on the disk: the directory for the images, and what follows the last image.

use super::*;

#[test]
fn nothing_takes_back_a_snapshot_that_is_being_stored() {
    let mut world = World::new(2);
    world.ask(true);
    world.clocks(1, &[&[], &[]]);
    world.park_all(1, 2);
    world.save_all(1, 2);
    world.event(Event::Closed(0));
    let why = "connection timed out".into();
    world.event(Event::HostLost { host: "h0".into(), why, silent: true, conns: vec![1] });
    world.now += 1_000_000;
    world.event(Event::Tick);
    assert!(!world.log.iter().any(|action| matches!(action, Action::Discard(_))));
    world.event(Event::Stored(1, Ok("/s/1".into())));
    assert_eq!((world.answer().outcome, world.machine.committed_epoch()), (0, 1));
}

#[test]
fn a_checkpoint_waits_until_old_snapshots_have_made_room() {
    for in_time in [true, false] {
        let mut world = World::new(1);
        world.prunes = false;
        world.ask(false);
        world.clocks(1, &[&[]]);
        world.park_all(1, 1);
        world.save_all(1, 1);
        world.event(Event::Stored(1, Ok("/s/1".into())));
        world.log.clear();
        world.ask(false);
        world.now += if in_time { 9_000 } else { 11_000 };
        world.event(Event::Tick);
        assert!(!world.names_to(0).contains(&"REQUEST"));
        if in_time {
            world.event(Event::Pruned(Vec::new()));
            assert!(world.sent_to(0).contains(&&Request { epoch: 2, asked: 0 }.into()));
        } else {
            let text = world.answer().message;
            let why = "checkpoint 2 failed while waiting until old snapshots are removed: that has";
            assert!(text.contains(why), "{text}");
        }
    }
}

/// A checkpoint of one rank whose directory is being made.
fn preparing() -> World {
    let mut world = World::new(1);
    world.prepares = false;
    world.ask(false);
    world.clocks(1, &[&[]]);
    world.park_all(1, 1);
    world.say(0, Sent { epoch: 1, ..Sent::default() });
    world.say(0, Drained { epoch: 1, ..Drained::default() });
    assert!(world.log.contains(&Action::Prepare(1)));
    world
}

#[test]
fn ranks_are_saved_once_there_is_a_directory_and_hear_meanwhile_that_somebody_listens() {
    let mut world = preparing();
    for _ in 0..4 {
        world.log.clear();
        world.now += 2000;
        world.event(Event::Tick);
        let alive = Message::from(Alive { epoch: 1, known: 1, ..Alive::default() });
        assert_eq!(world.sent_to(0), [&alive]);
    }
    world.event(Event::Prepared(1, Ok(())));
    assert_eq!(world.names_to(0).last(), Some(&"SAVE"));
    world.now += 100_000; // images may take longer than the way to the safe state
    world.say(0, Saved { epoch: 1, ..Saved::default() });
    assert!(world.log.iter().any(|action| matches!(action, Action::Commit(_))));
}

#[test]
fn a_directory_that_cannot_be_made_ends_the_checkpoint() {
    let mut world = preparing();
    world.event(Event::Prepared(1, Err(DiskError::Storage("cannot make /s/1.partial".into()))));
    let text = world.answer().message;
    assert!(text.contains("failed while writing images: cannot make /s/1.partial"), "{text}");
    assert!(world.log.contains(&Action::Discard(1)) && !world.names_to(0).contains(&"SAVE"));
}

#[test]
fn a_directory_that_takes_too_long_goes_when_it_is_made_and_keeps_no_rank_again() {
    let mut world = preparing();
    world.now += 10_000;
    world.event(Event::Tick);
    let text = world.answer().message;
    assert!(text.contains("failed while writing images: that has taken too long"), "{text}");
    let last_order = |world: &World| {
        let names = world.names_to(0);
        names.into_iter().rfind(|name| *name != "ALIVE")
    };
    assert_eq!(last_order(&world), Some("ABORT"));
    assert!(!world.log.contains(&Action::Discard(1)), "it is still being made");
    world.ask(false);
    assert_eq!(last_order(&world), Some("ABORT"), "the disk has not answered");
    world.event(Event::Prepared(1, Ok(())));
    assert!(world.log.contains(&Action::Discard(1)));
    assert_eq!(last_order(&world), Some("REQUEST"));
    assert!(!world.names_to(0).contains(&"SAVE"));
}

#[test]
fn no_checkpoint_begins_before_what_earlier_runs_have_left_is_gone() {
    let mut world = World::new(1);
    world.machine = Machine::new(world.machine.config.clone());
    world.say(0, Hello { job: "j".into(), ..Hello::default() });
    world.say(0, Ready { rank: 0, size: 1 });
    world.say(0, Ask { with_all: 0, saves_itself: 0 });
    assert!(!world.names_to(0).contains(&"REQUEST"));
    world.event(Event::Pruned(Vec::new()));
    assert_eq!(world.names_to(0).last(), Some(&"REQUEST"));
}
