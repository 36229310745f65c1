// SPDX-License-Identifier: Apache-2.0
//! Calls that are begun, and waited for later.

use super::{calm, int, job, mixed_job, options, sum};
use ftcoll::{CallError, Combine, Comm, Ended, Options, Pending, Rank, UserOp, World};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

fn begin_sum(comm: &Comm, value: i64) -> Pending {
    comm.begin_allreduce(&value.to_ne_bytes(), &sum()).unwrap()
}

fn int_of(pending: Pending) -> (i64, Ended) {
    let mut buffer = [0; 8];
    let ended = pending.wait(&mut buffer).unwrap();
    (int(&buffer), ended)
}

/// Tests until it is over.
fn poll(mut pending: Pending) -> i64 {
    let mut buffer = [0; 8];
    loop {
        if pending.test(&mut buffer).unwrap().is_some() {
            return int(&buffer);
        }
        thread::yield_now();
    }
}

#[test]
fn calls_that_are_begun_at_once_are_made_in_their_order() {
    job(5, calm(), |world| {
        let (comm, me) = (world.comm(), i64::from(world.rank()));
        for round in 0..20 {
            let sums: Vec<_> = (0..4).map(|call| (call, begin_sum(&comm, me + call))).collect();
            let begin_bcast = |root: Rank| {
                let own = (me + 100).to_ne_bytes();
                (i64::from(root), comm.begin_bcast(&own, root).unwrap())
            };
            let bcasts: Vec<_> = (0..5).map(begin_bcast).collect();
            let at_root = comm.begin_reduce(&me.to_ne_bytes(), &sum(), 3).unwrap();
            let barrier = comm.begin_barrier().unwrap();
            // One that blocks comes after all of them.
            let mut buffer = 1i64.to_ne_bytes();
            comm.allreduce(&mut buffer, &sum()).unwrap();
            assert_eq!(int(&buffer), 5);
            barrier.wait(&mut []).unwrap();
            let (value, _) = int_of(at_root);
            assert_eq!(value, if me == 3 { 10 } else { 0 });
            for (root, pending) in bcasts.into_iter().rev() {
                let value = if round % 2 == 0 { poll(pending) } else { int_of(pending).0 };
                // The root's buffer is its own.
                assert_eq!(value, if root == me { 0 } else { root + 100 });
            }
            for (call, pending) in sums.into_iter().rev() {
                assert_eq!(int_of(pending).0, 10 + 5 * call);
            }
        }
        drop(comm);
        world.leave().unwrap();
    });
}

/// The root of broadcasts waits for nobody, but is held up before others cannot follow.
#[test]
fn no_broadcast_that_is_begun_is_forgotten() {
    job(3, calm(), |world| {
        let comm = world.comm();
        if world.rank() == 2 {
            thread::sleep(Duration::from_millis(100));
        }
        let begin = |number: i64| comm.begin_bcast(&number.to_ne_bytes(), 0).unwrap();
        let begun: Vec<_> = (0..300).map(begin).collect();
        for (number, pending) in (0..).zip(begun) {
            let (value, _) = int_of(pending);
            assert_eq!(value, if world.rank() == 0 { 0 } else { number });
        }
        drop(comm);
        world.leave().unwrap();
    });
}

/// Communicators do not wait for each other, in whatever order their calls are begun.
#[test]
fn calls_of_several_communicators_cross() {
    job(4, calm(), |world| {
        let (one, other) = (world.comm(), world.comm());
        for round in 0..50 {
            let is_first = (round + world.rank()) % 2 == 0;
            let order = if is_first { [&one, &other] } else { [&other, &one] };
            let begun = order.map(|comm| begin_sum(comm, 1));
            assert!(begun.into_iter().all(|pending| int_of(pending).0 == 4));
        }
        drop((one, other));
        world.leave().unwrap();
    });
}

/// Who has begun a call and computes, or waits for something else, keeps nobody waiting.
#[test]
fn the_others_end_though_one_waits_for_nothing() {
    let all_but_one = Arc::new(Barrier::new(4));
    job(4, calm(), move |world| {
        let comm = world.comm();
        let pending = begin_sum(&comm, 1);
        if world.rank() == 1 {
            all_but_one.wait();
        }
        assert_eq!(int_of(pending).0, 4);
        if world.rank() != 1 {
            all_but_one.wait();
        }
        // Nobody takes the result of one.
        drop(begin_sum(&comm, 1));
        assert_eq!(int_of(begin_sum(&comm, 2)).0, 8);
        drop(comm);
        world.leave().unwrap();
    });
}

