// SPDX-License-Identifier: Apache-2.0
//! The machine against scripted ranks. Rank r speaks on connection r, the command on connection
//! 100.

use crate::{Action, Config, DiskError, Event, Figures, Machine, Reply};
use fermata_plan::pace::{Every, Pace};
use fermata_types::{
    Alive, Answer, Ask, Asked, Checkpoint, Checkpointer, ClientHello, Clocks, Drained, Expected,
    Failed, Finalizing, Held, Hello, Message, Parked, Raise, Ready, Request, Saved, Saving, Sent,
    Signalled, Targets, Waits,
};

const CLIENT: u64 = 100;

struct World {
    machine: Machine,
    now: u64,
    log: Vec<Action>,
    /// Whether old snapshots go, and directories are made, at once.
    prunes: bool,
    prepares: bool,
}

/// Of a job whose earlier runs have left nothing.
fn begin(config: Config) -> Machine {
    let mut machine = Machine::new(config);
    assert!(machine.step(Event::Pruned(Vec::new()), 0).is_empty());
    machine
}

impl World {
    fn new(size: u32) -> Self {
        Self::with(size, Checkpointer::Native)
    }

    fn with(size: u32, checkpointer: Checkpointer) -> Self {
        let config = Config {
            job: "j".into(),
            restart: "fermata restart j".into(),
            snapshots: "/s".into(),
            last_epoch: 0,
            committed_epoch: 0,
            every: Every::Never,
            site: None,
            timeout_ms: 60_000,
            save_timeout_ms: 600_000,
            quiesce_ms: 1000,
            checkpointer,
        };
        let machine = begin(config);
        let mut world = Self { machine, now: 0, log: Vec::new(), prunes: true, prepares: true };
        for rank in 0..size {
            // Two ranks on each host.
            let host = format!("h{}", rank / 2);
            let hello = Hello { job: "j".into(), host, ..Hello::default() };
            world.say(rank.into(), hello);
            world.say(rank.into(), Ready { rank, size });
        }
        let hello = ClientHello { job: "j".into() };
        world.say(CLIENT, hello);
        world.now += 2000; // The ALIVE of the beginning.
        world.event(Event::Tick);
        world.log.clear();
        world
    }

    fn event(&mut self, event: Event) {
        let actions = self.machine.step(event, self.now);
        let is_stored = actions.contains(&Action::Prune);
        let prepared = actions.iter().find_map(|action| match action {
            Action::Prepare(epoch) => Some(*epoch),
            _ => None,
        });
        self.log.extend(actions);
        if let (Some(epoch), true) = (prepared, self.prepares) {
            self.event(Event::Prepared(epoch, Ok(())));
        }
        if is_stored && self.prunes {
            self.event(Event::Pruned(Vec::new()));
        }
    }

    fn say(&mut self, conn: u64, message: impl Into<Message>) {
        self.event(Event::Message(conn, message.into()));
    }

    fn ask(&mut self, stop: bool) {
        let timeout_ms = 10_000;
        self.say(CLIENT, Checkpoint { stop: stop.into(), timeout_ms });
    }

    fn sent_to(&self, to: u64) -> Vec<&Message> {
        self.log
            .iter()
            .filter_map(|action| match action {
                Action::Send(conn, message) if *conn == to => Some(message),
                _ => None,
            })
            .collect()
    }

    fn names_to(&self, to: u64) -> Vec<&'static str> {
        self.log
            .iter()
            .filter_map(|action| match action {
                Action::Send(conn, message) if *conn == to => Some(message.name()),
                Action::Answer(conn, _) if *conn == to => Some("ANSWER"),
                _ => None,
            })
            .collect()
    }

    fn targets(&self, rank: u64) -> Targets {
        self.sent_to(rank)
            .iter()
            .rev()
            .find_map(|m| match m {
                Message::Targets(t) => Some(t.clone()),
                _ => None,
            })
            .expect("TARGETS were sent")
    }

    fn reply(&self) -> &Reply {
        self.log
            .iter()
            .rev()
            .find_map(|action| match action {
                Action::Answer(CLIENT, reply) => Some(reply),
                _ => None,
            })
            .expect("the command was answered")
    }

    /// As the command hears it; the shell adds the figures.
    fn answer(&self) -> Answer {
        let Reply { outcome, message, snapshot, .. } = self.reply().clone();
        Answer { outcome: outcome.number(), message, snapshot, ..Answer::default() }
    }

    fn clocks(&mut self, epoch: u32, lists: &[&[(u64, u64)]]) {
        for (conn, list) in lists.iter().enumerate() {
            let list = list.to_vec();
            self.say(conn as u64, Clocks { epoch, list });
        }
    }

    fn park_all(&mut self, epoch: u32, size: u64) {
        for conn in 0..size {
            let Targets { version, list, .. } = self.targets(conn);
            self.say(conn, Parked { epoch, version, list });
        }
    }

    fn save_all(&mut self, epoch: u32, size: u64) {
        for conn in 0..size {
            self.say(conn, Sent { epoch, list: vec![] });
        }
        for conn in 0..size {
            self.say(conn, Drained { epoch, ..Drained::default() });
        }
        for conn in 0..size {
            let bytes = 4096;
            self.say(conn, Saved { epoch, bytes, ..Saved::default() });
        }
    }
}

