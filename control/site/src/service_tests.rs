// SPDX-License-Identifier: Apache-2.0
use super::*;
use proptest::prelude::*;

const STORE: Store = Store { per_s: 1e11 };

fn leading() -> Service {
    let mut service = Service::new(STORE, 1);
    service.step(&Event::Lead(true), 0);
    service
}

/// 100 seconds of the store.
fn offer(job: JobId, due_in_ms: i64) -> Offer {
    Offer {
        job,
        bytes: 1e13,
        nodes: 128,
        mtbf_s: 1e6,
        due_in_ms,
        most_per_s: 1e12,
        is_restart: false,
    }
}

fn accepted(answer: Option<Answer>) -> Option<Lease> {
    match answer {
        Some(Answer::Accept(lease)) => Some(lease),
        _ => None,
    }
}

fn ask_in_ms(answer: Option<Answer>) -> Option<u64> {
    match answer {
        Some(Answer::Deny { ask_in_ms }) => Some(ask_in_ms),
        _ => None,
    }
}

#[test]
fn one_that_is_due_writes_at_once() {
    let mut service = leading();
    assert!(accepted(service.step(&Event::Offer(offer(1, 0)), 0)).is_some());
}

#[test]
fn one_that_comes_early_is_told_its_time() {
    let mut service = leading();
    assert_eq!(ask_in_ms(service.step(&Event::Offer(offer(1, 300_000)), 0)), Some(300_000));
}

#[test]
fn a_second_one_is_denied_until_the_first_is_through() {
    let mut service = leading();
    let lease = accepted(service.step(&Event::Offer(offer(1, 0)), 0)).expect("a lease");
    let wait = ask_in_ms(service.step(&Event::Offer(offer(2, 0)), 40_000)).expect("a denial");
    assert_eq!(wait, 60_000);
    service.step(&Event::Done { job: 1, lease: lease.number }, 90_000);
    assert!(accepted(service.step(&Event::Offer(offer(2, -50_000)), 90_000)).is_some());
}

#[test]
fn a_predicted_conflict_moves_both() {
    let mut service = leading();
    ask_in_ms(service.step(&Event::Offer(offer(1, 500_000)), 0));
    let second = ask_in_ms(service.step(&Event::Offer(offer(2, 500_000)), 0)).expect("a denial");
    assert!(second == 450_000 || second == 550_000, "{second}");
}

#[test]
fn restarts_come_first() {
    let mut service = leading();
    service.step(&Event::Offer(offer(1, 0)), 0);
    let restart = Offer { is_restart: true, ..offer(2, 0) };
    assert!(accepted(service.step(&Event::Offer(restart), 10_000)).is_some());
    assert_eq!(service.leases(), 2);
    assert!(ask_in_ms(service.step(&Event::Offer(offer(3, 0)), 20_000)).is_some());
}

#[test]
fn leases_end_by_themselves() {
    let mut service = leading();
    let lease = accepted(service.step(&Event::Offer(offer(1, 0)), 0)).expect("a lease");
    assert!(ask_in_ms(service.step(&Event::Offer(offer(2, 0)), lease.lasts_ms - 1)).is_some());
    assert!(accepted(service.step(&Event::Offer(offer(2, 0)), lease.lasts_ms + 1)).is_some());
}

#[test]
fn one_that_does_not_lead_is_silent_and_knows_nothing() {
    let mut service = leading();
    service.step(&Event::Offer(offer(1, 0)), 0);
    service.step(&Event::Lead(false), 1);
    assert_eq!(service.step(&Event::Offer(offer(2, 0)), 2), None);
    service.step(&Event::Lead(true), 3);
    assert!(accepted(service.step(&Event::Offer(offer(2, 0)), 4)).is_some());
}

#[test]
fn a_job_that_asks_no_more_is_forgotten() {
    let mut service = leading();
    service.step(&Event::Offer(offer(1, 100_000)), 0);
    let late_ms = 100_000 + FORGET_MS.unsigned_abs() + 1;
    assert!(accepted(service.step(&Event::Offer(offer(2, 0)), late_ms)).is_some());
}

#[test]
fn a_job_of_unknown_size_keeps_others_away_until_it_is_done() {
    let mut service = leading();
    let unknown = Offer { bytes: 0.0, most_per_s: f64::INFINITY, ..offer(1, 0) };
    let lease = accepted(service.step(&Event::Offer(unknown), 0)).expect("a lease");
    let wait_ms = ask_in_ms(service.step(&Event::Offer(offer(2, 0)), 1000)).expect("a denial");
    assert!(wait_ms < 10_000, "asks again soon: {wait_ms}");
    service.step(&Event::Done { job: 1, lease: lease.number }, 5000);
    assert!(accepted(service.step(&Event::Offer(offer(2, 0)), 5001)).is_some());
}

#[test]
fn what_is_predicted_and_held_can_be_seen() {
    let mut service = leading();
    service.step(&Event::Offer(offer(1, 0)), 0);
    service.step(&Event::Offer(offer(2, 20_000)), 0);
    let held = service.held(1, 10_000).expect("a lease");
    assert_eq!((held.done_in_ms, held.is_restart), (90_000, false));
    let planned = service.planned(2, 10_000).expect("a prediction");
    assert_eq!((planned.due_in_ms, planned.start_in_ms), (10_000, 90_000));
    assert_eq!((service.planned(1, 10_000), service.held(2, 10_000)), (None, None));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..<_>::default() })]
    /// Every offer is answered at once; but for restarts one lease is held at a time; who is denied
    /// is told a time that is not past.
    #[test]
    fn one_checkpoint_at_a_time(
        steps in proptest::collection::vec((0u64..8, -200_000i64..400_000, 0u64..90_000), 1..120),
    ) {
        let mut service = leading();
        let mut now_ms = 0;
        let mut held: Option<(JobId, Lease, u64)> = None;
        for (job, due_in_ms, pass_ms) in steps {
            now_ms += pass_ms;
            if let Some((holder, lease, since_ms)) = held {
                if now_ms >= since_ms + 100_000 {
                    service.step(&Event::Done { job: holder, lease: lease.number }, now_ms);
                    held = None;
                } else if holder == job {
                    continue;
                }
            }
            match service.step(&Event::Offer(offer(job, due_in_ms)), now_ms) {
                Some(Answer::Accept(lease)) => {
                    prop_assert!(held.is_none(), "{:?} {}", held, now_ms);
                    held = Some((job, lease, now_ms));
                }
                Some(Answer::Deny { ask_in_ms }) => prop_assert!(ask_in_ms > 0),
                None => prop_assert!(false, "no answer"),
            }
        }
    }
}
