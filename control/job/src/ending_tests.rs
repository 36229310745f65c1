// SPDX-License-Identifier: Apache-2.0
//! The end of a coordinator, against all that it waits for.

use super::*;

const LINGER: u64 = 1000;

fn handled(has_agents: bool, is_storing: bool) -> Event {
    Event::Handled { has_agents, is_storing, was_stopped: false }
}

fn stop(is_storing: bool, may_report: bool) -> Event {
    Event::Stop { at_once: false, is_storing, may_report }
}

#[test]
fn nobody_who_comes_is_waited_for_longer_than_nobody_who_is_left() {
    let mut ending = Ending::new(Some(LINGER), 0);
    assert_eq!(ending.step(handled(false, false), 6 * LINGER - 1), Action::Serve);
    assert_eq!(ending.step(handled(false, false), 6 * LINGER), Action::LookAtOutlived);
    let mut ending = Ending::new(Some(LINGER), 0);
    assert_eq!(ending.step(handled(true, false), 500), Action::Serve);
    assert_eq!(ending.step(handled(false, false), 500 + LINGER - 1), Action::Serve);
    assert_eq!(ending.step(handled(false, false), 500 + LINGER), Action::LookAtOutlived);
}

#[test]
fn a_disk_at_work_is_company() {
    let mut ending = Ending::new(Some(LINGER), 0);
    for now in (0..20 * LINGER).step_by(100) {
        assert_eq!(ending.step(handled(false, true), now), Action::Serve);
    }
}

#[test]
fn the_process_that_it_outlives_keeps_it() {
    let mut ending = Ending::new(Some(LINGER), 0);
    for now in [6 * LINGER, 60 * LINGER] {
        assert_eq!(ending.step(handled(false, false), now), Action::LookAtOutlived);
        assert_eq!(ending.step(Event::OutlivedLives, now), Action::Serve);
        assert_eq!(ending.step(Event::Next, now), Action::Wait { ms: TICK_MS });
    }
    assert_eq!(ending.step(Event::OutlivedEnded, 60 * LINGER), Action::End);
}

#[test]
fn without_a_time_to_linger_it_ends_only_when_told() {
    let mut ending = Ending::new(None, 0);
    let gone = Event::Handled { has_agents: false, is_storing: false, was_stopped: true };
    for now in [0, 1, LINGER, u64::MAX / 2] {
        assert_eq!(ending.step(gone, now), Action::Serve);
        assert_eq!(ending.step(Event::Silence, now), Action::Serve);
    }
}

#[test]
fn a_job_that_a_checkpoint_has_stopped_is_over_when_its_ranks_have_gone_and_all_is_stored() {
    let mut ending = Ending::new(Some(LINGER), 0);
    for (has_agents, is_storing, action) in
        [(true, false, Action::Serve), (false, true, Action::Serve), (false, false, Action::End)]
    {
        let event = Event::Handled { has_agents, is_storing, was_stopped: true };
        assert_eq!(ending.step(event, 1), action);
    }
}

#[test]
fn what_has_come_before_the_end_is_still_taken() {
    let mut ending = Ending::new(None, 0);
    assert_eq!(ending.step(stop(false, false), 10), Action::Wait { ms: 0 });
    assert_eq!(ending.step(handled(false, false), 10), Action::Serve, "there was something");
    assert_eq!(ending.step(stop(false, false), 11), Action::Wait { ms: 0 });
    assert_eq!(ending.step(Event::Silence, 11), Action::End);
}

#[test]
fn what_is_taken_before_the_end_may_make_it_wait_again() {
    let mut ending = Ending::new(None, 0);
    assert_eq!(ending.step(stop(false, false), 10), Action::Wait { ms: 0 });
    assert_eq!(ending.step(stop(true, false), 11), Action::Wait { ms: TICK_MS });
    assert_eq!(ending.step(Event::Silence, 61), Action::Serve, "the disk is at work");
}

#[test]
fn a_snapshot_that_is_being_stored_is_waited_for_but_not_for_ever() {
    let mut ending = Ending::new(None, 0);
    for now in [10, 10 + STORE_WAIT_MS - 1] {
        assert_eq!(ending.step(stop(true, true), now), Action::Wait { ms: TICK_MS });
    }
    assert_eq!(ending.step(stop(true, true), 10 + STORE_WAIT_MS), Action::End);
}

#[test]
fn lines_are_read_on_for_a_moment() {
    let mut ending = Ending::new(None, 0);
    for now in [10, 10 + READ_WAIT_MS - 1] {
        assert_eq!(ending.step(stop(false, true), now), Action::Wait { ms: TICK_MS });
    }
    assert_eq!(ending.step(stop(false, true), 10 + READ_WAIT_MS), Action::Wait { ms: 0 });
}

#[test]
fn whoever_is_in_a_hurry_waits_for_nothing() {
    let mut ending = Ending::new(None, 0);
    let hurry = Event::Stop { at_once: true, is_storing: true, may_report: true };
    assert_eq!(ending.step(hurry, 10), Action::End);
}
