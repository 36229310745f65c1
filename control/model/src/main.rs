// SPDX-License-Identifier: Apache-2.0
//! `./x model`: checks the protocol and prints the tables of `docs/evidence/protocol.md`.
#![allow(clippy::print_stdout, clippy::print_stderr)]
use fermata_model::report::{
    SIDES, bounds_table, comparisons, large, merged_table, named_table, sizes_table, standard,
};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_large = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--large"] => true,
        _ => {
            eprintln!("usage: ./x model [--large]");
            return ExitCode::from(2);
        }
    };
    let (bounds, holds) = bounds_table(&if is_large { large() } else { standard() });
    println!("{bounds}");
    let (merged, hides_nothing) = merged_table(comparisons(is_large));
    println!("{merged}");
    let holds = holds && hides_nothing;
    if is_large {
        return if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let (named, named_hold) = named_table();
    println!("{named}");
    println!("{}", sizes_table(&SIDES, 9));
    if holds && named_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
