// SPDX-License-Identifier: Apache-2.0
use crate::scheme::{Scheme, finish};
use crate::world::{LogP, NEVER, Outcome};
use fermata_ftcoll::correction::Rule;
use fermata_ftcoll::tree::Tree;
use fermata_ftcoll::{Rank, Time};
use std::sync::Arc;

fn checked(machine: LogP, size: Rank, dead: &[Rank]) -> Outcome {
    let tree = Arc::new(Tree::kary(size, 2));
    let scheme = Scheme::synchronised("", machine, &tree, Rule::Checked);
    let dead: Vec<Time> = (0..size).map(|r| if dead.contains(&r) { 0 } else { NEVER }).collect();
    scheme.run(machine, 0, &dead)
}

/// The times of flogsim's own unit tests: checked, 2-ary, synchronised. Two differ by one unit:
/// with three processes ours stop when both sides together go around the ring, and with two dead of
/// fifteen.
#[test]
fn quiet_when_flogsim_is() {
    let known: [(Time, Rank, &[Rank], Time, Time); 10] = [
        (1, 3, &[], 8, 0),
        (1, 7, &[], 12, 0),
        (1, 15, &[], 16, 0),
        (1, 21, &[], 18, 0),
        (1, 7, &[4], 16, 0),
        (2, 3, &[], 11, 1),
        (2, 7, &[], 16, 0),
        (2, 15, &[], 21, 0),
        (2, 21, &[], 24, 0),
        (2, 15, &[5, 12], 26, 1),
    ];
    for (latency, size, dead, quiet, less) in known {
        let machine = LogP { latency, overhead: 1, gap: 1 };
        let outcome = checked(machine, size, dead);
        assert_eq!(outcome.quiet + less, quiet, "L={latency}, {size} processes, dead {dead:?}");
        assert_eq!(outcome.missed, 0);
    }
}

#[test]
fn trees_take_the_known_times() {
    for (order, time) in [(1, 48), (2, 34), (3, 30), (4, 28), (5, 32)] {
        assert_eq!(finish(LogP::PAPER, &Arc::new(Tree::lame(4096, order))), time);
    }
    assert_eq!(finish(LogP::PAPER, &Arc::new(Tree::kary(4096, 4))), 40);
}

/// T(P) of the optimal tree is where the waves have P places.
#[test]
fn the_gap_holds_sends_apart() {
    let machine = LogP { latency: 3, overhead: 1, gap: 4 };
    let tree = Arc::new(Tree::kary(4, 3));
    assert_eq!(finish(machine, &tree), 2 * 4 + machine.hop());
}
