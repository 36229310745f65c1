// SPDX-License-Identifier: Apache-2.0
//! Runs of a job, one after the other, until it is done, saved, or nothing helps: the shell around
//! `fermata_policy::recovery`. The job's lock is the caller's for as long.
//!
//! A run that follows another continues from the newest intact snapshot that was committed since
//! the first one began; where there is none it begins as the first did.

use crate::again::fit_levels;
use crate::ended;
use crate::exit::{self, DAMAGED, FAILURE, SAVED};
use crate::gathering;
use crate::hints;
use crate::life::{self, Life};
use crate::onward::go_onward;
use crate::outcome::shown;
use crate::output::Output;
use crate::restart::{How, Point, continue_from};
use crate::run::{self, Ran};
use anyhow::Result;
use fermata_launch::files::Rule;
use fermata_launch::hosts;
use fermata_launch::moved::Moves;
use fermata_launch::start::Start;
use fermata_policy::recovery::{Action, Ending, Event, Recovery, Verdict};
use fermata_policy::spares::{Place, places};
use fermata_storage::{JobDir, list_snapshots};
use fermata_sysio::print_error;
use fermata_types::{Ended, JobRecord};
use std::thread;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(50);

/// What a run begins with.
#[derive(Clone)]
pub enum From {
    /// The program of a job, from its beginning.
    Beginning(JobDir, Box<JobRecord>),
    /// A snapshot.
    Point {
        /// With its job.
        point: Box<Point>,
        /// How it is taken up.
        how: How,
    },
}

impl From {
    fn job(&self) -> JobDir {
        match self {
            Self::Beginning(job, _) => job.clone(),
            Self::Point { point, .. } => point.job.clone(),
        }
    }

    fn begin(self, start: &Start, life: &mut Life) -> Result<Ran> {
        match self {
            Self::Beginning(job, record) => run::begin(&job, start, *record, life),
            Self::Point { point, how } => continue_from(start, *point, how, life),
        }
    }
}

/// Runs the job, again if need be, and says how that has ended. Returns the exit code.
///
/// # Errors
/// A run cannot be begun.
pub fn until_it_ends(start: &Start, first: From, mut life: Life, output: Output) -> Result<u8> {
    let job = first.job().canonical()?;
    life.listen(&job);
    let done = run_to_the_end(&job, start, &first, &mut life, output);
    let ended = done.as_ref().map_or_else(ended::before_ranks, |(_, ended)| ended.clone());
    life.end_listening(&ended);
    done.map(|(code, _)| code)
}

fn run_to_the_end(
    job: &JobDir,
    start: &Start,
    first: &From,
    life: &mut Life,
    output: Output,
) -> Result<(u8, Ended)> {
    let before = newest_epoch(job);
    let mut recovery = Recovery::new(life.options.retries());
    if let Some(signal) = life.told_before() {
        print_error(format_args!(
            "{}: job {} is not run any more",
            life::name(signal),
            hints::name_of(job)
        ));
        go_onward(life);
        return Ok((SAVED, Ended::Saved { epoch: before }));
    }
    let mut start = start.clone();
    let mut ran = first.clone().begin(&start, life)?;
    let verdict = loop {
        let newest = newest_of(job, &ran);
        let newest = Some(newest).filter(|epoch| *epoch > before).unwrap_or(0);
        let ended = Event::Ended { ending: ran.end.ending.clone(), newest_epoch: newest };
        match wait_for_next(&mut recovery, ended, life) {
            Next::Run { retry, without } => {
                let places = places_for(&ran, life, without);
                if !places.is_empty() {
                    (start.hosts, start.hostfile) = (places, None);
                    fit_levels(&mut start);
                }
                gathering::between_runs(job, &start, &ran.record);
                let newest = Some(newest_epoch(job)).filter(|epoch| *epoch > before).unwrap_or(0);
                tell(job, &ran, newest, retry, life.options.retries());
                ran = again(job, &start, before, first, life, output)?;
            }
            Next::Nothing(verdict) => break verdict,
        }
    };
    let code = finish(job, &start, &ran, &verdict, before, life, output);
    // Not what the program itself may mean by that code.
    let is_saved = code == SAVED && verdict == Verdict::StopAsked;
    let saved = Ended::Saved { epoch: newest_of(job, &ran) };
    let ended = if is_saved { saved } else { ran.record.ended };
    Ok((code, ended))
}

