// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::optimise::{Plan, Planner};
use crate::placement::Order;
use crate::system::System;
use proptest::prelude::*;

const INTERVAL_MS: u64 = 400_000;
/// What the plan takes a checkpoint's pause to be.
const PAUSE_MS: u64 = 12_000;

fn auto() -> Pace {
    let system: System = toml::from_str(crate::optimise::tests::MACHINE).expect("the machine");
    let planner = Planner::new(&system, Order::Groups).expect("a planner");
    let plan = Plan { levels: vec![0, 1, 2], every: vec![1, 2, 2], interval_s: 400.0 };
    let planned = planner.judge(&plan).expect("a plan");
    Pace::new(Every::Auto(Box::new(Follower::new(planner, planned))), None)
}

fn saves(actions: &[Action]) -> bool {
    actions.contains(&Action::Save)
}

fn saved(epoch: Epoch) -> Event {
    Event::Saved { epoch, pause_ms: PAUSE_MS }
}

#[test]
fn a_fixed_interval_begins_when_the_job_can_be_checkpointed() {
    let mut pace = Pace::new(Every::Fixed(1000), None);
    assert_eq!(pace.step(&Event::Wake, 5000), []);
    assert_eq!(pace.step(&Event::Able(true), 6000), [Action::WakeAt(7000)]);
    assert_eq!(pace.step(&Event::Wake, 6999), [Action::WakeAt(7000)]);
    assert_eq!(pace.step(&Event::Wake, 7000), [Action::Save]);
    pace.step(&Event::Began, 7000);
    assert_eq!(pace.step(&Event::Wake, 9000), []);
    assert_eq!(pace.step(&saved(1), 9500), [Action::WakeAt(10_500)]);
}

#[test]
fn what_falls_due_meanwhile_is_taken_as_soon_as_it_can() {
    for mut pace in [Pace::new(Every::Fixed(1000), None), auto()] {
        pace.step(&Event::Able(true), 0);
        pace.step(&Event::Able(false), 500);
        assert_eq!(pace.step(&Event::Wake, 2 * INTERVAL_MS), []);
        assert_eq!(pace.step(&Event::Able(true), 2 * INTERVAL_MS + 7), [Action::Save]);
    }
}

#[test]
fn one_that_waits_for_leave_says_when_it_is_due_and_takes_none_without() {
    for (pace, due_ms) in
        [(Pace::new(Every::Fixed(1000), None), 1000), (auto(), INTERVAL_MS / FIRST)]
    {
        let mut pace = pace.with_leave();
        assert_eq!(pace.step(&Event::Leave, 0), [], "the job cannot be checkpointed yet");
        assert_eq!(pace.step(&Event::Able(true), 0), [Action::WakeAt(due_ms)]);
        assert_eq!(pace.step(&Event::Wake, 9 * due_ms), [Action::WakeAt(due_ms)]);
        assert_eq!(pace.step(&Event::Leave, 10 * due_ms), [Action::Save]);
        assert_eq!(pace.step(&Event::Leave, 10 * due_ms), [], "one at a time");
        pace.step(&Event::Began, 10 * due_ms);
        let after = pace.step(&saved(1), 11 * due_ms);
        assert!(matches!(after[..], [Action::WakeAt(at_ms)] if at_ms > 11 * due_ms), "{after:?}");
        assert!(saves(&pace.step(&Event::Leave, 11 * due_ms + 1)), "before it is due");
    }
}

#[test]
fn without_an_interval_nothing_is_due() {
    let mut pace = Pace::new(Every::Never, None);
    assert_eq!(pace.step(&Event::Able(true), 0), []);
    assert_eq!(pace.step(&Event::Wake, u64::MAX), []);
    assert_eq!(pace.step(&saved(1), u64::MAX), []);
}

#[test]
fn the_first_checkpoint_comes_early_and_measures() {
    let mut pace = auto();
    assert_eq!(pace.step(&Event::Able(true), 0), [Action::WakeAt(INTERVAL_MS / 4)]);
    assert_eq!(pace.step(&Event::Wake, INTERVAL_MS / 4), [Action::Save]);
    pace.step(&Event::Began, INTERVAL_MS / 4);
    // It took four times as long: from now on there are fewer.
    let took = Event::Saved { epoch: 1, pause_ms: 4 * PAUSE_MS };
    let actions = pace.step(&took, 150_000);
    assert!(actions.contains(&Action::Replanned), "{actions:?}");
    let Some(Action::WakeAt(at_ms)) = actions.last() else { panic!("{actions:?}") };
    let planned_s = pace.follower().expect("a plan").planned().plan.interval_s;
    assert_eq!(*at_ms, 150_000 + milliseconds(planned_s));
    assert!(planned_s > 700.0, "{planned_s}");
}

