// SPDX-License-Identifier: Apache-2.0
//! `./x sim`: simulations, as tables and pictures.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use fermata_sim::{plan, schedule};
use std::path::{Path, PathBuf};

/// Simulates what Fermata decides, at sizes that nobody has at hand.
#[derive(Parser)]
#[command(name = "./x sim")]
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Args)]
struct How {
    /// More seeds, all sizes
    #[arg(long)]
    full: bool,
    /// Seeds [default: 100, schedule 50; with --full 400, schedule 200]
    #[arg(long)]
    seeds: Option<u64>,
    /// The first of them
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the tables to evidence/ and the picture to img/ of this directory of documents
    #[arg(long)]
    write: Option<PathBuf>,
}

#[derive(Subcommand)]
enum What {
    /// A job of 50 000 nodes, planned and not
    Plan(How),
    /// 24 jobs on one file system, with and without the service between them
    Schedule(How),
}

fn main() -> Result<()> {
    match Cli::parse().what {
        What::Plan(how) => {
            let options = plan::Options {
                seeds: how.seeds.unwrap_or(if how.full { 400 } else { 100 }),
                first_seed: how.seed,
                days: 20.0,
                sizes: vec![6.0, 24.0, 60.0, 120.0, 240.0],
            };
            let (tables, picture) = plan::report(&options, &mut |line| eprintln!("{line}"))?;
            deliver("plan", &tables, &picture, how.write.as_deref())
        }
        What::Schedule(how) => {
            let options = schedule::Options {
                seeds: how.seeds.unwrap_or(if how.full { 200 } else { 50 }),
                first_seed: how.seed,
                days: if how.full { 60.0 } else { 30.0 },
                loads: if how.full {
                    vec![0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0]
                } else {
                    vec![0.1, 0.2, 0.4, 0.6, 0.8]
                },
            };
            let (tables, picture) = schedule::report(&options, &mut |line| eprintln!("{line}"))?;
            deliver("schedule", &tables, &picture, how.write.as_deref())
        }
    }
}

/// Prints the tables; with `docs`, puts them between the marks of the document as well.
fn deliver(name: &str, tables: &str, picture: &str, docs: Option<&Path>) -> Result<()> {
    println!("{tables}");
    let Some(docs) = docs else { return Ok(()) };
    let document = docs.join(format!("evidence/{name}.md"));
    let text = std::fs::read_to_string(&document)
        .with_context(|| format!("cannot read {}", document.display()))?;
    let mark = format!("<!-- ./x sim {name} writes what follows -->\n");
    let (by_hand, _) = text
        .split_once(&mark)
        .with_context(|| format!("{} has no line '{}'", document.display(), mark.trim()))?;
    std::fs::write(&document, format!("{by_hand}{mark}\n{}\n", tables.trim_end()))
        .with_context(|| format!("cannot write {}", document.display()))?;
    let image = docs.join(format!("img/{name}.svg"));
    std::fs::write(&image, picture).with_context(|| format!("cannot write {}", image.display()))
}
