// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::simple::daly;
use proptest::prelude::*;

/// What the evidence uses: FFMK's machine as reconstructed, 60 GB a node.
pub const MACHINE: &str = r#"
nodes = 50000
bytes-per-node = "60GB"
bandwidth = { local = "5GB/s", network = "10GB/s" }
failure = [
  { name = "rank", mttf = "20y" },
  { name = "node", mttf = "60y" },
  { name = "switch", nodes = 32, mttf = "60y" },
  { name = "psu", nodes = 64, mttf = "100y" },
  { name = "rack", nodes = 512, mttf = "300y" },
  { name = "system", mttf = "60d" },
]
level = [
  { kind = "local" },
  { kind = "xor", set = 16 },
  { kind = "shared", bandwidth = "2TB/s" },
]
"#;

fn machine() -> System {
    toml::from_str(MACHINE).expect("the machine")
}

/// Least overhead over all counts up to a bound.
fn by_brute_force(stages: &[Stage], most: u32) -> f64 {
    let total: f64 = stages.iter().map(|stage| stage.rate).sum();
    let mut least = f64::INFINITY;
    let mut every = vec![1.0; stages.len()];
    let combinations = most.pow(u32::try_from(stages.len()).unwrap() - 1);
    for mut number in 0..combinations {
        for count in &mut every[1..] {
            *count = f64::from(number % most + 1);
            number /= most;
        }
        let (_, value) = golden((1e-3 / total, 30.0 / total), 40, |t| overhead(stages, &every, t));
        least = least.min(value);
    }
    least
}

fn stage(pause_s: f64, behind_s: f64, restart_s: f64, rate: f64) -> Stage {
    Stage { pause_s, behind_s, slowdown: 0.05, restart_s, rate }
}

#[test]
fn one_level_is_dalys_interval() {
    let (pause_s, mtbf_s) = (30.0, 20_000.0);
    let (_, interval_s, _) = search(&[stage(pause_s, 0.0, 60.0, 1.0 / mtbf_s)], None);
    assert!((interval_s / daly(pause_s, mtbf_s) - 1.0).abs() < 2e-3, "{interval_s}");
}

#[test]
fn groups_and_whole_outages_ask_for_levels() {
    let planner = Planner::new(&machine(), Order::Groups).expect("a planner");
    let best = planner.best().expect("a plan");
    assert_eq!(best.plan.levels, [0, 1, 2]);
    assert!(best.plan.period(2) > 20, "{best:?}");
    let blind = Planner::new(&machine(), Order::Hosts).expect("a planner");
    let of_hosts = blind.best().expect("a plan");
    assert!(best.overhead < of_hosts.overhead, "{best:?} {of_hosts:?}");
    // The plan that knows the groups, on sets that do not: worse than what those can do at best.
    let judged = blind.judge(&best.plan).expect("a judgement");
    assert!(judged.overhead > of_hosts.overhead);
}

#[test]
fn what_nothing_survives_is_no_plan() {
    let mut system = machine();
    system.level.pop();
    let refused = Planner::new(&system, Order::Groups).map(|_| ());
    assert_eq!(refused, Err(SystemError::NothingSurvives("system".into())));
}

#[test]
fn nonsense_is_refused_by_name() {
    let wrong = |change: fn(&mut System)| {
        let mut system = machine();
        change(&mut system);
        system.check().expect_err("refused")
    };
    assert_eq!(wrong(|s| s.nodes = 0), SystemError::NoNodes);
    assert_eq!(wrong(|s| s.nodes = u32::MAX), SystemError::ManyNodes(u32::MAX));
    assert_eq!(
        wrong(|s| s.level[2].bandwidth = None).to_string(),
        "level shared: it wants its bandwidth, of all nodes"
    );
    assert_eq!(wrong(|s| s.failure[2].nodes = None), SystemError::GroupSize("switch".into()));
    assert_eq!(wrong(|s| s.failure[1].nodes = Some(3)), SystemError::NoGroup("node".into()));
    assert_eq!(wrong(|s| s.slowdown = 1.0), SystemError::Slowdown(1.0));
}

#[test]
fn an_interval_that_is_given_is_kept() {
    let planner = Planner::new(&machine(), Order::Groups).expect("a planner");
    let best = planner.best_of(&[0, 1, 2]).expect("a plan");
    let near = planner.best_at(&[0, 1, 2], best.plan.interval_s).expect("a plan");
    assert!((near.overhead - best.overhead).abs() < 1e-6);
    let far = planner.best_at(&[0, 1, 2], best.plan.interval_s * 3.0).expect("a plan");
    assert!(far.overhead > best.overhead && far.plan.interval_s > best.plan.interval_s * 2.9);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..<_>::default() })]
    #[test]
    fn nothing_within_reach_is_better(
        pause in 0.5f64..30.0, behind in (1.0f64..40.0, 20.0f64..400.0),
        rates in (1e-5f64..2e-4, 1e-6f64..1e-4, 1e-7f64..2e-5),
    ) {
        let stages = [
            stage(pause, 0.0, 40.0, rates.0),
            stage(0.0, behind.0, 60.0, rates.1),
            stage(0.0, behind.1, 400.0, rates.2),
        ];
        let (_, _, found) = search(&stages, None);
        let least = by_brute_force(&stages, 24);
        prop_assert!(found <= least * 1.002 + 1e-9, "{} {}", found, least);
    }
}
