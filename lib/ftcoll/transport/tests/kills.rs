// SPDX-License-Identifier: Apache-2.0
//! Jobs of real processes, of which some are killed at drawn moments: those that live have the same
//! results, and nobody hangs. `FTCOLL_KILL_ROUNDS` takes more rounds than the few of a test.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::process::Command;

const TRANSPORTS: [&str; 2] = ["tcp", "ucx"];

fn round(transport: &str, processes: u32, calls: u32, kills: u32, seed: u32) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ftcoll-trial"));
    // No living process is silent for so long, however starved the machine is.
    command.args(["job", "--timeout-ms", "60000", "--limit-s", "300"]);
    // At that address the others are on other hosts, for UCX.
    command.envs([("FTCOLL_TRANSPORT", transport), ("FTCOLL_ADDRESS", "127.0.0.2")]);
    for (name, value) in
        [("--processes", processes), ("--calls", calls), ("--kills", kills), ("--seed", seed)]
    {
        command.args([name, &value.to_string()]);
    }
    let output = command.output().unwrap();
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    println!("{}", said.concat());
    assert!(
        output.status.success(),
        "{transport}, {processes} processes, seed {seed}: {}",
        said.concat()
    );
}

#[test]
fn nobody_is_killed() {
    for transport in TRANSPORTS {
        for processes in [1, 2, 5, 8] {
            round(transport, processes, 200, 0, 1);
        }
    }
}

#[test]
fn those_who_live_agree() {
    let rounds = std::env::var("FTCOLL_KILL_ROUNDS");
    let rounds: u32 = rounds.ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    for seed in 0..rounds {
        for processes in 2..=8 {
            let transport = TRANSPORTS[(seed + processes) as usize % 2];
            round(transport, processes, 100, 1 + (seed + processes) % 4, 10 * seed + processes);
        }
    }
}
