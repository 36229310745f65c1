// SPDX-License-Identifier: Apache-2.0
//! tests/fixtures/obligations.txt: what the rank's machine decides, in many small situations. The
//! runtime's own text of these rules is held against the same table (tests/unit/obligations.cpp).
//!
//! A line is a situation: clock and target of group 1, of group 2; what rank 1 waits for and how
//! many (`none` for nothing, `unordered` without a directive); the messages sent to rank 1, those
//! that have arrived from it, those of them that are kept unmatched, and those of these that are
//! held.
//! Then what is decided there:
//! - computing: has it an obligation? If not, it may park;
//! - receiving from rank 1: which message it waits for, 0 if it has no obligation;
//! - before MPI_Finalize: has it an obligation?
//! - in a standard send to rank 1, and in a synchronous one: what it waits for;
//! - at the entry of a collective call of group 1, which has been counted and is taken back:
//!   `hold`, or `enter` or `raise` with the clock that the call then has;
//! - parked: does it take in what comes from rank 1?
//! - receiving: does it run on for its own sake?
use fermata_protocol::{
    Clock, CollectiveEntry, Directive, MessageCounts, Origin, Position, RankId, RankMachine,
    Version, WaitEdge, WaitKind,
};
use std::fmt::Write;

const TABLE: &str = include_str!("../../../tests/fixtures/obligations.txt");

#[derive(Clone, Copy)]
struct Counts {
    sent: u64,
    arrived: u64,
    kept: u64,
    held: u64,
}

impl MessageCounts for Counts {
    fn sent(&self, _to: RankId) -> u64 {
        self.sent
    }
    fn arrived(&self, _from: RankId) -> u64 {
        self.arrived
    }
    fn held(&self, _from: RankId) -> u64 {
        self.held
    }
    fn matched(&self, _from: RankId) -> u64 {
        self.arrived - self.kept
    }
}

type Machine = RankMachine<2, 1>;

fn machine(clocks: [u64; 2], targets: [u64; 2], directive: Option<&[WaitEdge]>) -> Machine {
    let mut machine = RankMachine::default();
    for (group, seq) in (1..).zip(clocks) {
        assert!(machine.join(group));
        (0..seq).for_each(|_| machine.count(group));
    }
    machine.on_request();
    if let Some(obligations) = directive {
        let targets = (1..).zip(targets).map(|(group, seq)| Clock { group, seq }).collect();
        machine.on_directive(&Directive {
            version: Version(1),
            targets,
            obligations: obligations.to_vec(),
        });
    }
    machine
}

fn edges(machine: &Machine, at: &[Position<'_>], counts: &Counts) -> String {
    let words = machine.edges(at, counts).map(|edge| match edge.kind {
        WaitKind::Message => edge.count.to_string(),
        WaitKind::Receipt => format!("receipt{}", edge.count),
        WaitKind::Room => format!("room{}", edge.count),
    });
    words.reduce(|all, word| all + &word).unwrap_or_else(|| "0".to_owned())
}

fn entry(mut machine: Machine, counts: &Counts) -> String {
    machine.count(1);
    machine.uncount(1);
    let answer = machine.enter_collective(1, counts);
    let seq = machine.clocks().next().map_or(0, |clock| clock.seq);
    match answer {
        CollectiveEntry::Hold => "hold".to_owned(),
        CollectiveEntry::Enter => format!("enter{seq}"),
        CollectiveEntry::Raise(clock) => format!("raise{}", clock.seq),
    }
}

fn decisions(machine: &Machine, counts: &Counts) -> String {
    let obligation = |at: &[Position<'_>]| {
        let has_obligation = machine.has_obligation(at, counts);
        assert_eq!(machine.may_park(at, counts), !has_obligation);
        u8::from(has_obligation)
    };
    format!(
        "{} {} {} {} {} {} {} {}",
        obligation(&[Position::Computing]),
        edges(machine, &[Position::Receiving(&[1])], counts),
        obligation(&[Position::Ending]),
        edges(machine, &[Position::Sending(1)], counts),
        edges(machine, &[Position::Synchronous(1)], counts),
        entry(machine.clone(), counts),
        u8::from(machine.gives_room(1, counts)),
        u8::from(machine.origin(&[Position::Receiving(&[1])]) == Origin::Root)
    )
}

fn table() -> String {
    let mut text = String::new();
    let kinds =
        [("message", WaitKind::Message), ("receipt", WaitKind::Receipt), ("room", WaitKind::Room)];
    let some = kinds.iter().flat_map(|(word, kind)| {
        (1..3).map(|count| (*word, count, vec![WaitEdge { peer: 1, kind: *kind, count }]))
    });
    let directive: Vec<_> = [("none", 0, Vec::new())].into_iter().chain(some).collect();
    // Arrived, kept, held.
    let arrivals = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (1, 1, 1), (2, 0, 0), (2, 1, 0), (2, 2, 1)];
    for case in 0..2 * 3 * 2 * 3 {
        let mut rest = case;
        let mut digit = |base: u64| (rest % base, rest /= base).0;
        let (a, a_target, b, b_target) = (digit(2), digit(3), digit(2), 1);
        let sent = digit(3);
        for (arrived, kept, held) in arrivals {
            let counts = Counts { sent, arrived, kept, held };
            let mut line = |word: &str, count: u64, machine: &Machine| {
                let _ = writeln!(
                    text,
                    "{a} {a_target} {b} {b_target} {word} {count} {sent} {arrived} {kept} {held} \
                     {}",
                    decisions(machine, &counts)
                );
            };
            for (word, count, obligations) in &directive {
                line(word, *count, &machine([a, b], [a_target, b_target], Some(obligations)));
            }
            if a_target == 0 {
                line("unordered", 0, &machine([a, b], [0, b_target], None));
            }
        }
    }
    text
}

#[test]
fn the_table_is_what_the_machine_decides() {
    let found = table();
    assert!(found == TABLE, "tests/fixtures/obligations.txt should be:\n{found}");
}
