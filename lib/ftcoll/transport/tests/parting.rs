// SPDX-License-Identifier: Apache-2.0
//! Jobs whose connections are all made again, in the midst of calls: the calls notice nothing.
#![allow(clippy::unwrap_used)]

use ftcoll::{CallError, Combine, Door, Key, Kind, Op, Options, Rank, World};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// By parting: where each process listens.
type Board = Arc<Mutex<BTreeMap<u32, BTreeMap<Rank, SocketAddr>>>>;

fn options() -> Options {
    let deadline = Duration::from_secs(120);
    Options { timeout: Duration::from_secs(300), deadline, may_part: true, ..Options::default() }
}

/// Opens a door once per parting, and connects to those whose doors are known.
fn seek(world: &World, board: &Board) {
    let parting = world.partings();
    let mut all = board.lock().unwrap();
    let doors = all.entry(parting).or_default();
    if let Entry::Vacant(door) = doors.entry(world.rank()) {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let Some(at) = world.open_again(parting, here).unwrap() else { return };
        door.insert(at);
    }
    for (&rank, &at) in doors.iter() {
        world.meet_again(parting, rank, &[at]);
    }
}

fn find_by(world: &Arc<World>, board: &Board) {
    let (weak, board): (Weak<World>, Board) = (Arc::downgrade(world), Arc::clone(board));
    world.seek_by(Arc::new(move || {
        if let Some(world) = weak.upgrade() {
            seek(&world, &board);
        }
    }));
}

fn meet(size: Rank, options: Options) -> Vec<Arc<World>> {
    let key = Key::generate().unwrap();
    let doors: Vec<_> = (0..size).map(|_| Door::open(key.clone(), options).unwrap()).collect();
    let addresses: Vec<_> = doors.iter().map(Door::address).collect();
    let meet = |(rank, door): (Rank, Door)| {
        let addresses = addresses.clone();
        thread::spawn(move || Arc::new(door.meet(rank, &addresses).unwrap()))
    };
    let meeting: Vec<_> = (0..).zip(doors).map(meet).collect();
    meeting.into_iter().map(|thread| thread.join().unwrap()).collect()
}

/// Runs `work` at each process of a job while `disturb` has all of them.
fn job(
    size: Rank,
    work: impl Fn(&World) + Send + Sync + 'static,
    disturb: impl Fn(&[Arc<World>], &dyn Fn() -> bool),
) {
    let board = Board::default();
    let worlds = meet(size, options());
    let work = Arc::new(work);
    let run = |world: &Arc<World>| {
        find_by(world, &board);
        let (world, work) = (Arc::clone(world), Arc::clone(&work));
        thread::spawn(move || work(&world))
    };
    let running: Vec<_> = worlds.iter().map(run).collect();
    disturb(&worlds, &|| running.iter().any(|thread| !thread.is_finished()));
    running.into_iter().for_each(|thread| thread.join().unwrap());
}

fn add_up(world: &World, calls: u32, length: usize) {
    let comm = world.comm();
    let sum = Combine::Predefined(Kind::I64, Op::Sum);
    let size = i64::from(world.size());
    for call in 0..i64::from(calls) {
        let mine = i64::from(world.rank()) + call;
        let mut buffer: Vec<u8> = (0..length).flat_map(|_| mine.to_ne_bytes()).collect();
        assert!(comm.allreduce(&mut buffer, &sum).unwrap().missing.is_empty());
        let total = size * (size - 1) / 2 + size * call;
        assert!(buffer.chunks(8).all(|one| one == total.to_ne_bytes()));
        let root = Rank::try_from(call % size).unwrap();
        let mut buffer = if root == world.rank() { call.to_ne_bytes() } else { [0; 8] };
        assert!(comm.bcast(&mut buffer, root).unwrap().missing.is_empty());
        assert_eq!(buffer, call.to_ne_bytes());
    }
}

fn hold_all(worlds: &[Arc<World>]) {
    assert!(worlds.iter().all(|world| world.hold()));
}

fn part_all(worlds: &[Arc<World>]) {
    hold_all(worlds);
    worlds.iter().for_each(|world| world.part());
}

fn part_again_and_again(size: Rank, calls: u32, length: usize) {
    let partings = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&partings);
    job(
        size,
        move |world| add_up(world, calls, length),
        move |worlds, is_running| {
            // Longer and longer, or a starved machine would never come further; and at once, while
            // they still look for each other after the time before.
            let mut pause = Duration::from_millis(10);
            while is_running() {
                thread::sleep(pause);
                part_all(worlds);
                part_all(worlds);
                pause = (pause * 5 / 4).min(Duration::from_secs(2));
                seen.store(true, Ordering::Relaxed);
            }
        },
    );
    assert!(partings.load(Ordering::Relaxed));
}

