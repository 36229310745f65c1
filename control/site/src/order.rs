// SPDX-License-Identifier: Apache-2.0
//! Checkpoints that would collide, put one after the other at least cost.
//!
//! A checkpoint of job j that is taken `late` seconds after it was due costs n late^2 / (2 M) of
//! node seconds more than one in time, n being the nodes and M the time between failures: near its
//! best interval a job's overhead is flat, so an early one costs as much as a late one. That is
//! exact for Young's model: with C = T^2 / 2M the waste of an interval x, less what the best one
//! wastes in that time, is (x - T)^2 / 2M.
//!
//! For a given order the best starts are those of an isotonic regression, which pooling adjacent
//! violators solves exactly; orders are tried all for few jobs, and beyond that by due time with
//! exchanges of neighbours.

/// A checkpoint that is to come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Task {
    /// When it is due, seconds from now; may be past.
    pub due_s: f64,
    /// How long it takes, seconds.
    pub lasts_s: f64,
    /// n / M: how much being off costs.
    pub weight: f64,
}

/// Up to so many tasks all orders are tried.
pub const TRY_ALL: usize = 5;

/// Starts of the tasks, seconds from now, no two at once and none before `free_s`, and what being
/// off costs in all, in node seconds.
pub fn arrange(tasks: &[Task], free_s: f64) -> (Vec<f64>, f64) {
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by(|a, b| tasks[*a].due_s.total_cmp(&tasks[*b].due_s).then(a.cmp(b)));
    let mut best = in_order(tasks, &order, free_s);
    if tasks.len() <= TRY_ALL {
        permute(&mut order, 0, &mut |order| {
            let next = in_order(tasks, order, free_s);
            if next.1 < best.1 - 1e-9 {
                best = next;
            }
        });
        return best;
    }
    for _ in 0..tasks.len() {
        let mut changed = false;
        for at in 1..order.len() {
            order.swap(at - 1, at);
            let next = in_order(tasks, &order, free_s);
            if next.1 < best.1 - 1e-9 {
                (best, changed) = (next, true);
            } else {
                order.swap(at - 1, at);
            }
        }
        if !changed {
            break;
        }
    }
    best
}

fn permute(order: &mut [usize], from: usize, each: &mut impl FnMut(&[usize])) {
    if from + 1 >= order.len() {
        each(order);
        return;
    }
    for at in from..order.len() {
        order.swap(from, at);
        permute(order, from + 1, each);
        order.swap(from, at);
    }
}

/// A run of tasks without a gap: where the first would start on its own, over all of them.
struct Run {
    start_s: f64,
    weight: f64,
    tasks: usize,
}

/// The best starts in this order, and their cost.
fn in_order(tasks: &[Task], order: &[usize], free_s: f64) -> (Vec<f64>, f64) {
    // With each task's start less what lasts before it in the order, starts must only not fall.
    let mut runs: Vec<Run> = Vec::with_capacity(order.len());
    let mut before_s = 0.0;
    for task in order.iter().map(|at| &tasks[*at]) {
        let weight = task.weight.max(1e-12);
        runs.push(Run { start_s: task.due_s - before_s, weight, tasks: 1 });
        before_s += task.lasts_s;
        while let [.., earlier, later] = &runs[..] {
            if earlier.start_s <= later.start_s {
                break;
            }
            let weight = earlier.weight + later.weight;
            let pooled = (earlier.start_s * earlier.weight + later.start_s * later.weight) / weight;
            let tasks = earlier.tasks + later.tasks;
            runs.truncate(runs.len() - 2);
            runs.push(Run { start_s: pooled, weight, tasks });
        }
    }
    let mut starts = vec![0.0; tasks.len()];
    let (mut cost, mut before_s, mut at) = (0.0, 0.0, 0);
    for run in runs {
        for _ in 0..run.tasks {
            let task = &tasks[order[at]];
            // A bound from below cuts an isotonic regression off without changing the rest.
            let start_s = run.start_s.max(free_s) + before_s;
            starts[order[at]] = start_s;
            cost += task.weight * (start_s - task.due_s).powi(2) / 2.0;
            before_s += task.lasts_s;
            at += 1;
        }
    }
    (starts, cost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn task(due_s: f64, lasts_s: f64, weight: f64) -> Task {
        Task { due_s, lasts_s, weight }
    }

    #[test]
    fn two_equals_share_the_shift() {
        let tasks = [task(100.0, 50.0, 1.0), task(110.0, 50.0, 1.0)];
        let (starts, cost) = arrange(&tasks, 0.0);
        assert_eq!(starts, [80.0, 130.0]);
        assert!((cost - 400.0).abs() < 1e-9);
    }

    #[test]
    fn the_heavier_one_moves_less() {
        let tasks = [task(100.0, 50.0, 1.0), task(100.0, 50.0, 9.0)];
        let (starts, _) = arrange(&tasks, 0.0);
        assert!((starts[1] - 100.0).abs() < 6.0, "{starts:?}");
        assert!((starts[0] - starts[1]).abs() >= 50.0 - 1e-9);
    }

    #[test]
    fn nothing_starts_before_the_store_is_free() {
        let (starts, _) = arrange(&[task(-500.0, 10.0, 1.0), task(5.0, 10.0, 2.0)], 30.0);
        assert!(starts.iter().all(|start| *start >= 30.0), "{starts:?}");
    }

    /// The least cost over starts on a grid of seconds.
    fn by_grid(tasks: &[Task; 2], free_s: f64) -> f64 {
        let mut least = f64::MAX;
        for first in 0..200 {
            for second in 0..200 {
                let starts = [free_s + f64::from(first), free_s + f64::from(second)];
                let apart = starts[1] >= starts[0] + tasks[0].lasts_s
                    || starts[0] >= starts[1] + tasks[1].lasts_s;
                let cost: f64 = (0..2)
                    .map(|at| tasks[at].weight * (starts[at] - tasks[at].due_s).powi(2) / 2.0)
                    .sum();
                if apart && cost < least {
                    least = cost;
                }
            }
        }
        least
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 64, failure_persistence: None, ..<_>::default()
        })]
        #[test]
        fn no_grid_is_better(
            dues in (0u32..120, 0u32..120), lasts in (1u32..40, 1u32..40),
            weights in (1u32..9, 1u32..9), free in 0u32..60,
        ) {
            let tasks = [
                task(dues.0.into(), lasts.0.into(), weights.0.into()),
                task(dues.1.into(), lasts.1.into(), weights.1.into()),
            ];
            let (starts, cost) = arrange(&tasks, free.into());
            prop_assert!(cost <= by_grid(&tasks, free.into()) + 1e-6);
            prop_assert!(starts.iter().all(|start| *start >= f64::from(free)));
        }

        #[test]
        fn no_two_at_once(
            drawn in proptest::collection::vec((-50i32..300, 1u32..60, 1u32..9), 1..10),
            free in 0u32..50,
        ) {
            let tasks: Vec<Task> =
                drawn.iter().map(|t| task(t.0.into(), t.1.into(), t.2.into())).collect();
            let (starts, _) = arrange(&tasks, free.into());
            let mut spans: Vec<(f64, f64)> =
                starts.iter().zip(&tasks).map(|(at, t)| (*at, at + t.lasts_s)).collect();
            spans.sort_by(|a, b| a.0.total_cmp(&b.0));
            prop_assert!(spans.windows(2).all(|two| two[0].1 <= two[1].0 + 1e-6), "{:?}", spans);
            prop_assert!(spans[0].0 >= f64::from(free) - 1e-9);
        }
    }
}
