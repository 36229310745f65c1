// SPDX-License-Identifier: Apache-2.0
use super::*;
use proptest::prelude::*;

/// The word, and the beat of who that names.
#[derive(Default)]
struct Files {
    word: Option<Word>,
    beat: u64,
}

/// A look and, if it asks for that, a write that takes no time. Whoever leads beats.
fn look(candidate: &mut Candidate, files: &mut Files, now_ms: u64) {
    let read = Event::Read { begun_ms: now_ms, word: files.word, beat: files.beat };
    if let Some(word) = candidate.step(read, now_ms) {
        files.word = Some(word);
        candidate.step(Event::Wrote, now_ms);
    }
    if leads(candidate, now_ms) {
        files.beat += 1;
    }
}

fn leads(candidate: &Candidate, now_ms: u64) -> bool {
    candidate.leads_until_ms().is_some_and(|until_ms| now_ms <= until_ms)
}

#[test]
fn one_alone_leads_once_its_claim_has_settled() {
    let (mut one, mut file) = (Candidate::new(7), Files::default());
    for now_ms in (0..SETTLE_MS).step_by(1000) {
        look(&mut one, &mut file, now_ms);
        assert!(!leads(&one, now_ms));
    }
    look(&mut one, &mut file, SETTLE_MS);
    assert!(leads(&one, SETTLE_MS + HOLD_MS));
    assert!(!leads(&one, SETTLE_MS + HOLD_MS + 1), "without a look it ends");
}

#[test]
fn another_takes_over_within_ten_seconds_and_the_first_does_not_come_back() {
    let (mut one, mut two, mut file) = (Candidate::new(1), Candidate::new(2), Files::default());
    for now_ms in (0..20_000).step_by(1000) {
        look(&mut one, &mut file, now_ms);
        look(&mut two, &mut file, now_ms + 500);
    }
    assert!(leads(&one, 20_000) && !leads(&two, 20_000));
    let taken_ms = (20_000..).step_by(1000).find(|now_ms| {
        look(&mut two, &mut file, *now_ms);
        leads(&two, *now_ms)
    });
    assert!(taken_ms.unwrap() <= 30_000, "{taken_ms:?}");
    for now_ms in (31_000..60_000).step_by(1000) {
        look(&mut two, &mut file, now_ms);
        look(&mut one, &mut file, now_ms);
        assert!(leads(&two, now_ms) && !leads(&one, now_ms));
    }
}

#[test]
fn of_two_claims_at_once_one_stands() {
    let (mut one, mut two) = (Candidate::new(1), Candidate::new(2));
    let read = Event::Read { begun_ms: 0, word: None, beat: 0 };
    let words = [one.step(read, 0), two.step(read, 0)];
    one.step(Event::Wrote, 100);
    two.step(Event::Wrote, 900);
    let mut file = Files { word: words[1], beat: 0 };
    for now_ms in (1000..9000).step_by(1000) {
        look(&mut one, &mut file, now_ms);
        look(&mut two, &mut file, now_ms);
        assert!(!leads(&one, now_ms));
    }
    assert!(leads(&two, 8000));
}

#[test]
fn whoever_finds_no_file_waits_until_one_that_stands_still_leads_no_more() {
    let (mut one, mut two, mut file) = (Candidate::new(1), Candidate::new(2), Files::default());
    look(&mut one, &mut file, 0);
    look(&mut one, &mut file, SETTLE_MS);
    assert!(leads(&one, SETTLE_MS));
    file.word = None; // somebody has removed it, and the first one stands still
    for now_ms in (SETTLE_MS..3 * SETTLE_MS).step_by(100) {
        look(&mut two, &mut file, now_ms + 1);
        assert!(!(leads(&one, now_ms + 1) && leads(&two, now_ms + 1)), "{now_ms}");
    }
    assert!(leads(&two, 3 * SETTLE_MS));
}

