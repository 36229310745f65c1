// SPDX-License-Identifier: Apache-2.0
//! tests/fixtures/duties.txt: what the rank's machine decides, in many small situations. The
//! runtime's own text of these rules is held against the same table (tests/unit/duties.cpp).
//!
//! A line: clock and target of group 1, of group 2; the messages that rank 1 needs, and those sent
//! to it; where the rank is (computing, receiving from rank 1, ending) and what has arrived from
//! rank 1; then the answer: has it a duty, and which message of rank 1 does it need (0: none).
use fermata_protocol::{
    Books, Clock, Need, NeedKind, Orders, Position, RankId, RankMachine, Version,
};
use std::fmt::Write;

const TABLE: &str = include_str!("../../../tests/fixtures/duties.txt");

struct Counts {
    sent: u64,
    arrived: u64,
}

impl Books for Counts {
    fn sent(&self, _to: RankId) -> u64 {
        self.sent
    }
    fn arrived(&self, _from: RankId) -> u64 {
        self.arrived
    }
    fn matched(&self, _from: RankId) -> u64 {
        self.arrived
    }
}

fn machine(clocks: &[Clock], targets: &[Clock], needed: u64) -> RankMachine<2, 1> {
    let mut machine = RankMachine::default();
    for clock in clocks {
        assert!(machine.join(clock.group));
        (0..clock.seq).for_each(|_| machine.count(clock.group));
    }
    machine.on_request();
    let need = Need { peer: 1, kind: NeedKind::Message, count: needed };
    let needs = if needed == 0 { Vec::new() } else { vec![need] };
    machine.on_orders(&Orders { version: Version(1), targets: targets.to_vec(), needs });
    machine
}

fn answer(machine: &RankMachine<2, 1>, at: &Position<'_>, books: &Counts) -> (bool, u64) {
    (machine.has_duty(at, books), machine.needs(at, books).map(|need| need.count).sum())
}

fn table() -> String {
    let mut text = String::new();
    let groups = |a, b| [Clock { group: 1, seq: a }, Clock { group: 2, seq: b }];
    let positions = [
        ("computing", Position::Computing),
        ("receiving", Position::Receiving(&[1])),
        ("ending", Position::Ending),
    ];
    for case in 0..2 * 3 * 2 * 2 * 3 * 3 {
        let mut rest = case;
        let mut digit = |base: u64| (rest % base, rest /= base).0;
        let (a, a_target, b, b_target) = (digit(2), digit(3), digit(2), digit(2));
        let (needed, sent) = (digit(3), digit(3));
        let machine = machine(&groups(a, b), &groups(a_target, b_target), needed);
        for (name, at) in &positions {
            for arrived in 0..2 {
                let (duty, need) = answer(&machine, at, &Counts { sent, arrived });
                let _ = writeln!(
                    text,
                    "{a} {a_target} {b} {b_target} {needed} {sent} {name} {arrived} {} {need}",
                    u8::from(duty)
                );
            }
        }
    }
    text
}

#[test]
fn the_table_is_what_the_machine_decides() {
    let found = table();
    assert!(found == TABLE, "tests/fixtures/duties.txt should be:\n{found}");
}
