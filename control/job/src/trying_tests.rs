// SPDX-License-Identifier: Apache-2.0
//! Attempts that end because a rank cannot be saved, just now or at all.

use super::*;

const EAGAIN: i32 = 11;

impl World {
    /// Both ranks come to a safe state, and the second says by this errno that it cannot be saved.
    fn refuse_to_save(&mut self, epoch: u32, error: i32) {
        self.clocks(epoch, &[&[], &[]]);
        self.park_all(epoch, 2);
        for conn in 0..2 {
            self.say(conn, Sent { epoch, ..Sent::default() });
        }
        for conn in 0..2 {
            self.say(conn, Drained { epoch, ..Drained::default() });
        }
        let message = "a child runs".into();
        self.say(1, Saved { epoch, error, message, ..Saved::default() });
    }

    fn pass(&mut self, ms: u64) {
        self.now += ms;
        self.event(Event::Tick);
    }
}

#[test]
fn after_a_child_that_runs_the_time_to_a_safe_state_is_what_it_was() {
    let mut world = World::new(2);
    world.ask(false);
    world.refuse_to_save(1, EAGAIN);
    world.pass(20);
    assert!(world.sent_to(1).contains(&&Request { epoch: 2, asked: 0 }.into()));
    world.pass(10_000);
    let text = world.answer().message;
    assert!(text.contains("ranks 0, 1 have not done so in time"), "{text}");
}

#[test]
fn a_slow_way_to_the_safe_state_leaves_time_for_a_child_to_end() {
    let mut world = World::new(2);
    world.ask(false);
    for epoch in 1..=5 {
        world.pass(1200);
        world.refuse_to_save(epoch, EAGAIN);
        world.pass(20);
        assert!(world.names_to(100).iter().all(|name| *name != "ANSWER"), "{epoch}");
    }
    world.pass(1200);
    world.refuse_to_save(6, EAGAIN);
    assert!(world.answer().message.contains("rank 1: a child runs"));
}

#[test]
fn a_child_that_runs_when_the_time_is_over_is_the_cause() {
    let mut world = World::new(2);
    world.ask(false);
    world.pass(9_990);
    world.refuse_to_save(1, EAGAIN);
    assert!(world.answer().message.contains("a child runs"));
}

#[test]
fn what_helps_a_rank_that_cannot_be_saved_is_said() {
    let cases = [
        (28, "make room on the disk"),
        (16, "see what that thread waits for"),
        (12, "the kernel does that"),
        (105, "raise that limit"),
    ];
    for (error, words) in cases {
        let mut world = World::new(2);
        world.ask(false);
        world.refuse_to_save(1, error);
        let text = world.answer().message;
        assert!(
            text.contains(&format!("rank 1: a child runs; the job continues\n  hint: {words}")),
            "{text}"
        );
    }
}
