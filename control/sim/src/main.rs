// SPDX-License-Identifier: Apache-2.0
//! `./x sim`: simulations, as tables and pictures.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use fermata_plan::units;
use fermata_sim::findings::Findings;
use fermata_sim::{membership, plan, schedule, small};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

/// Simulates what Fermata decides, at sizes that nobody has at hand.
#[derive(Parser)]
#[command(name = "./x sim", bin_name = "./x sim")]
struct Cli {
    #[command(subcommand)]
    what: What,
    /// More of everything
    #[arg(long, global = true)]
    full: bool,
    /// The first seed
    #[arg(long, global = true, default_value_t = 1)]
    seed: u64,
    /// Write the tables into the document of that name in docs/evidence, pictures into docs/img
    #[arg(long, global = true)]
    write: bool,
}

#[derive(Subcommand)]
enum What {
    /// How soon the nodes of a run know that one has died, and how often they are wrong
    Membership {
        /// Settings at a time
        #[arg(long, default_value_t = 1)]
        jobs: usize,
        /// Of some 22 million node-seconds, in thousandths [default: 80, with --full 1000]
        #[arg(long)]
        share: Option<u32>,
    },
    /// What plans of levels are worth to a job of 50 000 nodes
    Plan {
        /// Traces of failures [default: 100, with --full 400]
        #[arg(long)]
        seeds: Option<u64>,
    },
    /// What a job costs at given intervals: as the model expects, and as traces of failures make it
    Job {
        /// The machine, as `fermata plan` takes it
        file: PathBuf,
        /// Work between checkpoints, e.g. 8s; may be repeated
        #[arg(long, required = true, value_parser = units::parse_seconds)]
        every: Vec<f64>,
        /// Of the job
        #[arg(long, default_value = "1h", value_parser = units::parse_seconds)]
        work: f64,
        /// Traces of failures
        #[arg(long, default_value_t = 1000)]
        seeds: u64,
    },
    /// What the service between jobs is worth to 24 of them on one file system
    Schedule {
        /// Failures and sizes of images [default: 50, with --full 200]
        #[arg(long)]
        seeds: Option<u64>,
    },
}

impl Cli {
    fn run(&self) -> Result<(&'static str, Findings)> {
        let say = |line: &str| eprintln!("{line}");
        let or =
            |given: Option<u64>, few, many| given.unwrap_or(if self.full { many } else { few });
        Ok(match &self.what {
            What::Membership { jobs, share } => {
                let share = f64::from(share.unwrap_or(if self.full { 1000 } else { 80 })) / 1000.0;
                let options = membership::Options { seed: self.seed, jobs: *jobs, share };
                ("membership", membership::report(&options, &say)?)
            }
            What::Plan { seeds } => {
                let options = plan::Options {
                    seeds: or(*seeds, 100, 400),
                    first_seed: self.seed,
                    days: 20.0,
                    sizes: vec![6.0, 24.0, 60.0, 120.0, 240.0],
                };
                ("plan", whole("plan", plan::report(&options, &mut |line| say(line))?))
            }
            What::Job { file, every, work, seeds } => {
                let text = std::fs::read_to_string(file)
                    .with_context(|| format!("{} cannot be read", file.display()))?;
                let system = toml::from_str(&text)
                    .with_context(|| format!("{} is no machine", file.display()))?;
                let table = small::report(&system, every, *work, *seeds)?;
                let tables = vec![("tables", table)];
                ("job", Findings { tables, pictures: Vec::new(), broken: Vec::new() })
            }
            What::Schedule { seeds } => {
                let loads: &[f64] = if self.full {
                    &[0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0]
                } else {
                    &[0.1, 0.2, 0.4, 0.6, 0.8]
                };
                let options = schedule::Options {
                    seeds: or(*seeds, 50, 200),
                    first_seed: self.seed,
                    days: if self.full { 60.0 } else { 30.0 },
                    loads: loads.to_vec(),
                };
                ("schedule", whole("schedule", schedule::report(&options, &mut |line| say(line))?))
            }
        })
    }
}

/// Tables and picture of a document that has one of each.
fn whole(name: &str, (tables, picture): (String, String)) -> Findings {
    let pictures = vec![(name.to_owned(), picture)];
    Findings { tables: vec![("tables", tables)], pictures, broken: Vec::new() }
}

fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    let (document, mut found) = cli.run()?;
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--write").collect();
    found.tables.insert(0, ("made", format!("Made with `./x sim {}`.", words.join(" "))));
    for (_, table) in &found.tables {
        println!("{}\n", table.trim_end());
    }
    if cli.write {
        found.write(Path::new(DOCS), document)?;
    }
    for promise in &found.broken {
        eprintln!("not kept: {promise}");
    }
    Ok(if found.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
