// SPDX-License-Identifier: Apache-2.0
//! Jobs whose processes are threads of this one, with real connections between them. Who dies is
//! dropped: its connections close, as those of a killed process do.

mod begun;

use super::TRANSPORT;
use ftcoll::{CallError, Combine, Door, JoinError, Key, Kind, Op, Options, Rank, UserOp, World};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// The system has connections come from 127.0.0.1: to this address they are those of another host.
fn elsewhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 2], 0))
}

/// An event that is missed is one for ever.
pub fn options() -> Options {
    let (address, sleep) = (elsewhere(), Duration::from_secs(100_000));
    Options { address, transport: TRANSPORT, sleep, ..Options::default() }
}

/// Longer than a starved machine lets a living process be silent: large values have taken a minute
/// in a debug build.
pub fn calm() -> Options {
    Options { timeout: Duration::from_secs(300), ..options() }
}

/// Runs `work` at each process of a job, and returns what it returned, by rank.
pub fn job<T: Send + 'static>(
    size: Rank,
    options: Options,
    work: impl Fn(World) -> T + Send + Sync + 'static,
) -> Vec<T> {
    mixed_job(size, move |_| options, work)
}

/// The same where each process has options of its own.
pub fn mixed_job<T: Send + 'static>(
    size: Rank,
    options: impl Fn(Rank) -> Options,
    work: impl Fn(World) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let key = Key::generate().unwrap();
    let open = |rank| Door::open(key.clone(), options(rank)).unwrap();
    let doors: Vec<_> = (0..size).map(open).collect();
    let addresses: Vec<_> = doors.iter().map(Door::address).collect();
    let work = Arc::new(work);
    let run = |(rank, door): (Rank, Door)| {
        let (addresses, work) = (addresses.clone(), Arc::clone(&work));
        thread::spawn(move || work(door.meet(rank, &addresses).unwrap()))
    };
    let threads: Vec<_> = (0..).zip(doors).map(run).collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

pub fn sum() -> Combine {
    Combine::Predefined(Kind::I64, Op::Sum)
}

fn int(buffer: &[u8]) -> i64 {
    i64::from_ne_bytes(buffer.try_into().unwrap())
}

#[test]
fn a_process_is_looked_for_at_all_its_addresses() {
    let key = Key::generate().unwrap();
    let doors: Vec<_> = (0..3).map(|_| Door::open(key.clone(), calm()).unwrap()).collect();
    let addresses: Vec<_> = doors.iter().map(Door::address).collect();
    // Where nobody listens, where another process of the job does, and where it is.
    let nowhere = "127.0.0.1:1".parse().unwrap();
    let ways: Vec<_> =
        (0..3).map(|at| vec![nowhere, addresses[(at + 1) % 3], addresses[at]]).collect();
    let run = |(rank, door): (Rank, Door)| {
        let ways = ways.clone();
        thread::spawn(move || {
            let world = door.meet_at(rank, &ways).unwrap();
            let mut buffer = i64::from(rank + 1).to_ne_bytes();
            assert!(world.comm().allreduce(&mut buffer, &sum()).unwrap().missing.is_empty());
            int(&buffer)
        })
    };
    let threads: Vec<_> = (0..).zip(doors).map(run).collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), 6);
    }
}

#[test]
fn every_collective_at_every_size_and_root() {
    for size in 1..=8 {
        job(size, calm(), move |world| {
            let (comm, me) = (world.comm(), world.rank());
            let total = i64::from(size * (size + 1) / 2);
            for root in 0..size {
                let mut buffer = i64::from(me + 1).to_ne_bytes();
                assert!(comm.allreduce(&mut buffer, &sum()).unwrap().missing.is_empty());
                assert_eq!(int(&buffer), total);
                let mut buffer = i64::from(me + 1).to_ne_bytes();
                comm.reduce(&mut buffer, &sum(), root).unwrap();
                let own = i64::from(me + 1);
                assert_eq!(int(&buffer), if me == root { total } else { own });
                let mut buffer = i64::from(me).to_ne_bytes();
                comm.bcast(&mut buffer, root).unwrap();
                assert_eq!(int(&buffer), i64::from(root));
                assert!(comm.barrier().unwrap().missing.is_empty());
                comm.allreduce(&mut [], &sum()).unwrap();
            }
            drop(comm);
            world.leave().unwrap();
        });
    }
}

