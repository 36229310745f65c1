// SPDX-License-Identifier: Apache-2.0
//! The server by itself, with writers that answer as ranks do.

#![allow(clippy::unwrap_used)]

use super::*;
use fermata_plan::pace::Every;
use fermata_storage::{JobDir, list_snapshots, samples};
use fermata_types::{
    Checkpoint, Checkpointer, ClientHello, Clocks, Drained, Hello, Parked, Ready, Save, Saved,
    Saving, Sent, Signalled, decode_frame,
};
use std::fs::File;
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread;

const SIZE: u32 = 2;
const CLIENT: u64 = 9;
const LIMIT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(5);

/// The rank of the connection with its number. What it answers is in the queue at once.
struct Rank {
    rank: u32,
    inputs: Sender<Input>,
    shared: Arc<Shared>,
}

impl Rank {
    fn say(&self, message: impl Into<Message>) {
        self.inputs.send(Input::Message(self.rank.into(), message.into())).unwrap();
    }

    /// With the last image the job comes to its end.
    fn save(&self, save: &Save) {
        let (epoch, rank) = (save.epoch, self.rank);
        let (bytes, crc) = samples::image("job", epoch, rank, SIZE);
        std::fs::write(&save.path, &bytes).unwrap();
        self.say(Saving { epoch });
        self.say(Saved { epoch, bytes: bytes.len() as u64, crc, ..Saved::default() });
        if rank == SIZE - 1 {
            for conn in 0..SIZE {
                self.inputs.send(Input::Closed(conn.into())).unwrap();
            }
            self.shared.stop.store(true, Ordering::Release);
        }
    }
}

impl Writer for Rank {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        match decode_frame(frame).unwrap() {
            Message::Request(m) => self.say(Clocks { epoch: m.epoch, list: vec![] }),
            Message::Targets(m) => {
                self.say(Parked { epoch: m.epoch, version: m.version, list: m.list });
            }
            Message::Drain(m) => self.say(Sent { epoch: m.epoch, list: vec![] }),
            Message::Expected(m) => self.say(Drained { epoch: m.epoch, ..Drained::default() }),
            Message::Save(m) => self.save(&m),
            _ => {}
        }
        Ok(())
    }
    fn end(&mut self) {}
}

fn options(dir: &std::path::Path) -> Options {
    Options {
        job: JobDir::new(dir, "job"),
        name: "job".into(),
        run: 1,
        argv: vec!["app".into()],
        programs: vec![],
        front: "ompi".into(),
        cwd: "/".into(),
        restart: "fermata restart job".into(),
        checkpointer: Checkpointer::Native,
        keep: 2,
        every: Every::Never,
        site: None,
        nodes: 1,
        linger: None,
        outlives: None,
        network: false,
        restored: None,
        told: None,
        key: None,
        levels: None,
        groups: fermata_levels::Groups::default(),
    }
}

#[test]
fn what_ranks_said_before_the_job_ended_completes_a_snapshot() {
    let dir = std::env::temp_dir().join(format!("fermata-server-{}", std::process::id()));
    let options = options(&dir);
    let job = options.job.clone();
    job.create().unwrap();
    let left = job.snapshots().join("7.partial");
    std::fs::create_dir(&left).unwrap();
    let shared = Arc::new(Shared::default());
    let (inputs, receiver) = channel();
    let config = Config {
        job: "job".into(),
        restart: options.restart.clone(),
        snapshots: job.snapshots().to_string_lossy().into_owned(),
        last_epoch: 0,
        committed_epoch: 0,
        every: Every::Never,
        site: None,
        timeout_ms: 10_000,
        save_timeout_ms: 10_000,
        quiesce_ms: 1000,
        checkpointer: Checkpointer::Native,
    };
    let storage_worker = StorageWorker::start(options.clone(), inputs.clone(), None).unwrap();
    let log = Log::new(File::create(job.path().join("coordinator.log")).unwrap());
    let around = Around { hosts: Hosts::new(job.path(), None), site: None };
    let server = Server::new(config, storage_worker, options, log, Arc::clone(&shared), around);
    for rank in 0..SIZE {
        let line = Rank { rank, inputs: inputs.clone(), shared: Arc::clone(&shared) };
        let hello = Hello { job: "job".into(), host: "here".into(), ..Hello::default() };
        inputs.send(Input::Message(rank.into(), hello.into())).unwrap();
        line.say(Ready { rank, size: SIZE });
        line.say(Signalled { signal: 15 });
        inputs.send(Input::Connected(rank.into(), Box::new(line))).unwrap();
    }
    let hello = ClientHello { job: "job".into() };
    inputs.send(Input::Message(CLIENT, hello.into())).unwrap();
    let request = Checkpoint { stop: 0, timeout_ms: 10_000 };
    inputs.send(Input::Message(CLIENT, request.into())).unwrap();
    let server = thread::spawn(move || server.serve(&receiver));
    let begun = Instant::now();
    while !server.is_finished() && begun.elapsed() < LIMIT {
        thread::sleep(POLL);
    }
    let log = std::fs::read_to_string(job.path().join("coordinator.log")).unwrap();
    assert!(server.is_finished(), "{log}");
    assert_eq!(list_snapshots(&job).len(), 1, "{log}");
    assert!(!left.exists(), "an earlier run has left it");
    let signals = shared.signals.lock().unwrap().clone();
    assert_eq!(signals, BTreeSet::from([15]), "each is told once");
    std::fs::remove_dir_all(&dir).unwrap();
}
