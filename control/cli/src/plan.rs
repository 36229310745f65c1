// SPDX-License-Identifier: Apache-2.0
//! `plan`: which levels a job's checkpoints should go to, how often, and what that costs.

use crate::exit::usage;
use crate::output::Output;
use anyhow::{Context, Result};
use clap::{Args, ValueHint};
use fermata_levels::Level;
use fermata_plan::optimise::{Planned, Planner};
use fermata_plan::placement::Order;
use fermata_plan::simple::daly;
use fermata_plan::system::{Bandwidth, Failure, KindName, LevelSpec, System};
use fermata_plan::units::{human_seconds, parse_bytes, parse_seconds};
use fermata_plan::{Plan, SystemError};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// The machine and the job, from a file or from flags; flags change what the file says.
#[derive(Args)]
pub struct PlanArgs {
    /// The machine as TOML: nodes, bytes-per-node, bandwidth, failure, level
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// Nodes of the job
    #[arg(long, value_name = "N")]
    nodes: Option<u32>,
    /// What one node saves, e.g. 60GB
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    bytes_per_node: Option<f64>,
    /// Mean time to failure of one of a class: rank, node, system, or a group with its size, e.g.
    /// node=60y or switch:32=60y; may be repeated
    #[arg(long, value_name = "CLASS=TIME", value_parser = parse_failure)]
    mttf: Vec<Failure>,
    /// Bytes per second of a node's own store
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    local: Option<f64>,
    /// Bytes per second of a node's link
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    network: Option<f64>,
    /// Bytes per second of the shared directory, of all nodes together
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    shared: Option<f64>,
    /// Nodes that share a parity; 0: no such level
    #[arg(long, value_name = "N")]
    set: Option<u32>,
}

/// "switch:32=60y"
fn parse_failure(text: &str) -> Result<Failure, String> {
    let wrong = || format!("'{text}' is no class of failures; write node=60y or switch:32=60y");
    let (class, mttf) = text.split_once('=').ok_or_else(wrong)?;
    let mttf = parse_seconds(mttf)?;
    let (name, nodes) = match class.split_once(':') {
        Some((name, nodes)) => (name, Some(nodes.parse().map_err(|_| wrong())?)),
        None => (class, None),
    };
    Ok(Failure { name: name.into(), nodes, mttf })
}

/// What is planned for if nothing is said: a node with an SSD and a fast link.
fn assumed() -> System {
    let failure = |name: &str, mttf: f64| Failure { name: name.into(), nodes: None, mttf };
    const YEAR_S: f64 = fermata_plan::units::YEAR_S;
    System {
        nodes: 0,
        bytes_per_node: 64e9,
        relaunch: 30.0,
        slowdown: 0.05,
        behind: true,
        bandwidth: Bandwidth { local: 2e9, network: 10e9 },
        failure: vec![
            failure("rank", 20.0 * YEAR_S),
            failure("node", 10.0 * YEAR_S),
            failure("system", 0.25 * YEAR_S),
        ],
        level: vec![level(KindName::Local), level(KindName::Xor), level(KindName::Shared)],
    }
}

fn level(kind: KindName) -> LevelSpec {
    let (set, bandwidth) = match kind {
        KindName::Xor => (Some(8), None),
        KindName::Shared => (None, Some(100e9)),
        _ => (None, None),
    };
    LevelSpec { kind, name: None, set, parities: None, bandwidth, survives_system: true }
}

/// The machine as a file describes it, or as it is assumed to be.
///
/// # Errors
/// The file cannot be read, or is no description.
pub fn described(file: Option<&Path>) -> Result<System> {
    let Some(path) = file else { return Ok(assumed()) };
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).map_err(|error| usage(format!("{}: {error}", path.display())))
}

