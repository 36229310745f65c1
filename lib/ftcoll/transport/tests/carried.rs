// SPDX-License-Identifier: Apache-2.0
//! The same jobs over UCX. `./x build` makes the library that this loads.
#![allow(clippy::unwrap_used)]

mod jobs;

use ftcoll::{Options, Transport};
use std::time::Duration;

const TRANSPORT: Transport = Transport::Ucx;

/// How many of the others each process of a job reaches beside the sockets, after calls.
fn carried(options: Options) -> Vec<usize> {
    jobs::job(4, options, |world| {
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
fn processes_of_a_host_reach_each_other_beside_the_sockets() {
    assert_eq!(carried(jobs::calm()), [3; 4]);
}

#[test]
fn connections_that_may_be_made_again_are_sockets() {
    assert_eq!(carried(Options { may_part: true, ..jobs::calm() }), [0; 4]);
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
