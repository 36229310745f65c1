// SPDX-License-Identifier: Apache-2.0
//! The tables of `docs/evidence/membership.md`, and its picture.

use super::outcome::Outcome;
use super::plan::{LOSSES, Row, Tables};
use crate::chart::{Chart, Line, Scale};
use crate::findings::Findings;
use anyhow::Result;
use std::fmt::Write;

/// Within so many milliseconds a death has to be known.
const KNOWN_MS: u64 = 5000;
/// Points of the picture are so far apart, in milliseconds.
const STEP_MS: u64 = 50;
/// Of false alarms there may be fewer per node-second.
const ALARMS: f64 = 1e-6;

/// The value that `share` of the sorted values do not exceed.
fn quantile(sorted: &[u64], share: f64) -> u64 {
    let count = sorted.len() as f64;
    // In range: between 0 and the length.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let at = (share * count).ceil().max(1.0) as usize;
    sorted.get(at.min(sorted.len()).wrapping_sub(1)).copied().unwrap_or(0)
}

fn seconds(ms: u64) -> String {
    format!("{:.2}", ms as f64 / 1000.0)
}

/// The most events that are to be expected if `seen` were seen, with 95 % confidence: where a
/// Poisson process shows as few in one case out of twenty.
fn at_most(seen: u64) -> f64 {
    let few = |expected: f64| {
        let mut term = (-expected).exp();
        let mut sum = term;
        for k in 1..=seen {
            term *= expected / k as f64;
            sum += term;
        }
        sum
    };
    let (mut low, mut high) = (0.0, 20.0 + 3.0 * seen as f64);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if few(middle) > 0.05 { low = middle } else { high = middle }
    }
    high
}

struct Figures {
    deaths: usize,
    median: u64,
    rare: u64,
    most: u64,
}

fn figures(outcome: &Outcome) -> Figures {
    let mut known = outcome.known_ms.clone();
    known.sort_unstable();
    Figures {
        deaths: known.len(),
        median: quantile(&known, 0.5),
        rare: quantile(&known, 0.999),
        most: known.last().copied().unwrap_or(0),
    }
}

fn per_node_second(count: u64, outcome: &Outcome) -> f64 {
    count as f64 / outcome.node_seconds.max(1.0)
}

fn percent(loss: f64) -> String {
    format!("{:.0} %", loss * 100.0)
}

fn main_table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| loss | nodes | node-seconds | deaths | known after, median | 99.9 % | most | \
         false alarms | bytes/s per node | datagrams/s per node | age of what is known, median | \
         99 % |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for Row { setting, outcome, .. } in rows {
        let known = figures(outcome);
        let mut ages = outcome.ages_ms.clone();
        ages.sort_unstable();
        let _ = writeln!(
            text,
            "| {} | {} | {:.0} | {} | {} s | {} s | {} s | {} | {:.0} | {:.1} | {} s | {} s |",
            percent(setting.loss),
            setting.nodes,
            outcome.node_seconds,
            known.deaths,
            seconds(known.median),
            seconds(known.rare),
            seconds(known.most),
            outcome.alarms + outcome.unnoticed,
            per_node_second(outcome.bytes, outcome),
            per_node_second(outcome.datagrams, outcome),
            seconds(quantile(&ages, 0.5)),
            seconds(quantile(&ages, 0.99)),
        );
    }
    text
}

fn is_of_loss(row: &Row, thousandths: u32) -> bool {
    (row.setting.loss * 1000.0 - f64::from(thousandths)).abs() < 0.5
}

