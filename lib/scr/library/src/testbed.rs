// SPDX-License-Identifier: Apache-2.0
//! Ranks as threads, and hosts as directories.

use crate::comm::{Comm, CommError};
use crate::library::{Outcome, Scr, Surroundings};
use crate::problem::Problem;
use fermata_scr::Config;
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// A directory that is gone afterwards.
pub(crate) struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("fermata-scr-{name}-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

type Boxes = BTreeMap<(u32, u32), VecDeque<Vec<u8>>>;

/// One rank of some in this process.
#[derive(Clone)]
pub(crate) struct Local {
    rank: u32,
    size: u32,
    boxes: Arc<(Mutex<Boxes>, Condvar)>,
}

impl Local {
    fn all(size: u32) -> Vec<Self> {
        let boxes = Arc::new((Mutex::new(Boxes::new()), Condvar::new()));
        (0..size).map(|rank| Self { rank, size, boxes: boxes.clone() }).collect()
    }

    fn take(&self, from: u32) -> Vec<u8> {
        let (boxes, rang) = &*self.boxes;
        let mut boxes = boxes.lock().unwrap();
        loop {
            let of = boxes.entry((from, self.rank)).or_default();
            if let Some(bytes) = of.pop_front() {
                return bytes;
            }
            let (again, waited) = rang.wait_timeout(boxes, Duration::from_secs(60)).unwrap();
            assert!(!waited.timed_out(), "rank {} waits for {from}", self.rank);
            boxes = again;
        }
    }
}

impl Comm for Local {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn min(&self, value: i64) -> Result<i64, CommError> {
        let all = self.gather(&value.to_le_bytes(), &vec![8; self.size as usize])?;
        let values = all.chunks_exact(8).map(|word| i64::from_le_bytes(word.try_into().unwrap()));
        Ok(values.min().unwrap())
    }

    fn broadcast(&self, root: u32, bytes: &mut [u8]) -> Result<(), CommError> {
        if self.rank != root {
            return self.receive(root, bytes);
        }
        (0..self.size).filter(|to| *to != root).try_for_each(|to| self.send(to, bytes))
    }

    fn gather(&self, mine: &[u8], lengths: &[usize]) -> Result<Vec<u8>, CommError> {
        for to in 0..self.size {
            self.send(to, mine)?;
        }
        let mut all = Vec::new();
        for (from, length) in (0..).zip(lengths) {
            let mut bytes = vec![0; *length];
            self.receive(from, &mut bytes)?;
            all.extend(bytes);
        }
        Ok(all)
    }

    fn send(&self, to: u32, bytes: &[u8]) -> Result<(), CommError> {
        let (boxes, rang) = &*self.boxes;
        let mut boxes = boxes.lock().unwrap();
        boxes.entry((self.rank, to)).or_default().push_back(bytes.to_vec());
        rang.notify_all();
        Ok(())
    }

    fn receive(&self, from: u32, bytes: &mut [u8]) -> Result<(), CommError> {
        // As long as it is said: nothing else is a message of ours.
        bytes.copy_from_slice(&self.take(from));
        Ok(())
    }

    fn exchange(
        &self,
        to: u32,
        sent: &[u8],
        from: u32,
        received: &mut [u8],
    ) -> Result<(), CommError> {
        self.send(to, sent)?;
        self.receive(from, received)
    }
}

/// A cluster: a directory that all hosts see, and a cache on each.
pub(crate) struct Cluster {
    pub scratch: Scratch,
}

static CLOCK_MS: AtomicU64 = AtomicU64::new(1_000_000);

/// Later with each look.
pub(crate) fn clock() -> u64 {
    CLOCK_MS.fetch_add(1, Ordering::Relaxed)
}

impl Cluster {
    pub fn new(name: &str) -> Self {
        let scratch = Scratch::new(name);
        fs::create_dir(scratch.0.join("prefix")).unwrap();
        Self { scratch }
    }

    pub fn prefix(&self) -> PathBuf {
        self.scratch.0.join("prefix")
    }

    /// What a host has cached of a rank of a dataset.
    pub fn cached(&self, host: &str, id: u32) -> PathBuf {
        let user = self.scratch.0.join("hosts").join(host).join("ann");
        let job = fs::read_dir(user).unwrap().next().unwrap().unwrap().path();
        job.join(format!("scr.dataset.{id}"))
    }

    /// A host is lost with its disk.
    pub fn lose(&self, host: &str) {
        fs::remove_dir_all(self.scratch.0.join("hosts").join(host)).unwrap();
    }

    /// Runs a rank on each of these hosts.
    pub fn run<T: Send + 'static>(
        &self,
        hosts: &[&str],
        keys: &[(&str, &str)],
        act: impl Fn(Scr<Local>, Outcome) -> T + Clone + Send + 'static,
    ) -> Vec<T> {
        self.try_run(hosts, keys, move |begun| {
            let (scr, outcome) = begun.unwrap();
            act(scr, outcome)
        })
    }

    pub fn try_run<T: Send + 'static>(
        &self,
        hosts: &[&str],
        keys: &[(&str, &str)],
        act: impl Fn(Result<(Scr<Local>, Outcome), Problem>) -> T + Clone + Send + 'static,
    ) -> Vec<T> {
        let ranks = Local::all(u32::try_from(hosts.len()).unwrap());
        let mut threads = Vec::new();
        for (comm, host) in ranks.into_iter().zip(hosts) {
            let store = self.scratch.0.join("hosts").join(host);
            fs::create_dir_all(&store).unwrap();
            let mut variables: BTreeMap<String, String> = BTreeMap::new();
            let mut put = |key: &str, value: &str| variables.insert(key.into(), value.into());
            put("SCR_USER_NAME", "ann");
            put("SCR_PREFIX", self.prefix().to_str().unwrap());
            put("SCR_CACHE_BYPASS", "0");
            put("SCR_SYSTEM_CONF_FILE", "/nowhere/scr.conf");
            keys.iter().for_each(|(key, value)| drop(put(key, value)));
            variables.insert("SCRATCH".into(), store.to_str().unwrap().into());
            let around = Surroundings {
                host: (*host).to_owned(),
                variables: variables.clone(),
                cwd: self.prefix(),
                clock,
            };
            let act = act.clone();
            let mut program = Config::new(variables);
            // Where the cache is differs from host to host, as here all are one machine.
            program.request("SCR_CACHE_BASE=$SCRATCH").unwrap();
            threads.push(thread::spawn(move || act(Scr::init(comm, around, program))));
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    }
}
