// SPDX-License-Identifier: Apache-2.0
//! `mpi list | add | remove`: which MPIs a job can run on.

use crate::cli::MpiCommand;
use crate::exit::refused;
use crate::output::{Output, Progress};
use anyhow::{Context, Result};
use fermata_launch::back_end::{self, Added};
use fermata_launch::names::check_name;
use fermata_launch::registry::Prefix;
use fermata_sysio::print_error;
use serde_json::json;
use std::fs;

/// `fermata mpi ...`
pub fn perform(command: MpiCommand, output: Output) -> Result<u8> {
    match command {
        MpiCommand::List => list(output),
        MpiCommand::Add { what, name } => add(&what, name.as_deref(), output),
        MpiCommand::Remove { name } => remove(&name, output),
    }
}

/// `fermata mpi list`
fn list(output: Output) -> Result<u8> {
    let prefix = Prefix::find()?;
    let lowers = prefix.lowers();
    let mut text = String::new();
    for lower in &lowers {
        text += &format!("{:<12} {:<40} {}\n", lower.name, lower.version, lower.mpirun[0]);
    }
    if text.is_empty() {
        text = "no MPI is registered\n  hint: fermata mpi add mpicc".into();
    }
    output.answer(text, &json!(lowers))?;
    Ok(0)
}

/// `fermata mpi remove`
fn remove(name: &str, output: Output) -> Result<u8> {
    check_name(name)?;
    let prefix = Prefix::find()?;
    let record = prefix.lower_record(name);
    if !record.exists() {
        return Err(refused(format!("no MPI '{name}' is registered")));
    }
    // The record first: without it nobody uses the program.
    fs::remove_file(&record).with_context(|| format!("cannot remove {}", record.display()))?;
    let _ = fs::remove_file(prefix.lower_program(name));
    output.result(format!("removed {name}"), &json!({"removed": name}));
    Ok(0)
}

/// `fermata mpi add`
fn add(what: &str, name: Option<&str>, output: Output) -> Result<u8> {
    let prefix = Prefix::find()?;
    let mpicc = back_end::find_mpicc(what)?;
    let name = name.map_or_else(|| back_end::default_name(&mpicc), str::to_owned);
    check_name(&name)?;
    let mut progress = Progress::new(output, &format!("building the back end {name}"), 0);
    let added = back_end::register(&prefix, &mpicc, &name, &mut |text| progress.say(text));
    drop(progress);
    let Added { lower, unusable } = added?;
    if let Some(why) = unusable {
        print_error(format_args!("note: some plug-ins cannot be used:\n{why}"));
    }
    output.result(format!("added {name}: {}", lower.version), &json!(lower));
    Ok(0)
}