/// What all numbers of nodes together say at each loss. Returns whether the target is met.
fn summary(rows: &[Row]) -> (String, bool) {
    let mut text = String::from(
        "| loss | node-seconds | deaths | known after, 99.9 % | most | later than 5 s | \
         most, coordinator awake | not noticed | false alarms | \
         per 10^6 node-seconds, at most (95 %) |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    let mut is_met = true;
    for loss in LOSSES {
        let mut all = Outcome::default();
        for row in rows.iter().filter(|row| is_of_loss(row, loss)) {
            all.add(row.outcome.clone());
        }
        let known = figures(&all);
        let late = all.known_ms.iter().filter(|ms| **ms > KNOWN_MS).count();
        let awake = all.awake_ms.iter().copied().max().unwrap_or(0);
        let bound = at_most(all.alarms) / all.node_seconds.max(1.0);
        let rate = per_node_second(all.alarms, &all);
        is_met &= awake <= KNOWN_MS && all.unnoticed == 0 && rate < ALARMS;
        let _ = writeln!(
            text,
            "| {} | {:.0} | {} | {} s | {} s | {late} | {} s | {} | {} | {:.2} |",
            percent(f64::from(loss) / 1000.0),
            all.node_seconds,
            known.deaths,
            seconds(known.rare),
            seconds(known.most),
            seconds(awake),
            all.unnoticed,
            all.alarms,
            bound * 1e6,
        );
    }
    (text, is_met)
}

fn short_table(first: &str, rows: &[Row]) -> String {
    let mut text = format!(
        "| {first} | loss | nodes | node-seconds | deaths | known after, median | 99.9 % | most | \
         not noticed | false alarms | per 10^6 node-seconds | bytes/s per node |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n"
    );
    for Row { name, setting, outcome } in rows {
        let known = figures(outcome);
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {:.0} | {} | {} s | {} s | {} s | {} | {} | {:.1} | {:.0} |",
            percent(setting.loss),
            setting.nodes,
            outcome.node_seconds,
            known.deaths,
            seconds(known.median),
            seconds(known.rare),
            seconds(known.most),
            outcome.unnoticed,
            outcome.alarms,
            per_node_second(outcome.alarms, outcome) * 1e6,
            per_node_second(outcome.bytes, outcome),
        );
    }
    text
}

/// The share of deaths that are not yet known, over the time since: one line for each loss.
fn chart(rows: &[Row]) -> Chart {
    let mut lines = Vec::new();
    let mut least = 1.0;
    for loss in LOSSES {
        let of_loss = rows.iter().filter(|row| is_of_loss(row, loss));
        let mut known: Vec<u64> = of_loss.flat_map(|row| row.outcome.known_ms.clone()).collect();
        known.sort_unstable();
        let later = |ms| known.len() - known.partition_point(|known| *known <= ms);
        let share = |ms| later(ms) as f64 / known.len() as f64;
        let times = (0..).map(|step| step * STEP_MS).take_while(|ms| later(*ms) > 0);
        let points: Vec<_> = times.map(|ms| (ms as f64 / 1000.0, share(ms))).collect();
        least = points.last().map_or(least, |(_, share)| share.min(least));
        lines.push(Line { name: format!("{} % lost", loss / 10), points });
    }
    let limit_s = KNOWN_MS as f64 / 1000.0;
    lines.push(Line { name: "limit".into(), points: vec![(limit_s, least), (limit_s, 1.0)] });
    Chart {
        title: "When a dead node is known, simulated, 2 to 256 nodes".into(),
        along: "since its death, s".into(),
        upwards: "share of deaths not yet known to the coordinator".into(),
        scale: Scale::Upwards,
        lines,
    }
}

/// All that is shown, and whether it is as promised.
pub fn findings(tables: &Tables) -> Result<Findings> {
    let (summary, is_met) = summary(&tables.main);
    let node_seconds: f64 = tables.all().map(|row| row.outcome.node_seconds).sum();
    let late = format!(
        "known within {KNOWN_MS} ms, and no false alarm in {:.0} node-seconds",
        1.0 / ALARMS
    );
    Ok(Findings {
        tables: vec![
            ("simulated", format!("{node_seconds:.0} node-seconds in all.")),
            ("summary", summary),
            ("main", main_table(&tables.main)),
            ("others", short_table("rules", &tables.others)),
            ("sweep", short_table("down after, ms", &tables.sweep)),
            ("hard", short_table("what happens", &tables.hard)),
        ],
        pictures: vec![("membership".into(), chart(&tables.main).svg()?)],
        broken: if is_met { Vec::new() } else { vec![late] },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_rare_events_are_those_of_the_tables() {
        for (seen, bound) in [(0, 2.996), (1, 4.744), (5, 10.513)] {
            assert!((at_most(seen) - bound).abs() < 0.001, "{seen}");
        }
    }

    #[test]
    fn quantiles_are_values_that_occur() {
        assert_eq!(quantile(&[1, 2, 3, 4], 0.5), 2);
        assert_eq!(quantile(&[1, 2, 3, 4], 0.999), 4);
        assert_eq!(quantile(&[], 0.5), 0);
    }
}
