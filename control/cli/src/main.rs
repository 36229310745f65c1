// SPDX-License-Identifier: Apache-2.0
//! `fermata`: the command line. Each command is one function in its own module, `cli.rs` holds the
//! table of flags; this file joins them and maps errors to exit codes (`exit.rs`).

mod again;
mod cli;
mod detached;
mod doctor;
mod ending;
mod exec;
mod exit;
mod hints;
mod jobs;
mod manual;
mod mpi;
mod output;
mod ownership;
mod plan;
mod reach;
mod restart;
mod run;
mod service;
mod several;
mod state;
mod trial;
mod trust;
mod wait;

use clap::FromArgMatches;
use cli::{Cli, Command, MpiCommand};
use fermata_launch::moved::Moves;
use fermata_launch::start::{SaveFiles, Start};
use fermata_sysio::print_error;
use jobs::JobsDir;
use output::Output;
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;

fn perform(cli: Cli) -> anyhow::Result<u8> {
    let output = Output { json: cli.json };
    let place = JobsDir::new(cli.dir);
    match cli.command {
        Command::Run {
            start,
            ranks,
            name,
            front,
            collectives,
            checkpointer,
            files,
            encrypt,
            command,
        } => {
            let (name, front) = (name.as_deref(), front.as_deref());
            let save_files = files.into();
            let start = Start { collectives, checkpointer, save_files, encrypt, ..start.into() };
            run::run(&start, ranks, &place, name, front, &command, output)
        }
        Command::Restart { start, here, files, map, what } => {
            let how = restart::How { here, files: files.into(), moves: Moves::of(map) };
            restart::restart(&start.into(), &place, what.as_deref(), how, output)
        }
        Command::Exec {
            mpi,
            front,
            name,
            job_dir,
            socket,
            coordinator,
            local_dir,
            collectives,
            spawned,
            restore,
            files,
            map,
            save_files,
            files_limit,
            encrypt,
            settled,
            stdin,
            every,
            keep,
            checkpointer,
            command,
        } => {
            let options = exec::ExecOptions {
                mpi,
                front,
                name,
                job_dir,
                socket,
                coordinator,
                local_dir,
                collectives,
                spawned,
                restore,
                files: files.into(),
                moves: Moves::of(map),
                save_files: SaveFiles { which: save_files, limit: files_limit },
                encrypt,
                settled,
                stdin,
                every_ms: every,
                keep,
                checkpointer,
            };
            match exec::exec(&options, &place, &command)? {}
        }
        Command::Checkpoint { job, stop, timeout } => {
            jobs::checkpoint(&place, job.as_deref(), stop, timeout, output)
        }
        Command::Jobs => jobs::jobs(&place, output),
        Command::Snapshots { job } => jobs::snapshots(&place, job.as_deref(), output),
        Command::Inspect { snapshot, rank } => jobs::inspect(&place, &snapshot, rank, output),
        Command::Verify { snapshot } => trust::verify_snapshot(&place, &snapshot, output),
        Command::Trust { snapshot } => trust::trust(&place, &snapshot, output),
        Command::Prune { job, keep } => jobs::prune(&place, job.as_deref(), keep, output),
        Command::Mpi(MpiCommand::List) => mpi::list(output),
        Command::Mpi(MpiCommand::Add { what, name }) => mpi::add(&what, name.as_deref(), output),
        Command::Mpi(MpiCommand::Remove { name }) => mpi::remove(&name, output),
        Command::Plan { machine } => plan::plan(machine, output),
        Command::Doctor => doctor::doctor(&place, output),
        Command::Completions { shell } => manual::completions(shell, output),
        Command::Man { target } => manual::man(&target, output),
        Command::Coordinator { job_dir, detach, network, restored, every, outlives } => {
            let service =
                service::Service { every_ms: every, linger: None, outlives, network, restored };
            detached::coordinator(&job_dir, detach, service).map(|()| 0)
        }
        Command::Daemon { job, detach, socket, address, local_dir } => {
            let spec = reach::DaemonSpec { job, addresses: address, socket, local_dir };
            reach::daemon(&spec, detach).map(|()| 0)
        }
    }
}

/// The command line; what makes no sense ends the program here, in the form that was asked for.
fn parse() -> Result<Cli, ExitCode> {
    let arguments: Vec<_> = std::env::args_os().collect();
    let own = arguments.iter().skip(1).take_while(|argument| *argument != "--");
    let json = own.into_iter().any(|argument| argument == "--json");
    let parsed = Cli::table()
        .try_get_matches_from(arguments)
        .and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.map_err(|error| {
        if json && error.use_stderr() {
            let text = error.to_string();
            fail(text.strip_prefix("error: ").unwrap_or(&text), exit::USAGE, true)
        } else {
            // Help is printed here too; a closed pipe is nobody's mistake.
            let _ = error.print();
            ExitCode::from(if error.use_stderr() { exit::USAGE } else { 0 })
        }
    })
}

fn fail(text: &str, code: u8, json: bool) -> ExitCode {
    if text.is_empty() {
        return ExitCode::from(code); // another process says it
    }
    print_error(text.trim_end());
    if json {
        let value = json!({"ok": false, "error": text.trim_end(), "code": code});
        let _ = writeln!(std::io::stdout(), "{value}"); // standard error has it, too
    }
    ExitCode::from(code)
}

fn main() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let json = cli.json;
    if let Err(text) = fermata_faults::check() {
        return fail(&text, exit::USAGE, json);
    }
    match perform(cli) {
        Ok(code) => ExitCode::from(code),
        Err(error) => fail(&format!("{error:#}"), exit::code_of(&error), json),
    }
}
