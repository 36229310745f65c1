// SPDX-License-Identifier: Apache-2.0
//! Signals and the end of an allocation, in every order that a batch system has.

use super::*;
use proptest::prelude::*;

const TERM: i32 = 15;
const USR1: i32 = 10;
const INT: i32 = 2;
const HUP: i32 = 1;

fn stopping() -> Stopping {
    Stopping::new(SaveOn::of_batch_systems(false))
}

#[test]
fn lists_are_names_or_numbers() {
    let list = SaveOn::parse("TERM,sigusr1, 12").unwrap();
    assert_eq!(list.text(), "10,12,15");
    assert_eq!(SaveOn::parse(&list.text()), Ok(list));
    assert!(SaveOn::parse("none").unwrap().is_empty());
    for bad in ["KILL", "9", "", "SEGV", "TERM,,USR1", "11"] {
        assert!(SaveOn::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn ctrl_c_ends_a_job_where_somebody_can_press_it() {
    assert!(SaveOn::of_batch_systems(false).has(INT));
    assert!(!SaveOn::of_batch_systems(true).has(INT));
    assert!(SaveOn::of_batch_systems(true).has(TERM));
    let mut outside = Stopping::new(SaveOn::default());
    for signal in [INT, TERM, USR1, HUP] {
        assert_eq!(outside.step(Event::Signal(signal), 0), Some(Action::Pass(signal)));
    }
    assert_eq!(
        outside.step(Event::Limit, 0),
        Some(Action::Save(Why::Limit)),
        "--until still holds"
    );
}

#[test]
fn one_signal_saves_and_further_ones_change_nothing() {
    let mut stopping = stopping();
    assert_eq!(stopping.step(Event::Signal(USR1), 0), Some(Action::Save(Why::Signal(USR1))));
    for event in [Event::Signal(TERM), Event::Signal(USR1), Event::Limit, Event::Tick] {
        assert_eq!(stopping.step(event, 1), None, "{event:?} while it is saved");
    }
    assert_eq!(stopping.why(), Some(Why::Signal(USR1)));
    stopping.step(Event::Committed, 2);
    for event in [Event::Signal(TERM), Event::Limit, Event::Tick, Event::Failed] {
        assert_eq!(stopping.step(event, 1_000_000), None, "{event:?} when it is saved");
    }
    assert_eq!(stopping.why(), Some(Why::Signal(USR1)));
    assert_eq!(stopping.step(Event::Signal(HUP), 3), Some(Action::Pass(HUP)), "not one of these");
}

#[test]
fn what_fails_is_tried_again_with_pauses_that_grow() {
    let mut stopping = stopping();
    assert_eq!(stopping.step(Event::Limit, 0), Some(Action::Save(Why::Limit)));
    let (mut now, mut pauses) = (0, vec![]);
    for _ in 0..7 {
        stopping.step(Event::Failed, now);
        assert_eq!(stopping.why(), Some(Why::Limit), "it may be saved all the same");
        let since = now;
        while stopping.step(Event::Tick, now).is_none() {
            now += 500;
        }
        pauses.push((now - since) / 1000);
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
}

#[test]
fn a_job_that_cannot_be_saved_can_be_ended() {
    let mut stopping = stopping();
    for attempt in 0..ATTEMPTS_MAX {
        let action = stopping.step(Event::Signal(TERM), u64::from(attempt));
        assert_eq!(action, Some(Action::Save(Why::Signal(TERM))));
        assert_eq!(stopping.step(Event::Signal(TERM), u64::from(attempt)), None);
        stopping.step(Event::Failed, u64::from(attempt));
    }
    assert_eq!(stopping.step(Event::Signal(TERM), 3), Some(Action::Pass(TERM)));
}

#[test]
fn what_comes_to_a_rank_counts_once_no_rank_is_known_to_be_lost() {
    let mut stopping = stopping();
    assert_eq!(stopping.step(Event::OfRank(HUP), 0), None, "not one of these");
    assert_eq!(stopping.step(Event::Tick, LOSS_KNOWN_MS), None);
    stopping.step(Event::OfRank(TERM), LOSS_KNOWN_MS);
    stopping.step(Event::OfRank(USR1), LOSS_KNOWN_MS + 1);
    assert_eq!(stopping.step(Event::Tick, 2 * LOSS_KNOWN_MS - 1), None);
    let save = Some(Action::Save(Why::Signal(TERM)));
    assert_eq!(stopping.step(Event::Tick, 2 * LOSS_KNOWN_MS), save);
}

#[test]
fn what_an_mpirun_ends_the_others_with_saves_nothing() {
    for told_first in [true, false] {
        let mut stopping = stopping();
        let mut events = [Event::OfRank(TERM), Event::RankLost];
        if !told_first {
            events.reverse();
        }
        for (event, now) in events.into_iter().zip([0, LOSS_KNOWN_MS - 1]) {
            assert_eq!(stopping.step(event, now), None);
        }
        assert_eq!(stopping.step(Event::Tick, 10 * LOSS_KNOWN_MS), None);
        assert_eq!(stopping.why(), None, "it may be begun again");
        let save = Some(Action::Save(Why::Signal(TERM)));
        assert_eq!(stopping.step(Event::Signal(TERM), 0), save, "a word to us still counts");
    }
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        prop::sample::select(vec![HUP, INT, USR1, 12, TERM]).prop_map(Event::Signal),
        prop::sample::select(vec![HUP, USR1, TERM]).prop_map(Event::OfRank),
        Just(Event::RankLost),
        Just(Event::Limit),
        Just(Event::Committed),
        Just(Event::Failed),
        Just(Event::Tick),
    ]
}

proptest! {
    #[test]
    fn at_most_one_attempt_is_under_way_and_none_follows_a_commit(
        events in prop::collection::vec((any_event(), 0u64..40_000), 0..200),
    ) {
        let (mut stopping, mut now) = (stopping(), 0);
        let (mut is_saving, mut is_saved) = (false, false);
        for (event, later) in events {
            now += later;
            match stopping.step(event, now) {
                Some(Action::Save(_)) => {
                    prop_assert!(!is_saving && !is_saved, "{event:?} at {now}");
                    is_saving = true;
                }
                Some(Action::Pass(signal)) => {
                    prop_assert!(signal == HUP || !is_saving && !is_saved, "{signal} at {now}");
                }
                None => match event {
                    Event::Committed if is_saving => (is_saving, is_saved) = (false, true),
                    Event::Failed => is_saving = false,
                    _ => {}
                }
            }
        }
    }
}
