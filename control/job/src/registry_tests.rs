// SPDX-License-Identifier: Apache-2.0
//! How ranks leave, and what is said of it.

use super::*;
use std::collections::BTreeSet;

fn shortfall(world: &World) -> Option<String> {
    world.machine.shortfall(&BTreeSet::new())
}

fn lose(world: &mut World, silent: bool) {
    let why = "its daemon has ended".into();
    world.event(Event::HostLost { host: "h1".into(), why, silent, conns: vec![2, 3] });
}

#[test]
fn a_job_has_ended_well_when_all_ranks_have_come_to_mpi_finalize() {
    let mut world = World::new(2);
    for conn in 0..2 {
        assert!(world.machine.has_undecided_ranks());
        world.say(conn, Finalizing {});
    }
    assert!(!world.machine.has_undecided_ranks());
    world.event(Event::Closed(0));
    world.event(Event::Closed(1));
    assert_eq!(shortfall(&world), None);
}

#[test]
fn a_rank_that_leaves_without_mpi_finalize_is_named() {
    let mut world = World::new(2);
    world.say(0, Finalizing {});
    world.event(Event::Closed(0));
    world.event(Event::Closed(1));
    assert_eq!(shortfall(&world), Some("rank 1 has ended without MPI_Finalize".into()));
}

#[test]
fn the_next_program_of_a_script_begins_anew() {
    let mut world = World::new(1);
    world.say(0, Finalizing {});
    world.event(Event::Closed(0));
    world.say(1, Hello { job: "j".into(), host: "h0".into(), ..Hello::default() });
    world.say(1, Ready { rank: 0, size: 1 });
    assert!(world.machine.has_undecided_ranks());
    world.event(Event::Closed(1));
    assert!(shortfall(&world).is_some());
}

#[test]
fn ranks_of_a_lost_host_count_as_ended_only_where_that_is_known() {
    let mut world = World::new(4);
    lose(&mut world, false);
    for conn in 0..2 {
        world.say(conn, Finalizing {});
        world.event(Event::Closed(conn));
    }
    let text = shortfall(&world).unwrap_or_default();
    assert!(text.contains("host h1 is lost with ranks 2, 3"), "{text}");
    assert!(world.machine.shortfall(&BTreeSet::from([3])).is_some());
    assert_eq!(world.machine.shortfall(&BTreeSet::from([2, 3])), None);
}

#[test]
fn hosts_are_counted_while_all_ranks_are_there() {
    let mut world = World::new(4);
    assert_eq!(world.machine.hosts_of_all(), 2);
    world.say(0, Finalizing {});
    assert_eq!(world.machine.hosts_of_all(), 0, "a rank has come to its end");
    let mut world = World::new(4);
    world.event(Event::Closed(3));
    assert_eq!(world.machine.hosts_of_all(), 0, "a rank has left");
}

#[test]
fn ranks_that_are_to_end_are_told_so_and_the_job_has_not_ended_well() {
    let mut world = World::new(4);
    world.event(Event::EndRanks);
    for conn in 0..4 {
        assert_eq!(world.names_to(conn), ["EXIT"]);
        world.event(Event::Closed(conn));
    }
    assert!(!world.machine.was_stopped());
    assert!(shortfall(&world).is_some());
}

#[test]
fn only_a_host_that_is_silent_is_given_up() {
    for (silent, runs_on) in [(true, false), (false, true)] {
        let mut world = World::new(4);
        world.ask(false);
        lose(&mut world, silent);
        let text = world.answer().message;
        assert_eq!(
            text.contains("its ranks may run on; when the job has ended"),
            runs_on,
            "{text}"
        );
    }
}

#[test]
fn a_job_that_has_ended_well_is_not_to_be_done_again() {
    for finalizes in [true, false] {
        let mut world = World::new(2);
        world.ask(false);
        world.clocks(1, &[&[], &[]]);
        world.park_all(1, 2);
        world.save_all(1, 2);
        world.event(Event::Stored(1, Ok("/s/1".into())));
        world.ask(false);
        if finalizes {
            world.say(0, Finalizing {});
            world.say(1, Finalizing {});
        }
        world.event(Event::Closed(0));
        let text = world.answer().message;
        assert_eq!(text.contains("fermata restart j"), !finalizes, "{text}");
        world.event(Event::Closed(1));
        world.ask(false);
        let text = world.answer().message;
        assert_eq!(text.contains("fermata restart j"), !finalizes, "{text}");
    }
}

#[test]
fn a_lost_host_ends_the_checkpoint_and_is_named_with_its_ranks() {
    let mut world = World::new(6);
    world.ask(false);
    let why = "connection reset".into();
    world.event(Event::HostLost { host: "h1".into(), why, silent: true, conns: vec![2, 3] });
    let answer = world.answer();
    assert_eq!(answer.outcome, 1);
    assert!(answer.message.contains("host h1 is lost with ranks 2, 3"), "{}", answer.message);
    assert!(world.log.contains(&Action::Discard(1)));
    for survivor in [0, 1, 4, 5] {
        assert_eq!(world.names_to(survivor).last(), Some(&"ABORT"));
    }
    world.ask(false);
    assert_eq!(world.answer().outcome, 2);
    assert!(world.answer().message.contains("ranks 2, 3 on host h1 have left"));
}

#[test]
fn a_host_lost_while_images_are_written_leaves_no_snapshot() {
    let mut world = World::new(4);
    world.ask(false);
    world.clocks(1, &[&[], &[], &[], &[]]);
    world.park_all(1, 4);
    for conn in 0..4 {
        world.say(conn, Sent { epoch: 1, list: vec![] });
    }
    for conn in 0..4 {
        world.say(conn, Drained { epoch: 1, ..Drained::default() });
    }
    for conn in 0..2 {
        world.say(conn, Saved { epoch: 1, ..Saved::default() });
    }
    let why = "connection timed out".into();
    world.event(Event::HostLost { host: "h1".into(), why, silent: true, conns: vec![2, 3] });
    let text = world.answer().message;
    assert!(text.contains("failed while writing images: host h1 is lost"), "{text}");
    assert!(world.log.contains(&Action::Discard(1)));
    assert!(!world.log.iter().any(|action| matches!(action, Action::Commit(_))));
}
