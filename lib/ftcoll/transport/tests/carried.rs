// SPDX-License-Identifier: Apache-2.0
//! The same jobs over UCX, which uses its TCP (`control/.cargo/config.toml`). `./x build` makes the
//! library that this loads.
#![allow(clippy::unwrap_used)]

mod jobs;

use ftcoll::{Options, Rank, Transport};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

const TRANSPORT: Transport = Transport::Ucx;

/// How many of the others each process of a job reaches beside the sockets, after calls.
fn carried(options: impl Fn(Rank) -> Options) -> Vec<usize> {
    jobs::mixed_job(4, options, |world| {
        let comm = world.comm();
        // In each of them everybody says something to everybody above and below it in the tree.
        (0..4).for_each(|root| assert!(comm.bcast(&mut [0; 8], root).unwrap().missing.is_empty()));
        comm.barrier().unwrap();
        let carried = world.carried();
        comm.barrier().unwrap();
        carried
    })
}

#[test]
fn processes_of_several_hosts_reach_each_other_beside_the_sockets() {
    assert_eq!(carried(|_| jobs::calm()), [3; 4]);
}

#[test]
fn processes_of_one_host_keep_to_their_sockets() {
    let address = Options::default().address;
    assert_eq!(carried(|_| Options { address, ..jobs::calm() }), [0; 4]);
}

#[test]
fn connections_that_may_be_made_again_are_sockets() {
    assert_eq!(carried(|_| Options { may_part: true, ..jobs::calm() }), [0; 4]);
}

#[test]
fn who_has_no_ucx_is_reached_by_its_socket() {
    let options = |rank| {
        let transport = if rank == 1 { Transport::Tcp } else { Transport::Ucx };
        Options { transport, ..jobs::calm() }
    };
    assert_eq!(carried(options), [2, 0, 2, 2]);
    // More frames than are told without being asked for.
    jobs::mixed_job(4, options, |world| {
        let comm = world.comm();
        (0..100).for_each(|_| assert!(comm.barrier().unwrap().missing.is_empty()));
    });
}

/// Who has nothing to do but to compute says all that it has to say meanwhile.
#[test]
fn a_large_value_comes_though_its_sender_makes_no_call_any_more() {
    let options = Options { deadline: Duration::from_secs(60), ..jobs::calm() };
    let (ended, all) = mpsc::channel();
    let (ended, all) = (Mutex::new(ended), Mutex::new(all));
    jobs::job(3, options, move |world| {
        let mut value = vec![u8::from(world.rank() == 0); 16 << 20];
        assert!(world.comm().bcast(&mut value, 0).unwrap().missing.is_empty());
        assert!(value.iter().all(|byte| *byte == 1));
        if world.rank() == 0 {
            let all = all.lock().unwrap();
            (1..3).for_each(|_| all.recv_timeout(Duration::from_secs(60)).unwrap());
        } else {
            ended.lock().unwrap().send(()).unwrap();
        }
    });
}

/// What UCX cannot send at once it says nothing of when it can.
#[test]
fn what_waits_to_be_sent_is_sent_without_an_event() {
    for _ in 0..20 {
        let options = Options { deadline: Duration::from_secs(60), ..jobs::calm() };
        jobs::job(4, options, |world| {
            let comm = world.comm();
            let mut value = vec![0; 160_000];
            for _ in 0..10 {
                assert!(comm.allreduce(&mut value, &jobs::sum()).unwrap().missing.is_empty());
            }
        });
    }
}
