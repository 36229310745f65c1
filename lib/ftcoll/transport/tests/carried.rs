// SPDX-License-Identifier: Apache-2.0
//! The same jobs over UCX. `./x build` makes the library that this loads.
#![allow(clippy::unwrap_used)]

mod jobs;

use ftcoll::{Options, Transport};

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
