// SPDX-License-Identifier: Apache-2.0
//! The examples in C, compiled against `include/ftcoll.h` and the library, lose processes and come
//! to their end.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

fn compile(name: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Beside the test program cargo leaves the library in all its forms.
    let libraries = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-o"]);
    command.arg(&program).arg(here.join("../examples").join(name).with_extension("c"));
    command.arg("-I").arg(here.join("include")).arg("-L").arg(&libraries);
    command.arg(format!("-Wl,-rpath,{}", libraries.display())).args(["-lftcoll", "-lm"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

fn run(program: &Path, processes: u32, kills: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ftcoll-run"));
    command.env("FTCOLL_TIMEOUT_MS", "60000").args(["-n", &processes.to_string()]);
    kills.iter().for_each(|kill| {
        command.args(["--kill", kill]);
    });
    let output = command.arg("--").arg(program).output().unwrap();
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let said = said.concat();
    assert!(output.status.success(), "{said}");
    let ended =
        format!("{} of {processes} processes came to their end", processes as usize - kills.len());
    assert!(said.contains(&ended), "{said}");
    said
}

#[test]
fn monte_carlo_rests_on_those_who_live() {
    let program = compile("monte_carlo");
    let said = run(&program, 4, &["0@0.2"]);
    assert!(said.contains("pi is about 3.14"), "{said}");
    assert!(said.contains("300000000 points of 3 of 4 processes"), "{said}");
}

#[test]
fn jacobi_finds_the_same_solution_with_fewer() {
    let program = compile("jacobi");
    assert!(run(&program, 4, &[]).contains("4 of 4 processes to the end"));
    let said = run(&program, 4, &["1@0.1", "0@0.2"]);
    assert!(said.contains("of 4 processes to the end"), "{said}");
}