#[test]
fn a_failed_checkpoint_is_tried_again_soon_and_then_less_so() {
    let mut pace = auto();
    pace.step(&Event::Able(true), 0);
    let mut now_ms = INTERVAL_MS / 4;
    for over in [8, 4, 2, 1, 1] {
        assert!(saves(&pace.step(&Event::Wake, now_ms)));
        pace.step(&Event::Began, now_ms);
        let actions = pace.step(&Event::Failed, now_ms + 10);
        now_ms += 10 + INTERVAL_MS / over;
        assert_eq!(actions, [Action::WakeAt(now_ms)]);
    }
    assert!(saves(&pace.step(&Event::Wake, now_ms)));
    pace.step(&saved(1), now_ms);
    now_ms += INTERVAL_MS;
    assert!(saves(&pace.step(&Event::Wake, now_ms)));
    assert_eq!(pace.step(&Event::Failed, now_ms), [Action::WakeAt(now_ms + INTERVAL_MS / 8)]);
}

#[test]
fn what_somebody_asked_for_counts_if_it_is_saved() {
    let mut pace = auto();
    pace.step(&Event::Able(true), 0);
    pace.step(&Event::Began, 50_000);
    assert_eq!(pace.step(&Event::Failed, 60_000), [Action::WakeAt(100_000)]);
    pace.step(&Event::Began, 70_000);
    // In good time: nothing is due while it is taken, and the next is an interval away.
    assert_eq!(pace.step(&Event::Wake, 120_000), []);
    let actions = pace.step(&saved(1), 130_000);
    assert_eq!(actions.last(), Some(&Action::WakeAt(530_000)), "{actions:?}");
}

#[test]
fn levels_are_made_as_planned() {
    let mut pace = auto();
    pace.step(&Event::Able(true), 0);
    let mut now_ms = INTERVAL_MS / 4;
    let mut made = Vec::new();
    for epoch in 1..=4 {
        assert!(saves(&pace.step(&Event::Wake, now_ms)));
        let mut actions = pace.step(&saved(epoch), now_ms);
        while let Some((epoch, place)) = actions.iter().find_map(|action| match action {
            Action::Promote { epoch, place } => Some((*epoch, *place)),
            _ => None,
        }) {
            made.push((epoch, place));
            let took_ms = [0, 12_800, 1_500_000][place];
            actions = pace.step(&Event::Promoted { place, took_ms }, now_ms);
        }
        now_ms += INTERVAL_MS;
    }
    assert_eq!(made, [(2, 1), (4, 1), (4, 2)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..<_>::default() })]
    /// Whatever happens in whatever order: none is asked for while one is taken or none can be;
    /// while one can be, there is a time to wake at, no later than an interval away, which brings
    /// it.
    #[test]
    fn one_at_a_time_and_none_forgotten(
        is_auto: bool, events in proptest::collection::vec((0u8..6, 0u64..300_000), 1..80),
    ) {
        let mut pace = if is_auto { auto() } else { Pace::new(Every::Fixed(INTERVAL_MS), None) };
        let (mut is_able, mut is_saving, mut now_ms, mut epoch) = (false, false, 0, 0);
        for (what, pass_ms) in events {
            now_ms += pass_ms;
            let event = match what {
                0 => Event::Able(false),
                1 => Event::Able(true),
                2 if !is_saving => Event::Began,
                3 if is_saving => Event::Failed,
                4 | 5 if is_saving => {
                    epoch += 1;
                    saved(epoch)
                }
                _ => Event::Wake,
            };
            match event {
                Event::Able(able) => is_able = able,
                Event::Began => is_saving = true,
                Event::Failed | Event::Saved { .. } => is_saving = false,
                _ => {}
            }
            let actions = pace.step(&event, now_ms);
            if saves(&actions) {
                prop_assert!(is_able && !is_saving);
                is_saving = true;
            }
            let wake_ms = actions.iter().find_map(|action| match action {
                Action::WakeAt(at_ms) => Some(*at_ms),
                _ => None,
            });
            prop_assert_eq!(wake_ms.is_some(), is_able && !is_saving);
            if let Some(wake_ms) = wake_ms {
                prop_assert!(wake_ms > now_ms && wake_ms <= now_ms + INTERVAL_MS);
                prop_assert!(saves(&pace.clone().step(&Event::Wake, wake_ms)));
            }
        }
    }
}
