// SPDX-License-Identifier: Apache-2.0
//! Random programs at sizes that cannot be searched. A run in which the coordinator's word is not
//! true counts as one that is not safe.
use fermata_model::Rule;
use fermata_model::report::{SIDES, sizes_table};
use fermata_model::sim::{Figures, LogP, Setting, run};

const DOCUMENT: &str = include_str!("../../../docs/evidence/protocol.md");
const LOGP: LogP = LogP { latency: 5_000, overhead: 500, gap: 500 };

/// Every second program is uneven, and hardly computes: calls are near each other, and are raised.
fn setting(side: u32, seed: u64) -> Setting {
    let uneven = seed % 2 == 1;
    let compute_ns = if uneven { 1_000 } else { 100_000 };
    Setting { side, steps: 40, compute_ns, collectives: 30, uneven, seed }
}

fn runs(rule: Rule, side: impl Fn(u64) -> u32) -> Vec<Figures> {
    (0..300).map(|seed| run(setting(side(seed), seed), LOGP, rule)).collect()
}

/// In enough of the runs there is something to decide, or they would say little.
#[test]
fn every_seed_comes_to_a_safe_state() {
    let all = runs(Rule::Ours, |seed| 2 + (seed % 9) as u32);
    for (seed, figures) in all.iter().enumerate() {
        assert!(figures.safe, "seed {seed}: {:?}", figures.fault);
    }
    let with = |figure: fn(&Figures) -> u64| all.iter().filter(|f| figure(f) > 0).count();
    let (waits, raises, rounds) =
        (with(|f| f.waits), with(|f| f.raises), with(|f| f.rounds.saturating_sub(1)));
    assert!(waits >= 40 && raises >= 15 && rounds >= 30, "{waits}, {raises}, {rounds} of 300");
}

#[test]
fn the_published_rule_does_not() {
    let all = runs(Rule::Published, |_| 6);
    assert!(all.iter().any(|figures| !figures.safe));
    assert!(all.iter().all(|figures| figures.fault.is_none()));
}

/// The simulator does not take the coordinator's word for it.
#[test]
fn a_state_that_is_not_safe_is_seen() {
    let setting = |seed| Setting { compute_ns: 1_000, ..setting(10, seed) };
    let faults = (0..100).filter_map(|seed| run(setting(seed), LOGP, Rule::OldWordCounts).fault);
    let faults: Vec<_> = faults.collect();
    assert!(!faults.is_empty());
    assert!(faults.iter().all(|fault| *fault == "a word is on a line"), "{faults:?}");
}

#[test]
fn a_seed_is_one_run() {
    let twice = [(); 2].map(|()| run(setting(10, 7), LOGP, Rule::Ours));
    assert_eq!(twice[0].time_ns, twice[1].time_ns);
    assert_eq!(twice[0].messages, twice[1].messages);
}

#[test]
fn the_document_has_these_figures() {
    let table = sizes_table(&SIDES[..3], 9);
    assert!(
        DOCUMENT.contains(&table),
        "docs/evidence/protocol.md is stale, it should begin:\n{table}"
    );
}
