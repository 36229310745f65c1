// SPDX-License-Identifier: Apache-2.0
use super::*;

fn advice(restored_bytes: u64) -> Advice {
    Advice::new(SiteJob { job: 5, nodes: 2, restored_bytes })
}

fn lease(number: u64) -> Answer {
    Answer::Accept(Lease { number, lasts_ms: 10_000, per_s: 1e9 })
}

/// Lets it ask for a checkpoint that is due at 10 s; the offer and its number.
fn asked(advice: &mut Advice) -> (u64, Offer) {
    assert_eq!(advice.due(10_000, 10_000, 0), []);
    assert_eq!(advice.on_time(4_999), []);
    match advice.on_time(5_000)[..] {
        [Effect::Offer(number, offer)] => (number, offer),
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn a_checkpoint_begins_when_the_site_says_and_its_lease_is_given_back() {
    let mut advice = advice(0);
    let (number, offer) = asked(&mut advice);
    assert_eq!((offer.job, offer.nodes, offer.bytes), (5, 2, 0.0));
    let effects = advice.answered(number, lease(3), 5_001);
    assert_eq!(effects, [Effect::Save { lease: Some(3), late_ms: -4_999 }]);
    advice.measured(2_000_000, 500);
    assert_eq!(advice.ended(6_000), [Effect::Done(3)]);
    advice.due(16_000, 10_000, 6_000);
    let [Effect::Offer(_, offer)] = advice.on_time(11_000)[..] else { panic!("no offer") };
    assert_eq!((offer.bytes, offer.most_per_s, offer.mtbf_s), (2e6, 4e6, 100.0));
}

#[test]
fn without_answers_the_plan_holds() {
    let mut advice = advice(0);
    asked(&mut advice);
    let mut effects = Vec::new();
    for now_ms in (5_000..=10_000).step_by(50) {
        effects.extend(advice.on_time(now_ms));
    }
    assert!(matches!(effects[0], Effect::Offer(..)), "{effects:?}");
    assert_eq!(effects[1..], [Effect::Save { lease: None, late_ms: 0 }]);
    assert_eq!(advice.ended(11_000), []);
}

#[test]
fn a_lease_that_comes_too_late_is_given_back_at_once() {
    let mut advice = advice(0);
    let (first, _) = asked(&mut advice);
    assert!(matches!(advice.on_time(7_000)[..], [Effect::Offer(..)]), "asks again");
    assert_eq!(advice.answered(first, lease(3), 7_001), [Effect::Done(3)]);
    advice.on_time(9_000);
    assert_eq!(advice.answered(first + 1, lease(4), 9_001), [Effect::Done(4)]);
}

#[test]
fn a_restart_is_told_of_while_it_reads() {
    for answer_first in [true, false] {
        let mut advice = advice(4096);
        let [Effect::Offer(number, offer)] = advice.on_time(0)[..] else { panic!("no offer") };
        assert!(offer.is_restart && offer.bytes > 0.0);
        if answer_first {
            assert_eq!(advice.answered(number, lease(9), 1), []);
            assert_eq!(advice.running(), [Effect::Done(9)]);
        } else {
            assert_eq!(advice.running(), []);
            assert_eq!(advice.answered(number, lease(9), 1), [Effect::Done(9)]);
        }
        assert_eq!(advice.running(), []);
    }
}

#[test]
fn the_same_time_is_heard_once_unless_a_checkpoint_has_ended_between() {
    let mut advice = advice(0);
    advice.due(10_000, 10_000, 0);
    let first = advice.on_time(5_000);
    assert_eq!(first.len(), 1);
    assert_eq!(advice.due(10_000, 10_000, 5_050), []);
    assert_eq!(advice.on_time(5_050), [], "it waits for the answer");
    advice.ended(6_000);
    advice.due(10_000, 10_000, 6_000);
    assert_eq!(advice.on_time(8_000).len(), 1);
}
