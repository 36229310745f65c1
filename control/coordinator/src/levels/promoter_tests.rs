// SPDX-License-Identifier: Apache-2.0
//! The machine with hosts that answer as they are told to.

use super::*;
use fermata_types::{Checkpointer, ImageRecord, MANIFEST_FORMAT, StoreHolds};

const HOSTS: u32 = 3;

fn name(host: u32) -> String {
    format!("n{host}")
}

fn manifest(epoch: u32) -> Manifest {
    let image = |rank: u32| ImageRecord {
        rank,
        file: format!("rank-{rank}.img"),
        bytes: 10,
        header_crc: 1,
        mac: String::new(),
        pause_ns: 0,
        host: name(rank),
    };
    Manifest {
        format: MANIFEST_FORMAT,
        job: "j".into(),
        epoch,
        size: HOSTS,
        created_unix_s: 0,
        lower: String::new(),
        front: String::new(),
        argv: vec!["/job/app".into(), "-x".into()],
        programs: vec![],
        cwd: "/job".into(),
        checkpointer: Checkpointer::Native,
        images: (0..HOSTS).map(image).collect(),
        files: vec![],
        fermata: String::new(),
    }
}

struct Run {
    machine: Promoter,
    /// What hosts have been told, and have not done.
    told: Vec<(String, Message)>,
    /// Answers to the job's machine.
    answers: Vec<(u32, Result<String, String>)>,
    /// What was asked of the job's directory.
    directory: Vec<String>,
    said: Vec<String>,
}

impl Run {
    fn new(chain: &str) -> Self {
        Self::with(Promoter::new(chain.parse().unwrap(), Groups::default(), 1, false))
    }

    fn with(machine: Promoter) -> Self {
        let (told, answers) = (Vec::new(), Vec::new());
        let mut run = Self { machine, told, answers, directory: Vec::new(), said: Vec::new() };
        for host in (0..HOSTS).map(name) {
            run.happen(Event::There { host, address: "10.0.0.1:1".into() }, 0);
        }
        run
    }

    fn happen(&mut self, event: Event, now_ms: u64) {
        for action in self.machine.step(event, now_ms) {
            match action {
                Action::Tell(host, message) => self.told.push((host, message)),
                Action::Answer(epoch, result) => self.answers.push((epoch, result)),
                Action::Say(text) => self.said.push(text),
                Action::Put(attempt, manifest) => {
                    self.directory.push(format!("put {}", manifest.epoch));
                    self.happen(Event::Directory(attempt, Ok(())), now_ms);
                }
                other => self.directory.push(format!("{other:?}")),
            }
        }
    }

    /// Up to the commit, which hosts have not answered.
    fn save(&mut self, epoch: u32) {
        self.happen(Event::Prepare { epoch, taken_ms: 1000 + u64::from(epoch) }, 0);
        for rank in 0..HOSTS {
            self.happen(Event::Lies { epoch, rank, mac: format!("mac{rank}") }, 0);
        }
        self.happen(Event::Commit(Box::new(manifest(epoch))), 0);
    }

    /// Hosts do all that they have been told; this one cannot do this kind of thing.
    fn work(&mut self, fails: Option<(&str, &str)>) {
        while !self.told.is_empty() {
            self.work_once(fails);
        }
    }

    fn work_once(&mut self, fails: Option<(&str, &str)>) {
        for (host, message) in std::mem::take(&mut self.told) {
            let task = match &message {
                Message::Keep(m) => m.task,
                Message::Make(m) => m.task,
                Message::Note(m) => m.task,
                _ => continue,
            };
            let does_fail = fails == Some((host.as_str(), message.name()));
            let error = if does_fail { "no space".into() } else { String::new() };
            let shared = Shared { task, sums: b"[]".to_vec(), error };
            self.happen(Event::Ended { host, shared }, 0);
        }
    }

    fn names_told(&self) -> Vec<&'static str> {
        self.told.iter().map(|(_, message)| message.name()).collect()
    }
}

