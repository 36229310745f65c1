// SPDX-License-Identifier: Apache-2.0
//! `./x sim NAME`: drives the pure crates of the control plane in fake time, prints tables, and
//! writes the document and the picture that they belong to.
#![allow(clippy::print_stdout, clippy::print_stderr)]
#![forbid(unsafe_code)]

mod membership;

use std::process::ExitCode;

const USAGE: &str = "usage: ./x sim membership [--seed N] [--jobs N] [--full] [--write]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(options) = membership::Options::parse(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match membership::run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("./x sim: {error}");
            ExitCode::FAILURE
        }
    }
}
