// SPDX-License-Identifier: Apache-2.0
//! Random programs at sizes that cannot be searched.
use fermata_model::Rule;
use fermata_model::sim::{LogP, Setting, run};

const LOGP: LogP = LogP { latency: 5_000, overhead: 500, gap: 500 };

fn setting(side: u32, seed: u64) -> Setting {
    Setting { side, steps: 40, compute_ns: 100_000, collectives: 30, seed }
}

#[test]
fn every_seed_comes_to_a_safe_state() {
    for seed in 0..300 {
        let side = 2 + seed % 7;
        assert!(run(setting(side, seed.into()), LOGP, Rule::Ours).safe, "seed {seed}");
    }
}

#[test]
fn the_published_rule_does_not() {
    let stuck = (0..300).filter(|seed| !run(setting(6, *seed), LOGP, Rule::Published).safe);
    assert!(stuck.count() > 0);
}

#[test]
fn a_seed_is_one_run() {
    let twice = [(); 2].map(|()| run(setting(10, 7), LOGP, Rule::Ours));
    assert_eq!(twice[0].time_ns, twice[1].time_ns);
    assert_eq!(twice[0].messages, twice[1].messages);
}
