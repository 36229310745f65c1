// SPDX-License-Identifier: Apache-2.0
//! `./x model ftcoll`: searches groups in which processes die, and prints what was searched.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use fermata_ftcoll_model::cases::{Effort, Line, damaged, sound};
use fermata_ftcoll_model::packed::LARGEST;
use std::collections::BTreeMap;
use std::process::ExitCode;

const USAGE: &str = "\
usage: ./x model ftcoll [--processes N] [--deaths D] [--states MILLIONS] [--threads T]
                        [--only WORD] [--damaged]
Every order in which messages arrive and up to D (2) of N (5) processes die. A case of more than
MILLIONS (400; some 20 bytes each) of states is given up. --only: cases whose name has WORD.
--damaged: the machines that lack a part of the protocol instead, all of which must be caught.
Exit code 1: something is wrong, or a case was not searched whole.";

struct Arguments {
    processes: u32,
    deaths: usize,
    effort: Effort,
    only: String,
    damaged: bool,
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let effort = Effort { states: 400_000_000, threads: 2 };
    let mut all =
        Arguments { processes: 5, deaths: 2, effort, only: String::new(), damaged: false };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--processes" => all.processes = words.next()?.parse().ok()?,
            "--deaths" => all.deaths = words.next()?.parse().ok()?,
            "--states" => {
                all.effort.states = words.next()?.parse::<u64>().ok()?.checked_mul(1_000_000)?;
            }
            "--threads" => all.effort.threads = words.next()?.parse().ok()?,
            "--only" => all.only = words.next()?,
            "--damaged" => all.damaged = true,
            _ => return None,
        }
    }
    let size = all.processes as usize;
    let is_good = (2..=LARGEST).contains(&size) && all.deaths < size && all.effort.threads > 0;
    is_good.then_some(all)
}

fn print(line: &Line) {
    let result = match &line.breach {
        Some(breach) => breach.split(':').next().unwrap_or_default(),
        None if line.is_whole => "all searched, sound",
        None => "given up",
    };
    let Line { name, states, seconds, endings, .. } = line;
    println!("| {name} | {states} | {seconds:.1} | {endings} | {result} |");
}

fn main() -> ExitCode {
    let Some(arguments) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let Arguments { processes, deaths, effort, only, damaged: is_damaged } = arguments;
    println!("{processes} processes, up to {deaths} deaths\n");
    println!("| machine | states | seconds | endings | |\n|---|---|---|---|---|");
    let mut is_good = true;
    if is_damaged {
        let mut caught = BTreeMap::new();
        for (damage, line) in damaged(processes, deaths, effort, &only) {
            print(&line);
            *caught.entry(damage).or_insert(false) |= line.breach.is_some();
        }
        is_good = caught.into_values().all(|is_caught| is_caught);
    } else {
        for line in sound(processes, deaths, effort, &only) {
            print(&line);
            if let Some(breach) = &line.breach {
                eprintln!("{}: {breach}", line.name);
            }
            is_good &= line.is_whole;
        }
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