#[test]
fn a_call_that_is_begun_survives_a_death() {
    for dies in 0..4 {
        job(4, calm(), move |world: World| {
            let comm = world.comm();
            comm.barrier().unwrap();
            if world.rank() == dies {
                drop(comm);
                drop(world);
                return;
            }
            let begun: Vec<_> = (0..3).map(|_| begin_sum(&comm, 1)).collect();
            for pending in begun {
                assert_eq!(int_of(pending), (3, Ended { missing: vec![dies] }));
            }
            drop(comm);
            world.leave().unwrap();
        });
    }
}

/// Nobody is in a call meanwhile.
#[test]
fn silence_is_noticed_of_a_call_that_nobody_waits_for() {
    let timeout = Duration::from_millis(500);
    let options = Options { timeout, heeds_closing: false, ..options() };
    job(2, options, move |world| {
        let (comm, other) = (world.comm(), world.comm());
        if world.rank() == 1 {
            other.barrier().unwrap();
            return;
        }
        let mut pending = begin_sum(&comm, 1);
        other.barrier().unwrap();
        thread::sleep(4 * timeout);
        let mut buffer = [0; 8];
        assert_eq!(pending.test(&mut buffer), Ok(Some(Ended { missing: vec![1] })));
        assert_eq!(int(&buffer), 1);
    });
}

#[test]
fn a_call_is_made_though_it_is_dropped_with_its_communicator() {
    job(3, calm(), |world| {
        let (comm, other) = (world.comm(), world.comm());
        if world.rank() == 0 {
            drop(begin_sum(&comm, 1));
            drop(comm);
        } else {
            thread::sleep(Duration::from_millis(50));
            let ended = Ended::default();
            assert_eq!(int_of(begin_sum(&comm, 1)), (3, ended));
        }
        other.barrier().unwrap();
        drop(other);
        world.leave().unwrap();
    });
}

/// What it is called with may be gone.
#[test]
fn an_operation_is_not_called_for_a_call_that_was_given_up() {
    let (is_gone, both) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(2)));
    let short = |rank: Rank| Options {
        deadline: Duration::from_secs(if rank == 0 { 1 } else { 100 }),
        ..calm()
    };
    mixed_job(2, short, move |world| {
        let comm = world.comm();
        let gone = Arc::clone(&is_gone);
        let function = Arc::new(move |_: &[u8], _: &mut [u8]| {
            assert!(!gone.load(Ordering::SeqCst));
        });
        let op = Combine::User(UserOp { element: 8, commutes: true, function });
        if world.rank() == 0 {
            let begun = [0, 1].map(|_| comm.begin_allreduce(&[0; 8], &op).unwrap());
            let ended = begun.map(|pending| pending.wait(&mut [0; 8]).err());
            assert_eq!(ended, [Some(CallError::Deadline); 2]);
            is_gone.store(true, Ordering::SeqCst);
            both.wait();
        } else {
            both.wait();
            assert_eq!(comm.allreduce(&mut [0; 8], &op), Err(CallError::Mismatch));
        }
        // The library's own thread answers as long as both are here.
        both.wait();
    });
}

#[test]
fn calls_that_are_begun_end_by_the_deadline() {
    let late = |rank: Rank| Options {
        deadline: Duration::from_secs(if rank == 0 { 1 } else { 100 }),
        ..Options { timeout: calm().timeout, ..options() }
    };
    mixed_job(2, late, |world| {
        let (comm, other) = (world.comm(), world.comm());
        if world.rank() == 0 {
            let (first, mut second) = (begin_sum(&comm, 1), begin_sum(&comm, 1));
            assert_eq!(first.wait(&mut [0; 8]).err(), Some(CallError::Deadline));
            assert_eq!(second.test(&mut [0; 8]).err(), Some(CallError::Deadline));
            assert_eq!(comm.begin_barrier().err(), Some(CallError::Deadline));
            assert_eq!(comm.barrier().err(), Some(CallError::Deadline));
        }
        // Another communicator has nothing to do with it.
        while other.barrier().is_err() {}
    });
}
