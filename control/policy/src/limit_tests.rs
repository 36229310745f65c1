// SPDX-License-Identifier: Apache-2.0
//! The end of a run's time, against what is known of it.

use super::*;
use proptest::prelude::*;

const S: u64 = 1000;
const H: u64 = 3600 * S;
const BEGUN: u64 = 1_700_000_000 * S;

fn limit(end_ms: u64) -> Limit {
    let mut limit = Limit::new(Settings::default(), BEGUN);
    limit.step(Event::End(Some(end_ms)), BEGUN);
    limit
}

#[test]
fn without_an_end_nothing_is_done() {
    let mut limit = Limit::new(Settings::default(), BEGUN);
    assert_eq!(limit.step(Event::Committed { cost_ms: S }, BEGUN + H), Advice::NoEnd);
    assert_eq!(limit.step(Event::End(None), BEGUN + H), Advice::NoEnd);
}

#[test]
fn before_the_first_checkpoint_a_minute_is_assumed_or_what_the_bytes_tell() {
    let end = BEGUN + 12 * H;
    let mut limit = limit(end);
    let until_ms = end - 2 * 60 * S - 120 * S;
    assert_eq!(limit.step(Event::Tick, BEGUN), Advice::Sleep { until_ms });
    let until_ms = end - 2 * (5 + 200) * S - 120 * S;
    assert_eq!(limit.step(Event::Bytes(20_000_000_000), BEGUN), Advice::Sleep { until_ms });
}

#[test]
fn the_dearest_of_the_last_checkpoints_counts_twice() {
    let end = BEGUN + H; // a margin of 30 s and 72 s
    let mut limit = limit(end);
    let advice = |limit: &mut Limit, cost_s| {
        limit.step(Event::Committed { cost_ms: cost_s * S }, BEGUN + 60 * S)
    };
    let sleep = |reserve_s| Advice::Sleep { until_ms: end - reserve_s * S };
    assert_eq!(advice(&mut limit, 10), sleep(20 + 102));
    assert_eq!(advice(&mut limit, 40), sleep(80 + 102));
    for _ in 0..3 {
        assert_eq!(advice(&mut limit, 10), sleep(80 + 102));
    }
    assert_eq!(advice(&mut limit, 10), sleep(20 + 102), "four are remembered");
}

#[test]
fn it_is_saved_when_the_reserve_begins_and_late_when_no_checkpoint_fits() {
    let end = BEGUN + H;
    let mut limit = limit(end);
    limit.step(Event::Committed { cost_ms: 10 * S }, BEGUN);
    let at = end - 122 * S;
    assert_eq!(limit.step(Event::Tick, at - 1), Advice::Sleep { until_ms: at });
    assert_eq!(limit.step(Event::Tick, at), Advice::Save);
    assert_eq!(limit.step(Event::Tick, end - 10 * S), Advice::Save);
    assert_eq!(limit.step(Event::Tick, end - 10 * S + 1), Advice::Late);
    assert_eq!(limit.step(Event::Tick, end + H), Advice::Late);
}

#[test]
fn an_assumption_takes_no_more_than_half_of_a_short_run_but_what_was_measured_does() {
    let end = BEGUN + 20 * S;
    let mut limit = limit(end);
    assert_eq!(limit.step(Event::Tick, BEGUN), Advice::Sleep { until_ms: end - 10 * S });
    let cheap = limit.step(Event::Committed { cost_ms: 100 }, BEGUN);
    assert_eq!(cheap, Advice::Sleep { until_ms: end - 10 * S });
    let dear = limit.step(Event::Committed { cost_ms: 8 * S }, BEGUN);
    assert_eq!(dear, Advice::Sleep { until_ms: end - 16 * S });
}

#[test]
fn an_end_that_is_moved_counts() {
    let mut limit = limit(BEGUN + H);
    let near = BEGUN + H - S;
    assert_eq!(limit.step(Event::Tick, near), Advice::Late);
    let moved = limit.step(Event::End(Some(BEGUN + 3 * H)), near);
    assert!(matches!(moved, Advice::Sleep { .. }), "{moved:?}");
}

proptest! {
    #[test]
    fn whoever_obeys_has_room_for_two_checkpoints_like_the_dearest(
        whole_ms in 1..100 * H,
        costs in prop::collection::vec(1..2 * H, 1..8),
    ) {
        let end = BEGUN + whole_ms;
        let mut limit = limit(end);
        for cost_ms in &costs {
            limit.step(Event::Committed { cost_ms: *cost_ms }, BEGUN);
        }
        let dearest = costs.iter().rev().take(4).max().copied().unwrap_or(0);
        match limit.step(Event::Tick, BEGUN) {
            Advice::Sleep { until_ms } => {
                prop_assert!(until_ms > BEGUN && until_ms + 2 * dearest <= end);
                prop_assert_eq!(limit.step(Event::Tick, until_ms), Advice::Save);
            }
            Advice::Save => prop_assert!(dearest <= whole_ms),
            Advice::Late => prop_assert!(dearest > whole_ms),
            Advice::NoEnd => prop_assert!(false),
        }
    }

    #[test]
    fn any_numbers_are_borne(
        end in any::<u64>(), now in any::<u64>(), cost_ms in any::<u64>(), bytes in any::<u64>(),
    ) {
        let mut limit = Limit::new(Settings::default(), now);
        limit.step(Event::Bytes(bytes), now);
        limit.step(Event::End(Some(end)), now);
        limit.step(Event::Committed { cost_ms }, now);
    }
}
