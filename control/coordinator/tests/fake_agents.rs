// SPDX-License-Identifier: Apache-2.0
//! The whole coordinator (sockets, threads, disk) against fake agents: threads that speak the
//! protocol as a rank would and write small valid images. The real agent is held to the same
//! behaviour by the tests under `tests/suites`.

#![allow(clippy::unwrap_used)]

use fermata_coordinator::{Client, Handle, Options, Outcome, start};
use fermata_node::{Endpoint, LocalImages};
use fermata_plan::pace::Every;
use fermata_storage::{JobDir, Whose, list_snapshots, samples, verify};
use fermata_transport::{Secret, dial_any};
use fermata_types::{
    Attached, Checkpointer, Clocks, DaemonHello, Drained, FrameBuffer, Hello, Message, Parked,
    Ready, Relayed, Saved, Saving, Sent, encode_frame,
};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const SIZE: u32 = 3;
const LIMIT: Duration = Duration::from_secs(20);

/// What lies between the fake ranks and the coordinator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Between {
    Nothing,
    /// A daemon; the host shares the job's directory.
    Daemon,
    /// A daemon; the host keeps its images to itself.
    DaemonWithImages,
}

const EVERY_WAY: [Between; 3] = [Between::Nothing, Between::Daemon, Between::DaemonWithImages];

/// How a fake rank misbehaves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// Closes its connection instead of saving.
    DiesWhenSaving,
    /// Reports an image it has not written.
    LosesItsImage,
    /// Never parks.
    NeverParks,
}

struct Fake {
    stream: UnixStream,
    rank: u32,
    fault: Fault,
    seq: u64,
}

impl Fake {
    fn say(&mut self, message: impl Into<Message>) {
        // A coordinator that has ended is noticed when reading.
        let _ = self.stream.write_all(&encode_frame(&message.into()));
    }

    /// Answers one frame; false = this rank is over.
    fn answer(&mut self, message: Message) -> bool {
        let rank = self.rank;
        let list = vec![(1, self.seq), (100 + u64::from(rank), 2)];
        match message {
            Message::Request(m) => self.say(Clocks { epoch: m.epoch, list }),
            Message::Targets(_) if self.fault == Fault::NeverParks => {}
            Message::Targets(m) => {
                // Runs on until its target, then parks.
                let world = m.list.iter().find(|(comm, _)| *comm == 1);
                self.seq = self.seq.max(world.map_or(0, |(_, seq)| *seq));
                let list = vec![(1, self.seq)];
                self.say(Parked { epoch: m.epoch, version: m.version, list });
            }
            Message::Drain(m) => {
                let next = u64::from((rank + 1) % SIZE);
                self.say(Sent { epoch: m.epoch, list: vec![(next, 10 + u64::from(rank))] });
            }
            Message::Expected(m) => {
                let before = u64::from((rank + SIZE - 1) % SIZE);
                assert_eq!(m.list, vec![(before, 10 + before)]);
                self.say(Drained { epoch: m.epoch, kept: 1, kept_bytes: 8 });
            }
            Message::Save(_) if self.fault == Fault::DiesWhenSaving => return false,
            Message::Save(m) => {
                let (bytes, crc) = samples::image("fake", m.epoch, rank, SIZE);
                if self.fault != Fault::LosesItsImage {
                    fs::write(&m.path, &bytes).unwrap();
                }
                self.say(Saving { epoch: m.epoch });
                let bytes = bytes.len() as u64;
                self.say(Saved { epoch: m.epoch, bytes, crc, pause_ns: 5, ..Saved::default() });
            }
            Message::Exit(_) => return false,
            _ => {}
        }
        true
    }

    fn live(mut self) {
        self.say(Hello { job: "fake".into(), host: "here".into(), ..Hello::default() });
        let rank = self.rank;
        self.say(Ready { rank, size: SIZE });
        let mut frames = FrameBuffer::default();
        let mut buffer = [0; 4096];
        loop {
            let Ok(bytes @ 1..) = self.stream.read(&mut buffer) else {
                return;
            };
            frames.push(&buffer[..bytes]);
            while let Some(message) = frames.pop().unwrap() {
                if !self.answer(message) {
                    return;
                }
            }
        }
    }
}

struct Job {
    dir: PathBuf,
    coordinator: Option<Handle>,
    ranks: Vec<JoinHandle<()>>,
    daemon: Option<JoinHandle<()>>,
}