#[test]
fn calls_notice_nothing_of_connections_that_are_made_again() {
    part_again_and_again(5, 300, 1);
}

#[test]
fn large_values_do_not_either() {
    part_again_and_again(3, 10, 100_000);
}

/// Who has sent the others what they wait for, and makes no call any more, cannot look for them.
fn end_first(is_held: bool) {
    const BYTES: usize = 8 << 20;
    let (has_begun, has_sent) =
        (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (begun, sent) = (Arc::clone(&has_begun), Arc::clone(&has_sent));
    let work = move |world: &World| {
        let mut buffer = vec![u8::from(world.rank() == 0); BYTES];
        while world.rank() == 0 && !begun.load(Ordering::Acquire) {
            thread::yield_now();
        }
        world.comm().bcast(&mut buffer, 0).unwrap();
        if world.rank() == 0 {
            sent.store(true, Ordering::Release);
        }
        assert!(buffer.iter().all(|&byte| byte == 1));
    };
    job(3, work, |worlds, _| {
        if is_held {
            hold_all(worlds);
        }
        has_begun.store(true, Ordering::Release);
        if is_held {
            thread::sleep(Duration::from_millis(5));
        } else {
            while !has_sent.load(Ordering::Acquire) {
                thread::yield_now();
            }
            hold_all(worlds);
        }
        worlds.iter().for_each(|world| world.part());
    });
}

#[test]
fn who_has_ended_its_calls_has_nothing_to_say_when_connections_end() {
    end_first(false);
}

#[test]
fn who_ends_its_call_while_connections_are_held_has_said_all() {
    end_first(true);
}

/// Processes in a call wait for its members alone: who is in none may wait for one of them.
#[test]
fn nobody_is_awaited_who_is_no_member() {
    let (is_parted, is_done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (parted, done) = (Arc::clone(&is_parted), Arc::clone(&is_done));
    let wait_for = |flag: &AtomicBool| {
        while !flag.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(1));
        }
    };
    let work = move |world: &World| {
        wait_for(&parted);
        if let Some(pair) = world.comm_of(&[0, 2]) {
            pair.barrier().unwrap();
            pair.barrier().unwrap();
            done.store(true, Ordering::Release);
        }
        wait_for(&done);
        add_up(world, 3, 1);
    };
    job(4, work, |worlds, _| {
        part_all(worlds);
        is_parted.store(true, Ordering::Release);
    });
}

/// A process that is not there any more after a parting is missing in the end.
#[test]
fn who_is_not_found_again_ends_the_call_at_its_deadline() {
    let limit = Duration::from_millis(500);
    let board = Board::default();
    let mut worlds = meet(3, Options { deadline: limit, ..options() });
    hold_all(&worlds);
    drop(worlds.pop());
    part_all(&worlds);
    let call = |world: &Arc<World>| {
        let (world, board) = (Arc::clone(world), Arc::clone(&board));
        thread::spawn(move || {
            find_by(&world, &board);
            let begun = Instant::now();
            let ended = world.comm().barrier();
            (ended.map(|ended| ended.missing), begun.elapsed())
        })
    };
    let calls: Vec<_> = worlds.iter().map(call).collect();
    for call in calls {
        let (ended, time) = call.join().unwrap();
        assert_eq!(ended, Err(CallError::Deadline));
        assert!(time >= limit && time < 20 * limit);
    }
}

#[test]
fn who_continues_has_the_connections_of_before() {
    job(
        4,
        |world| add_up(world, 200, 1),
        |worlds, is_running| {
            let before: Vec<_> = worlds.iter().map(|world| world.sockets()).collect();
            assert!(before.iter().all(|sockets| sockets.len() == 3));
            while is_running() {
                hold_all(worlds);
                thread::sleep(Duration::from_millis(5));
                worlds.iter().for_each(|world| world.release());
            }
            assert!(worlds.iter().map(|world| world.sockets()).eq(before));
        },
    );
}

/// A connection that broke while all were held is a death when the process just continues, and
/// silence means something again.
#[test]
fn who_dies_meanwhile_is_noticed_afterwards() {
    let mut worlds = meet(3, options());
    hold_all(&worlds);
    drop(worlds.pop());
    let call = |world: Arc<World>| {
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            world.release();
            world.comm().barrier().unwrap().missing
        })
    };
    let calls: Vec<_> = worlds.into_iter().map(call).collect();
    for call in calls {
        assert_eq!(call.join().unwrap(), [2]);
    }
}
