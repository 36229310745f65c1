// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::optimise::Plan;
use crate::placement::Order;
use crate::system::System;
use proptest::prelude::*;

fn follower(every: [u32; 3], interval_s: f64) -> Follower {
    let system: System = toml::from_str(crate::optimise::tests::MACHINE).expect("the machine");
    let planner = Planner::new(&system, Order::Groups).expect("a planner");
    let plan = Plan { levels: vec![0, 1, 2], every: every.to_vec(), interval_s };
    let planned = planner.judge(&plan).expect("a plan");
    Follower::new(planner, planned)
}

const PAUSE_MS: u64 = 12_000;

fn saved(epoch: Epoch) -> Event {
    Event::Saved { epoch, pause_ms: PAUSE_MS }
}

#[test]
fn a_checkpoint_is_due_an_interval_after_the_last() {
    let mut follower = follower([1, 2, 3], 100.0);
    let actions = follower.step(&Event::Running { from: None }, 5_000);
    assert_eq!(actions, [Action::WakeAt(105_000)]);
    assert_eq!(follower.step(&Event::Wake, 50_000), [Action::WakeAt(105_000)]);
    assert_eq!(follower.step(&Event::Wake, 105_000), [Action::Save]);
    assert_eq!(follower.step(&Event::Wake, 106_000), []);
    assert_eq!(follower.step(&saved(1), 117_000), [Action::WakeAt(217_000)]);
    assert_eq!(follower.next_place(), 1);
    follower.step(&Event::Wake, 217_000);
    assert_eq!(follower.step(&Event::SaveFailed, 218_000), [Action::WakeAt(318_000)]);
}

#[test]
fn each_level_takes_its_share_and_a_cheaper_one_goes_first() {
    let mut follower = follower([1, 2, 2], 100.0);
    follower.step(&Event::Running { from: None }, 0);
    let promoted = |place| Event::Promoted { place, took_ms: [0, 12_800, 1_500_000][place] };
    let mut made = Vec::new();
    for epoch in 1..=8 {
        for action in follower.step(&saved(epoch), 0) {
            if let Action::Promote { epoch, place } = action {
                made.push((epoch, place));
                let next = follower.step(&promoted(place), 0);
                if let [Action::Promote { epoch, place }] = next[..] {
                    made.push((epoch, place));
                    follower.step(&promoted(place), 0);
                }
            }
        }
    }
    assert_eq!(made, [(2, 1), (4, 1), (4, 2), (6, 1), (8, 1), (8, 2)]);
}

#[test]
fn what_takes_long_pauses_for_a_cheaper_level_and_takes_nothing_newer() {
    let mut follower = follower([1, 1, 2], 100.0);
    follower.step(&Event::Running { from: None }, 0);
    follower.step(&saved(1), 0);
    follower.step(&Event::Promoted { place: 1, took_ms: 12_800 }, 0);
    assert!(follower.step(&saved(2), 0).contains(&Action::Promote { epoch: 2, place: 1 }));
    let to_shared = Action::Promote { epoch: 2, place: 2 };
    assert_eq!(follower.step(&Event::Promoted { place: 1, took_ms: 12_800 }, 0), [to_shared]);
    let actions = follower.step(&saved(3), 0);
    assert_eq!(
        actions[1..],
        [Action::Pause { epoch: 2, place: 2 }, Action::Promote { epoch: 3, place: 1 }]
    );
    let to_shared = Action::Promote { epoch: 2, place: 2 };
    assert_eq!(follower.step(&Event::Promoted { place: 1, took_ms: 12_800 }, 0), [to_shared]);
    // Due again, but busy: it stays due until there is room.
    follower.step(&saved(4), 0);
    assert_eq!(follower.next_place(), 0);
    follower.step(&Event::Promoted { place: 1, took_ms: 12_800 }, 0);
    follower.step(&Event::Promoted { place: 2, took_ms: 1_500_000 }, 0);
    assert_eq!(follower.next_place(), 2);
}

#[test]
fn a_restart_counts_from_its_snapshot() {
    let mut follower = follower([1, 2, 2], 100.0);
    follower.step(&Event::Running { from: None }, 0);
    for epoch in 1..=3 {
        follower.step(&saved(epoch), 0);
        follower.step(&Event::Promoted { place: 1, took_ms: 12_800 }, 0);
    }
    assert_eq!(follower.next_place(), 2);
    follower.step(&Event::Running { from: Some(2) }, 0);
    assert_eq!(follower.next_place(), 0);
    follower.step(&Event::Running { from: None }, 0);
    assert_eq!(follower.next_place(), 0);
}

#[test]
fn a_level_that_was_not_made_stays_due() {
    let mut follower = follower([1, 2, 2], 100.0);
    follower.step(&Event::Running { from: None }, 0);
    follower.step(&saved(1), 0);
    follower.step(&saved(2), 0);
    follower.step(&Event::PromotionFailed { place: 1 }, 0);
    assert_eq!(follower.next_place(), 1);
    follower.step(&Event::Running { from: Some(2) }, 0);
    assert_eq!(follower.next_place(), 1);
}

#[test]
fn a_cost_that_drifts_makes_a_new_plan() {
    let mut follower = follower([1, 2, 40], 500.0);
    follower.step(&Event::Running { from: None }, 0);
    assert!(!follower.step(&saved(1), 0).contains(&Action::Replanned));
    let slow = Event::Saved { epoch: 2, pause_ms: 5 * PAUSE_MS };
    assert!(follower.step(&slow, 0).contains(&Action::Replanned));
    assert!(follower.planned().stages[0].pause_s > 20.0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..<_>::default() })]
    /// Whatever happens: one level is made at a time, each wake is answered, nothing is promoted
    /// that was not saved or that a restart has undone.
    #[test]
    fn one_level_at_a_time(steps in proptest::collection::vec(0u32..7, 1..200)) {
        let mut follower = follower([1, 2, 3], 100.0);
        let (mut now, mut epoch, mut newest) = (0, 0, 0);
        let mut active: Option<(Epoch, usize)> = None;
        follower.step(&Event::Running { from: None }, now);
        for step in steps {
            now += 60_000;
            let event = match (step, active) {
                (0 | 1, _) => {
                    epoch += 1;
                    newest = epoch;
                    saved(epoch)
                }
                (2 | 3, Some((_, place))) => {
                    active = None;
                    Event::Promoted { place, took_ms: [0, 12_800, 1_500_000][place] }
                }
                (4, Some((_, place))) => {
                    active = None;
                    Event::PromotionFailed { place }
                }
                (5, _) => {
                    newest = newest.saturating_sub(2);
                    if active.is_some_and(|(epoch, _)| epoch > newest) {
                        active = None;
                    }
                    Event::Running { from: (newest > 0).then_some(newest) }
                }
                _ => Event::Wake,
            };
            for action in follower.step(&event, now) {
                match action {
                    Action::Promote { epoch, place } => {
                        prop_assert_eq!(active, None);
                        prop_assert!(epoch <= newest && place > 0);
                        active = Some((epoch, place));
                    }
                    Action::Pause { epoch, place } => {
                        prop_assert_eq!(active.take(), Some((epoch, place)));
                    }
                    Action::WakeAt(at) => prop_assert!(at >= now),
                    Action::Save | Action::Replanned => {}
                }
            }
        }
    }
}
