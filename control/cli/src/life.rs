// SPDX-License-Identifier: Apache-2.0
//! What runs of a job hear of their end, and what they do: the shell around `fermata_policy`. It
//! brings signals, the clock, the batch system's word and the costs of checkpoints to the machines,
//! and takes the checkpoint that they ask for.
//!
//! Whoever waits for an mpirun calls `attend` again and again. Nothing here waits: the batch system
//! and the coordinator are asked by threads.

use crate::end_args::{EndArgs, unix_now_ms};
use crate::exit::usage;
use crate::hooks::{Hooks, Listening};
use crate::output::human_age;
use crate::taking;
use anyhow::{Context, Result};
use fermata_coordinator::{Client, Handle, Outcome};
use fermata_launch::batch::{Batch, OF_THE_JOB};
use fermata_policy::limit::{self, Advice, Limit, Settings};
use fermata_policy::signals::{self, SaveOn, Stopping, Why};
use fermata_storage::JobDir;
use fermata_sysio::print_error;
use fermata_sysio::signals::ignored_of;
use fermata_types::{Ended, JobEvent};
use signal_hook::consts::{SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use signal_hook::low_level::signal_name;
use std::io::{self, IsTerminal};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;

/// So often the batch system is asked for the end, in milliseconds: it has other jobs to mind. A
/// grace that is shorter than this is met by signals alone.
const ASK_EVERY_MS: u64 = 30_000;
/// To reach a safe state, before a limit no more than half of what is left.
const SAFE_STATE_MS: u64 = 60_000;
const SAFE_STATE_MIN_MS: u64 = 10_000;
const NO_SIGNALS: &str = "cannot watch signals";

/// The end of runs.
pub struct Life {
    /// What the command line says.
    pub options: EndArgs,
    /// The batch system's job that this is, if it is one.
    pub batch: Option<Batch>,
    save_on: SaveOn,
    signals: Signals,
    stopping: Stopping,
    limit: Limit,
    until_ms: Option<u64>,
    batch_end_ms: Option<u64>,
    question: Question,
    /// The newest checkpoint whose cost is known.
    seen_epoch: u32,
    saving: Option<Receiver<Result<(), String>>>,
    /// Why the last attempt failed: said once.
    told: String,
    /// It has been said that this run is saved and stopped.
    has_said: bool,
    hooks: Hooks,
    listening: Option<Listening>,
    /// Of those of the job, when this command began.
    ignored: Vec<i32>,
}

/// A question to the batch system.
enum Question {
    /// Asked next at this time.
    At(u64),
    Asked(Receiver<Result<Option<u64>>>),
}

impl Life {
    /// Of a command that begins. From here on signals that save wait for `attend`.
    ///
    /// # Errors
    /// `--requeue` where nobody can queue anything; signals cannot be watched.
    pub fn new(options: EndArgs, hooks: Hooks) -> Result<Self> {
        let now = unix_now_ms();
        let ignored = ignored_of(&OF_THE_JOB);
        let batch = Batch::detect();
        if options.requeues() {
            batch.as_ref().map_or_else(|| Err(no_batch()), Batch::check_requeue)?;
        }
        let of_batch = || SaveOn::of_batch_systems(io::stdin().is_terminal());
        let by_default = batch.as_ref().map(|_| of_batch()).unwrap_or_default();
        let save_on = options.save_on.clone().unwrap_or(by_default);
        Ok(Self {
            until_ms: options.until.map(|until| until.unix_ms(now)),
            batch_end_ms: batch.as_ref().and_then(|batch| Some(batch.told_end? * 1000)),
            signals: Signals::new(save_on.numbers()).context(NO_SIGNALS)?,
            stopping: Stopping::new(save_on.clone()),
            limit: Limit::new(Settings::default(), now),
            question: Question::At(now),
            seen_epoch: 0,
            saving: None,
            told: String::new(),
            has_said: false,
            hooks,
            listening: None,
            options,
            batch,
            save_on,
            ignored,
        })
    }

    /// The signals that were ignored when this command began, under nohup say. Its children are to
    /// ignore them as well, though it watches them itself.
    pub fn ignored(&self) -> Vec<i32> {
        self.ignored.clone()
    }

    /// Whether a death is followed by another run.
    pub fn begins_again(&self) -> bool {
        self.options.retries() > 0
    }

    /// The signals that save and stop.
    pub fn save_on(&self) -> &SaveOn {
        &self.save_on
    }

    /// The job's first run is about to begin: from here on others hear of it.
    pub fn listen(&mut self, job: &JobDir) {
        let runs_before = job.read_record().map_or(0, |before| before.run_number);
        self.listening = Listening::begin(&self.hooks, job, runs_before);
    }

    /// Where events of the job are told, if anybody listens.
    pub fn listener(&self) -> Option<Sender<JobEvent>> {
        self.listening.as_ref().map(Listening::events)
    }

    /// The job's last run has ended, so. Waits until all is told, within limits.
    pub fn end_listening(&mut self, ended: &Ended) {
        let is_pressed = self.why().is_some();
        if let Some(listening) = self.listening.take() {
            listening.end(ended, is_pressed);
        }
    }

    /// A run begins, from a snapshot of so many bytes if from any. From here on all signals wait
    /// for `attend`.
    ///
    /// # Errors
    /// They cannot be watched.
    pub fn begin_run(&mut self, bytes: Option<u64>) -> Result<()> {
        for signal in OF_THE_JOB {
            self.signals.add_signal(signal).context(NO_SIGNALS)?;
        }
        self.stopping = Stopping::new(self.save_on.clone());
        (self.saving, self.seen_epoch, self.has_said) = (None, 0, false);
        if let Some(bytes) = bytes {
            self.limit.step(limit::Event::Bytes(bytes), unix_now_ms());
        }
        Ok(())
    }

    /// Looks at all that may have happened. Returns the signals that are the job's.
    pub fn attend(&mut self, job: &str, coordinator: &Handle) -> Vec<i32> {
        let now = unix_now_ms();
        self.note_cost(coordinator, now);
        let mut events = self.heard(coordinator);
        events.extend(self.saved());
        if self.is_time(now) {
            events.push(signals::Event::Limit);
        }
        events.push(signals::Event::Tick);
        let mut passed = Vec::new();
        for event in events {
            match self.stopping.step(event, now) {
                Some(signals::Action::Save(why)) => self.save(why, job, coordinator, now),
                Some(signals::Action::Pass(signal)) => passed.push(signal),
                None => {}
            }
        }
        passed
    }

    /// Why the run is to be saved and stopped, or was.
    pub fn why(&self) -> Option<Why> {
        self.stopping.why()
    }

    /// Before the first run: the signal that asks for the end, if one has come.
    pub fn told_before(&mut self) -> Option<i32> {
        self.signals.pending().find(|signal| self.save_on.has(*signal))
    }

    /// While nothing runs: whether nothing is to be begun any more, because a signal has come, also
    /// to the run that has ended, or not enough time is left.
    pub fn is_over(&mut self) -> bool {
        let has_come = self
            .signals
            .pending()
            .any(|signal| self.save_on.has(signal) || signal != SIGUSR1 && signal != SIGUSR2);
        has_come || self.why().is_some() || self.is_time(unix_now_ms())
    }

    /// A loss comes last: what a rank was told before counts only if there is none.
    fn heard(&mut self, coordinator: &Handle) -> Vec<signals::Event> {
        let mut heard: Vec<_> = self.signals.pending().map(signals::Event::Signal).collect();
        heard.extend(signals_of_ranks(coordinator).map(signals::Event::OfRank));
        heard.extend(coordinator.has_lost_rank().then_some(signals::Event::RankLost));
        heard
    }

    fn note_cost(&mut self, coordinator: &Handle, now: u64) {
        let committed = coordinator.committed();
        let Some(cost_ms) = committed.cost_ms.filter(|_| committed.epoch != self.seen_epoch) else {
            return;
        };
        self.seen_epoch = committed.epoch;
        self.limit.step(limit::Event::Committed { cost_ms }, now);
    }

    /// Whether it is time to save before the end.
    fn is_time(&mut self, now: u64) -> bool {
        self.ask_for_end(now);
        let ends = [self.until_ms, self.batch_end_ms];
        let end = limit::Event::End(ends.into_iter().flatten().min());
        matches!(self.limit.step(end, now), Advice::Save | Advice::Late)
    }

    fn ask_for_end(&mut self, now: u64) {
        let Some(batch) = &self.batch else { return };
        match &self.question {
            Question::At(at) if now >= *at => {
                let (sender, receiver) = channel();
                let batch = batch.clone();
                thread::spawn(move || {
                    let _ = sender.send(batch.ask_end(now / 1000)); // whoever has asked may be gone
                });
                self.question = Question::Asked(receiver);
            }
            Question::At(_) => {}
            Question::Asked(answer) => match answer.try_recv() {
                Err(TryRecvError::Empty) => {}
                answer => {
                    self.question = Question::At(now + ASK_EVERY_MS);
                    self.note_end(answer.unwrap_or(Ok(None)));
                }
            },
        }
    }

    /// An answer that does not come leaves what is known.
    fn note_end(&mut self, answer: Result<Option<u64>>) {
        match answer {
            Ok(end) => self.batch_end_ms = end.map(|end_s| end_s.saturating_mul(1000)),
            Err(error) if self.batch_end_ms.is_none() && self.until_ms.is_none() => {
                self.tell(format!(
                    "the end of the allocation is not known: {error:#}\n  \
                     hint: --until tells it; signals save the job all the same"
                ));
            }
            Err(_) => {}
        }
    }

    fn save(&mut self, why: Why, job: &str, coordinator: &Handle, now: u64) {
        let ends = [self.until_ms, self.batch_end_ms].into_iter().flatten().min();
        let left_ms = ends.map_or(u64::MAX, |end| end.saturating_sub(now));
        if !std::mem::replace(&mut self.has_said, true) {
            print_error(match why {
                Why::Signal(signal) => format!("{}: the job is saved and stopped", name(signal)),
                Why::Limit => format!(
                    "{} until the end of its time: the job is saved and stopped",
                    human_age(left_ms / 1000)
                ),
            });
        }
        let timeout_ms = match why {
            Why::Signal(_) => SAFE_STATE_MS,
            Why::Limit => (left_ms / 2).clamp(SAFE_STATE_MIN_MS, SAFE_STATE_MS),
        };
        let (socket, job) = (coordinator.socket().to_owned(), job.to_owned());
        let (sender, receiver) = channel();
        thread::spawn(move || {
            let _ = sender.send(save_and_stop(&socket, &job, timeout_ms)); // the run may be over
        });
        self.saving = Some(receiver);
    }

    /// What has become of the attempt under way.
    fn saved(&mut self) -> Option<signals::Event> {
        let result = match self.saving.as_ref()?.try_recv() {
            Ok(result) => result,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err("the attempt broke off".to_owned()),
        };
        self.saving = None;
        let Err(why) = result else { return Some(signals::Event::Committed) };
        self.tell(format!("the job is not saved yet, and runs on: {why}"));
        Some(signals::Event::Failed)
    }

    fn tell(&mut self, text: String) {
        if text != self.told {
            print_error(&text);
            self.told = text;
        }
    }
}

fn no_batch() -> anyhow::Error {
    usage("--requeue: this is no job of a batch system\n  hint: --chain 'COMMAND-LINE'")
}

/// Signals that have come to ranks, or to helpers of mpirun on other hosts.
fn signals_of_ranks(coordinator: &Handle) -> impl Iterator<Item = i32> {
    coordinator.take_signals().into_iter().filter_map(|signal| i32::try_from(signal).ok())
}

/// What `fermata checkpoint --stop` does.
fn save_and_stop(socket: &str, job: &str, timeout_ms: u64) -> Result<(), String> {
    let mut client = Client::connect(socket, job).map_err(|error| error.to_string())?;
    match taking::checkpoint(&mut client, true, timeout_ms, |_| {}) {
        Ok((Outcome::Ok, ..)) => Ok(()),
        Ok((_, answer, _)) => Err(answer.message),
        Err(error) => Err(error.to_string()),
    }
}

/// A signal, for people.
pub fn name(signal: i32) -> String {
    signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned)
}

/// Why a run was stopped, for people.
pub fn reason(why: Why) -> String {
    match why {
        Why::Signal(signal) => format!("by {}", name(signal)),
        Why::Limit => "before the end of its time".into(),
    }
}
