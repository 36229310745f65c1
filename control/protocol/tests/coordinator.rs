// SPDX-License-Identifier: Apache-2.0
//! The coordinator by itself: which wait-for edges count. The rest is in `fermata-model`.
use fermata_protocol::{
    Clock, Coordinator, Directive, Origin, Output, RankId, Report, Version, WaitEdge, WaitKind,
};

/// A coordinator, and the newest directive of each rank.
struct Seen(Coordinator, Vec<Directive>);

impl Seen {
    /// Rank 0 owes a call that all others are in.
    fn new(ranks: u32) -> Self {
        let none = Directive { version: Version(0), targets: Vec::new(), obligations: Vec::new() };
        let mut seen = Self(Coordinator::new(ranks as usize), vec![none; ranks as usize]);
        for rank in 0..ranks {
            let seq = u64::from(rank > 0);
            seen.hear(rank, &Report::Clocks(vec![Clock { group: 1, seq }]));
        }
        seen
    }

    fn hear(&mut self, rank: RankId, report: &Report) {
        let mut outputs = Vec::new();
        self.0.on_report(rank, report, &mut outputs);
        for output in outputs {
            if let Output::Directive(rank, directive) = output {
                self.1[rank as usize] = directive;
            }
        }
    }

    fn wait(&mut self, rank: RankId, origin: Origin, kind: WaitKind, peer: RankId) {
        self.hear(rank, &Report::Waits(origin, vec![WaitEdge { peer, kind, count: 1 }]));
    }

    /// Whom each rank is obliged to, as far as its directive says.
    fn obliged_to(&self) -> Vec<Vec<RankId>> {
        let by =
            |directive: &Directive| directive.obligations.iter().map(|edge| edge.peer).collect();
        self.1.iter().map(by).collect()
    }
}

/// Each has a thread that waits for the other one.
#[test]
fn ranks_that_only_need_each_other_are_let_go() {
    let mut seen = Seen::new(2);
    seen.wait(1, Origin::Derived, WaitKind::Message, 0);
    assert_eq!(seen.obliged_to(), [vec![], vec![]], "nobody runs on for its own sake");
    seen.wait(0, Origin::Root, WaitKind::Message, 1);
    assert_eq!(seen.obliged_to(), [vec![1], vec![0]], "rank 1 is waited for, so its edge counts");
    seen.wait(0, Origin::Derived, WaitKind::Message, 1);
    assert_eq!(seen.obliged_to(), [vec![], vec![]]);
}

#[test]
fn a_need_counts_over_any_number_of_links() {
    let mut seen = Seen::new(4);
    seen.wait(3, Origin::Derived, WaitKind::Message, 1);
    seen.wait(2, Origin::Derived, WaitKind::Receipt, 3);
    assert_eq!(seen.obliged_to(), vec![Vec::<RankId>::new(); 4]);
    seen.wait(0, Origin::Root, WaitKind::Message, 2);
    assert_eq!(seen.obliged_to(), [vec![], vec![3], vec![0], vec![2]]);
    seen.hear(2, &Report::Runs);
    assert_eq!(seen.obliged_to(), [vec![], vec![], vec![0], vec![]], "the chain is cut");
}

/// Who gives room stands still, and needs nothing for that.
#[test]
fn room_leads_nowhere() {
    let mut seen = Seen::new(3);
    seen.wait(1, Origin::Derived, WaitKind::Message, 2);
    seen.wait(0, Origin::Root, WaitKind::Room, 1);
    assert_eq!(seen.obliged_to(), [vec![], vec![0], vec![]]);
}