#[test]
fn a_checkpoint_goes_through_all_phases_and_commits() {
    let mut w = World::new(2);
    w.ask(true);
    w.clocks(1, &[&[(1, 5), (7, 2)], &[(1, 6)]]);
    assert_eq!(w.targets(0).list, vec![(1, 6), (7, 2)]);
    w.park_all(1, 2);
    w.say(0, Sent { epoch: 1, list: vec![(1, 3)] });
    w.say(1, Sent { epoch: 1, list: vec![(0, 4), (1, 1)] });
    let expected = |list| Message::from(Expected { epoch: 1, list });
    assert!(w.sent_to(0).contains(&&expected(vec![(1, 4)])));
    assert!(w.sent_to(1).contains(&&expected(vec![(0, 3), (1, 1)])));
    for conn in 0..2 {
        w.say(conn, Drained { epoch: 1, kept: 1, kept_bytes: 8 });
    }
    for conn in 0..2 {
        assert!(!w.names_to(0).contains(&"RESUME"), "rank 1 still has to cut its image");
        w.say(conn, Saving { epoch: 1 });
    }
    for conn in 0..2 {
        assert!(!w.log.iter().any(|a| matches!(a, Action::Commit(_))));
        w.say(conn, Saved { epoch: 1, bytes: 4096, ..Saved::default() });
    }
    assert!(w.log.iter().any(|a| matches!(a, Action::Commit(plan) if plan.images.len() == 2)));
    assert!(!w.names_to(0).contains(&"COMMITTED"), "nothing is committed before it is stored");
    w.event(Event::Stored(1, Ok("/s/1".into())));
    assert_eq!(w.answer().outcome, 0);
    assert_eq!(w.answer().snapshot, "/s/1");
    assert_eq!(
        w.names_to(1),
        ["REQUEST", "TARGETS", "DRAIN", "EXPECTED", "SAVE", "RESUME", "COMMITTED", "EXIT"]
    );
}

#[test]
fn a_raise_voids_what_was_parked_before() {
    let mut w = World::new(2);
    w.ask(false);
    w.clocks(1, &[&[(1, 5)], &[(1, 5)]]);
    let first = w.targets(0);
    w.say(0, Parked { epoch: 1, version: first.version, list: vec![(1, 5)] });
    w.say(1, Raise { epoch: 1, comm_id: 1, seq: 6 });
    let second = w.targets(0);
    assert!(second.version > first.version);
    assert_eq!(second.list, vec![(1, 6)]);
    assert_eq!(w.targets(1).version, first.version, "nothing has changed for who raised it");
    w.say(1, Parked { epoch: 1, version: first.version, list: vec![(1, 6)] });
    // Rank 0's word crossed the new targets on the wire: it must not count.
    w.say(0, Parked { epoch: 1, version: first.version, list: vec![(1, 5)] });
    assert!(!w.names_to(0).contains(&"DRAIN"));
    w.say(0, Parked { epoch: 1, version: second.version, list: vec![(1, 6)] });
    assert!(w.names_to(0).contains(&"DRAIN"));
}

/// The hole of the published rule, as the coordinator sees it: rank 1 waits in a collective call
/// for rank 0, which waits for a message of rank 2, which has parked.
#[test]
fn a_need_makes_a_parked_rank_run_on_until_it_is_met_or_taken_back() {
    let mut w = World::new(3);
    w.ask(false);
    w.clocks(1, &[&[(1, 0)], &[(1, 1)], &[]]);
    let parked = |version| Parked { epoch: 1, version, list: vec![] };
    let first = w.targets(2);
    w.say(2, parked(first.version));
    w.say(0, Waits { epoch: 1, own: 1, list: vec![(1 << 32 | 2, 7)] });
    let second = w.targets(2);
    assert!(second.version > first.version);
    assert_eq!(second.obligations, vec![(1 << 32, 7)], "rank 0 waits for the seventh message");
    w.say(0, Waits { epoch: 1, own: 0, list: vec![] });
    let third = w.targets(2);
    assert!(third.version > second.version && third.obligations.is_empty());
    for conn in [0, 1] {
        let version = w.targets(conn).version;
        w.say(conn, Parked { epoch: 1, version, list: vec![(1, 1)] });
    }
    w.say(2, parked(second.version));
    assert!(!w.names_to(0).contains(&"DRAIN"));
    w.say(2, parked(third.version));
    assert!(w.names_to(0).contains(&"DRAIN"));
}

