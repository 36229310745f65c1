// SPDX-License-Identifier: Apache-2.0
//! `fermata`: the command line. Each command is one function in its own module, `cli.rs` holds the
//! table of flags; this file joins them and maps errors to exit codes (`exit.rs`).

mod again;
mod auto;
mod cli;
mod config;
mod detached;
mod doctor;
mod end_args;
mod ended;
mod ending;
mod exec;
mod exit;
mod files_args;
mod gathering;
mod guard;
mod hints;
mod history;
mod hooks;
mod jobs;
mod lenders;
mod life;
mod listing;
mod manual;
mod metrics;
mod mpi;
mod nodes;
mod np;
mod onward;
mod outcome;
mod output;
mod ownership;
mod places;
mod plan;
mod proxies;
mod reach;
mod recover;
mod restart;
mod resume;
mod run;
mod service;
mod several;
mod site;
mod start_args;
mod state;
mod table;
mod taking;
mod trial;
mod trust;
mod wait;

use clap::{CommandFactory, FromArgMatches};
use cli::{Cli, Command};
use config::Config;
use fermata_launch::moved::Moves;
use fermata_launch::start::{SaveFiles, Start};
use fermata_sysio::print_error;
use jobs::JobsDir;
use life::Life;
use output::Output;
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;

fn perform(cli: Cli) -> anyhow::Result<u8> {
    let output = Output { json: cli.json };
    let config = config_for(&cli.command)?;
    let given = cli.dir.clone();
    let place = JobsDir::new(cli.dir);
    match cli.command {
        Command::Run {
            start,
            mut end,
            mut hooks,
            ranks,
            name,
            resume,
            again,
            front,
            collectives,
            checkpointer,
            files,
            encrypt,
            command,
        } => {
            let encrypt = config.encrypts(encrypt);
            let save_files = config.saved_files(files.into());
            config.fill_life(&mut end, &mut hooks);
            let start = Start { survive: end.survive, ..start.into() };
            let life = Life::new(end, hooks)?;
            let (save_on, is_begun_again) = (life.save_on().clone(), life.begins_again());
            let start = Start {
                collectives,
                checkpointer,
                save_files,
                encrypt,
                save_on,
                is_begun_again,
                ..start
            };
            let start = config.fill(start);
            auto::check(&start)?;
            let wanted = run::Wanted { ranks, name, front, command };
            let continues = resume.then_some(again);
            run_or_resume(start, &wanted, &place, continues, life, output)
        }
        Command::Restart { start, mut end, mut hooks, here, files, map, what } => {
            let how = restart::How { here, files: files.into(), moves: Moves::of(map) };
            config.fill_life(&mut end, &mut hooks);
            let start = Start { survive: end.survive, groups: config.groups(), ..start.into() };
            let start = Start { behind: start.behind.or(config.behind()), ..start };
            let life = Life::new(end, hooks)?;
            let (save_on, is_begun_again) = (life.save_on().clone(), life.begins_again());
            let start = Start { save_on, is_begun_again, ..start };
            auto::check(&start)?;
            restart::restart(&start, &place, what.as_deref(), how, life, output)
        }
        Command::Exec {
            mpi,
            front,
            name,
            job_dir,
            socket,
            coordinator,
            local_dir,
            store,
            behind,
            collectives,
            survive,
            spawned,
            restore,
            files,
            map,
            save_files,
            files_limit,
            encrypt,
            settled,
            stdin,
            pace,
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
                store,
                behind: behind.into(),
                collectives,
                survive,
                spawned,
                restore,
                files: files.into(),
                moves: Moves::of(map),
                save_files: SaveFiles { which: save_files, limit: files_limit },
                encrypt,
                settled,
                stdin,
                every: pace.every.unwrap_or_default(),
                machine: pace.machine,
                site: pace.site,
                keep,
                checkpointer,
            };
            match exec::exec(&options, &place, &command)? {}
        }
        Command::Checkpoint { job, stop, timeout } => {
            jobs::checkpoint(&place, job.as_deref(), stop, timeout, output)
        }
        Command::Jobs { all } => listing::jobs(&place, all, output),
        Command::Nodes { job } => nodes::nodes(&place, job.as_deref(), output),
        Command::History { job } => history::history(&place, job.as_deref(), output),
        Command::Snapshots { job } => jobs::snapshots(&place, job.as_deref(), output),
        Command::Inspect { snapshot, rank } => jobs::inspect(&place, &snapshot, rank, output),
        Command::Verify { snapshot } => trust::verify_snapshot(&place, &snapshot, output),
        Command::Trust { snapshot } => trust::trust(&place, &snapshot, output),
        Command::Prune { job, keep } => jobs::prune(&place, job.as_deref(), keep, output),
        Command::Config => config::show(&config, given.as_deref(), output),
        Command::Mpi(command) => mpi::perform(command, output),
        Command::Site(command) => site::perform(command, config.site(), output),
        Command::Plan { machine } => plan::plan(machine, output),
        Command::Doctor => doctor::doctor(&place, output),
        Command::Completions { shell } => manual::completions(shell, output),
        Command::Man { target } => manual::man(&target, output),
        Command::Coordinator { job_dir, detach, network, restored, pace, nodes, outlives } => {
            let service = service::Service {
                every: pace.every.unwrap_or_default(),
                machine: pace.machine,
                site: pace.site,
                nodes,
                outlives,
                network,
                restored,
                ..Default::default()
            };
            detached::coordinator(&job_dir, detach, service).map(|()| 0)
        }
        command => serve(command),
    }
}

