// SPDX-License-Identifier: Apache-2.0
//! How often opportunistic correction misses somebody, beside what the gaps let expect.
//!
//! If a share u of the ring is not coloured when the gossip ends, at random places, the chance that
//! some gap is longer than d is at most P (1 - u) u^(d + 1), so d = K(eps) - 1 with K(eps) =
//! ceil(ln(P / eps) / ln(1 / u)) misses with a chance below eps.

use super::pictures::{self, Curve};
use super::{Effort, Findings};
use crate::failures::{Placement, before};
use crate::page::Table;
use crate::scheme::Scheme;
use crate::stats::{Sample, interval};
use crate::world::LogP;
use fermata_ftcoll::Time;
use fermata_ftcoll::correction::Rule;
use fermata_ftcoll::tree::Tree;

const SIZE: u32 = 1024;

/// Chances of a miss over distances and shares of dead.
///
/// # Errors
/// If the picture cannot be drawn.
pub fn misses(effort: &Effort) -> Result<Findings, Box<dyn std::error::Error>> {
    let mut findings = Findings::default();
    let mut curves = Vec::new();
    let mut table = Table::new(&[
        "gossip until, dead",
        "not coloured then",
        "distance",
        "runs with a miss",
        "95 % interval",
        "predicted at most",
    ]);
    let mut holds = true;
    for (until, dead) in [(20, 0), (24, 0), (28, 0), (24, SIZE / 20)] {
        let uncoloured = uncoloured(until, dead, effort);
        let name = format!("until {until}, {dead} dead");
        let mut curve = Curve { name, seen: vec![], predicted: vec![] };
        for distance in [2, 4, 6, 8, 12] {
            let rule = Rule::Opportunistic { distance };
            let scheme = Scheme::gossip("", SIZE, until, rule);
            let runs = effort.chances;
            let hits =
                (0..runs).filter(|&run| run_one(&scheme, dead, effort.seed, run) > 0).count();
            let hits = u32::try_from(hits).unwrap_or(u32::MAX);
            let (low, high) = interval(hits, runs);
            let mut predicted = Sample::default();
            for &share in &uncoloured {
                predicted.add(chance(share, distance));
            }
            holds &= low <= predicted.mean();
            let at = f64::from(distance);
            curve.seen.push((at, f64::from(hits) / f64::from(runs)));
            let mut mean = Sample::default();
            uncoloured.iter().for_each(|&share| mean.add(share));
            table.row(&[
                format!("{until}, {dead}"),
                format!("{:.3}", mean.mean()),
                distance.to_string(),
                format!("{:.4}", f64::from(hits) / f64::from(runs)),
                format!("{low:.4} to {high:.4}"),
                format!("{:.4}", predicted.mean()),
            ]);
        }
        for distance in 1..=12 {
            let mut predicted = Sample::default();
            uncoloured.iter().for_each(|&share| predicted.add(chance(share, distance)));
            curve.predicted.push((f64::from(distance), predicted.mean()));
        }
        curves.push(curve);
    }
    findings.promise("opportunistic misses no oftener than the gaps predict", String::new(), holds);
    findings.text = format!(
        "\n### Misses of opportunistic correction, {SIZE} processes, {} runs\n\n{table}\n![Chance \
         of a miss over the distance: seen, and predicted at most](../img/ftcoll-misses.svg)\n",
        effort.chances
    );
    findings.pictures.push(("ftcoll-misses.svg".into(), pictures::misses(&curves)?));
    findings.append(by_distance(effort));
    Ok(findings)
}

fn run_one(scheme: &Scheme, dead: u32, seed: u64, run: u32) -> u32 {
    let seed = seed.wrapping_add(u64::from(run));
    let dead = before(Placement::Random, &Tree::binomial(SIZE), dead, seed);
    scheme.run(LogP::PAPER, seed, &dead).missed
}

/// The share of the ring, the dead included, without the value after the gossip, run by run.
fn uncoloured(until: Time, dead: u32, effort: &Effort) -> Vec<f64> {
    let scheme = Scheme::gossip("", SIZE, until, Rule::None);
    let share = |run| f64::from(run_one(&scheme, dead, effort.seed, run) + dead) / f64::from(SIZE);
    (0..effort.chances).map(share).collect()
}

/// At most how likely a gap is longer than `distance`.
fn chance(uncoloured: f64, distance: u32) -> f64 {
    let gaps = f64::from(SIZE) * (1.0 - uncoloured);
    (gaps * uncoloured.powf(f64::from(distance) + 1.0)).min(1.0)
}

/// The distance that K(eps) gives, and how often it misses.
fn by_distance(effort: &Effort) -> Findings {
    let mut findings = Findings::default();
    let mut table =
        Table::new(&["eps", "gossip until", "K(eps)", "runs with a miss", "95 % interval"]);
    for (eps, until) in [(0.1, 22), (0.1, 26), (0.01, 22), (0.01, 26), (0.001, 24), (0.001, 28)] {
        let shares = uncoloured(until, 0, effort);
        // The worst of the runs would promise more; the mean is what a user can know.
        let mut mean = Sample::default();
        shares.iter().for_each(|&share| mean.add(share));
        let length = ((f64::from(SIZE) / eps).ln() / (1.0 / mean.mean()).ln()).ceil();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A few tens.
        let distance = length as u32;
        let scheme = Scheme::gossip("", SIZE, until, Rule::Opportunistic { distance });
        let runs = effort.chances;
        let hits = (0..runs).filter(|&run| run_one(&scheme, 0, effort.seed, run) > 0).count();
        let hits = u32::try_from(hits).unwrap_or(u32::MAX);
        let (low, high) = interval(hits, runs);
        table.row(&[
            eps.to_string(),
            until.to_string(),
            distance.to_string(),
            format!("{:.4}", f64::from(hits) / f64::from(runs)),
            format!("{low:.4} to {high:.4}"),
        ]);
        findings.promise(
            &format!(
                "distance K({eps}) after gossip until {until} misses in at most {eps} of runs"
            ),
            format!("{:.4} (K = {distance})", f64::from(hits) / f64::from(runs)),
            low <= eps,
        );
    }
    findings.text = format!("\n### The distance that K(eps) asks for\n\n{table}");
    findings
}