/// A root that broadcasts waits for nobody, but is held before others cannot follow.
#[test]
fn no_broadcast_is_forgotten() {
    let ended = job(4, calm(), |world| {
        let comm = world.comm();
        if world.rank() == 3 {
            thread::sleep(Duration::from_millis(100));
        }
        for length in [8, 200 << 10] {
            for number in 0..300u32 {
                let mut buffer = vec![0; length];
                if world.rank() == 1 {
                    buffer.fill(u8::try_from(number % 251).unwrap());
                }
                comm.bcast(&mut buffer, 1).unwrap();
                assert!(buffer.iter().all(|&byte| u32::from(byte) == number % 251));
            }
        }
        drop(comm);
        world.leave()
    });
    assert_eq!(ended, [Ok(()); 4]);
}

#[test]
fn large_values_cross_each_other() {
    job(3, calm(), |world| {
        let comm = world.comm();
        for _ in 0..3 {
            let ones: Vec<u8> = (0..1 << 20).flat_map(|n: i64| n.to_ne_bytes()).collect();
            let mut buffer = ones.clone();
            comm.allreduce(&mut buffer, &sum()).unwrap();
            let is_tripled = |(a, b): (&[u8], &[u8])| int(a) == 3 * int(b);
            assert!(buffer.chunks(8).zip(ones.chunks(8)).all(is_tripled));
        }
        drop(comm);
        world.leave().unwrap();
    });
}

#[test]
fn operands_keep_the_order_of_the_ranks() {
    job(5, calm(), |world| {
        let comm = world.comm();
        let function = Arc::new(|ahead: &[u8], behind: &mut [u8]| {
            // The first digits, then the others: each value is a count and so many digits.
            let (a, b) = (usize::from(ahead[0]), usize::from(behind[0]));
            let digits = [&ahead[1..=a], &behind[1..=b]].concat();
            behind[0] = u8::try_from(a + b).unwrap();
            behind[1..=a + b].copy_from_slice(&digits);
        });
        let combine = Combine::User(UserOp { element: 8, commutes: false, function });
        for root in 0..5 {
            let mut buffer = [1, u8::try_from(world.rank()).unwrap(), 0, 0, 0, 0, 0, 0];
            comm.reduce(&mut buffer, &combine, root).unwrap();
            if world.rank() == root {
                assert_eq!(buffer, [5, 0, 1, 2, 3, 4, 0, 0]);
            }
        }
        drop(comm);
        world.leave().unwrap();
    });
}

#[test]
fn several_communicators_at_a_time() {
    job(6, calm(), |world| {
        let me = world.rank();
        let half: Vec<_> = (0..6).filter(|rank| rank % 2 == me % 2).collect();
        let (all, mine) = (world.comm(), world.comm_of(&half).unwrap());
        assert_eq!((mine.size(), mine.rank()), (3, me / 2));
        let rounds = 200;
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..rounds {
                    let mut buffer = 1i64.to_ne_bytes();
                    all.allreduce(&mut buffer, &sum()).unwrap();
                    assert_eq!(int(&buffer), 6);
                }
            });
            for _ in 0..rounds {
                let mut buffer = i64::from(me).to_ne_bytes();
                mine.allreduce(&mut buffer, &sum()).unwrap();
                assert_eq!(int(&buffer), if me % 2 == 0 { 6 } else { 9 });
            }
        });
        assert!(world.comm_of(&[me, me]).is_none() && world.comm_of(&[(me + 1) % 6]).is_none());
        drop((all, mine));
        world.leave().unwrap();
    });
}

/// The same calls in a communicator that survives nothing, to compare with.
#[test]
fn what_survives_nothing_gives_the_same() {
    job(5, calm(), |world| {
        let (comm, me) = (world.comm(), world.rank());
        comm.survive_nothing();
        world.comm().barrier().unwrap();
        for root in 0..5 {
            let mut buffer = i64::from(me).to_ne_bytes();
            comm.allreduce(&mut buffer, &sum()).unwrap();
            assert_eq!(int(&buffer), 10);
            comm.reduce(&mut buffer, &sum(), root).unwrap();
            assert_eq!(int(&buffer), if me == root { 50 } else { 10 });
            comm.bcast(&mut buffer, root).unwrap();
            assert_eq!(int(&buffer), 50);
            comm.barrier().unwrap();
        }
        drop(comm);
        world.leave().unwrap();
    });
}

/// One process is in the call long before the others have made the communicator.
#[test]
fn a_communicator_may_be_made_late() {
    let options = Options { timeout: Duration::from_secs(1), ..options() };
    job(3, options, |world| {
        if world.rank() != 1 {
            thread::sleep(Duration::from_millis(2500));
        }
        let comm = world.comm();
        let mut buffer = 1i64.to_ne_bytes();
        assert!(comm.allreduce(&mut buffer, &sum()).unwrap().missing.is_empty());
        drop(comm);
        world.leave().unwrap();
    });
}

