// SPDX-License-Identifier: Apache-2.0
//! Who is there: connections, ranks, their state, and the commands that wait for an answer. What
//! happens during a checkpoint is in `checkpoint.rs`.

use crate::app_request::Asking;
use crate::checkpoint::{Caller, Run};
use crate::registry::Loss;
use crate::texts::{HINT_BEGINNING, HINT_ENDING, with_hint};
use fermata_types::{Answer, Checkpoint, Checkpointer, Hello, Message, Welcome};
use std::collections::{BTreeMap, BTreeSet};

/// A connection, numbered by the shell; never reused.
pub type Conn = u64;

/// How the coordinator behaves.
#[derive(Clone, Debug)]
pub struct Config {
    /// Job name; agents of another job are turned away.
    pub job: String,
    /// The command that continues from the newest snapshot, wherever it is read.
    pub restart: String,
    /// Directory of the job's snapshots, as the ranks see it.
    pub snapshots: String,
    /// Epoch of the images that the job is restored from, 0 if none; numbering continues after it
    /// and after the newest committed one.
    pub last_epoch: u32,
    /// Newest committed epoch, 0 if none.
    pub committed_epoch: u32,
    /// Take a checkpoint this often; 0 = only when asked.
    pub every_ms: u64,
    /// Time to reach a safe state for checkpoints nobody gave a time for.
    pub timeout_ms: u64,
    /// Time for writing the images, after the safe state.
    pub save_timeout_ms: u64,
    /// How long a rank may take to stop its threads when its image is cut.
    pub quiesce_ms: u32,
    /// What saves the ranks.
    pub checkpointer: Checkpointer,
}

/// What the world tells the machine.
#[derive(Debug)]
pub enum Event {
    /// A peer of our own user has connected and sent its first frame.
    Message(Conn, Message),
    /// A connection has ended.
    Closed(Conn),
    /// A host, or the way to it, is lost, and with it these connections.
    HostLost {
        /// Its name.
        host: String,
        /// What the system said.
        why: String,
        /// Nothing is heard of it. Else its daemon alone may be gone, and its ranks run on.
        silent: bool,
        /// The connections of its agents.
        conns: Vec<Conn>,
    },
    /// The job is over: whoever waits for an answer gets it now.
    Over,
    /// The answer to `Action::Prepare`.
    Prepared(u32, Result<(), String>),
    /// The answer to `Action::Commit`: the snapshot's directory, or what went wrong.
    Stored(u32, Result<String, String>),
    /// The answer to `Action::Prune`: the old snapshots that are gone. Said once at the beginning.
    Pruned(Vec<String>),
    /// Time has passed.
    Tick,
}

/// One rank's part in a finished snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageDone {
    /// World rank.
    pub rank: u32,
    /// Size of the image.
    pub bytes: u64,
    /// CRC32C of its header block.
    pub crc: u32,
    /// How long the rank stood still.
    pub pause_ns: u64,
    /// Host the rank runs on.
    pub host: String,
}

/// What has to become durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitPlan {
    /// The checkpoint.
    pub epoch: u32,
    /// World size.
    pub size: u32,
    /// Name of the MPI below, as the agents told.
    pub lower: String,
    /// One per rank, ascending.
    pub images: Vec<ImageDone>,
}

/// What the machine wants done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a frame.
    Send(Conn, Message),
    /// End a connection.
    Close(Conn),
    /// Make the directory for a partial snapshot; answer with `Prepared`.
    Prepare(u32),
    /// Make the snapshot durable and rename it; answer with `Stored`.
    Commit(CommitPlan),
    /// Remove the partial snapshot.
    Discard(u32),
    /// Remove old snapshots; answer with `Pruned`. No checkpoint begins before.
    Prune,
    /// For the log.
    Log(String),
}

