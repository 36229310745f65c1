// SPDX-License-Identifier: Apache-2.0
//! `site`: the service that jobs ask when to save, and what it knows.

use crate::exit::{refused, usage};
use crate::output::{Output, human_ms};
use crate::table::{number, table, words};
use anyhow::{Context, Result};
use clap::{Subcommand, ValueHint};
use fermata_advisor::{Place, PlaceError, Server, Settings, status};
use fermata_launch::units::human_bytes;
use fermata_plan::units;
use fermata_sysio::print_error;
use serde_json::Value;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// `fermata site ...`
#[derive(Subcommand)]
pub enum SiteCommand {
    /// Serve jobs until a signal comes; several may, on any hosts, and one of them leads
    #[command(after_help = "\
Example:
  fermata site serve --site ~/site --bandwidth 2GB/s")]
    Serve {
        /// A directory of yours that all hosts share; made if it is missing [default: site in
        /// fermata.toml]
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        site: Option<PathBuf>,
        /// What the file system takes that the jobs save to, e.g. 2GB/s: as measured, not as
        /// promised
        #[arg(long, value_name = "RATE", value_parser = units::parse_bytes)]
        bandwidth: f64,
    },
    /// List the jobs that ask, who has a lease, and when the others are to save
    #[command(after_help = "\
Example:
  fermata site status --site ~/site")]
    Status {
        /// As for serve
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        site: Option<PathBuf>,
    },
}

/// `configured`: where fermata.toml says that the service is.
pub fn perform(command: SiteCommand, configured: Option<PathBuf>, output: Output) -> Result<u8> {
    let place = |given: Option<PathBuf>| {
        let nowhere =
            "no directory is given\n  hint: --site DIR, or site = \"DIR\" in fermata.toml";
        given.or(configured).ok_or_else(|| usage(nowhere))
    };
    match command {
        SiteCommand::Serve { site, bandwidth } => serve(&place(site)?, bandwidth),
        SiteCommand::Status { site } => show(&place(site)?, output),
    }
}

fn serve(site: &std::path::Path, per_s: f64) -> Result<u8> {
    let place = Place::make(site).map_err(|error| told(&error))?;
    let over = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let over = Arc::clone(&over);
        signal_hook::flag::register(signal, over).context("cannot watch signals")?;
    }
    let say = |text: &str| print_error(format_args!("site: {text}"));
    let server = Server::begin(place, Settings { per_s }, say).map_err(|error| told(&error))?;
    server.serve(|| over.load(Ordering::Acquire));
    Ok(0)
}

/// What cannot be used, and what to do.
fn told(error: &PlaceError) -> anyhow::Error {
    let hint = match error {
        PlaceError::NotOurs(_) => {
            "make one of your own, with mode 0700, on a disk that hosts share"
        }
        PlaceError::Absent(_) | PlaceError::NoKey(_) => {
            "fermata site serve --site DIR --bandwidth RATE begins one"
        }
        PlaceError::File(..) => "jobs save by their own plans as long as nobody serves there",
    };
    refused(format!("no service: {error}\n  hint: {hint}"))
}

fn show(site: &std::path::Path, output: Output) -> Result<u8> {
    let figures = status(site).map_err(|error| told(&error))?;
    let figures: Value = serde_json::from_str(&figures).context("the service makes no sense")?;
    let rate = figures["bytes_per_s"].as_f64().unwrap_or_default();
    let host = figures["host"].as_str().unwrap_or("-");
    let jobs = figures["jobs"].as_array().cloned().unwrap_or_default();
    let rows: Vec<[String; 7]> = jobs.iter().map(row).collect();
    let columns = [
        words("JOB"),
        words("HOST"),
        number("NODES"),
        number("SIZE"),
        words("DUE"),
        words("SAVES"),
        number("LEASE"),
    ];
    let head = format!("served by {host}, {}/s\n\n", human_bytes(bytes(rate)));
    let text = match rows.is_empty() {
        true => head + "no job asks",
        false => head + &table(columns, &rows),
    };
    output.answer(text, &figures)?;
    Ok(0)
}

fn row(job: &Value) -> [String; 7] {
    let nothing = || "-".to_owned();
    let text = |key: &str| job[key].as_str().map_or_else(nothing, str::to_owned);
    let size = job["bytes"].as_f64().filter(|bytes| *bytes > 0.0);
    let due = job["due_in_ms"].as_i64().map_or_else(nothing, |ms| match ms {
        0.. => format!("in {}", human_ms(ms.unsigned_abs())),
        _ => format!("{} ago", human_ms(ms.unsigned_abs())),
    });
    let left = job["done_in_ms"].as_u64().map(human_ms);
    let saves = match (left, job["start_in_ms"].as_u64()) {
        (Some(left), _) if job["reads"] == true => format!("reads, {left} left"),
        (Some(left), _) => format!("now, {left} left"),
        (None, Some(ms)) => format!("in {}", human_ms(ms)),
        (None, None) => nothing(),
    };
    [
        text("name"),
        text("host"),
        job["nodes"].as_u64().map_or_else(nothing, |nodes| nodes.to_string()),
        size.map_or_else(nothing, |size| human_bytes(bytes(size))),
        due,
        saves,
        // The lower half counts; the upper one tells replicas apart.
        job["lease"].as_u64().map_or_else(nothing, |lease| (lease & 0xffff_ffff).to_string()),
    ]
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
fn bytes(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_job_is_shown_as_it_waits_and_as_it_saves() {
        let waits = json!({"name": "a", "host": "h", "nodes": 2, "bytes": 2147483648.0,
                           "due_in_ms": -1500, "start_in_ms": 61_000, "lease": null,
                           "done_in_ms": null, "reads": false});
        assert_eq!(row(&waits), ["a", "h", "2", "2.0 GiB", "1.5 s ago", "in 61.0 s", "-"]);
        let saves = json!({"name": "a", "host": "h", "lease": (7u64 << 32) + 3,
                           "done_in_ms": 500, "reads": false});
        assert_eq!(row(&saves), ["a", "h", "-", "-", "-", "now, 500 ms left", "3"]);
    }
}
