// SPDX-License-Identifier: Apache-2.0
//! Programs that show one thing each; rules that have to fail, and where.
use fermata_model::{Job, Rule, check, endless, named, native};
use std::collections::BTreeSet;

fn violated(job: Job) -> Vec<&'static str> {
    let violations = check(&job).violations;
    violations.iter().map(|v| v.0).collect::<BTreeSet<_>>().into_iter().collect()
}

#[test]
fn the_published_rule_is_stuck_in_the_hole_and_ours_is_not() {
    for program in [named::hole(), named::smallest_hole()] {
        assert!(native::is_deadlock_free(&program));
        assert_eq!(violated(Job::new([program.clone()], Rule::Published)), ["termination"]);
        assert!(violated(Job::new([program], Rule::Ours)).is_empty());
    }
}

#[test]
fn who_is_needed_must_not_stop_one_message_early() {
    assert_eq!(violated(Job::new([named::smallest_hole()], Rule::StopsEarly)), ["termination"]);
}

/// Its sender would take it for matched.
#[test]
fn who_waits_for_a_message_must_only_hold_others() {
    assert_eq!(violated(Job::new([named::synchronous_meanwhile()], Rule::Receives)), ["promise"]);
}

#[test]
fn a_raised_target_must_be_told() {
    assert_eq!(violated(Job::new([named::raise()], Rule::RaisesInSilence)), ["termination"]);
}

#[test]
fn a_word_under_an_old_directive_must_not_count() {
    let found = violated(Job::new([named::smallest_hole()], Rule::OldWordCounts));
    assert!(found.contains(&"safety"), "{found:?}");
}

#[test]
fn the_clocks_must_not_be_read_before_the_request_is_visible() {
    assert!(!violated(Job::new([named::raise()], Rule::ReadsFirst)).is_empty());
}

/// Each waits for the other, and runs only because the other waits for it.
#[test]
fn second_threads_that_wait_for_each_others_ranks_keep_nobody_running() {
    let program = named::servers();
    assert!(native::is_deadlock_free(&program));
    assert!(check(&Job::new([program.clone()], Rule::Ours)).faults().is_empty());
    assert!(endless(&Job::new([program.clone()], Rule::Ours)).is_none());
    let every = Job::new([program], Rule::EveryEdgeCounts);
    assert_eq!(violated(every.clone()), ["rest"]);
    assert!(endless(&every).is_some());
}

/// A rank that continues sends to one that has not been cut: the message is in one image only.
#[test]
fn no_rank_may_resume_before_all_are_cut() {
    let found = violated(Job::new([named::smallest_hole()], Rule::ResumesAlone));
    assert!(found.contains(&"safety"), "{found:?}");
}

/// A barrier before each collective call needs no wait-for edges: who is in the call waits for
/// nobody outside. But it makes a broadcast wait for its leaves, and a sound program can get stuck
/// in that.
#[test]
fn two_phases_need_no_edges_but_stop_a_sound_program() {
    for program in [named::smallest_hole(), named::raise()] {
        assert!(violated(Job::new([program], Rule::TwoPhase)).is_empty());
    }
    assert!(native::is_deadlock_free(&named::early_root()));
    assert!(violated(Job::new([named::early_root()], Rule::Ours)).is_empty());
    assert!(!native::is_deadlock_free(&native::with_barriers(&named::early_root())));
}

/// Some runs are refused and some come to a safe state: the checker says if one of the two is never
/// seen.
#[test]
fn ranks_that_enter_finalize_end_the_attempt_by_name() {
    for program in [named::smallest_hole(), named::early_root()] {
        let verdict = check(&Job::new([program], Rule::Ours).finalizing());
        assert!(verdict.faults().is_empty(), "{:?}", verdict.faults());
    }
}
