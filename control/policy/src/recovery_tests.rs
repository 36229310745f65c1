// SPDX-License-Identifier: Apache-2.0
//! Runs that break off, against what is to become of them.

use super::*;
use proptest::prelude::*;

fn killed(rank: u32) -> Ending {
    Ending::Lost(Cause::Rank { rank: Some(rank), signal: Some(9) })
}

fn ended(ending: Ending, newest_epoch: u32) -> Event {
    Event::Ended { ending, newest_epoch }
}

/// Lets the pause pass. Returns how long it was, and the restart.
fn resume(recovery: &mut Recovery, action: Option<Action>, now: u64) -> (u64, Action) {
    let Some(Action::Wait { until_ms }) = action else { panic!("{action:?}") };
    if until_ms > now {
        assert_eq!(recovery.step(Event::Tick, until_ms - 1), None);
    }
    (until_ms - now, recovery.step(Event::Tick, until_ms).unwrap())
}

#[test]
fn what_would_be_the_same_again_is_not_begun_again() {
    let endings =
        [Ending::Done, Ending::Stopped, Ending::Refused, Ending::Program(3), Ending::Told(15)];
    for ending in endings {
        let mut recovery = Recovery::new(5);
        let action = recovery.step(ended(ending.clone(), 1), 0);
        assert_eq!(action, Some(Action::End(Verdict::AsItEnded)), "{ending:?}");
        assert_eq!(recovery.step(Event::Tick, 1_000_000), None);
        assert_eq!(recovery.step(ended(killed(0), 2), 1_000_000), None, "it has ended");
    }
}

#[test]
fn without_retries_nothing_is_begun_again() {
    let mut recovery = Recovery::new(0);
    let action = recovery.step(ended(killed(0), 1), 0);
    assert_eq!(action, Some(Action::End(Verdict::NoRetryLeft(0))));
}

#[test]
fn the_first_time_it_is_begun_again_at_once_then_after_pauses_until_there_is_progress() {
    let mut recovery = Recovery::new(10);
    let mut pauses = vec![];
    for (rank, epoch) in [(0, 1), (1, 1), (2, 1), (3, 1), (0, 2), (1, 2)] {
        let action = recovery.step(ended(killed(rank), epoch), 7);
        pauses.push(resume(&mut recovery, action, 7).0);
    }
    assert_eq!(pauses, [0, 1000, 2000, 4000, 0, 1000]);
}

#[test]
fn retries_are_counted() {
    let mut recovery = Recovery::new(2);
    for retry in 1..=2 {
        let action = recovery.step(ended(killed(0), retry), 0);
        let (_, action) = resume(&mut recovery, action, 0);
        assert_eq!(action, Action::Restart { retry, without: vec![] });
    }
    let action = recovery.step(ended(killed(0), 3), 0);
    assert_eq!(action, Some(Action::End(Verdict::NoRetryLeft(2))));
}

#[test]
fn a_crash_loop_ends_by_name() {
    let mut recovery = Recovery::new(100);
    for _ in 0..2 {
        let action = recovery.step(ended(killed(3), 0), 0);
        resume(&mut recovery, action, 0);
        // A death of another kind between changes nothing.
        let action = recovery.step(ended(Ending::Lost(Cause::Launcher(213)), 0), 0);
        if let Some(Action::Wait { .. }) = action {
            resume(&mut recovery, action, 0);
        }
    }
    let cause = Cause::Rank { rank: Some(3), signal: Some(9) };
    let action = recovery.step(ended(killed(3), 0), 0);
    assert_eq!(action, Some(Action::End(Verdict::CrashLoop(cause, 3))));
}

#[test]
fn a_lost_host_is_left_out_from_then_on() {
    let mut recovery = Recovery::new(9);
    let action = recovery.step(ended(Ending::Lost(Cause::Host("b".into())), 1), 0);
    let (_, action) = resume(&mut recovery, action, 0);
    assert_eq!(action, Action::Restart { retry: 1, without: vec!["b".into()] });
    let action = recovery.step(ended(killed(0), 2), 0);
    let (_, action) = resume(&mut recovery, action, 0);
    assert_eq!(action, Action::Restart { retry: 2, without: vec!["b".into()] });
}

#[test]
fn nothing_is_begun_when_the_allocation_ends() {
    let mut recovery = Recovery::new(9);
    recovery.step(ended(killed(0), 1), 0);
    let action = recovery.step(Event::StopAsked, 0);
    assert_eq!(action, Some(Action::End(Verdict::StopAsked)));
    assert_eq!(recovery.step(Event::Tick, 1_000_000), None);
}

fn any_ending() -> impl Strategy<Value = Ending> {
    prop_oneof![
        1 => Just(Ending::Done),
        1 => Just(Ending::Program(3)),
        20 => (0u32..4).prop_map(killed),
        5 => Just(Ending::Lost(Cause::Host("b".into()))),
        5 => Just(Ending::Lost(Cause::Launcher(1))),
    ]
}

proptest! {
    #[test]
    fn there_are_no_more_runs_than_allowed_and_none_after_the_end(
        retries in 0u32..20,
        endings in prop::collection::vec((any_ending(), 0u32..2), 1..60),
    ) {
        let mut recovery = Recovery::new(retries);
        let (mut runs, mut epoch, mut now, mut is_over) = (1, 0, 0, false);
        for (ending, saved) in endings {
            epoch += saved;
            let is_lost = matches!(ending, Ending::Lost(_));
            match recovery.step(ended(ending, epoch), now) {
                Some(Action::Wait { until_ms }) => {
                    prop_assert!(is_lost && !is_over && until_ms <= now + PAUSE_MAX_MS);
                    now = until_ms;
                    let next = recovery.step(Event::Tick, now);
                    prop_assert!(matches!(next, Some(Action::Restart { .. })), "{next:?}");
                    runs += 1;
                }
                Some(Action::End(_)) => is_over = true,
                other => prop_assert!(is_over && other.is_none(), "{other:?}"),
            }
        }
        prop_assert!(runs <= retries + 1);
    }
}
