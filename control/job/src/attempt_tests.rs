// SPDX-License-Identifier: Apache-2.0
//! An attempt by itself: the order of its phases, and what has no effect in them.

use super::*;

const BEGIN: u64 = 1000;

fn begin(ranks: usize, waits_for_program: bool) -> Attempt {
    let mut attempt = Attempt::waiting(1, BEGIN);
    let asked = waits_for_program;
    attempt.step(Event::Begin { epoch: 1, ranks, asked, waits_for_program }, BEGIN);
    attempt
}

fn image(rank: RankId) -> ImageDone {
    ImageDone { rank, bytes: 4096, crc: 0, pause_ns: 0, host: "h".into() }
}

/// What is done by each rank in order to get to the end, for two ranks without communicators.
fn script() -> Vec<Event> {
    let both = |event: fn(RankId) -> Event| [event(0), event(1)];
    let mut events = Vec::new();
    events.extend(both(|rank| Event::Report(rank, Report::Clocks(Vec::new()))));
    events.extend(both(|rank| {
        Event::Report(rank, Report::Parked(fermata_protocol::Version(1), Vec::new()))
    }));
    events.extend(both(|rank| Event::Sent(rank, vec![(0, 1)])));
    events.extend(both(|rank| Event::Drained(rank, 2)));
    events.push(Event::DirectoryDone);
    events.extend(both(|rank| Event::Report(rank, Report::Cut)));
    events.extend(both(|rank| Event::Saved(image(rank))));
    events
}

fn sent(effects: &[Effect]) -> Vec<&'static str> {
    let name = |effect: &Effect| match effect {
        Effect::Send(_, message) | Effect::SendAll(message) => Some(message.name()),
        _ => None,
    };
    effects.iter().filter_map(name).collect()
}

#[test]
fn an_attempt_goes_through_its_phases_in_order() {
    let mut attempt = Attempt::waiting(1, BEGIN);
    let mut phases = vec![attempt.phase_name()];
    let first = Event::Begin { epoch: 1, ranks: 2, asked: false, waits_for_program: false };
    for event in std::iter::once(first).chain(script()) {
        let effects = attempt.step(event, BEGIN);
        assert!(effects.contains(&Effect::Progress), "{effects:?}");
        if phases.last() != Some(&attempt.phase_name()) {
            phases.push(attempt.phase_name());
        }
    }
    assert_eq!(
        phases,
        [
            "waiting until old snapshots are removed",
            "reading clocks",
            "parking",
            "completing collectives",
            "draining messages",
            "writing images",
            "committing"
        ]
    );
    assert_eq!(attempt.committing(), Some(&[image(0), image(1)][..]));
    assert_eq!(attempt.messages_kept(), 4);
}

/// Whatever is said too early or too late: the phase stays, and nothing is done but what the
/// safe-state protocol, which has stages of its own, makes of a report.
#[test]
fn what_belongs_to_another_phase_has_no_effect() {
    let count = script().len();
    for reached in 0..count {
        for other in 0..count {
            let mut attempt = begin(2, false);
            for event in script().into_iter().take(reached) {
                attempt.step(event, BEGIN);
            }
            let (before, done) = (attempt.phase_name(), attempt.done());
            let event = script().swap_remove(other);
            let is_report = matches!(event, Event::Report(..));
            let is_awaited = matches!(
                (&attempt.phase, &event),
                (Phase::Bookmarks(_), Event::Sent(..))
                    | (Phase::Drain(..), Event::Drained(..))
                    | (Phase::Prepare, Event::DirectoryDone)
                    | (Phase::Save(_), Event::Saved(_))
            );
            if is_report || is_awaited {
                continue;
            }
            assert_eq!(attempt.step(event, BEGIN), [], "{other} after {reached}");
            assert_eq!((attempt.phase_name(), attempt.done()), (before, done));
        }
    }
}

#[test]
fn an_attempt_that_is_given_up_says_so_in_every_phase() {
    for reached in 0..=script().len() {
        let mut attempt = begin(2, false);
        for event in script().into_iter().take(reached) {
            attempt.step(event, BEGIN);
        }
        let phase = attempt.phase_name();
        let effects = attempt.step(Event::Abort { reason: "no".into() }, BEGIN);
        let drains: &[&str] = &["EXPECTED", "EXPECTED", "ABORT"];
        let heard = if phase == "draining messages" { drains } else { &["ABORT"] };
        assert_eq!(sent(&effects), heard, "{phase}");
        let discards = match attempt.phase {
            Phase::Prepare => Effect::DiscardPrepared,
            _ => Effect::Discard,
        };
        assert_eq!(effects.last(), Some(&discards), "{phase}");
    }
}

#[test]
fn an_attempt_in_which_nobody_says_anything_pauses_and_the_next_has_more_time() {
    let mut attempt = begin(1, false);
    let clocks = || Event::Report(0, Report::Clocks(Vec::new()));
    attempt.step(clocks(), BEGIN);
    assert_eq!(attempt.step(Event::Tick, BEGIN + FIRST_TIMEOUT_MS - 1), []);
    let given_up = BEGIN + FIRST_TIMEOUT_MS;
    assert_eq!(sent(&attempt.step(Event::Tick, given_up)), ["ABORT"]);
    assert_eq!(attempt.step(clocks(), given_up), [], "it is over");
    assert_eq!(attempt.step(Event::Tick, given_up + FIRST_PAUSE_MS), []);
    let next = given_up + 2 * FIRST_PAUSE_MS;
    assert_eq!(attempt.step(Event::Tick, next), [Effect::Again]);
    let begin = Event::Begin { epoch: 2, ranks: 1, asked: false, waits_for_program: false };
    assert_eq!(sent(&attempt.step(begin, next)), ["REQUEST"]);
    attempt.step(clocks(), next);
    assert_eq!(attempt.step(Event::Tick, next + 2 * FIRST_TIMEOUT_MS - 1), []);
    assert_eq!(sent(&attempt.step(Event::Tick, next + 2 * FIRST_TIMEOUT_MS)), ["ABORT"]);
}

#[test]
fn what_the_program_saves_itself_waits_for_the_program_alone() {
    let mut attempt = begin(2, true);
    assert!(attempt.awaits_program());
    assert_eq!(attempt.step(Event::DirectoryDone, BEGIN), []);
    assert_eq!(attempt.step(Event::ProgramReady, BEGIN), [Effect::Prepare]);
    assert_eq!(attempt.step(Event::ProgramReady, BEGIN), [], "once");
    let effects = attempt.step(Event::DirectoryDone, BEGIN);
    assert_eq!(effects, [Effect::Save, Effect::Progress]);
}

#[test]
fn a_rank_that_cannot_be_saved_counts_only_while_images_are_written() {
    let unsaved = Unsaved { rank: 1, errno: 11, message: "a child runs".into() };
    let mut attempt = begin(2, false);
    assert_eq!(attempt.step(Event::NotSaved(unsaved.clone()), BEGIN), []);
    for event in script().into_iter().take(9) {
        attempt.step(event, BEGIN);
    }
    let effects = attempt.step(Event::NotSaved(unsaved.clone()), BEGIN);
    assert_eq!(effects, [Effect::NotSaved(unsaved)]);
    let later = Event::TryLater { reason: "a child runs".into(), until_ms: BEGIN + 20 };
    let effects = attempt.step(later, BEGIN);
    assert_eq!((sent(&effects), effects.last()), (vec!["ABORT"], Some(&Effect::Discard)));
    assert_eq!(attempt.step(Event::Tick, BEGIN + 20), [Effect::Again]);
}