/// Leaves these levels: those of the description, else as they are assumed to be.
pub fn only_these(system: &mut System, levels: &[Level]) {
    let described = std::mem::take(&mut system.level);
    let of = |wanted: &Level| {
        let (kind, parities) = match *wanted {
            Level::Local => (KindName::Local, None),
            Level::Partner => (KindName::Partner, None),
            Level::Xor => (KindName::Xor, None),
            Level::Rs(parities) => (KindName::Rs, Some(parities)),
            Level::Shared => (KindName::Shared, None),
        };
        let is_it = |spec: &&LevelSpec| {
            spec.kind == kind && (parities.is_none() || spec.parities == parities)
        };
        let mut spec = described.iter().find(is_it).cloned().unwrap_or_else(|| level(kind));
        if wanted.parities() > 0 {
            (spec.set, spec.parities) = (Some(spec.set.unwrap_or(8).min(system.nodes)), parities);
        }
        spec
    };
    system.level = levels.iter().map(of).collect();
}

/// Leaves the shared directory as the only level: one of the description, else one that is assumed.
pub fn only_shared(system: &mut System) {
    system.level.retain(|level| level.survives_system);
    only_these(system, &[Level::Shared]);
}

/// A description that makes no sense.
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub fn refused(error: SystemError) -> anyhow::Error {
    usage(error.to_string())
}

/// No plan brings the job to its end.
pub fn nothing_helps() -> anyhow::Error {
    usage("failures come faster than this job can save and restart; save less, or use fewer nodes")
}

fn system(args: PlanArgs) -> Result<System> {
    let mut system = described(args.file.as_deref())?;
    system.nodes = args.nodes.unwrap_or(system.nodes);
    system.bytes_per_node = args.bytes_per_node.unwrap_or(system.bytes_per_node);
    system.bandwidth.local = args.local.unwrap_or(system.bandwidth.local);
    system.bandwidth.network = args.network.unwrap_or(system.bandwidth.network);
    for failure in args.mttf {
        system.failure.retain(|known| known.name != failure.name);
        system.failure.push(failure);
    }
    for level in &mut system.level {
        if level.kind == KindName::Shared && level.survives_system {
            level.bandwidth = args.shared.or(level.bandwidth);
        }
        if matches!(level.kind, KindName::Xor | KindName::Rs) {
            level.set = args.set.or(level.set);
        }
    }
    // A few nodes are one set; one node has none.
    let most = if args.file.is_none() { system.nodes } else { u32::MAX };
    for level in system.level.iter_mut().filter(|level| level.kind == KindName::Xor) {
        level.set = level.set.map(|set| set.min(most));
    }
    system.level.retain(|level| level.kind != KindName::Xor || level.set.is_none_or(|set| set > 1));
    Ok(system)
}

/// `fermata plan`
pub fn plan(args: PlanArgs, output: Output) -> Result<u8> {
    let system = system(args)?;
    let planner = Planner::new(&system, Order::Groups).map_err(refused)?;
    let best = planner.best().ok_or_else(nothing_helps)?;
    let curve = curve(&planner, &best);
    let others = others(&system, &planner);
    let text = text(&system, &planner, &best, &curve, &others);
    output.answer(text, &value(&system, &planner, &best, &curve, &others))?;
    Ok(0)
}

/// Least overhead at intervals around the best: seconds, share.
fn curve(planner: &Planner, best: &Planned) -> Vec<(f64, f64)> {
    const STEPS: i32 = 6;
    let at = |step: i32| best.plan.interval_s * 2f64.powf(f64::from(step) / 2.0);
    let point = |step: i32| {
        let there = planner.best_at(&best.plan.levels, at(step))?;
        Some((at(step), there.overhead))
    };
    (-STEPS..=STEPS).filter_map(point).collect()
}

