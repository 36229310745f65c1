// SPDX-License-Identifier: Apache-2.0
//! `./x sim ftcoll`: runs the experiments and writes `docs/evidence/ftcoll.md`.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)]

use fermata_ftcoll_sim::experiments::{
    Effort, Findings, agreement, broadcasts, chances, pictures, survival, trees, upward,
};
use fermata_ftcoll_sim::page::{Table, fill};
use std::path::Path;
use std::process::ExitCode;

/// What stands from this heading on is from elsewhere, and stays.
const NOT_SIMULATED: &str = "\n## Not simulated\n";
const USAGE: &str = "usage: ./x sim ftcoll [--full] [--seed N] [--write]";

const HEAD: &str = "\
# Collectives that survive dead processes, simulated

Written by `./x sim ftcoll --write`, which drives the machines of `lib/ftcoll/core` on a simulated
`LogP` machine. L = 2, o = g = 1 unless it says otherwise; times in these units, from the beginning
to the moment when the last living process has the value; messages per process, those to dead
processes included. Means over runs with their 95 % confidence interval, and the worst run. All
schemes of a table run over the same dead, and the root lives. The reference is what simulators of
ours made before (a few seeds each), which follow the published rules and flogsim's tests.
";

struct Arguments {
    effort: Effort,
    is_full: bool,
    writes: bool,
}

fn arguments() -> Option<Arguments> {
    let (mut seed, mut is_full, mut writes) = (1, false, false);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--full" => is_full = true,
            "--write" => writes = true,
            "--seed" => seed = words.next()?.parse().ok()?,
            _ => return None,
        }
    }
    let effort = if is_full { Effort::full(seed) } else { Effort::small(seed) };
    Some(Arguments { effort, is_full, writes })
}

fn run(arguments: &Arguments) -> Result<Findings, Box<dyn std::error::Error>> {
    let effort = &arguments.effort;
    let mut all = Findings::default();
    let mut section = |name: &str, findings: Findings| {
        eprintln!("{name}");
        all.append(findings);
    };
    section("trees", trees::times(1 << 20));
    section("4096 processes", broadcasts::comparison(4096, effort));
    section("pictures", pictures::pictures(effort)?);
    section("placements", broadcasts::placements(4096, effort));
    section("65536 processes", broadcasts::comparison(65_536, effort));
    section("chances", chances::misses(effort)?);
    section("survival", survival::survival(effort));
    section("up-correction", upward::messages());
    section("FTCO", upward::timeouts());
    section("FTCO with deaths", agreement::kills(effort));
    Ok(all)
}

fn page(arguments: &Arguments, found: &Findings) -> String {
    let mut table = Table::new(&["promise", "seen", "kept"]);
    for (what, seen, holds) in &found.promises {
        let kept = if *holds { "yes" } else { "**no**" };
        table.row(&[what.clone(), seen.clone(), kept.to_owned()]);
    }
    let option = if arguments.is_full { " --full" } else { "" };
    let seed = arguments.effort.seed;
    fill(&format!(
        "{HEAD}\nMade with `./x sim ftcoll{option} --seed {seed}`.\n\n## What is promised\n\n\
         {table}\n## What was seen\n{}",
        found.text
    ))
}

fn write(page: &str, found: &Findings) -> std::io::Result<()> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs");
    let document = docs.join("evidence/ftcoll.md");
    let before = std::fs::read_to_string(&document)?;
    let rest = before.find(NOT_SIMULATED).map_or("", |at| &before[at..]);
    std::fs::write(document, format!("{page}{rest}"))?;
    for (name, text) in &found.pictures {
        std::fs::write(docs.join("img").join(name), format!("{}\n", text.trim_end()))?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let found = match run(&arguments) {
        Ok(found) => found,
        Err(error) => {
            eprintln!("sim: the pictures cannot be drawn: {error}");
            return ExitCode::FAILURE;
        }
    };
    let page = page(&arguments, &found);
    println!("{page}");
    let written = if arguments.writes { write(&page, &found) } else { Ok(()) };
    if let Err(error) = written {
        eprintln!("sim: cannot write docs/evidence/ftcoll.md or its pictures: {error}");
        return ExitCode::FAILURE;
    }
    let broken = found.promises.iter().filter(|(_, _, holds)| !holds);
    let mut status = ExitCode::SUCCESS;
    for (what, seen, _) in broken {
        eprintln!("not kept: {what}: {seen}");
        status = ExitCode::FAILURE;
    }
    status
}