fn survive(options: Options, dies: Rank, root: Rank) -> Duration {
    let times = job(6, options, move |world| {
        let comm = world.comm();
        comm.barrier().unwrap();
        if world.rank() == dies {
            drop(comm);
            drop(world);
            return Duration::ZERO;
        }
        let begun = Instant::now();
        let mut buffer = 1i64.to_ne_bytes();
        assert_eq!(comm.allreduce(&mut buffer, &sum()).unwrap().missing, [dies]);
        assert_eq!(int(&buffer), 5);
        let first = begun.elapsed();
        let mut buffer = 7i64.to_ne_bytes();
        let ended = comm.bcast(&mut buffer, root);
        if root == dies {
            assert_eq!(ended, Err(CallError::RootDied));
        } else {
            ended.unwrap();
        }
        let other = (dies + 3) % 6;
        assert_eq!(comm.reduce(&mut buffer, &sum(), other).unwrap().missing, [dies]);
        assert_eq!(comm.barrier().unwrap().missing, [dies]);
        drop(comm);
        world.leave().unwrap();
        first
    });
    times.into_iter().max().unwrap()
}

#[test]
fn the_others_end_when_one_has_gone() {
    for dies in 0..6 {
        survive(calm(), dies, dies);
        survive(calm(), dies, (dies + 1) % 6);
    }
}

/// Its host may have gone without a word.
#[test]
fn silence_is_noticed_after_the_timeout() {
    let timeout = Duration::from_secs(4);
    let options = Options { timeout, heeds_closing: false, ..options() };
    assert!(survive(options, 2, 0) >= timeout);
}

#[test]
fn calls_that_do_not_fit_end_everywhere() {
    let ended = job(4, calm(), |world| {
        let comm = world.comm();
        let mut buffer = vec![0; if world.rank() == 2 { 16 } else { 8 }];
        let ended = [
            comm.allreduce(&mut buffer, &sum()).err(),
            comm.allreduce(&mut buffer[..4], &sum()).err(),
            comm.reduce(&mut buffer, &Combine::Predefined(Kind::F64, Op::Band), 0).err(),
            comm.bcast(&mut buffer, 4).err(),
        ];
        comm.barrier().unwrap();
        drop(comm);
        world.leave().unwrap();
        ended
    });
    let expected =
        [CallError::Mismatch, CallError::Argument, CallError::Operation, CallError::Argument];
    assert_eq!(ended, [expected.map(Some); 4]);
}

#[test]
fn who_never_comes_is_waited_for_until_the_deadline() {
    let options = Options { deadline: Duration::from_secs(2), ..calm() };
    let ended = job(3, options, |world| {
        let (comm, other) = (world.comm(), world.comm());
        let ended = if world.rank() == 1 {
            thread::sleep(Duration::from_secs(3));
            Err(CallError::Deadline)
        } else {
            comm.barrier().map(|_| ())
        };
        let again = comm.barrier().map(|_| ());
        assert!(world.rank() == 1 || again == Err(CallError::Deadline));
        let _ = other.barrier();
        ended
    });
    assert_eq!(ended, [Err(CallError::Deadline); 3]);
}

#[test]
fn strangers_are_not_heard() {
    let options = Options { meeting: Duration::from_secs(2), ..calm() };
    let door = Door::open(Key::generate().unwrap(), options).unwrap();
    let address = door.address();
    let stranger = Door::open(Key::generate().unwrap(), options).unwrap();
    let list = [address, stranger.address()];
    let with_another_key = thread::spawn(move || stranger.meet(1, &list).err());
    let mut noise = TcpStream::connect(address).unwrap();
    noise.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let silent = TcpStream::connect(address).unwrap();
    assert!(matches!(door.meet(0, &list), Err(JoinError::Alone { .. })));
    assert!(matches!(with_another_key.join().unwrap(), Some(JoinError::Alone { .. })));
    noise.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert!(matches!(noise.read(&mut [0; 8]), Ok(0) | Err(_)));
    drop(silent);
    assert!(TcpStream::connect(address).is_err(), "the door is closed");
}

#[test]
fn one_who_does_not_come_is_missing() {
    let options = Options { meeting: Duration::from_secs(5), ..calm() };
    let key = Key::generate().unwrap();
    let doors: Vec<_> = (0..3).map(|_| Door::open(key.clone(), options).unwrap()).collect();
    let addresses: Vec<_> = doors.iter().map(Door::address).collect();
    let threads: Vec<_> = (0..)
        .zip(doors)
        .filter(|(rank, _)| *rank != 1)
        .map(|(rank, door)| {
            let addresses = addresses.clone();
            thread::spawn(move || {
                let world = door.meet(rank, &addresses).unwrap();
                assert_eq!(world.comm().barrier().unwrap().missing, [1]);
                world.leave().unwrap();
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
