// SPDX-License-Identifier: Apache-2.0
//! Programs that show one thing each.

use crate::program::{Kind, Mode, Op, Program};

const fn barrier(group: u8) -> Op {
    Op::Coll(group, Kind::Barrier)
}

const fn send(to: u8) -> Op {
    Op::Send(to, Mode::Eager, 0)
}

const fn large(to: u8) -> Op {
    Op::Send(to, Mode::Rendezvous, 0)
}

const fn ssend(to: u8) -> Op {
    Op::Send(to, Mode::Synchronous, 0)
}

const fn recv(from: u8) -> Op {
    Op::Recv(Some(from), 0)
}

fn program(ranks: &[&[Op]]) -> Program {
    Program::new(ranks.iter().map(|ops| ops.to_vec()).collect())
}

/// The hole of the published rule: P1 is in the Bcast, P0 owes it and waits for P2, which has
/// parked after its barrier with P3.
#[must_use]
pub fn hole() -> Program {
    program(&[
        &[recv(2), Op::Coll(0b0011, Kind::Bcast(0))],
        &[Op::Coll(0b0011, Kind::Bcast(0))],
        &[barrier(0b1100), send(0)],
        &[barrier(0b1100)],
    ])
}

/// The same in four calls.
#[must_use]
pub fn smallest_hole() -> Program {
    program(&[
        &[recv(2), Op::Coll(0b011, Kind::Bcast(0))],
        &[Op::Coll(0b011, Kind::Bcast(0))],
        &[send(0)],
    ])
}

/// A rank has to pass a collective call beyond its target to reach the one it owes.
#[must_use]
pub fn raise() -> Program {
    program(&[
        &[barrier(0b011), barrier(0b011)],
        &[barrier(0b011), barrier(0b110), barrier(0b011)],
        &[barrier(0b110)],
    ])
}

/// The root's broadcast waits for nobody: the two-phase algorithm's barrier before it does.
#[must_use]
pub fn early_root() -> Program {
    program(&[
        &[Op::Coll(0b011, Kind::Bcast(0)), send(1)],
        &[recv(0), Op::Coll(0b011, Kind::Bcast(0))],
    ])
}

/// While a rank waits for a message that any rank may send, a synchronous one comes.
#[must_use]
pub fn synchronous_meanwhile() -> Program {
    program(&[
        &[Op::Recv(None, 1), Op::Coll(0b101, Kind::Bcast(2)), recv(2)],
        &[Op::Send(0, Mode::Eager, 1)],
        &[Op::Coll(0b101, Kind::Bcast(2)), ssend(0)],
    ])
}

/// Who owes the barrier waits for the other rank with its second thread. That one
/// runs on, and so the edge of its own second thread is reported.
#[must_use]
pub fn servers() -> Program {
    program(&[&[barrier(0b011)], &[barrier(0b011)]]).with_servers(2)
}

/// All with their names.
#[must_use]
pub fn all() -> Vec<(&'static str, Program)> {
    let g01 = 0b011;
    vec![
        ("the smallest hole: a parked rank owes a message", smallest_hole()),
        ("the hole of the papers' rule", hole()),
        (
            "an edge is passed on over two ranks",
            program(&[&[recv(2), barrier(g01)], &[barrier(g01)], &[recv(3), send(0)], &[send(2)]]),
        ),
        (
            "any source, two senders",
            program(&[
                &[Op::Recv(None, 0), barrier(g01), Op::Recv(None, 0)],
                &[barrier(g01), send(0)],
                &[send(0)],
            ]),
        ),
        (
            "another tag arrives first",
            program(&[
                &[Op::Recv(Some(2), 1), barrier(g01), recv(2)],
                &[barrier(g01)],
                &[send(0), Op::Send(0, Mode::Eager, 1)],
            ]),
        ),
        (
            "a synchronous send, its receiver elsewhere",
            program(&[&[ssend(2), barrier(g01)], &[barrier(g01), send(2)], &[recv(0), recv(1)]]),
        ),
        ("a synchronous message while its receiver waits for another", synchronous_meanwhile()),
        (
            "a large message, its receiver parked",
            program(&[&[large(2), barrier(g01)], &[barrier(g01)], &[recv(0)]]),
        ),
        (
            "non-blocking, completed after a message",
            program(&[
                &[Op::Start(g01), recv(2), Op::Wait(g01)],
                &[Op::Start(g01), Op::Wait(g01)],
                &[send(0)],
            ]),
        ),
        (
            "two non-blocking on one group",
            program(&[
                &[Op::Start(g01), Op::Start(g01), Op::Wait(g01)],
                &[Op::Start(g01), recv(2), Op::Start(g01), Op::Wait(g01)],
                &[send(1)],
            ]),
        ),
        (
            "inter-communicator",
            program(&[
                &[recv(1), Op::Coll(0b111, Kind::Inter(0b001)), recv(2)],
                &[send(0), Op::Coll(0b111, Kind::Inter(0b001))],
                &[Op::Coll(0b111, Kind::Inter(0b001)), send(0)],
            ]),
        ),
        ("a target raises the next", raise()),
        (
            "reduce and broadcast, nobody waits for the leaves",
            program(&[
                &[Op::Coll(0b111, Kind::Reduce(0)), Op::Coll(0b111, Kind::Bcast(0))],
                &[Op::Coll(0b111, Kind::Reduce(0)), Op::Coll(0b111, Kind::Bcast(0))],
                &[Op::Coll(0b111, Kind::Reduce(0)), Op::Coll(0b111, Kind::Bcast(0))],
            ]),
        ),
        ("second threads that wait for each other's ranks", servers()),
    ]
}
