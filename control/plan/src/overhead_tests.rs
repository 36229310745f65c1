// SPDX-License-Identifier: Apache-2.0
use super::*;
use proptest::prelude::*;

fn stage(pause_s: f64, restart_s: f64, rate: f64) -> Stage {
    Stage { pause_s, behind_s: 0.0, slowdown: 0.0, restart_s, rate }
}

#[test]
fn one_level_is_dalys_exact_formula() {
    let (interval_s, pause_s, restart_s, mtbf_s): (f64, f64, f64, f64) = (900.0, 60.0, 120.0, 7e3);
    let wall_s = mtbf_s * (restart_s / mtbf_s).exp() * ((interval_s + pause_s) / mtbf_s).exp_m1();
    let found = overhead(&[stage(pause_s, restart_s, 1.0 / mtbf_s)], &[1.0], interval_s);
    assert!((found - (wall_s / interval_s - 1.0)).abs() < 1e-9, "{found}");
}

#[test]
fn without_failures_only_the_pauses_cost() {
    let stages = [stage(10.0, 0.0, 0.0), stage(20.0, 0.0, 0.0)];
    let found = overhead(&stages, &[1.0, 5.0], 100.0);
    assert!((found - (10.0 * 5.0 + 20.0) / 500.0).abs() < 1e-6, "{found}");
}

#[test]
fn a_level_that_is_not_made_in_time_is_no_plan() {
    let behind = Stage { behind_s: 1000.0, ..stage(0.0, 0.0, 1e-5) };
    assert!(overhead(&[stage(1.0, 0.0, 1e-4), behind], &[1.0, 2.0], 300.0).is_infinite());
    assert!(overhead(&[stage(1.0, 0.0, 1e-4), behind], &[1.0, 5.0], 300.0).is_finite());
}

/// The same by solving the chain slot by slot: from each slot the job reaches the next one, or a
/// failure throws it back. Source: Moody et al., SC 2010, with restarts that can fail.
fn by_slots(stages: &[Stage], every: &[u32], interval_s: f64) -> f64 {
    let total: f64 = stages.iter().map(|stage| stage.rate).sum();
    let slots = every.iter().product::<u32>() as usize;
    // Segments: the work with the first pause, then the pause of each further level.
    let mut segments: Vec<(f64, Vec<usize>)> = Vec::new();
    let mut back = vec![0; stages.len()];
    for slot in 0..slots {
        segments.push((interval_s + stages[0].pause_s, back.clone()));
        back[0] = segments.len();
        let mut period = 1;
        for (place, stage) in stages.iter().enumerate().skip(1) {
            period *= every[place] as usize;
            if (slot + 1) % period != 0 {
                break;
            }
            if stage.pause_s > 0.0 {
                segments.push((stage.pause_s, back.clone()));
            }
            for lower in &mut back[..=place] {
                *lower = segments.len();
            }
        }
    }
    // Time to get from segment `at` to the end is a + b * (time from segment 0): all failures lead
    // to segments before, so solve by iterating values to their fixed point.
    let mut value = vec![0.0; segments.len() + 1];
    // Expected time of a recovery at each level, and at which level it ends.
    for _ in 0..200_000 {
        let mut change: f64 = 0.0;
        for at in (0..segments.len()).rev() {
            let (length_s, back) = &segments[at];
            let next = through(
                *length_s,
                total,
                value[at + 1],
                |place| recovery(stages, place, total, &value, back),
                stages,
            );
            change = change.max((next - value[at]).abs() / next);
            value[at] = next;
        }
        if change < 1e-13 {
            break;
        }
    }
    value[0] / (interval_s * slots as f64) - 1.0
}

fn through(
    length_s: f64,
    total: f64,
    then: f64,
    failed: impl Fn(usize) -> f64,
    stages: &[Stage],
) -> f64 {
    let success = (-total * length_s).exp();
    let after: f64 =
        (0..stages.len()).map(|place| stages[place].rate / total * failed(place)).sum();
    (1.0 - success) / total + success * then + (1.0 - success) * after
}

fn recovery(stages: &[Stage], place: usize, total: f64, value: &[f64], back: &[usize]) -> f64 {
    let success = (-total * stages[place].restart_s).exp();
    let spent = (1.0 - success) / total;
    // A failure meanwhile: of this or an earlier level begins this recovery anew.
    let again: f64 = stages[..=place].iter().map(|stage| stage.rate).sum::<f64>() / total;
    let higher: f64 = (place + 1..stages.len())
        .map(|other| stages[other].rate / total * recovery(stages, other, total, value, back))
        .sum();
    let once = spent + success * value[back[place]] + (1.0 - success) * higher;
    once / (1.0 - (1.0 - success) * again)
}

#[test]
fn transforms_and_slots_agree() {
    let cases = [
        (vec![stage(5.0, 20.0, 1e-3)], vec![1]),
        (vec![stage(5.0, 20.0, 1e-3), stage(30.0, 90.0, 1e-4)], vec![1, 4]),
        (
            vec![stage(5.0, 20.0, 1e-3), stage(9.0, 40.0, 4e-4), stage(80.0, 300.0, 3e-5)],
            vec![1, 2, 5],
        ),
    ];
    for (stages, every) in cases {
        let real: Vec<f64> = every.iter().map(|count| f64::from(*count)).collect();
        let (one, other) = (overhead(&stages, &real, 120.0), by_slots(&stages, &every, 120.0));
        assert!((one - other).abs() < 1e-6 * other, "{one} {other}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..<_>::default() })]
    #[test]
    fn transforms_and_slots_agree_everywhere(
        pauses in (0.1f64..20.0, 0.0f64..60.0), restarts in (0.0f64..60.0, 0.0f64..300.0),
        rates in (1e-6f64..2e-3, 1e-6f64..3e-4), every in 1u32..7, interval_s in 20.0f64..400.0,
    ) {
        let stages = [stage(pauses.0, restarts.0, rates.0), stage(pauses.1, restarts.1, rates.1)];
        let one = overhead(&stages, &[1.0, f64::from(every)], interval_s);
        let other = by_slots(&stages, &[1, every], interval_s);
        prop_assert!((one - other).abs() < 1e-5 * (1.0 + other), "{} {}", one, other);
    }

    #[test]
    fn more_failures_never_cost_less(
        rate in 1e-7f64..1e-3, more in 1.0f64..5.0, every in 1u32..50, behind_s in 0.0f64..60.0,
    ) {
        let of = |factor: f64| {
            let late = Stage { behind_s, slowdown: 0.05, ..stage(0.0, 60.0, rate / 30.0) };
            let stages = [stage(4.0, 30.0, rate * factor), late];
            overhead(&stages, &[1.0, f64::from(every)], 200.0)
        };
        prop_assert!(of(more) >= of(1.0) - 1e-12);
    }
}