#[test]
fn parking_beyond_a_target_raises_it() {
    let mut w = World::new(2);
    w.ask(false);
    w.clocks(1, &[&[(1, 5)], &[(1, 5), (9, 0)]]);
    let version = w.targets(0).version;
    w.say(0, Parked { epoch: 1, version, list: vec![(1, 5), (9, 1)] });
    assert_eq!(w.targets(1).list, vec![(1, 5), (9, 1)]);
    assert!(w.targets(1).version > version);
}

#[test]
fn versions_grow_from_one_epoch_to_the_next() {
    let mut w = World::new(1);
    w.ask(false);
    w.clocks(1, &[&[(1, 5)]]);
    let first = w.targets(0).version;
    w.say(0, Failed { epoch: 1, message: "no".into() });
    w.ask(false);
    w.clocks(2, &[&[(1, 5)]]);
    assert!(w.targets(0).version > first);
}

#[test]
fn a_failure_aborts_everywhere_and_names_the_rank() {
    let mut w = World::new(3);
    w.ask(false);
    w.clocks(1, &[&[], &[], &[]]);
    w.say(2, Failed { epoch: 1, message: "a socket is open".into() });
    for conn in 0..3 {
        assert!(w.names_to(conn).contains(&"ABORT"));
    }
    assert!(w.log.contains(&Action::Discard(1)));
    assert_eq!(w.answer().outcome, 1);
    assert!(w.answer().message.contains("rank 2 on host h1: a socket is open"));
    assert!(w.answer().message.contains("parking"));
    w.ask(false);
    assert!(w.names_to(0).iter().filter(|name| **name == "REQUEST").count() == 2);
}

/// One of them may not have heard it the first time (decision 0045).
#[test]
fn ranks_that_drain_hear_again_what_they_are_to_receive_before_it_is_given_up() {
    let mut w = World::new(2);
    w.ask(false);
    w.clocks(1, &[&[], &[]]);
    w.park_all(1, 2);
    w.say(0, Sent { epoch: 1, list: vec![(1, 3)] });
    w.say(1, Sent { epoch: 1, list: vec![] });
    w.say(0, Failed { epoch: 1, message: "it cannot be".into() });
    for (conn, list) in [(0, vec![]), (1, vec![(0, 3)])] {
        let names = w.names_to(conn);
        assert_eq!(names[names.len() - 3..], ["EXPECTED", "EXPECTED", "ABORT"]);
        let expected = Message::from(Expected { epoch: 1, list });
        assert_eq!(w.sent_to(conn).iter().filter(|said| ***said == expected).count(), 2);
    }
}

#[test]
fn a_failed_save_or_commit_keeps_the_previous_snapshot() {
    for stored in [false, true] {
        let mut w = World::new(2);
        w.ask(true);
        w.clocks(1, &[&[], &[]]);
        w.park_all(1, 2);
        if stored {
            w.save_all(1, 2);
            w.event(Event::Stored(1, Err(DiskError::Storage("disk full".into()))));
        } else {
            w.event(Event::Message(0, Sent { epoch: 1, list: vec![] }.into()));
            w.event(Event::Message(1, Sent { epoch: 1, list: vec![] }.into()));
            w.event(Event::Message(0, Drained { epoch: 1, ..Drained::default() }.into()));
            w.event(Event::Message(1, Drained { epoch: 1, ..Drained::default() }.into()));
            let message = "no space left".into();
            w.say(1, Saved { epoch: 1, error: 28, message, ..Saved::default() });
        }
        assert_eq!(w.answer().outcome, 1);
        assert_eq!(w.machine.committed_epoch(), 0);
        assert!(!w.names_to(0).contains(&"EXIT"), "a failed checkpoint must not stop the job");
        assert!(w.names_to(0).contains(&"ABORT"));
    }
}

#[test]
fn a_lost_rank_aborts_and_later_requests_are_refused() {
    let mut w = World::new(2);
    w.ask(false);
    w.event(Event::Closed(1));
    assert!(w.answer().message.contains("rank 1 has left the job"));
    w.ask(false);
    assert_eq!(w.answer().outcome, 2);
    assert!(w.answer().message.contains("rank 1 has left the job"));
}

