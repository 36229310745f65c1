// SPDX-License-Identifier: Apache-2.0
//! `./x sim plan`: a job of 50 000 nodes under plans that know its failures, and under plans that
//! do not.

use crate::chart::{Chart, Line, Scale};
use crate::job::{Outcome, Setting, Trace, run};
use crate::stats::{Estimate, gain, mean};
use anyhow::{Context, Result};
use fermata_plan::placement::{Order, Placed};
use fermata_plan::simple::daly;
use fermata_plan::topology::{Class, Topology};
use fermata_plan::{Plan, Planned, Planner, System};
use std::fmt::Write;

/// What is simulated, and how often.
#[derive(Clone, Debug)]
pub struct Options {
    /// Traces of failures.
    pub seeds: u64,
    /// The first of them.
    pub first_seed: u64,
    /// Work of the job, days.
    pub days: f64,
    /// Gigabytes a node.
    pub sizes: Vec<f64>,
}

/// The machine: its failures and bandwidths.
pub const MACHINE: &str = include_str!("machine.toml");

/// Levels that a comparison offers, as TOML, by name.
const LADDERS: [(&str, &str); 3] = [
    ("3", "local xor shared"),
    ("4", "local xor burst shared"),
    ("5", "local xor partner burst shared"),
];

fn level(name: &str) -> &'static str {
    match name {
        "local" => r#"{ kind = "local" }"#,
        "xor" => r#"{ kind = "xor", set = 16 }"#,
        "partner" => r#"{ kind = "partner" }"#,
        "burst" => {
            r#"{ kind = "shared", name = "burst", bandwidth = "20TB/s", survives-system = false }"#
        }
        _ => r#"{ kind = "shared", bandwidth = "2TB/s" }"#,
    }
}

/// The machine with these levels, and so much to save.
///
/// # Errors
/// The machine's description is wrong.
pub fn system(levels: &str, gigabytes: f64, behind: bool) -> Result<System> {
    let levels: Vec<&str> = levels.split_whitespace().map(level).collect();
    let text = format!(
        "bytes-per-node = \"{gigabytes}GB\"\nbehind = {behind}\nlevel = [{}]\n{MACHINE}",
        levels.join(", ")
    );
    toml::from_str(&text).context("the simulated machine")
}

/// Who plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Knows classes of failures and groups.
    Planned,
    /// Sets of neighbours. It has the true rates at which each of its levels fails.
    Blind,
    /// The same, with sets at random.
    Shuffled,
    /// Sets of neighbours, and one rate: each level at Daly's interval for it.
    SingleRate,
    /// Sets of neighbours, one rate for the interval, and a fixed count for shared stores.
    Counted,
    /// One level that survives all, at Daly's interval.
    Daly,
}

impl Policy {
    const ALL: [Self; 6] =
        [Self::Planned, Self::Blind, Self::Shuffled, Self::SingleRate, Self::Counted, Self::Daly];

    fn order(self) -> Order {
        match self {
            Self::Planned => Order::Groups,
            Self::Shuffled => Order::Shuffled(1),
            Self::Blind | Self::SingleRate | Self::Counted | Self::Daly => Order::Hosts,
        }
    }

    /// What the tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Blind => "blind, its own rates",
            Self::Shuffled => "blind, random sets",
            Self::SingleRate => "blind, one rate",
            Self::Counted => "blind, each tenth",
            Self::Daly => "Daly, one level",
        }
    }
}

/// A contestant that is ready: its sets, and its plan with what the model expects of it.
pub struct Contestant {
    /// Who.
    pub policy: Policy,
    /// Where its redundancy lies.
    pub placed: Vec<Placed>,
    /// With the true failures, on its own sets.
    pub planner: Planner,
    /// Its plan, judged by the true failures.
    pub planned: Planned,
}