/// What is known of one rank, for `status`.
#[derive(Clone, Debug)]
pub struct RankView {
    /// World rank, once known.
    pub rank: Option<u32>,
    /// Process id on its host.
    pub pid: u32,
    /// Host name.
    pub host: String,
    /// One word.
    pub state: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RankState {
    Starting,
    Running,
    Finalizing,
}

#[derive(Debug)]
pub(crate) struct Agent {
    pub rank: Option<u32>,
    pub state: RankState,
    pub hello: Hello,
}

/// The coordinator.
#[derive(Debug)]
pub struct Machine {
    pub(crate) config: Config,
    pub(crate) agents: BTreeMap<Conn, Agent>,
    pub(crate) clients: BTreeSet<Conn>,
    /// World rank -> connection.
    pub(crate) ranks: BTreeMap<u32, Conn>,
    /// World rank -> host, also of ranks that have gone.
    pub(crate) hosts: BTreeMap<u32, String>,
    pub(crate) size: Option<u32>,
    pub(crate) epoch: u32,
    pub(crate) committed: u32,
    pub(crate) run: Option<Run>,
    /// Old snapshots, or what is left of others, are being removed.
    pub(crate) removing: bool,
    pub(crate) asking: Asking,
    pub(crate) stopped: bool,
    /// Ranks that were there and have no line any more.
    pub(crate) gone: BTreeSet<u32>,
    /// Ranks that have come to MPI_Finalize, also of those that have gone.
    pub(crate) ended: BTreeSet<u32>,
    /// Hosts that were lost with ranks.
    pub(crate) losses: Vec<Loss>,
    pub(crate) over: bool,
    next_periodic_ms: Option<u64>,
    /// When ALIVE is to be said next.
    pub(crate) alive_ms: Option<u64>,
    pub(crate) last_outcome: String,
    pub(crate) out: Vec<Action>,
}

impl Machine {
    /// A coordinator nobody has connected to yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            epoch: config.last_epoch.max(config.committed_epoch),
            committed: config.committed_epoch,
            config,
            agents: BTreeMap::new(),
            clients: BTreeSet::new(),
            ranks: BTreeMap::new(),
            hosts: BTreeMap::new(),
            size: None,
            run: None,
            removing: true,
            asking: Asking::default(),
            stopped: false,
            gone: BTreeSet::new(),
            ended: BTreeSet::new(),
            losses: Vec::new(),
            over: false,
            next_periodic_ms: None,
            alive_ms: None,
            last_outcome: String::new(),
            out: Vec::new(),
        }
    }

    /// Takes one event at the time `now_ms` (monotonic) and tells what to do.
    pub fn step(&mut self, event: Event, now_ms: u64) -> Vec<Action> {
        match event {
            Event::Message(conn, message) => self.on_message(conn, message, now_ms),
            Event::Closed(conn) => self.on_closed(conn, now_ms),
            Event::HostLost { host, why, silent, conns } => {
                self.on_host_lost(&host, &why, silent, &conns, now_ms);
            }
            Event::Over => {
                self.over = true;
                let hint = self.hint_for_end();
                self.give_up("the job has ended", &hint, now_ms);
            }
            Event::Prepared(epoch, result) => self.on_prepared(epoch, result, now_ms),
            Event::Stored(epoch, result) => self.on_stored(epoch, result, now_ms),
            Event::Pruned(old) => self.on_pruned(&old),
            Event::Tick => {}
        }
        self.on_time(now_ms);
        std::mem::take(&mut self.out)
    }

    /// Agents connected now.
    #[must_use]
    pub fn agent_count(&self) -> usize {
        self.agents.len()
    }

    /// Whether the job was ended by a checkpoint with `stop`.
    #[must_use]
    pub fn was_stopped(&self) -> bool {
        self.stopped
    }

    /// Newest committed epoch.
    #[must_use]
    pub fn committed_epoch(&self) -> u32 {
        self.committed
    }

    /// All agents, for people.
    #[must_use]
    pub fn rank_views(&self) -> Vec<RankView> {
        self.agents
            .values()
            .map(|agent| RankView {
                rank: agent.rank,
                pid: agent.hello.pid,
                host: agent.hello.host.clone(),
                state: match agent.state {
                    RankState::Starting => "starting",
                    RankState::Running => "running",
                    RankState::Finalizing => "finalizing",
                },
            })
            .collect()
    }

    pub(crate) fn send(&mut self, conn: Conn, message: impl Into<Message>) {
        self.out.push(Action::Send(conn, message.into()));
    }

    pub(crate) fn send_ranks(&mut self, message: impl Into<Message>) {
        let message = message.into();
        for conn in self.ranks.values() {
            self.out.push(Action::Send(*conn, message.clone()));
        }
    }

    pub(crate) fn log(&mut self, text: impl Into<String>) {
        self.out.push(Action::Log(text.into()));
    }

    fn turn_away(&mut self, conn: Conn, why: String) {
        self.log(why);
        self.out.push(Action::Close(conn));
    }

    fn on_message(&mut self, conn: Conn, message: Message, now_ms: u64) {
        let is_agent = self.agents.contains_key(&conn);
        let is_client = self.clients.contains(&conn);
        match message {
            Message::Hello(hello) if !is_agent && !is_client => self.on_hello(conn, hello),
            Message::ClientHello(hello) if !is_agent && !is_client => {
                if hello.job != self.config.job {
                    let why = format!("a command asked for job '{}'", hello.job);
                    return self.turn_away(conn, why);
                }
                self.clients.insert(conn);
            }
            Message::Checkpoint(request) if is_client => {
                self.on_checkpoint(conn, &request, now_ms);
            }
            Message::Status(_) if is_client => {
                let figures = self.status_json();
                let text = self.status_text();
                self.answer(conn, 0, &text, "", figures);
            }
            Message::Ready(ready) if is_agent => self.on_ready(conn, ready.rank, ready.size),
            Message::Rebuilt(ready) if is_agent => self.on_ready(conn, ready.rank, ready.size),
            Message::Finalizing(_) if is_agent => self.on_finalizing(conn, now_ms),
            Message::Bye(_) if is_agent => {}
            other if is_agent => self.on_report(conn, other, now_ms),
            other => {
                let why = format!("{} from a peer that may not say it", other.name());
                self.turn_away(conn, why);
            }
        }
    }

    fn on_hello(&mut self, conn: Conn, hello: Hello) {
        if hello.job != self.config.job {
            return self.turn_away(conn, format!("an agent of job '{}' came", hello.job));
        }
        let agent = Agent { rank: None, state: RankState::Starting, hello };
        self.agents.insert(conn, agent);
        let epoch = self.committed;
        self.send(conn, Welcome { epoch });
    }

    fn on_ready(&mut self, conn: Conn, rank: u32, size: u32) {
        if rank >= size || self.size.is_some_and(|known| known != size) {
            let why = format!("an agent claims to be rank {rank} of {size}, which cannot be");
            return self.turn_away(conn, why);
        }
        if self.ranks.get(&rank).is_some_and(|other| *other != conn) {
            return self.turn_away(conn, format!("a second process claims to be rank {rank}"));
        }
        self.size = Some(size);
        let is_new = self.ranks.insert(rank, conn).is_none();
        self.gone.remove(&rank);
        self.ended.remove(&rank);
        if let Some(agent) = self.agents.get_mut(&conn) {
            agent.rank = Some(rank);
            agent.state = RankState::Running;
            self.hosts.insert(rank, agent.hello.host.clone());
        }
        if is_new && self.ranks.len() == size as usize {
            self.log(format!("all {size} ranks are ready"));
        }
    }

    /// Why no checkpoint can be taken now, if so, and what to do about it.
    pub(crate) fn refusal(&self) -> Option<(String, String)> {
        if self.stopped {
            let hint = format!("it continues with: {}", self.config.restart);
            return Some(("the job is being stopped".into(), hint));
        }
        if let Some(run) = &self.run {
            let (epoch, phase) = (run.epoch, run.phase_name());
            let why = format!("checkpoint {epoch} is already being taken ({phase})");
            return Some((why, "try again when that one has ended".into()));
        }
        let Some(size) = self.size else {
            return Some(("no rank has returned from MPI_Init yet".into(), HINT_BEGINNING.into()));
        };
        if !self.gone.is_empty() {
            return Some(self.refusal_after_ends());
        }
        let missing: BTreeSet<u32> =
            (0..size).filter(|rank| !self.ranks.contains_key(rank)).collect();
        if !missing.is_empty() {
            let why = format!("{} not returned from MPI_Init yet", self.name_ranks(&missing));
            return Some((why, HINT_BEGINNING.into()));
        }
        let ending: BTreeSet<u32> = self
            .agents
            .values()
            .filter(|agent| agent.state == RankState::Finalizing)
            .filter_map(|agent| agent.rank)
            .collect();
        if !ending.is_empty() {
            let why = format!("{} entered MPI_Finalize", self.name_ranks(&ending));
            return Some((why, HINT_ENDING.into()));
        }
        None
    }

    fn on_checkpoint(&mut self, client: Conn, request: &Checkpoint, now_ms: u64) {
        if let Some((why, hint)) = self.refusal() {
            let text = with_hint(&format!("no checkpoint: {why}"), &hint);
            // Another checkpoint under way: a command may wait for its end and ask again.
            let figures = serde_json::json!({"busy": self.run.is_some()});
            return self.answer(client, 2, &text, "", figures);
        }
        let timeout_ms =
            if request.timeout_ms == 0 { self.config.timeout_ms } else { request.timeout_ms };
        self.begin(Caller::Client(client), request.stop != 0, timeout_ms, now_ms);
    }

    fn on_time(&mut self, now_ms: u64) {
        self.run_on_time(now_ms);
        self.asking_on_time(now_ms);
        self.alive_on_time(now_ms);
        if self.config.every_ms == 0 {
            return;
        }
        // The first interval begins when the job can be checkpointed, the next when one has ended.
        if self.refusal().is_some() {
            if self.run.is_some() {
                self.next_periodic_ms = None;
            }
            return;
        }
        let due = *self.next_periodic_ms.get_or_insert(now_ms + self.config.every_ms);
        if now_ms >= due {
            self.next_periodic_ms = None;
            let timeout_ms = self.config.timeout_ms;
            self.begin(Caller::Nobody, false, timeout_ms, now_ms);
        }
    }

    pub(crate) fn answer(
        &mut self,
        client: Conn,
        outcome: u32,
        message: &str,
        snapshot: &str,
        figures: serde_json::Value,
    ) {
        let answer = Answer {
            outcome,
            message: message.into(),
            snapshot: snapshot.into(),
            figures: figures.to_string(),
        };
        self.send(client, answer);
    }

    fn status_text(&self) -> String {
        let ready = self.ranks.len();
        match (&self.run, self.size) {
            (Some(run), _) => format!("checkpoint {}: {}", run.epoch, run.phase_name()),
            (None, None) => format!("{} processes, none has called MPI_Init", self.agents.len()),
            (None, Some(size)) => format!("{ready} of {size} ranks ready"),
        }
    }

    fn status_json(&self) -> serde_json::Value {
        let ranks: Vec<_> = self
            .rank_views()
            .into_iter()
            .map(|view| {
                serde_json::json!({"rank": view.rank, "pid": view.pid, "host": view.host,
                                   "state": view.state})
            })
            .collect();
        serde_json::json!({
            "job": self.config.job, "size": self.size, "ready": self.ranks.len(),
            "committed_epoch": self.committed, "stopped": self.stopped,
            "phase": self.run.as_ref().map_or("none", Run::phase_name),
            "refusal": self.refusal().map(|(why, _)| why), "last": self.last_outcome,
            "ranks": ranks,
        })
    }
}