/// From the newest snapshot that is intact. `before`: older ones are not of this chain.
fn again(
    job: &JobDir,
    start: &Start,
    before: u32,
    first: &From,
    life: &mut Life,
    output: Output,
) -> Result<Ran> {
    let of_this_chain = list_snapshots(job).into_iter().filter(|info| info.epoch > before);
    for info in of_this_chain.rev() {
        let point = std::fs::canonicalize(&info.path)
            .map_err(anyhow::Error::from)
            .and_then(|path| Point::check(job, None, path, output));
        match point {
            Ok(point) => return continue_from(start, point, in_place(first), life),
            Err(error) if exit::code_of(&error) == DAMAGED => {
                print_error(format_args!("{error:#}"))
            }
            Err(error) => return Err(error),
        }
    }
    first.clone().begin(start, life)
}

/// As the first run has taken up what it began with; nothing has moved since.
fn in_place(first: &From) -> How {
    let (here, files) = match first {
        From::Beginning(..) => (true, Rule::default()),
        From::Point { how, .. } => (how.here, how.files),
    };
    How { here, files, moves: Moves::default() }
}

/// Also of those that only hosts have.
fn newest_of(job: &JobDir, ran: &Ran) -> u32 {
    newest_epoch(job).max(ran.end.newest_epoch)
}

fn newest_epoch(job: &JobDir) -> u32 {
    list_snapshots(job).last().map_or(0, |info| info.epoch)
}

enum Next {
    Run { retry: u32, without: Vec<String> },
    Nothing(Verdict),
}

/// What the policy says of a run's end, once its pause is over.
fn wait_for_next(recovery: &mut Recovery, mut event: Event, life: &mut Life) -> Next {
    loop {
        match recovery.step(event, crate::end_args::unix_now_ms()) {
            Some(Action::Restart { retry, without }) => return Next::Run { retry, without },
            Some(Action::End(verdict)) => return Next::Nothing(verdict),
            Some(Action::Wait { .. }) => {}
            None => thread::sleep(TICK),
        }
        event = if life.is_over() { Event::StopAsked } else { Event::Tick };
    }
}

/// The hosts for the next run, if it cannot be on those of the last one. None: the same.
fn places_for(ran: &Ran, life: &Life, lost: Vec<String>) -> Vec<String> {
    if lost.is_empty() {
        return Vec::new();
    }
    let place = |word: &String| {
        let (host, ranks) = hosts::parse(word).ok()?;
        Some(Place { host, ranks })
    };
    let mut before: Vec<Place> = ran.record.hosts.iter().filter_map(place).collect();
    if before.is_empty() {
        let of_batch = life.batch.as_ref().and_then(|batch| batch.hosts().ok());
        let place = |host| Place { host, ranks: None };
        before = of_batch.unwrap_or_default().into_iter().map(place).collect();
    }
    let lost = lost.into_iter().collect();
    let chosen = places(&before, &life.options.spare, &lost, ran.record.size);
    let word = |place: &Place| match place.ranks {
        Some(ranks) => format!("{}:{ranks}", place.host),
        None => place.host.clone(),
    };
    chosen.iter().map(word).collect()
}

fn tell(job: &JobDir, ran: &Ran, newest: u32, retry: u32, retries: u32) {
    let Ending::Lost(cause) = &ran.end.ending else { return };
    let from = match newest {
        0 => "as it began".to_owned(),
        epoch => format!("from checkpoint {epoch}"),
    };
    print_error(format_args!(
        "job {}: {}; it is begun again {from} (retry {retry} of {retries})",
        hints::name_of(job),
        shown(cause)
    ));
}

/// The last words, and the exit code.
fn finish(
    job: &JobDir,
    start: &Start,
    ran: &Ran,
    verdict: &Verdict,
    before: u32,
    life: &Life,
    output: Output,
) -> u8 {
    let why = match verdict {
        Verdict::AsItEnded | Verdict::NoRetryLeft(0) => None,
        Verdict::NoRetryLeft(retries) => Some(format!("it was begun again {retries} times")),
        Verdict::CrashLoop(cause, times) => Some(format!(
            "it is not begun again: {} {times} times without a snapshot between",
            shown(cause)
        )),
        Verdict::StopAsked => {
            Some("it is not begun again: it was told to end, or its time is over".into())
        }
    };
    ran.end.report(job, start, ran.timeout, why.as_deref());
    // What broke off at the end of the time is saved as far as its newest snapshot.
    let is_saved = *verdict == Verdict::StopAsked && newest_of(job, ran) > before;
    let code = if is_saved { SAVED } else { ran.end.code };
    let code = if ran.is_recorded { code } else { code.max(FAILURE) };
    ran.end.answer(&ran.record, code, output);
    if code == SAVED {
        go_onward(life);
    }
    code
}