#[test]
fn a_snapshot_exists_once_all_hosts_keep_it() {
    let mut run = Run::new("local");
    run.told.clear();
    run.save(1);
    assert_eq!(run.names_told(), ["TAKING", "TAKING", "TAKING", "KEEP", "KEEP", "KEEP"]);
    let Some((_, Message::Keep(keep))) = run.told.last() else { panic!("KEEP") };
    let kept: Kept = serde_json::from_slice(&keep.record).unwrap();
    let macs: Vec<&str> = kept.manifest.images.iter().map(|image| image.mac.as_str()).collect();
    assert_eq!(macs, ["mac0", "mac1", "mac2"]);
    let last = run.told.pop().unwrap();
    run.work(None);
    assert!(run.answers.is_empty(), "one host has not said that it keeps it");
    run.told.push(last);
    run.work(None);
    assert_eq!(run.answers, [(1, Ok("level local, on n0, n1, n2".into()))]);
}

#[test]
fn a_host_that_cannot_keep_it_or_is_lost_makes_it_fail() {
    for is_lost in [false, true] {
        let mut run = Run::new("local,xor");
        run.save(1);
        if is_lost {
            run.happen(Event::Gone { host: "n1".into(), is_silent: true }, 0);
        } else {
            run.told.retain(|(_, message)| message.name() == "KEEP");
            run.work(Some(("n1", "KEEP")));
        }
        assert!(matches!(&run.answers[..], [(1, Err(why))] if why.contains("n1")));
        run.work(None);
        assert_eq!(run.answers.len(), 1, "said once");
    }
}

#[test]
fn hosts_that_say_nothing_are_not_waited_for() {
    let mut run = Run::new("local");
    run.save(1);
    let wake = run.machine.wake_ms().unwrap();
    run.happen(Event::Tick, wake - 1);
    assert!(run.answers.is_empty());
    run.happen(Event::Tick, wake);
    assert!(matches!(&run.answers[..], [(1, Err(_))]));
    assert_eq!(run.machine.wake_ms(), None);
}

#[test]
fn levels_are_made_one_after_the_other() {
    let mut run = Run::new("local,partner,xor,shared");
    run.save(1);
    run.work(None);
    let done = ["partner", "xor", "shared"].map(|l| format!("checkpoint 1: {l} is done"));
    assert_eq!(run.said, done);
    assert_eq!(run.directory, ["MakeRoom(3, 1)", "put 1"]);
    run.save(2);
    run.work(None);
    assert_eq!(run.directory[2..], ["MakeRoom(6, 2)", "put 2", "Remove(1)"]);
}

#[test]
fn a_level_that_one_host_cannot_make_is_given_up_and_others_are_made() {
    for kind in ["MAKE", "NOTE"] {
        let mut run = Run::new("local,xor,rs2");
        run.save(1);
        run.work(Some(("n2", kind)));
        let why = "host n2: no space";
        let said = [format!("checkpoint 1: no xor: {why}"), format!("checkpoint 1: no rs2: {why}")];
        assert_eq!(run.said, said);
        assert_eq!(run.answers.len(), 1);
    }
}

#[test]
fn nothing_is_made_once_a_host_is_lost() {
    let mut run = Run::new("local,xor");
    run.save(1);
    run.told.retain(|(_, message)| message.name() == "KEEP");
    for (host, message) in std::mem::take(&mut run.told) {
        let Message::Keep(keep) = message else { continue };
        let shared = Shared { task: keep.task, ..Shared::default() };
        run.happen(Event::Ended { host, shared }, 0);
    }
    assert_eq!(run.names_told(), ["MAKE", "MAKE", "MAKE"]);
    run.happen(Event::Gone { host: "n0".into(), is_silent: true }, 0);
    run.told.clear();
    run.save(2);
    let why = "host n0 keeps no snapshots: its daemon is not there";
    assert_eq!(run.answers.last(), Some(&(2, Err(why.into()))));
    assert_eq!(run.said, ["checkpoint 1: no xor: a host was lost"]);
}