/// Makes the plan of a policy.
///
/// # Errors
/// There is none.
pub fn contestant(
    policy: Policy,
    system: &System,
    topology: &Topology,
    classes: &[Class],
) -> Result<Contestant> {
    let placed = system.place(topology, classes, policy.order());
    let planner = Planner::with(system, topology, classes, &placed)?;
    let planned = match policy {
        Policy::Planned | Policy::Blind | Policy::Shuffled => planner.best(),
        Policy::SingleRate => with_hindsight(&planner, system, each_by_daly),
        Policy::Counted => with_hindsight(&planner, system, counted),
        Policy::Daly => {
            let last = system.level.len() - 1;
            let interval_s = daly(planner.costs[last].direct_s, 1.0 / planner.total_rate());
            planner.judge(&Plan { levels: vec![last], every: vec![1], interval_s })
        }
    };
    let planned = planned.with_context(|| format!("no plan: {}", policy.name()))?;
    Ok(Contestant { policy, placed, planner, planned })
}

/// Which levels, it is told; how often, `rule` cannot know better.
fn with_hindsight(
    planner: &Planner,
    system: &System,
    rule: fn(&Planner, Vec<usize>, &System) -> Option<Planned>,
) -> Option<Planned> {
    let last = system.level.len() - 1;
    let safe = planner.chains().into_iter().filter(|levels| levels.contains(&last));
    let plans = safe.filter_map(|levels| rule(planner, levels, system));
    plans.min_by(|a, b| a.overhead.total_cmp(&b.overhead))
}

/// Every checkpoint goes to the levels on nodes; of those, each tenth to a shared store, and each
/// tenth of these to the next. Daly's interval for what every checkpoint costs.
///
/// Source: the default of SCR, which flushes each tenth checkpoint.
fn counted(planner: &Planner, levels: Vec<usize>, system: &System) -> Option<Planned> {
    const FLUSHED: u32 = 10;
    let (mut every, mut pause_s) = (vec![1], planner.costs[levels[0]].direct_s);
    for level in &levels[1..] {
        let is_on_nodes = system.level[*level].placed_kind().is_on_nodes();
        every.push(if is_on_nodes { 1 } else { FLUSHED });
        if is_on_nodes && !system.behind {
            pause_s += planner.costs[*level].promote_s;
        }
    }
    let interval_s = daly(pause_s, 1.0 / planner.total_rate());
    planner.judge(&Plan { levels, every, interval_s })
}

