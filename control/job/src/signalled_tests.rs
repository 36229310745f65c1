// SPDX-License-Identifier: Apache-2.0
//! Signals that are to save the job, against scripted ranks.

use super::*;

impl World {
    fn signals(&self) -> Vec<(Option<u32>, u32)> {
        let signal = |action: &Action| match action {
            Action::Signalled { rank, signal } => Some((*rank, *signal)),
            _ => None,
        };
        self.log.iter().filter_map(signal).collect()
    }
}

#[test]
fn a_signal_is_told_with_its_rank_whatever_the_job_does() {
    let mut world = World::new(2);
    world.say(1, Signalled { signal: 15 });
    world.ask(false);
    world.say(0, Signalled { signal: 10 });
    assert_eq!(world.signals(), [(Some(1), 15), (Some(0), 10)]);
    world.clocks(1, &[&[], &[]]);
    assert!(world.names_to(0).contains(&"TARGETS"), "the checkpoint continues: {:?}", world.log);
}

#[test]
fn a_signal_before_the_rank_is_known_is_told_without_it() {
    let mut world = World::new(1);
    world.machine = begin(world.machine.config.clone());
    world.say(0, Hello { job: "j".into(), ..Hello::default() });
    world.say(0, Signalled { signal: 12 });
    assert_eq!(world.signals(), [(None, 12)]);
}

#[test]
fn a_number_that_is_no_signal_is_ignored() {
    let mut world = World::new(1);
    world.say(0, Signalled { signal: 0 });
    world.say(0, Signalled { signal: 65 });
    assert_eq!(world.signals(), []);
}