/// A snapshot that an earlier run has left on all hosts.
fn left_over(epoch: u32) -> StoreHolds {
    let home = |host| Home { host: name(host), ranks: vec![host] };
    let snapshot = Snapshot {
        id: Id { taken_ms: 500 + u64::from(epoch), epoch },
        homes: (0..HOSTS).map(home).collect(),
        sets: vec![(0..HOSTS).collect()],
        partners: Vec::new(),
    };
    let kept = Kept { snapshot, manifest: manifest(epoch) };
    StoreHolds { record: serde_json::to_vec(&kept).unwrap(), items: vec![(0, 0), (2, 1)] }
}

#[test]
fn what_the_run_was_restarted_from_gets_from_level_to_level_once_its_hosts_are_there() {
    let holds = left_over(4);
    let kept: Kept = serde_json::from_slice(&holds.record).unwrap();
    let mut machine = Promoter::new("local,xor".parse().unwrap(), Groups::default(), 1, false);
    machine.step(Event::Restored(Box::new(kept.clone())), 0);
    let mut come = |host: u32| {
        let there = Event::There { host: name(host), address: format!("{host}:1") };
        let out = machine.step(there, 1);
        let makes = |action: &Action| match action {
            Action::Tell(host, Message::Make(make)) => Some((host.clone(), make.level.clone())),
            _ => None,
        };
        out.iter().filter_map(makes).collect::<Vec<_>>()
    };
    assert_eq!((come(0), come(1)), (vec![], vec![]));
    let all: Vec<_> = (0..HOSTS).map(|host| (name(host), "xor".to_owned())).collect();
    assert_eq!(come(2), all);
    assert_eq!(come(1), [], "again: a daemon that has been away");
}

#[test]
fn what_earlier_runs_of_the_job_have_left_goes_when_it_is_old() {
    let mut run = Run::new("local,xor,shared");
    run.happen(Event::InDirectory(vec![3, 4]), 0);
    run.happen(Event::Holds(Box::new(left_over(4))), 0);
    run.save(6);
    let mut forgotten = Vec::new();
    while !run.told.is_empty() {
        for (host, message) in &run.told {
            if let Message::Forget(m) = message {
                forgotten.push(format!("{host} {} {}", m.epoch, m.level));
            }
        }
        let told = std::mem::take(&mut run.told);
        run.told = told.into_iter().filter(|(_, m)| m.name() != "FORGET").collect();
        run.work_once(None);
    }
    let all = |level: &str| (0..HOSTS).map(|h| format!("n{h} 4 {level}")).collect::<Vec<_>>();
    assert_eq!(forgotten, [all("xor"), all("local")].concat());
    let removed = run.directory.iter().filter(|what| what.starts_with("Remove"));
    assert_eq!(removed.collect::<Vec<_>>(), ["Remove(3)", "Remove(4)"]);
}

#[test]
fn what_a_plan_wants_is_made_and_told_and_nothing_else() {
    let chain = "local,partner,xor".parse().unwrap();
    let mut run = Run::with(Promoter::new(chain, Groups::default(), 2, true));
    run.told.clear();
    run.save(1);
    run.work(None);
    assert_eq!(run.names_told(), Vec::<&str>::new(), "nobody wants a level of it");
    run.happen(Event::Wanted { epoch: 1, level: 1 }, 10);
    run.work(None);
    assert_eq!(run.directory, ["Made { level: 1, took_ms: 0 }"]);
    run.directory.clear();
    run.happen(Event::Wanted { epoch: 1, level: 2 }, 10);
    run.work(Some(("n1", "MAKE")));
    assert_eq!(run.directory, ["NotMade { level: 2 }"]);
    run.directory.clear();
    run.happen(Event::Wanted { epoch: 7, level: 1 }, 10);
    assert_eq!(run.directory, ["NotMade { level: 1 }"], "there is no such snapshot");
}
