// SPDX-License-Identifier: Apache-2.0
//! From the last image to the room for the next checkpoint.

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
    world.event(Event::HostLost { host: "h0".into(), why, conns: vec![1] });
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