#[test]
fn a_write_that_takes_too_long_is_void() {
    let mut one = Candidate::new(1);
    let word = one.step(Event::Read { begun_ms: 0, word: None, beat: 0 }, 10).unwrap();
    one.step(Event::Wrote, WRITE_MS + 1);
    let read = Event::Read { begun_ms: SETTLE_MS, word: Some(word), beat: 0 };
    assert_eq!(one.step(read, SETTLE_MS), None);
    assert!(!leads(&one, SETTLE_MS));
}

#[test]
fn one_alone_leads_on_though_no_beat_of_it_is_written() {
    let (mut one, mut file) = (Candidate::new(7), Files::default());
    for now_ms in (0..120_000).step_by(1000) {
        look(&mut one, &mut file, now_ms);
        file.beat = 0; // the file system is busy
        assert_eq!(leads(&one, now_ms), now_ms >= SETTLE_MS, "{now_ms}");
    }
}

/// A replica's look: how long after the last one it begins, how long reading and writing take, and
/// which part of the time for writing has passed when the word stands.
type Look = (u64, u64, u64, u64);

#[derive(Clone, Copy, Debug)]
enum Step {
    Begins,
    Lands(Word),
    Ends,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..<_>::default() })]
    /// Replicas that stand still, and writes that take any time, also after somebody has removed
    /// the file: no two lead at once.
    #[test]
    fn no_two_lead(
        looks in proptest::collection::vec(proptest::collection::vec(
            (prop_oneof![4 => 500u64..1500, 1 => 0u64..9000], 0u64..300,
             prop_oneof![4 => 0u64..900, 1 => 0u64..9000], 0u64..=100), 1..60), 2..4),
        removed_ms in proptest::option::of(0u64..60_000),
        do_beat in proptest::bool::ANY,
    ) {
        let mut replicas: Vec<Candidate> =
            (0u64..).zip(&looks).map(|(who, _)| Candidate::new(who + 1)).collect();
        let mut looks: Vec<std::vec::IntoIter<Look>> =
            looks.into_iter().map(Vec::into_iter).collect();
        let mut file: Option<Word> = None;
        let mut beats = vec![0; replicas.len() + 1]; // by who
        let mut queue = std::collections::BTreeMap::new();
        let mut order = 0u64;
        let mut removed_ms = removed_ms;
        for (at, looks) in looks.iter().enumerate() {
            if let Some(first) = looks.as_slice().first() {
                queue.insert((first.0, at as u64), (at, Step::Begins));
            }
            order = order.max(at as u64);
        }
        let mut current = vec![(0, 0, 0, 0); replicas.len()];
        while let Some(((now_ms, _), (at, step))) = queue.pop_first() {
            if removed_ms.is_some_and(|removed_ms| now_ms >= removed_ms) {
                (file, removed_ms) = (None, None);
            }
            let mut put = |at_ms: u64, at: usize, step: Step| {
                order += 1;
                queue.insert((at_ms, order), (at, step));
            };
            match step {
                Step::Begins => {
                    let Some(look) = looks[at].next() else { continue };
                    current[at] = look;
                    let (_, reads_ms, writes_ms, part) = look;
                    let beat = file.map_or(0, |word| beats[usize::try_from(word.who).unwrap()]);
                    let read = Event::Read { begun_ms: now_ms, word: file, beat };
                    let read_ms = now_ms + reads_ms;
                    let claim = replicas[at].step(read, read_ms);
                    if do_beat && leads(&replicas[at], read_ms) {
                        beats[at + 1] += 1;
                    }
                    if let Some(word) = claim {
                        put(read_ms + writes_ms * part / 100, at, Step::Lands(word));
                        put(read_ms + writes_ms, at, Step::Ends);
                    } else if let Some(next) = looks[at].as_slice().first() {
                        put(read_ms + next.0, at, Step::Begins);
                    }
                }
                Step::Lands(word) => file = Some(word),
                Step::Ends => {
                    replicas[at].step(Event::Wrote, now_ms);
                    if let Some(next) = looks[at].as_slice().first() {
                        put(now_ms + next.0, at, Step::Begins);
                    }
                }
            }
            let leading = replicas.iter().filter(|replica| leads(replica, now_ms)).count();
            prop_assert!(leading <= 1, "{:?} at {}", replicas, now_ms);
        }
    }
}