/// Runs a real daemon in a thread and returns its socket once it is ready.
fn start_daemon(dir: &Path, coordinator: &Handle, between: Between) -> (PathBuf, JoinHandle<()>) {
    let endpoint = Endpoint {
        job: "fake".into(),
        addresses: coordinator.addresses().to_vec(),
        secret: coordinator.secret().unwrap().clone(),
    };
    let images = dir.join("images");
    std::fs::create_dir_all(&images).unwrap();
    let local = (between == Between::DaemonWithImages)
        .then(|| LocalImages::new(&images, endpoint.clone()).unwrap());
    let socket = dir.join("daemon.sock");
    let timeout = Duration::from_millis(300);
    let options = fermata_node::Options {
        endpoint,
        socket: socket.clone(),
        local,
        store: None,
        level_rate: None,
        timeout,
        log: None,
    };
    let (sender, receiver) = channel();
    let daemon = thread::spawn(move || {
        fermata_node::run(options, move || sender.send(()).unwrap()).unwrap();
        assert_eq!(fs::read_dir(&images).map_or(0, Iterator::count), 0, "images stay behind");
    });
    receiver.recv_timeout(LIMIT).unwrap();
    (socket, daemon)
}

impl Job {
    fn new(fault_of_last: Fault, between: Between) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("fermata-fake-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let coordinator = start(Options {
            job: JobDir::new(&dir, "fake"),
            name: "fake".into(),
            run: 1,
            argv: vec!["app".into()],
            programs: vec![],
            front: "ompi".into(),
            cwd: "/".into(),
            restart: "fermata restart fake".into(),
            checkpointer: Checkpointer::Native,
            keep: 2,
            every: Every::Never,
            site: None,
            nodes: 1,
            linger: None,
            outlives: None,
            network: between != Between::Nothing,
            restored: None,
            told: None,
            key: None,
            levels: None,
            groups: fermata_levels::Groups::default(),
        })
        .unwrap();
        let (socket, daemon) = match between {
            Between::Nothing => (PathBuf::from(coordinator.socket()), None),
            _ => {
                let (socket, daemon) = start_daemon(&dir, &coordinator, between);
                (socket, Some(daemon))
            }
        };
        let ranks = (0..SIZE)
            .map(|rank| {
                let stream = UnixStream::connect(&socket).unwrap();
                let last = rank == SIZE - 1;
                let fault = if last { fault_of_last } else { Fault::None };
                let seq = 5 + u64::from(rank);
                let fake = Fake { stream, rank, fault, seq };
                thread::spawn(move || fake.live())
            })
            .collect();
        let job = Self { dir, coordinator: Some(coordinator), ranks, daemon };
        job.wait_until_ready();
        job
    }

    fn client(&self) -> Client {
        let socket = self.coordinator.as_ref().unwrap().socket();
        Client::connect(socket, "fake").unwrap()
    }

    fn wait_until_ready(&self) {
        let begun = Instant::now();
        let all = format!("{SIZE} of {SIZE} ranks ready");
        while self.client().status(LIMIT).unwrap().message != all {
            assert!(begun.elapsed() < LIMIT, "the ranks did not come up");
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn checkpoint(&self, stop: bool) -> (Outcome, String) {
        let (outcome, answer) = self.client().checkpoint(stop, 3000, |_| {}).unwrap();
        (outcome, answer.message)
    }

    fn place(&self) -> JobDir {
        JobDir::new(&self.dir, "fake")
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Some(coordinator) = self.coordinator.take() {
            coordinator.stop(|| true);
        }
        for rank in self.ranks.drain(..) {
            let _ = rank.join();
        }
        if let Some(daemon) = self.daemon.take() {
            assert!(daemon.join().is_ok() || thread::panicking());
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn snapshots_are_committed_pruned_and_intact() {
    for between in EVERY_WAY {
        let job = Job::new(Fault::None, between);
        for epoch in 1..=3 {
            let (outcome, text) = job.checkpoint(false);
            assert_eq!(outcome, Outcome::Ok, "{between:?}: {text}");
            assert!(text.contains(&format!("checkpoint {epoch} is committed")));
        }
        let until = Instant::now() + LIMIT;
        let mut left = list_snapshots(&job.place());
        while left.len() > 2 && Instant::now() < until {
            thread::sleep(Duration::from_millis(5)); // old ones go after the answer
            left = list_snapshots(&job.place());
        }
        assert_eq!(left.iter().map(|s| s.epoch).collect::<Vec<_>>(), [2, 3]);
        for snapshot in left {
            assert_eq!(
                verify(&snapshot.path, Whose::Own(None), |_| {}).problems,
                Vec::<String>::new()
            );
        }
    }
}

#[test]
fn stop_ends_every_rank_after_the_commit() {
    for between in EVERY_WAY {
        let mut job = Job::new(Fault::None, between);
        assert_eq!(job.checkpoint(true).0, Outcome::Ok);
        for rank in job.ranks.drain(..) {
            rank.join().unwrap();
        }
        assert!(job.coordinator.as_ref().unwrap().was_stopped());
        assert_eq!(list_snapshots(&job.place()).len(), 1);
    }
}

#[test]
fn a_rank_that_dies_or_lies_leaves_no_snapshot() {
    let faults = [
        (Fault::DiesWhenSaving, "rank 2 has left the job"),
        (Fault::LosesItsImage, "rank-2.img"),
        (Fault::NeverParks, "rank 2 has not done so in time"),
    ];
    for ((fault, word), between) in
        faults.into_iter().flat_map(|fault| EVERY_WAY.map(|between| (fault, between)))
    {
        let job = Job::new(fault, between);
        let (outcome, text) = job.checkpoint(false);
        assert_eq!(outcome, Outcome::Failed);
        assert!(text.contains(word), "{text}");
        assert!(list_snapshots(&job.place()).is_empty());
        let rest = fs::read_dir(job.place().snapshots()).unwrap().count();
        assert_eq!(rest, 0, "nothing partial stays");
    }
}

#[test]
fn nonsense_on_the_socket_ends_only_its_own_connection() {
    let job = Job::new(Fault::None, Between::Nothing);
    let socket = job.coordinator.as_ref().unwrap().socket().to_owned();
    let mut stranger = UnixStream::connect(&socket).unwrap();
    stranger.set_read_timeout(Some(LIMIT)).unwrap();
    stranger.write_all(&[0xff; 64]).unwrap();
    assert_eq!(stranger.read(&mut [0; 8]).unwrap_or(0), 0, "it is cut off");
    assert_eq!(job.checkpoint(false).0, Outcome::Ok);
}

#[test]
fn strangers_do_not_fill_the_log() {
    let job = Job::new(Fault::None, Between::Nothing);
    let socket = job.coordinator.as_ref().unwrap().socket().to_owned();
    for _ in 0..200 {
        let mut stranger = UnixStream::connect(&socket).unwrap();
        stranger.set_read_timeout(Some(LIMIT)).unwrap();
        stranger.write_all(&[0xff; 64]).unwrap();
        assert_eq!(stranger.read(&mut [0; 8]).unwrap_or(0), 0, "it is cut off");
    }
    assert_eq!(job.checkpoint(false).0, Outcome::Ok);
    let log = fs::read_to_string(job.place().path().join("coordinator.log")).unwrap();
    let lines = log.lines().filter(|line| line.contains("turned")).count();
    assert!((1..=6).contains(&lines), "{log}");
}

#[test]
fn a_command_on_another_host_needs_the_secret() {
    let job = Job::new(Fault::None, Between::Daemon);
    let coordinator = job.coordinator.as_ref().unwrap();
    let secret = coordinator.secret().unwrap();
    let mut client = Client::dial(coordinator.addresses(), secret, "fake").unwrap();
    assert_eq!(client.checkpoint(false, 3000, |_| {}).unwrap().0, Outcome::Ok);
    let stranger = Secret::generate().unwrap();
    assert!(Client::dial(coordinator.addresses(), &stranger, "fake").is_err());
    assert!(job.place().path().join(Secret::FILE).exists());
}

#[test]
fn a_lost_host_ends_the_checkpoint_by_name() {
    let job = Job::new(Fault::NeverParks, Between::Daemon);
    let coordinator = job.coordinator.as_ref().unwrap();
    let mut line = dial_any(coordinator.addresses(), coordinator.secret().unwrap()).unwrap();
    let hello = DaemonHello { job: "fake".into(), host: "far".into(), pid: 1, node: 0, port: 0 };
    line.writer.send(&encode_frame(&hello.into())).unwrap();
    line.writer.send(&encode_frame(&Attached { channel: 1 }.into())).unwrap();
    let say = Hello { job: "fake".into(), host: "far".into(), ..Hello::default() };
    let frame = encode_frame(&say.into());
    line.writer.send(&encode_frame(&Relayed { channel: 1, frame }.into())).unwrap();
    let mut client = job.client();
    let waiting = thread::spawn(move || client.checkpoint(false, 20_000, |_| {}).unwrap());
    thread::sleep(Duration::from_millis(200));
    line.writer.end();
    let (outcome, answer) = waiting.join().unwrap();
    assert_eq!(outcome, Outcome::Failed);
    assert!(answer.message.contains("host far is lost"), "{}", answer.message);
    // Closed, as a daemon's line is that has been killed; its host may be well.
    let lost = coordinator.lost_host().unwrap();
    assert_eq!((lost.name.as_str(), lost.is_silent), ("far", false));
}