/// What simpler plans cost: name, share.
fn others(system: &System, planner: &Planner) -> Vec<(&'static str, f64)> {
    let mut others = Vec::new();
    let blind = Planner::new(system, Order::Hosts).ok().and_then(|planner| planner.best());
    if let Some(blind) = blind {
        others.push(("sets and partners of neighbours", blind.overhead));
    }
    let survives = |level: &usize| planner.stages(&[*level]).is_some();
    let single = (0..system.level.len()).filter(survives).filter_map(|level| {
        let interval_s = daly(planner.costs[level].direct_s, 1.0 / planner.total_rate());
        let plan = Plan { levels: vec![level], every: vec![1], interval_s };
        planner.judge(&plan).map(|judged| judged.overhead)
    });
    if let Some(least) = single.min_by(f64::total_cmp) {
        others.push(("one level, at Daly's interval", least));
    }
    others
}

/// Per cent; a job that hardly comes to an end is not told to the digit.
fn percent(share: f64) -> String {
    if share < 10.0 { format!("{:.2} %", 100.0 * share) } else { "over 1000 %".into() }
}

fn text(
    system: &System,
    planner: &Planner,
    best: &Planned,
    curve: &[(f64, f64)],
    others: &[(&str, f64)],
) -> String {
    let mut text = format!(
        "{} nodes, {:.1} GB each; a failure every {}\n\n",
        system.nodes,
        system.bytes_per_node / 1e9,
        human_seconds(1.0 / planner.total_rate())
    );
    let row = |cells: [&str; 6]| {
        let [level, every, interval, makes, restarts, needed] = cells;
        format!("{level:<12}{every:>9}{interval:>13}{makes:>12}{restarts:>14}{needed:>16}\n")
    };
    text += &row(["level", "one in", "interval", "made in", "restarts in", "needed every"]);
    for (place, (level, stage)) in best.plan.levels.iter().zip(&best.stages).enumerate() {
        let period = best.plan.period(place);
        text += &row([
            &system.level[*level].label(),
            &period.to_string(),
            &human_seconds(period as f64 * best.plan.interval_s),
            &human_seconds(stage.pause_s + stage.behind_s),
            &human_seconds(stage.restart_s),
            &human_seconds(1.0 / stage.rate),
        ]);
    }
    text += &format!("\nexpected overhead      {}\n", percent(best.overhead));
    for (name, overhead) in others {
        text += &format!("  {name:<34}{}\n", percent(*overhead));
    }
    text += "\nover the interval\n";
    let most = curve.iter().map(|point| point.1).fold(0.0, f64::max);
    for (interval_s, overhead) in curve {
        let length = bar_length(overhead / most);
        let mark = if *interval_s == best.plan.interval_s { '*' } else { ' ' };
        let (interval, share) = (human_seconds(*interval_s), percent(*overhead));
        text += &format!("{mark}{interval:>11}{share:>12} {}\n", "#".repeat(length));
    }
    text
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a share of a line
fn bar_length(share: f64) -> usize {
    (share.clamp(0.0, 1.0) * 54.0).round() as usize
}

fn value(
    system: &System,
    planner: &Planner,
    best: &Planned,
    curve: &[(f64, f64)],
    others: &[(&str, f64)],
) -> Value {
    let level = |(place, (level, stage)): (usize, (&usize, &fermata_plan::Stage))| {
        json!({
            "level": system.level[*level].label(),
            "one_in": best.plan.period(place),
            "interval_s": best.plan.period(place) as f64 * best.plan.interval_s,
            "pause_s": stage.pause_s,
            "behind_s": stage.behind_s,
            "restart_s": stage.restart_s,
            "needed_per_s": stage.rate,
        })
    };
    let levels = best.plan.levels.iter().zip(&best.stages).enumerate().map(level);
    let points = curve
        .iter()
        .map(|(interval_s, overhead)| json!({"interval_s": interval_s, "overhead": overhead}));
    let others = others.iter().map(|(name, overhead)| json!({"plan": name, "overhead": overhead}));
    json!({
        "nodes": system.nodes,
        "bytes_per_node": system.bytes_per_node,
        "failures_per_s": planner.total_rate(),
        "interval_s": best.plan.interval_s,
        "overhead": best.overhead,
        "levels": levels.collect::<Vec<_>>(),
        "others": others.collect::<Vec<_>>(),
        "curve": points.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
