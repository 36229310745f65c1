// SPDX-License-Identifier: Apache-2.0
//! ALIVE, against scripted ranks.

use super::*;

impl World {
    /// Two seconds pass. What ALIVE says then to rank 0, if it is said: (epoch, saving, resumed).
    fn alive(&mut self) -> Option<(u32, u32, u32)> {
        self.log.clear();
        self.now += 2000;
        self.event(Event::Tick);
        self.sent_to(0).iter().find_map(|m| match m {
            Message::Alive(a) => Some((a.epoch, a.saving, a.resumed)),
            _ => None,
        })
    }
}

#[test]
fn while_there_is_business_with_the_ranks_they_hear_what_the_coordinator_believes() {
    let mut w = World::new(2);
    assert_eq!(w.alive(), None);
    w.ask(false);
    w.clocks(1, &[&[], &[]]);
    w.park_all(1, 2);
    for conn in 0..2 {
        w.say(conn, Sent { epoch: 1, ..Sent::default() });
    }
    assert_eq!(w.alive(), Some((1, 0, 0)));
    for conn in 0..2 {
        w.say(conn, Drained { epoch: 1, ..Drained::default() });
    }
    assert_eq!(w.alive(), Some((1, 1, 0)));
    for conn in 0..2 {
        w.say(conn, Saving { epoch: 1 });
    }
    assert_eq!(w.alive(), Some((1, 1, 1)));
    w.say(1, Failed { epoch: 1, message: "no".into() });
    assert_eq!(w.alive(), Some((0, 0, 0)), "once more: ABORT may have got lost");
    assert_eq!(w.alive(), None);
}

#[test]
fn between_two_attempts_no_checkpoint_is_under_way() {
    let mut w = World::new(1);
    w.ask(false);
    w.clocks(1, &[&[]]);
    assert_eq!(w.alive(), Some((0, 0, 0)), "the first attempt has been given up");
    w.now += 200;
    w.event(Event::Tick);
    assert_eq!(w.alive(), Some((2, 0, 0)));
}

#[test]
fn ranks_that_wait_for_the_others_in_fermata_checkpoint_hear_that_somebody_listens() {
    let mut w = World::new(2);
    w.say(0, Ask { with_all: 1, saves_itself: 0 });
    assert_eq!(w.alive(), Some((0, 0, 0)));
    assert_eq!(w.alive(), Some((0, 0, 0)));
}

#[test]
fn the_word_to_end_is_said_until_all_have_gone() {
    let mut w = World::new(2);
    w.ask(true);
    w.clocks(1, &[&[], &[]]);
    w.park_all(1, 2);
    w.save_all(1, 2);
    w.event(Event::Stored(1, Ok("/s/1".into())));
    w.event(Event::Closed(0));
    assert_eq!(w.alive(), None);
    assert!(w.names_to(0).is_empty());
    assert_eq!(w.names_to(1), ["EXIT"]);
}

#[test]
fn an_agent_whose_rank_is_not_known_hears_that() {
    let mut w = World::new(1);
    w.machine = begin(w.machine.config.clone());
    w.say(0, Hello { job: "j".into(), ..Hello::default() });
    assert_eq!(w.alive(), Some((0, 0, 0)));
    assert!(w.sent_to(0).contains(&&Message::from(Alive::default())), "{:?}", w.log);
    w.say(0, Ready { rank: 0, size: 1 });
    assert_eq!(w.alive(), Some((0, 0, 0)));
    assert!(w.sent_to(0).contains(&&Message::from(Alive { known: 1, ..Alive::default() })));
    assert_eq!(w.alive(), None);
    w.say(0, Ready { rank: 0, size: 1 });
    assert!(w.log.is_empty(), "said twice: {:?}", w.log);
}
