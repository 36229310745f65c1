// SPDX-License-Identifier: Apache-2.0
//! The coordinator by itself: which needs count. The rest is in `fermata-model`.
use fermata_protocol::{
    Cause, Clock, Coordinator, Directive, Need, NeedKind, Output, RankId, Report, Version,
};

/// A coordinator, and the newest directive of each rank.
struct Seen(Coordinator, Vec<Directive>);

impl Seen {
    /// Rank 0 owes a call that all others are in.
    fn new(ranks: u32) -> Self {
        let none = Directive { version: Version(0), targets: Vec::new(), needs: Vec::new() };
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

    fn needs(&mut self, rank: RankId, cause: Cause, kind: NeedKind, peer: RankId) {
        self.hear(rank, &Report::Needs(cause, vec![Need { peer, kind, count: 1 }]));
    }

    /// Who needs something of each rank, as far as its directive says.
    fn needed_by(&self) -> Vec<Vec<RankId>> {
        let by = |directive: &Directive| directive.needs.iter().map(|need| need.peer).collect();
        self.1.iter().map(by).collect()
    }
}

/// Each has a thread that waits for the other one.
#[test]
fn ranks_that_only_need_each_other_are_let_go() {
    let mut seen = Seen::new(2);
    seen.needs(1, Cause::Others, NeedKind::Message, 0);
    assert_eq!(seen.needed_by(), [vec![], vec![]], "nobody runs on for its own sake");
    seen.needs(0, Cause::Own, NeedKind::Message, 1);
    assert_eq!(seen.needed_by(), [vec![1], vec![0]], "rank 1 is needed, so its need counts");
    seen.needs(0, Cause::Others, NeedKind::Message, 1);
    assert_eq!(seen.needed_by(), [vec![], vec![]]);
}

#[test]
fn a_need_counts_over_any_number_of_links() {
    let mut seen = Seen::new(4);
    seen.needs(3, Cause::Others, NeedKind::Message, 1);
    seen.needs(2, Cause::Others, NeedKind::Receipt, 3);
    assert_eq!(seen.needed_by(), vec![Vec::<RankId>::new(); 4]);
    seen.needs(0, Cause::Own, NeedKind::Message, 2);
    assert_eq!(seen.needed_by(), [vec![], vec![3], vec![0], vec![2]]);
    seen.hear(2, &Report::Runs);
    assert_eq!(seen.needed_by(), [vec![], vec![], vec![0], vec![]], "the chain is cut");
}

/// Who gives room stands still, and needs nothing for that.
#[test]
fn room_leads_nowhere() {
    let mut seen = Seen::new(3);
    seen.needs(1, Cause::Others, NeedKind::Message, 2);
    seen.needs(0, Cause::Own, NeedKind::Room, 1);
    assert_eq!(seen.needed_by(), [vec![], vec![0], vec![]]);
}
