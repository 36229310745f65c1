// SPDX-License-Identifier: Apache-2.0
//! `completions` and `man`: other forms of the table in `cli.rs`.

use crate::cli::Cli;
use crate::output::Output;
use anyhow::{Context, Result};
use clap_complete::Shell;
use serde_json::json;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// `fermata completions`
pub fn completions(shell: Shell, output: Output) -> Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::table(), "fermata", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    output.answer(&script, &json!({"shell": shell.to_string(), "script": script}))?;
    Ok(0)
}

/// `fermata man`: fermata.1, fermata-run.1, fermata-mpi-add.1, ...
pub fn man(target: &Path, output: Output) -> Result<u8> {
    fs::create_dir_all(target).with_context(|| format!("cannot make {}", target.display()))?;
    let mut table = Cli::table().disable_help_subcommand(true);
    table.build();
    let mut written = Vec::new();
    write_pages(&table, target, &mut written)?;
    let text = format!("{} pages in {}", written.len(), target.display());
    output.result(text, &json!({"pages": written}));
    Ok(0)
}

fn write_pages(command: &clap::Command, target: &Path, written: &mut Vec<PathBuf>) -> Result<()> {
    // A built command knows its whole name: "fermata-mpi-add" for `fermata mpi add`.
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let page = page(command, &name).context("cannot make a man page")?;
    let path = target.join(format!("{name}.1"));
    fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    written.push(path);
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        write_pages(sub, target, written)?;
    }
    Ok(())
}

fn page(command: &clap::Command, name: &str) -> io::Result<Vec<u8>> {
    let man = clap_mangen::Man::new(command.clone()).title(name.to_uppercase());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    // The text below the help is laid out already: "Example:" and "Exit codes:" begin its parts.
    let below = command.get_after_long_help().or(command.get_after_help());
    for line in below.map(ToString::to_string).unwrap_or_default().lines() {
        match line.strip_suffix(':').filter(|title| !title.starts_with(' ')) {
            Some(title) => writeln!(page, ".SH {}\n.nf", title.to_uppercase())?,
            None => writeln!(page, "{}", line.trim_start().replace('-', "\\-"))?,
        }
    }
    writeln!(page, ".fi")?;
    Ok(page)
}
