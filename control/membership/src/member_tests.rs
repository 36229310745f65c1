// SPDX-License-Identifier: Apache-2.0
use super::*;

fn entry(beat: u64, age_ms: u16) -> Entry {
    Entry {
        node: 1,
        incarnation: 0,
        beat,
        age_ms,
        state: State::Up,
        frozen_ds: 0,
        load_age_ds: 0,
        load: Load::default(),
    }
}

/// But for what clocks may have drifted since.
fn assert_near(time: u64, expected: u64, why: &str) {
    assert!(time.abs_diff(expected) < 10, "{time} is not {expected}: {why}");
}

#[test]
fn the_quickest_datagram_tells_the_time_of_all() {
    let mut known = Known::new(&entry(100, 0), 5100 + 700); // it took 700 ms
    assert_eq!(known.alive_at(), 5800);
    let _ = known.merge(&entry(400, 0), true, 5400);
    assert_eq!(known.alive_at(), 5400);
    let _ = known.merge(&entry(700, 0), true, 9700); // it has waited for 4 s
    assert_near(known.alive_at(), 5700, "when it was sent, not when it came");
    let _ = known.merge(&entry(900, 50), false, 9999);
    assert_near(known.alive_at(), 5900, "nor by what way");
}

#[test]
fn what_nodes_hand_on_to_each_other_does_not_hold_a_drifting_clock_fast() {
    // The watched node's clock is slow by 300 ppm; two others hear it, and each other.
    let mut known = [Known::new(&entry(0, 0), 0), Known::new(&entry(0, 0), 0)];
    for second in 1..100_000_u64 {
        let now = second * 1000;
        let beat = now - now * 3 / 10_000;
        for at in [0, 1] {
            if second % 60 < 30 {
                let _ = known[at].merge(&entry(beat, 0), true, now);
            }
            let handed = known[1 - at].entry(1, now);
            let _ = known[at].merge(&handed, false, now);
        }
        if second % 60 < 30 {
            let silence = known[0].silence(now);
            assert!(silence < 100, "{silence} ms of silence after {second} s");
        }
    }
}

#[test]
fn a_clock_that_has_stood_still_is_learned_anew() {
    let mut known = Known::new(&entry(0, 0), 1000);
    let mut now = 1000;
    for beat in (0..30_000).step_by(300) {
        now = 4000 + beat; // since the first one the node's clock has lost three seconds
        let _ = known.merge(&entry(beat, 0), true, now);
    }
    assert!(known.silence(now) < 10);
}

#[test]
fn an_answer_is_evidence_whatever_the_clock_says() {
    let mut known = Known::new(&entry(0, 0), 1000);
    known.has_answered(9000);
    assert_eq!(known.alive_at(), 9000);
}

#[test]
fn order_and_repetition_of_news_do_not_matter() {
    let suspect = Entry { state: State::Suspect, ..entry(300, 900) };
    let news = [entry(0, 0), entry(300, 0), suspect, entry(600, 0), entry(900, 0)];
    let come = [1000, 1300, 2200, 1600, 1900];
    for first in 0..news.len() {
        let mut known = Known::new(&news[first], come[first]);
        for step in 1..3 * news.len() {
            let at = (first * 2 + step * 3) % news.len();
            let _ = known.merge(&news[at], news[at].age_ms == 0, come[at]);
        }
        assert_eq!((known.alive_at(), known.state), (1900, State::Up), "{first}");
    }
}

#[test]
fn down_is_final_until_the_next_incarnation() {
    let mut known = Known::new(&entry(0, 0), 0);
    let down = Entry { state: State::Down, ..entry(0, 0) };
    assert_eq!(known.merge(&down, false, 10), Change::State(State::Up));
    assert_eq!(known.merge(&entry(900, 0), true, 900), Change::Outdated);
    assert_eq!(known.merge(&down, false, 910), Change::None);
    let again = Entry { incarnation: 1, ..entry(950, 0) };
    assert_eq!(known.merge(&again, true, 950), Change::State(State::Down));
    assert_eq!(known.merge(&down, false, 960), Change::Outdated);
    assert_eq!(known.state, State::Up);
}

#[test]
fn a_standstill_counts_on_the_clock_of_the_node_and_ends_with_its_next_word() {
    let frozen = Entry { frozen_ds: 100, ..entry(1000, 0) };
    let mut known = Known::new(&entry(0, 0), 0);
    assert_eq!(known.merge(&frozen, true, 3000), Change::Frozen);
    assert_near(known.frozen_until(), 11_000, "though the word took two seconds");
    assert_eq!(known.silence(10_990), 0);
    assert_near(known.silence(12_000), 1000, "it counts from then");
    assert_eq!(known.merge(&entry(1001, 0), true, 3001), Change::Frozen);
    assert_eq!(known.frozen_until(), 0);
}
