// SPDX-License-Identifier: Apache-2.0
use super::*;
use fermata_site::client::{AGAIN_MS, ANSWER_MS, MISSES};

fn wastes(policy: Policy, load: f64, seeds: u64) -> Vec<Waste> {
    (1..=seeds).map(|seed| run(&site(seed, load, 20.0), policy, seed)).collect()
}

#[test]
fn the_load_is_what_was_asked_for() {
    for load in [0.05, 0.4, 0.9] {
        assert!((site(3, load, 1.0).load() - load).abs() < 1e-6);
    }
}

#[test]
fn order_is_worth_a_fifth_where_two_fifths_of_the_time_are_written() {
    let of = |policy| wastes(policy, 0.4, 10);
    let (old, new, bound) = (of(Policy::Alone), of(SITE), of(Policy::Undisturbed));
    let found = less(&new, &old);
    assert!(found.value > 0.15 && found.low() > 0.1, "{found:?}");
    // Next to nothing is left for a better order.
    let left = less(&bound, &new);
    assert!(left.value < 0.03, "{left:?}");
}

#[test]
fn order_is_never_worse_than_none() {
    for load in [0.05, 0.2, 0.8, 1.0] {
        let new = wastes(SITE, load, 6);
        for policy in [Policy::Alone, Policy::Measured] {
            let found = less(&new, &wastes(policy, load, 6));
            assert!(found.value > -0.01, "{load} {policy:?}: {found:?}");
        }
    }
}

#[test]
fn nobody_waits_for_a_service_that_has_ended() {
    let ends = Policy::Site { ends_s: 5.0 * DAY_S, replica_from_s: NEVER };
    let late_s = wastes(ends, 0.5, 6).iter().map(|waste| waste.late_s).fold(0.0, f64::max);
    // Leases given before it ended do not count; what was denied asks within AGAIN_MS.
    let bound_s = (AGAIN_MS + u64::from(MISSES) * ANSWER_MS) as f64 / 1e3;
    assert!(late_s > 0.0 && late_s <= bound_s + 1.0, "{late_s}");
}

#[test]
fn without_failures_and_others_a_job_only_writes() {
    let mut alone = site(1, 0.1, 20.0);
    alone.jobs.truncate(1);
    alone.jobs[0].mtbf_s = 1e9; // an interval of days, no failure within them
    let waste = run(&alone, SITE, 1);
    assert!(waste.rework + waste.restart + waste.wait < 1e-12 && waste.write > 0.0, "{waste:?}");
}