/// Each level at Daly's interval for its cost and the rate of all failures.
fn each_by_daly(planner: &Planner, levels: Vec<usize>, system: &System) -> Option<Planned> {
    let mtbf_s = 1.0 / planner.total_rate();
    let of_later = |level: &usize| {
        let promote_s = planner.costs[*level].promote_s;
        let costs_s = if system.behind { system.slowdown * promote_s } else { promote_s };
        // What is made behind the job is not due again before it is made.
        daly(costs_s, mtbf_s).max(if system.behind { 1.5 * promote_s } else { 0.0 })
    };
    let interval_s = daly(planner.costs[levels[0]].direct_s, mtbf_s);
    let mut every = vec![1];
    let mut reached_s = interval_s;
    for level in &levels[1..] {
        let count = (of_later(level) / reached_s).ceil().max(1.0);
        reached_s *= count;
        every.push(whole(count));
    }
    planner.judge(&Plan { levels, every, interval_s })
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a small count
fn whole(count: f64) -> u32 {
    count as u32
}

/// Simulates one over all traces.
pub fn score(
    contestant: &Contestant,
    system: &System,
    topology: &Topology,
    classes: &[Class],
    options: &Options,
) -> Vec<Outcome> {
    let setting = Setting {
        work_s: options.days * 86_400.0,
        behind: system.behind,
        slowdown: system.slowdown,
    };
    let of_seed = |seed| {
        let trace = Trace::new(topology, classes, seed);
        run(&contestant.planner, &contestant.planned, &contestant.placed, trace, setting)
    };
    (options.first_seed..options.first_seed + options.seeds).map(of_seed).collect()
}

/// One line of the comparison.
struct Row {
    ladder: &'static str,
    gigabytes: f64,
    behind: bool,
    /// Simulated overheads over the traces, by policy.
    overheads: Vec<Vec<f64>>,
    expected: Vec<f64>,
    plan: String,
}

impl Row {
    fn of(&self, policy: Policy) -> &[f64] {
        let at = Policy::ALL.iter().position(|other| *other == policy).unwrap_or(0);
        &self.overheads[at]
    }

    fn gain_over(&self, policy: Policy) -> Estimate {
        gain(self.of(Policy::Planned), self.of(policy))
    }
}

fn row(
    (ladder, levels): (&'static str, &str),
    gigabytes: f64,
    behind: bool,
    options: &Options,
) -> Result<Row> {
    let system = system(levels, gigabytes, behind)?;
    let (topology, classes) = system.failures();
    let mut row = Row {
        ladder,
        gigabytes,
        behind,
        overheads: Vec::new(),
        expected: Vec::new(),
        plan: String::new(),
    };
    let work_s = options.days * 86_400.0;
    for policy in Policy::ALL {
        let contestant = contestant(policy, &system, &topology, &classes)?;
        let outcomes = score(&contestant, &system, &topology, &classes, options);
        row.overheads.push(outcomes.iter().map(|one| one.wall_s / work_s - 1.0).collect());
        row.expected.push(contestant.planned.overhead);
        if policy == Policy::Planned {
            row.plan = words(&contestant.planned, &system);
        }
    }
    Ok(row)
}

/// "local 478 s, xor(16) x1, shared x56".
fn words(planned: &Planned, system: &System) -> String {
    let plan = &planned.plan;
    let mut text = String::new();
    for (place, level) in plan.levels.iter().enumerate() {
        let name = system.level[*level].label();
        let _ = match place {
            0 => write!(text, "{name} {:.0} s", plan.interval_s),
            _ => write!(text, ", {name} x{}", plan.period(place)),
        };
    }
    text
}

/// The tables as Markdown, the chart as SVG.
///
/// # Errors
/// A plan cannot be made.
pub fn report(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<(String, String)> {
    let mut rows = Vec::new();
    for behind in [true, false] {
        for ladder in LADDERS {
            for gigabytes in &options.sizes {
                progress(&format!("{} levels, {gigabytes} GB, behind: {behind}", ladder.0));
                rows.push(row(ladder, *gigabytes, behind, options)?);
            }
        }
    }
    let mut text = String::new();
    for behind in [true, false] {
        let how = if behind { "Levels made behind the running job" } else { "The job stands" };
        let _ = writeln!(text, "## {how}\n");
        table(&mut text, rows.iter().filter(|row| row.behind == behind))?;
    }
    Ok((text, chart(&rows).svg()?))
}

fn table<'a>(text: &mut String, rows: impl Iterator<Item = &'a Row> + Clone) -> Result<()> {
    text.push_str(
        "| levels | GB | planned: expected | simulated | blind, own rates | gain | \
         blind, random sets | gain | one rate | gain | each tenth | gain | Daly | gain |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows.clone() {
        let expected = 100.0 * row.expected[0];
        let planned = mean(row.of(Policy::Planned)).percent();
        write!(text, "| {} | {} | {expected:.1} | {planned} |", row.ladder, row.gigabytes)?;
        for policy in &Policy::ALL[1..] {
            let overhead = mean(row.of(*policy)).percent();
            let gained = row.gain_over(*policy).percent();
            write!(text, " {overhead} | {gained} |")?;
        }
        text.push('\n');
    }
    text.push_str("\n| levels | GB | the plan | expected over simulated, by contestant |\n");
    text.push_str("|---|---|---|---|\n");
    for row in rows {
        let ratios: Vec<String> = row
            .expected
            .iter()
            .zip(&row.overheads)
            .map(|(expected, simulated)| format!("{:.3}", expected / mean(simulated).value))
            .collect();
        let (plan, ratios) = (&row.plan, ratios.join(" "));
        writeln!(text, "| {} | {} | {plan} | {ratios} |", row.ladder, row.gigabytes)?;
    }
    text.push('\n');
    Ok(())
}

fn chart(rows: &[Row]) -> Chart {
    let line = |policy: Policy| Line {
        name: policy.name().into(),
        points: rows
            .iter()
            .filter(|row| row.behind && row.ladder == "3")
            .map(|row| (row.gigabytes, 100.0 * mean(row.of(policy)).value))
            .collect(),
    };
    Chart {
        title: "Overhead at 50 000 nodes: local, xor(16), shared".into(),
        along: "GB a node".into(),
        upwards: "overhead, %".into(),
        scale: Scale::Along,
        lines: [Policy::Planned, Policy::Blind, Policy::Shuffled].map(line).into(),
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
