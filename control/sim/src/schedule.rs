// SPDX-License-Identifier: Apache-2.0
//! `./x sim schedule`: 24 jobs that save to one file system, uncoordinated and by the service.

use crate::chart::{Chart, Line, Scale};
use crate::random::Random;
use crate::site::{JobSpec, Policy, Site, Waste, run};
use crate::stats::{Estimate, gain, mean};
use anyhow::Result;
use fermata_plan::units::YEAR_S;
use std::fmt::Write;

/// What is simulated, and how often.
#[derive(Clone, Debug)]
pub struct Options {
    /// Failures and sizes of images.
    pub seeds: u64,
    /// The first of them.
    pub first_seed: u64,
    /// Days that are watched.
    pub days: f64,
    /// Shares of time that the file system is written to.
    pub loads: Vec<f64>,
}

/// How many jobs have so many nodes.
const JOBS: [(usize, u32); 5] = [(1, 1024), (2, 512), (7, 256), (10, 128), (4, 64)];
const NODE_MTBF_S: f64 = 5.0 * YEAR_S;
const DAY_S: f64 = 86_400.0;

/// The jobs of a seed on a file system of this load.
pub fn site(seed: u64, load: f64, days: f64) -> Site {
    let mut random = Random::new(seed, 0);
    let mut jobs = Vec::new();
    for (count, nodes) in JOBS {
        for _ in 0..count {
            let bytes = f64::from(nodes) * random.between(32e9, 96e9);
            jobs.push(JobSpec { nodes, bytes, mtbf_s: NODE_MTBF_S / f64::from(nodes) });
        }
    }
    let site =
        Site { jobs, per_s: 1e12, node_per_s: 10e9, relaunch_s: 60.0, horizon_s: days * DAY_S };
    site.at_load(load)
}

const NEVER: f64 = f64::INFINITY;
const SITE: Policy = Policy::Site { ends_s: NEVER, replica_from_s: NEVER };

struct Row {
    load: f64,
    /// Each has the file system to itself: the least that any order can lose.
    undisturbed: Vec<Waste>,
    alone: Vec<Waste>,
    measured: Vec<Waste>,
    in_turn: Vec<Waste>,
    coordinated: Vec<Waste>,
    /// The service ends in the middle: for good, and with a replica that leads 10 s later.
    ends: Vec<Waste>,
    replaced: Vec<Waste>,
}

fn overheads(wastes: &[Waste]) -> Vec<f64> {
    wastes.iter().map(Waste::overhead).collect()
}

/// How much less checkpoint overhead there is than under the other policy.
fn less(wastes: &[Waste], than: &[Waste]) -> Estimate {
    gain(&overheads(wastes), &overheads(than))
}

impl Row {
    fn new(load: f64, options: &Options) -> Self {
        let middle_s = options.days * DAY_S / 2.0;
        let all = |policy: Policy| -> Vec<Waste> {
            let seeds = options.first_seed..options.first_seed + options.seeds;
            seeds.map(|seed| run(&site(seed, load, options.days), policy, seed)).collect()
        };
        Self {
            load,
            undisturbed: all(Policy::Undisturbed),
            alone: all(Policy::Alone),
            measured: all(Policy::Measured),
            in_turn: all(Policy::InTurn),
            coordinated: all(SITE),
            ends: all(Policy::Site { ends_s: middle_s, replica_from_s: NEVER }),
            replaced: all(Policy::Site { ends_s: middle_s, replica_from_s: middle_s + 10.0 }),
        }
    }
}

/// The tables as Markdown, the chart as SVG.
///
/// # Errors
/// The chart cannot be drawn.
pub fn report(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<(String, String)> {
    let mut rows = Vec::new();
    for load in &options.loads {
        let row = Row::new(*load, options);
        progress(&format!("load {load}: gain {}", less(&row.coordinated, &row.alone).percent()));
        rows.push(row);
    }
    let mut text = overhead_table(&rows);
    text.push_str("\n## Where it is lost\n\n");
    text.push_str(
        "| load | | writing | rework | restarting | the job that loses most |\n\
         |---|---|---|---|---|---|\n",
    );
    for row in &rows {
        parts(&mut text, row.load, "Daly's interval", &row.alone);
        parts(&mut text, row.load, "by measured cost", &row.measured);
        parts(&mut text, row.load, "service", &row.coordinated);
    }
    text.push_str("\n## The service ends in the middle\n\n");
    text.push_str(
        "| load | for good: gain | a replica 10 s later: gain | longest wait, s |\n\
         |---|---|---|---|\n",
    );
    for row in &rows {
        let late = row.ends.iter().map(|waste| waste.late_s).fold(0.0, f64::max);
        let of = |wastes| less(wastes, &row.alone).percent();
        let _ = writeln!(
            text,
            "| {:.2} | {} | {} | {late:.1} |",
            row.load,
            of(&row.ends),
            of(&row.replaced)
        );
    }
    Ok((text, chart(&rows).svg()?))
}

fn overhead_table(rows: &[Row]) -> String {
    let mut text = String::from("## What is lost\n\n");
    text.push_str(
        "| load | Daly's interval | by measured cost | service | gain over Daly's | \
         over measured | undisturbed: over Daly's | over measured | in turn: over Daly's |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let overhead = |wastes: &[Waste]| mean(&overheads(wastes)).percent();
        let cells = [
            format!("{:.2}", row.load),
            overhead(&row.alone),
            overhead(&row.measured),
            overhead(&row.coordinated),
            less(&row.coordinated, &row.alone).percent(),
            less(&row.coordinated, &row.measured).percent(),
            less(&row.undisturbed, &row.alone).percent(),
            less(&row.undisturbed, &row.measured).percent(),
            less(&row.in_turn, &row.alone).percent(),
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

fn parts(text: &mut String, load: f64, name: &str, wastes: &[Waste]) {
    let of = |part: fn(&Waste) -> f64| {
        let all: Vec<f64> = wastes.iter().map(part).collect();
        format!("{:.2}", 100.0 * mean(&all).value)
    };
    let _ = writeln!(
        text,
        "| {load:.2} | {name} | {} | {} | {} | {} |",
        of(|waste| waste.write + waste.wait),
        of(|waste| waste.rework),
        of(|waste| waste.restart),
        of(|waste| waste.worst_job)
    );
}

fn chart(rows: &[Row]) -> Chart {
    let line = |name: &str, of: fn(&Row) -> &Vec<Waste>| Line {
        name: name.into(),
        points: rows
            .iter()
            .map(|row| (row.load, 100.0 * mean(&overheads(of(row))).value))
            .collect(),
    };
    Chart {
        title: "Checkpoint overhead: 24 jobs, one file system".into(),
        along: "share of time that the file system is written to".into(),
        upwards: "overhead, %".into(),
        scale: Scale::Linear,
        lines: vec![
            line("undisturbed", |row| &row.undisturbed),
            line("service", |row| &row.coordinated),
            line("in turn, standing still", |row| &row.in_turn),
            line("uncoordinated, by measured cost", |row| &row.measured),
            line("uncoordinated, Daly's interval", |row| &row.alone),
        ],
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