/// What one host does for others.
fn serve(command: Command) -> anyhow::Result<u8> {
    match command {
        Command::Guard { save_on, job_dir, name, command } => {
            guard::guard(&save_on, &job_dir, &name, &command)
        }
        Command::Daemon { job, detach, socket, address, local_dir, store, behind } => {
            let (addresses, behind) = (address, behind.into());
            let spec = reach::DaemonSpec { job, addresses, socket, local_dir, store, behind };
            reach::daemon(&spec, detach).map(|()| 0)
        }
        Command::Lend { store, address, local_dir } => {
            lenders::lend(&store, address, &local_dir).map(|()| 0)
        }
        _ => Err(anyhow::anyhow!("nobody performs this command")),
    }
}

/// `continues`: from the newest snapshot, and whether a job that has finished is run again.
fn run_or_resume(
    start: Start,
    wanted: &run::Wanted,
    place: &JobsDir,
    continues: Option<bool>,
    life: Life,
    output: Output,
) -> anyhow::Result<u8> {
    match continues {
        Some(again) => resume::resume(start, wanted, place, again, life, output),
        None => run::run(&start, wanted, place, life, output),
    }
}

/// What fermata.toml say, for commands that people give about jobs. Those that others start have
/// all on their command lines; of a rank that a foreign mpirun starts the directory counts.
fn config_for(command: &Command) -> anyhow::Result<Config> {
    let is_told = match command {
        Command::Exec { job_dir, spawned, .. } => job_dir.is_some() || *spawned,
        Command::Coordinator { .. } | Command::Daemon { .. } | Command::Guard { .. } => true,
        Command::Lend { .. } => true,
        Command::Completions { .. } | Command::Man { .. } => true,
        _ => false,
    };
    let config = if is_told { Config::default() } else { Config::load()? };
    if let Some(dir) = config.dir() {
        hints::configure_directory(dir);
    }
    Ok(config)
}

/// The command line; what makes no sense ends the program here, in the form that was asked for.
fn parse() -> Result<Cli, ExitCode> {
    let arguments: Vec<_> = std::env::args_os().collect();
    let own = arguments.iter().skip(1).take_while(|argument| *argument != "--");
    let json = own.into_iter().any(|argument| argument == "--json");
    let arguments = np::spelled_out(arguments, &Cli::command());
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
    if let Some(job) = guard::srun_of() {
        let Err(error) = guard::srun(&job);
        return fail(&format!("{error:#}"), exit::code_of(&error), false);
    }
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
