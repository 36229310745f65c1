// SPDX-License-Identifier: Apache-2.0
use super::*;
use proptest::prelude::*;

fn client() -> Client {
    Client::new(Job { job: 7, bytes: 1e12, nodes: 64, mtbf_s: 1e6, most_per_s: 1e11 })
}

fn offered(actions: &[Action]) -> Option<(i64, u32)> {
    actions.iter().find_map(|action| match action {
        Action::Offer { offer, replica } => Some((offer.due_in_ms, *replica)),
        _ => None,
    })
}

const LEASE: Lease = Lease { number: 3, lasts_ms: 20_000, per_s: 1e11 };

#[test]
fn it_asks_before_it_is_due_and_writes_when_told() {
    let mut client = client();
    let actions = client.step(&Event::Computing { due_ms: 100_000 }, 0);
    assert_eq!(actions, [Action::WakeAt(50_000)]);
    assert_eq!(offered(&client.step(&Event::Wake, 50_000)), Some((50_000, 0)));
    let deny = Event::Answer(Answer::Deny { ask_in_ms: 40_000 });
    assert_eq!(client.step(&deny, 50_001), [Action::WakeAt(90_001)]);
    assert!(offered(&client.step(&Event::Wake, 90_001)).is_some());
    let accept = Event::Answer(Answer::Accept(LEASE));
    assert_eq!(client.step(&accept, 90_002), [Action::Write { lease: Some(LEASE) }]);
    assert_eq!(client.step(&Event::Written, 99_000), [Action::Done { lease: 3 }]);
}

#[test]
fn without_answers_it_follows_its_own_plan() {
    let mut client = client();
    client.step(&Event::Computing { due_ms: 100_000 }, 0);
    assert_eq!(offered(&client.step(&Event::Wake, 50_000)), Some((50_000, 0)));
    assert_eq!(offered(&client.step(&Event::Wake, 52_000)), Some((48_000, 1)));
    assert_eq!(client.step(&Event::Wake, 54_000), [Action::WakeAt(100_000)]);
    assert!(client.is_alone());
    assert_eq!(client.step(&Event::Wake, 100_000), [Action::Write { lease: None }]);
    assert_eq!(client.step(&Event::Written, 110_000), []);
    // It asks again for the next one.
    client.step(&Event::Computing { due_ms: 210_000 }, 110_000);
    assert!(offered(&client.step(&Event::Wake, 160_000)).is_some());
}

#[test]
fn an_answer_that_comes_too_late_is_none() {
    let mut client = client();
    client.step(&Event::Computing { due_ms: 10_000 }, 0);
    client.step(&Event::Wake, 5_000);
    client.step(&Event::Wake, 7_000);
    client.step(&Event::Wake, 9_000);
    assert_eq!(client.step(&Event::Answer(Answer::Accept(LEASE)), 9_500), []);
    assert_eq!(client.step(&Event::Wake, 10_000), [Action::Write { lease: None }]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..<_>::default() })]
    /// However the service answers, denies and dies: from the last word of a service that then is
    /// silent, a due checkpoint is begun within AGAIN_MS and two answers' time.
    #[test]
    fn nobody_waits_for_a_service_that_is_gone(
        due_ms in 1_000u64..4_000_000, denials in proptest::collection::vec(0u64..10_000_000, 0..6),
    ) {
        let mut client = client();
        let mut now_ms = 0;
        let mut denials = denials.into_iter();
        let mut last_word_ms = 0;
        let mut actions = client.step(&Event::Computing { due_ms }, now_ms);
        for _ in 0..100 {
            let writes = |action: &Action| matches!(action, Action::Write { .. });
            if actions.iter().any(writes) {
                break;
            }
            let asked = offered(&actions).is_some();
            if let (true, Some(ask_in_ms)) = (asked, denials.next()) {
                now_ms += 5;
                last_word_ms = now_ms;
                actions = client.step(&Event::Answer(Answer::Deny { ask_in_ms }), now_ms);
                continue;
            }
            let wake = actions.iter().rev().find_map(|action| match action {
                Action::WakeAt(at_ms) => Some(*at_ms),
                _ => None,
            });
            now_ms = wake.expect("a wake");
            actions = client.step(&Event::Wake, now_ms);
        }
        prop_assert!(client.is_alone());
        prop_assert!(now_ms >= due_ms);
        let bound_ms = due_ms.max(last_word_ms) + AGAIN_MS + u64::from(MISSES) * ANSWER_MS;
        prop_assert!(now_ms <= bound_ms, "{} {}", now_ms, bound_ms);
    }
}