#[test]
fn what_cannot_be_checkpointed_is_refused_by_name() {
    let mut w = World::new(2);
    w.ask(false);
    w.ask(false);
    assert_eq!(w.answer().outcome, 2);
    assert!(w.answer().message.contains("already being taken"));
    let busy = Figures::Refused { busy: true };
    assert_eq!(w.reply().figures, busy, "the command may wait for that one");

    let mut w = World::new(2);
    w.say(1, Finalizing {});
    w.ask(false);
    assert!(w.answer().message.contains("rank 1 has entered MPI_Finalize"));

    let mut w = World::new(1);
    w.event(Event::Closed(0));
    w.say(0, Hello { job: "j".into(), ..Hello::default() });
    w.say(0, Ready { rank: 0, size: 3 });
    w.log.clear();
    w.ask(false);
    assert_eq!(w.answer().outcome, 2);
}

#[test]
fn ranks_that_are_missing_are_named() {
    let mut w = World::new(0);
    w.ask(false);
    assert!(w.answer().message.contains("no rank has returned from MPI_Init"));
    w.say(0, Hello { job: "j".into(), ..Hello::default() });
    w.say(0, Ready { rank: 1, size: 3 });
    w.ask(false);
    assert!(w.answer().message.contains("ranks 0, 2 have not returned"));
}

#[test]
fn a_stuck_attempt_is_given_up_and_tried_again_until_the_deadline() {
    let mut w = World::new(2);
    w.ask(false);
    w.clocks(1, &[&[(1, 1)], &[]]);
    w.park_all(1, 1);
    for _ in 0..100 {
        w.now += 50;
        w.event(Event::Tick);
    }
    let names = w.names_to(1);
    assert!(names.iter().filter(|name| **name == "REQUEST").count() >= 2, "{names:?}");
    // A word of the first attempt means nothing to the second.
    w.say(1, Clocks { epoch: 1, list: vec![(1, 99)] });
    for _ in 0..200 {
        w.now += 50;
        w.event(Event::Tick);
    }
    assert_eq!(w.answer().outcome, 1);
    assert!(w.answer().message.contains("in time"), "{}", w.answer().message);
    let names = w.names_to(1);
    assert_eq!(names.iter().rfind(|name| **name != "ALIVE"), Some(&"ABORT"));
}

#[test]
fn agents_of_another_job_and_false_ranks_are_turned_away() {
    let mut w = World::new(2);
    w.say(9, Hello { job: "other".into(), ..Hello::default() });
    assert!(w.log.contains(&Action::Close(9)));
    w.say(8, Hello { job: "j".into(), ..Hello::default() });
    w.say(8, Ready { rank: 1, size: 2 });
    assert!(w.log.contains(&Action::Close(8)));
}

#[test]
fn an_interval_takes_checkpoints_by_itself() {
    let mut w = World::new(1);
    w.machine.pace = Pace::new(Every::Fixed(1000), None);
    w.machine.is_able = false; // as this pace knows
    for _ in 0..30 {
        w.now += 100;
        w.event(Event::Tick);
    }
    assert_eq!(w.names_to(0), ["REQUEST"]);
}

#[test]
fn late_ranks_are_named_with_their_hosts() {
    let mut world = World::new(4);
    world.ask(false);
    world.say(0, Clocks { epoch: 1, list: vec![] });
    world.say(2, Clocks { epoch: 1, list: vec![] });
    world.now += 10_001;
    world.event(Event::Tick);
    let text = world.answer().message;
    assert!(text.contains("rank 1 on host h0, rank 3 on host h1 have not done so"), "{text}");
}

#[test]
fn the_end_of_the_job_answers_who_waits() {
    let mut world = World::new(2);
    world.ask(false);
    world.event(Event::Over);
    let text = world.answer().message;
    assert!(text.contains("the job has ended") && !text.contains("runs on"), "{text}");
}

#[test]
fn a_rank_that_its_program_holds_back_is_named_with_what_it_says() {
    let mut world = World::new(2);
    world.ask(false);
    world.clocks(1, &[&[], &[]]);
    let message = "is in a critical section (io)".into();
    world.say(1, Held { epoch: 1, message });
    world.now += 10_001;
    world.event(Event::Tick);
    let text = world.answer().message;
    assert!(text.contains("parking: rank 1 is in a critical section (io); the job"), "{text}");
}

#[path = "advised_tests.rs"]
mod advised;
#[path = "heartbeat_tests.rs"]
mod alive;
#[path = "app_request_tests.rs"]
mod asking;
#[path = "registry_tests.rs"]
mod ends;
#[path = "history_tests.rs"]
mod history;
#[path = "planned_tests.rs"]
mod planned;
#[path = "signalled_tests.rs"]
mod signalled;
#[path = "storing_tests.rs"]
mod storing;
#[path = "trying_tests.rs"]
mod trying;
