// SPDX-License-Identifier: Apache-2.0
use super::*;

fn expected_and_simulated(
    policy: Policy,
    levels: &str,
    gigabytes: f64,
    behind: bool,
) -> (f64, f64) {
    let system = system(levels, gigabytes, behind).expect("a system");
    let (topology, classes) = system.failures();
    let one = contestant(policy, &system, &topology, &classes).expect("a plan");
    let options = Options { seeds: 40, first_seed: 1, days: 20.0, sizes: Vec::new() };
    let outcomes = score(&one, &system, &topology, &classes, &options);
    let overheads: Vec<f64> =
        outcomes.iter().map(|outcome| outcome.wall_s / (20.0 * 86_400.0) - 1.0).collect();
    (one.planned.overhead, mean(&overheads).value)
}

/// The model's figure is the simulated one, within a few per cent of it.
#[test]
fn what_is_expected_is_what_comes() {
    for (policy, levels, gigabytes, behind) in [
        (Policy::Planned, "local xor shared", 24.0, true),
        (Policy::Planned, "local xor shared", 240.0, false),
        (Policy::Blind, "local xor partner burst shared", 60.0, true),
        (Policy::Daly, "local xor shared", 6.0, true),
    ] {
        let (expected, simulated) = expected_and_simulated(policy, levels, gigabytes, behind);
        let ratio = expected / simulated;
        assert!((0.94..1.06).contains(&ratio), "{policy:?} {gigabytes}: {expected} {simulated}");
    }
}

#[test]
fn a_seed_gives_the_same_again() {
    let once = expected_and_simulated(Policy::Planned, "local xor shared", 6.0, true);
    assert_eq!(once, expected_and_simulated(Policy::Planned, "local xor shared", 6.0, true));
}
