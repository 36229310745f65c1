// SPDX-License-Identifier: Apache-2.0
//! Checkpoints that the program asks for, against scripted ranks.

use super::*;

#[test]
fn a_checkpoint_that_all_ranks_ask_for_begins_with_the_last_and_answers_all() {
    let mut world = World::new(2);
    world.say(1, Ask { with_all: 1, saves_itself: 0 });
    assert!(world.names_to(1).is_empty(), "rank 0 has not asked yet");
    world.say(0, Ask { with_all: 1, saves_itself: 0 });
    assert!(world.sent_to(0).contains(&&Message::from(Request { epoch: 1, asked: 1 })));
    world.clocks(1, &[&[], &[]]);
    world.park_all(1, 2);
    world.save_all(1, 2);
    assert!(!world.names_to(0).contains(&"ASKED"), "nothing is stored yet");
    world.event(Event::Stored(1, Ok("/s/1".into())));
    let message = "checkpoint 1 is committed: /s/1".into();
    let asked = Message::from(Asked { outcome: 0, message });
    assert!((0..2).all(|rank| world.sent_to(rank).contains(&&asked)), "{:?}", world.log);
}

#[test]
fn ranks_that_ask_wait_for_the_others_until_the_deadline() {
    let mut world = World::new(3);
    world.say(2, Ask { with_all: 1, saves_itself: 0 });
    world.now += 60_001;
    world.event(Event::Tick);
    let Message::Asked(asked) = world.sent_to(2)[0] else { panic!("{:?}", world.log) };
    assert_eq!(asked.outcome, 1);
    assert!(asked.message.contains("ranks 0, 1 on host h0 have not called"), "{}", asked.message);
}

#[test]
fn a_rank_that_asks_before_others_are_back_waits_for_them() {
    let mut world = World::new(1);
    world.machine = begin(world.machine.config.clone());
    for rank in 0..2 {
        world.say(rank, Hello { job: "j".into(), ..Hello::default() });
    }
    world.say(0, Ready { rank: 0, size: 2 });
    world.say(0, Ask { with_all: 1, saves_itself: 0 });
    world.log.clear();
    world.event(Event::Tick);
    assert!(world.log.is_empty(), "{:?}", world.log);
    world.say(1, Ready { rank: 1, size: 2 });
    world.say(1, Ask { with_all: 1, saves_itself: 0 });
    assert_eq!(world.names_to(0), ["REQUEST"]);
}

#[test]
fn one_rank_can_ask_for_a_checkpoint_that_nobody_waits_for() {
    let mut world = World::new(2);
    world.ask(false);
    world.say(0, Ask { with_all: 0, saves_itself: 0 });
    assert_eq!(world.names_to(0), ["REQUEST"], "another one is under way");
    world.say(1, Failed { epoch: 1, message: "no".into() });
    assert!(world.sent_to(1).contains(&&Message::from(Request { epoch: 2, asked: 0 })));
}

fn ask_itself(world: &mut World, saves_itself: u32) {
    for rank in 0..2 {
        world.say(rank, Ask { with_all: 1, saves_itself });
    }
}

#[test]
fn a_program_saves_itself_when_all_its_ranks_ask() {
    let mut world = World::with(2, Checkpointer::Itself);
    world.ask(false);
    assert!(world.names_to(0).is_empty(), "the program has not asked");
    ask_itself(&mut world, 1);
    let Message::Save(save) = world.sent_to(1)[0] else { panic!("{:?}", world.log) };
    assert_eq!((save.checkpointer.as_str(), save.path.as_str()), ("self", "/s/1.partial/program"));
    for rank in 0..2 {
        world.say(rank, Saved { epoch: 1, ..Saved::default() });
    }
    world.event(Event::Stored(1, Ok("/s/1".into())));
    assert_eq!(world.answer().outcome, 0, "the command that was there first");
    assert_eq!(world.names_to(0), ["SAVE", "COMMITTED", "ASKED"]);
    ask_itself(&mut world, 1);
    assert_eq!(world.names_to(0).last(), Some(&"SAVE"), "nobody but the program has asked");
}

#[test]
fn a_program_without_a_function_for_it_cannot_save_itself() {
    let mut world = World::with(2, Checkpointer::Itself);
    ask_itself(&mut world, 0);
    let Some(Message::Asked(asked)) = world.sent_to(1).pop() else { panic!("{:?}", world.log) };
    assert!(asked.message.contains("ranks 0, 1 have not called fermata_self_save"), "{asked:?}");
    assert!(!world.names_to(0).contains(&"SAVE"));
}

#[test]
fn a_program_that_does_not_come_to_save_itself_is_named() {
    let mut world = World::with(2, Checkpointer::Itself);
    world.ask(false);
    world.say(0, Ask { with_all: 1, saves_itself: 1 });
    world.now += 10_001;
    world.event(Event::Tick);
    let text = world.answer().message;
    assert!(text.contains("fermata_checkpoint: rank 1 has not called it in time"), "{text}");
    assert!(!world.names_to(0).contains(&"ASKED"), "rank 0 may wait on");
    world.say(1, Ask { with_all: 1, saves_itself: 1 });
    assert!(world.names_to(0).contains(&"SAVE"));
}

#[test]
fn a_command_that_waits_for_long_hears_that_somebody_listens() {
    let mut world = World::with(2, Checkpointer::Itself);
    world.say(CLIENT, Checkpoint { stop: 1, timeout_ms: 7_200_000 });
    for minute in 0..60 {
        world.log.clear();
        for _ in 0..30 {
            world.now += 2000;
            world.event(Event::Tick);
        }
        let said = world.names_to(CLIENT).iter().filter(|name| **name == "PROGRESS").count();
        assert!(said >= 29, "{said} times in minute {minute}");
    }
}

#[test]
fn a_rank_that_has_given_up_waiting_does_not_count_as_asking() {
    let mut world = World::new(2);
    world.say(0, Ask { with_all: 1, saves_itself: 0 });
    world.say(0, Failed { epoch: 0, message: "it continues".into() });
    world.say(1, Ask { with_all: 1, saves_itself: 0 });
    assert!(world.names_to(1).is_empty(), "rank 0 asks no longer: {:?}", world.log);
    world.say(0, Ask { with_all: 1, saves_itself: 0 });
    assert_eq!(world.names_to(1), ["REQUEST"]);
}

#[test]
fn a_rank_that_has_given_up_waiting_cannot_save_itself() {
    let mut world = World::with(2, Checkpointer::Itself);
    ask_itself(&mut world, 1);
    world.say(1, Failed { epoch: 0, message: "it continues".into() });
    let Some(Message::Asked(asked)) = world.sent_to(0).pop() else { panic!("{:?}", world.log) };
    assert!(asked.message.contains("rank 1: it continues"), "{asked:?}");
}
