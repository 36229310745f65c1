// SPDX-License-Identifier: Apache-2.0
//! Which settings make up a run, and running them on some threads.

use super::Options;
use super::foca::Settings;
use super::outcome::Outcome;
use super::setting::{Cut, Protocol, Setting};
use fermata_membership::Config;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// In thousandths.
pub const LOSSES: [u32; 5] = [0, 10, 50, 100, 200];
/// Numbers of nodes, and thousands of node-seconds of each in a full run: more where they are
/// cheap.
const NODES: [(u16, f64); 6] =
    [(2, 1000.0), (4, 1000.0), (8, 1000.0), (16, 500.0), (64, 300.0), (256, 300.0)];

/// A line of a table.
pub struct Row {
    pub name: String,
    pub setting: Setting,
    pub outcome: Outcome,
}

/// All that was simulated.
pub struct Tables {
    /// Loss by loss, in each by number of nodes.
    pub main: Vec<Row>,
    /// foca and the product under the same hardships.
    pub others: Vec<Row>,
    /// The product with a longer or shorter silence before the verdict.
    pub sweep: Vec<Row>,
    /// What does not happen every day.
    pub hard: Vec<Row>,
}

impl Tables {
    pub fn all(&self) -> impl Iterator<Item = &Row> {
        self.main.iter().chain(&self.others).chain(&self.sweep).chain(&self.hard)
    }
}

fn ours() -> Protocol {
    Protocol::Ours(Config::default())
}

fn row(name: impl Into<String>, setting: Setting) -> Row {
    Row { name: name.into(), setting, outcome: Outcome::default() }
}

fn lost(thousandths: u32) -> f64 {
    f64::from(thousandths) / 1000.0
}

fn main_rows(share: f64) -> Vec<Row> {
    let mut rows = Vec::new();
    for loss in LOSSES {
        for (nodes, thousands) in NODES {
            let seconds = 1000.0 * thousands * share / f64::from(nodes);
            rows.push(row("", Setting::new(ours(), nodes, lost(loss), seconds)));
        }
    }
    rows
}

fn other_rows(node_seconds: f64) -> Vec<Row> {
    let protocols = [
        ("foca, as it comes", Protocol::Foca(Settings::Lan)),
        ("foca, quick", Protocol::Foca(Settings::Quick)),
        ("ours", ours()),
    ];
    let mut rows = Vec::new();
    for (name, protocol) in protocols {
        for loss in [0, 50, 200] {
            for nodes in [2, 16, 64] {
                let seconds = node_seconds / f64::from(nodes);
                let usual = Setting::new(protocol, nodes, lost(loss), seconds);
                rows.push(row(name, Setting { freeze_every: None, ..usual }));
            }
        }
    }
    rows
}

fn sweep_rows(node_seconds: f64) -> Vec<Row> {
    let of = |down_after_ms| {
        let config = Config { down_after_ms, ..Config::default() };
        let seconds = node_seconds / 16.0;
        // Harder than usual, so that something is to be seen: a node stands still every 10 s.
        let usual = Setting::new(Protocol::Ours(config), 16, 0.2, seconds);
        row(format!("{down_after_ms}"), Setting { pause_every: Some(10.0), ..usual })
    };
    [1500, 2000, 2500, 2900, 3500, 4000].into_iter().map(of).collect()
}

fn hard_rows(node_seconds: f64) -> Vec<Row> {
    let usual = Setting::new(ours(), 64, 0.05, node_seconds / 64.0);
    let group = Setting { deaths_at_once: 16, death_every: Some(30.0), ..usual };
    let cut = |seconds| Setting { cut: Some(Cut { share: 0.25, seconds }), ..usual };
    let stall = |seconds| Setting { stall: Some(seconds), ..usual };
    let restless = Setting { pause_every: Some(10.0), ..usual };
    let frozen = Setting { freeze_every: Some(20.0), ..usual };
    vec![
        row("16 nodes die at once", group),
        row("16 nodes are cut off for 2 s, every 32 s", cut(2.0)),
        row("all processes stand still for 2 s, every 20 s", stall(2.0)),
        row("each node stands still for 0.1 to 2 s every 10 s", restless),
        row("each node announces a standstill every 20 s", frozen),
    ]
}

/// Simulates all of it.
pub fn tables(options: &Options, progress: &(dyn Fn(&str) + Sync)) -> Tables {
    let share = options.share;
    let mut tables = Tables {
        main: main_rows(share),
        others: other_rows(100_000.0 * share),
        sweep: sweep_rows(200_000.0 * share),
        hard: hard_rows(200_000.0 * share),
    };
    let all = [&mut tables.main, &mut tables.others, &mut tables.sweep, &mut tables.hard];
    for rows in all {
        simulate(rows, options, progress);
    }
    tables
}

fn simulate(rows: &mut [Row], options: &Options, progress: &(dyn Fn(&str) + Sync)) {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::AcqRel);
            let Some(row) = rows.get(at) else { return };
            let begun = std::time::Instant::now();
            // By nodes, not by loss or protocol: common random numbers.
            let outcome = row.setting.run(options.seed);
            progress(&format!(
                "{} loss {} nodes {}: {:.0} node-seconds, {} deaths, {} alarms, \
                 {:.1} datagrams/s, {:.1} suspicions/hour, {:.1} s",
                row.name,
                row.setting.loss,
                row.setting.nodes,
                outcome.node_seconds,
                outcome.known_ms.len(),
                outcome.alarms,
                outcome.datagrams as f64 / outcome.node_seconds,
                outcome.suspicions as f64 / outcome.node_seconds * 3600.0,
                begun.elapsed().as_secs_f64()
            ));
            if let Ok(mut outcomes) = outcomes.lock() {
                outcomes.push((at, outcome));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(work);
        }
    });
    for (at, outcome) in outcomes.into_inner().unwrap_or_default() {
        rows[at].outcome.add(outcome);
    }
}
