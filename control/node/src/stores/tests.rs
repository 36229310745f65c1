// SPDX-License-Identifier: Apache-2.0
//! Stores of several hosts in directories, read by each other over TCP on this host.
#![allow(clippy::cast_possible_truncation)]

use super::*;
use fermata_levels::{Arrangement, Chain, Home, Id, Level, Snapshot};
use fermata_parity::Sum;
use fermata_storage::{HostStore, Kept, RestoreError, Restored, Whose, samples};
use fermata_transport::Secret;
use fermata_types::{Checkpointer, ImageRecord, MANIFEST_FORMAT, Manifest};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

const HOSTS: u32 = 4;
const ALL: &str = "local,partner,xor,rs2";

struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("fermata-stores-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn name(host: u32) -> String {
    format!("n{host}")
}

/// One rank on each of four hosts.
struct Cluster {
    scratch: Scratch,
    secret: Secret,
    places: Places,
    hosts: BTreeMap<String, (HostStore, StoreServer)>,
    arrangement: Arrangement,
}

impl Cluster {
    fn new() -> Self {
        let (scratch, secret, places) =
            (Scratch::new(), Secret::generate().unwrap(), Places::default());
        let chain: Chain = ALL.parse().unwrap();
        let mut hosts = BTreeMap::new();
        for host in (0..HOSTS).map(name) {
            let directory = scratch.0.join(&host);
            fs::create_dir_all(&directory).unwrap();
            let store = HostStore::open(&directory, "j", &host, None).unwrap();
            let server = StoreServer::begin(store.clone(), "j", &secret).unwrap();
            places.add(&host, vec![format!("127.0.0.1:{}", server.port())]);
            hosts.insert(host, (store, server));
        }
        let arrangement = Arrangement::new(HOSTS, &[], &chain, 4).unwrap();
        Self { scratch, secret, places, hosts, arrangement }
    }

    fn store(&self, host: u32) -> &HostStore {
        &self.hosts[&name(host)].0
    }

    fn peers(&self, own: Option<u32>) -> RemotePeers {
        let own = own.map(|host| self.store(host).clone());
        RemotePeers::new("j", self.secret.clone(), self.places.clone(), own)
    }

    fn kept(&self, epoch: u32) -> Kept {
        let image = |rank| {
            let (bytes, header_crc) = samples::image("j", epoch, rank, HOSTS);
            ImageRecord {
                rank,
                file: format!("rank-{rank}.img"),
                bytes: bytes.len() as u64,
                header_crc,
                mac: String::new(),
                pause_ns: 0,
                host: name(rank),
            }
        };
        Kept {
            snapshot: Snapshot {
                id: Id { taken_ms: 1000 + u64::from(epoch), epoch },
                homes: (0..HOSTS).map(|h| Home { host: name(h), ranks: vec![h] }).collect(),
                sets: self.arrangement.sets().to_vec(),
                partners: self.arrangement.partners(epoch.into()),
            },
            manifest: Manifest {
                format: MANIFEST_FORMAT,
                job: "j".into(),
                epoch,
                size: HOSTS,
                created_unix_s: 0,
                lower: String::new(),
                front: String::new(),
                argv: vec![],
                programs: vec![],
                cwd: String::new(),
                checkpointer: Checkpointer::Native,
                images: (0..HOSTS).map(image).collect(),
                files: vec![],
                fermata: String::new(),
            },
        }
    }

    fn make(&self, epoch: u32, level: Level) -> Kept {
        let kept = self.kept(epoch);
        let id = kept.snapshot.id;
        for host in 0..HOSTS {
            let store = self.store(host);
            store.prepare(id).unwrap();
            let image = samples::image("j", epoch, host, HOSTS).0;
            fs::write(store.image_path(id, host), image).unwrap();
            store.keep(&kept).unwrap();
        }
        let parities = level.parities();
        let mut made: Vec<Sum> = Vec::new();
        for host in 0..HOSTS {
            let (store, mut peers) = (self.store(host), self.peers(Some(host)));
            if level == Level::Partner {
                let of = kept.snapshot.partners.iter().position(|keeper| *keeper == host);
                store.make_copy(&kept, of.unwrap() as u32, &mut peers).unwrap();
            } else if parities > 0 {
                made.extend(store.make_parities(&kept, parities, &mut peers).unwrap());
            }
        }
        for host in (0..HOSTS).filter(|_| parities > 0) {
            // One set: of all.
            self.store(host).note_made(&kept, parities, &made).unwrap();
        }
        kept
    }

    fn lose(&mut self, host: u32) {
        self.hosts.remove(&name(host));
        fs::remove_dir_all(self.scratch.0.join(name(host))).unwrap();
    }

    fn restore(&self) -> Result<(Restored, Vec<String>), RestoreError> {
        let to = self.scratch.0.join("restored");
        let _ = fs::remove_dir_all(&to);
        fs::create_dir(&to).unwrap();
        let hosts: Vec<String> = (0..HOSTS).map(name).collect();
        let mut peers = self.peers(None);
        let survey = survey(&hosts, &mut peers);
        let restored = survey.gather(&mut peers, Whose::Own(None), &to)?;
        let epoch = restored.restart.snapshot.id.epoch;
        for rank in 0..HOSTS {
            let image = fs::read(to.join(format!("rank-{rank}.img"))).unwrap();
            assert_eq!(image, samples::image("j", epoch, rank, HOSTS).0, "rank {rank}");
        }
        Ok((restored, survey.silent))
    }
}

#[test]
fn what_hosts_have_is_gathered() {
    let cluster = Cluster::new();
    cluster.make(1, Level::Local);
    cluster.make(2, Level::Local);
    let (found, silent) = cluster.restore().unwrap();
    assert_eq!(found.restart.snapshot.id.epoch, 2);
    assert_eq!(found.restart.sentences(), Vec::<String>::new());
    assert_eq!(silent, Vec::<String>::new());
}

#[test]
fn a_lost_host_is_rebuilt_from_each_level_over_lines() {
    for (level, how) in [
        (Level::Partner, "from the copy on"),
        (Level::Xor, "rebuilt from xor set 0 (n0, n2, n3)"),
        (Level::Rs(2), "rebuilt from rs2 set 0 (n0, n2, n3)"),
    ] {
        let mut cluster = Cluster::new();
        cluster.make(1, level);
        cluster.lose(1);
        let (found, silent) = cluster.restore().unwrap();
        let said = found.restart.sentences();
        assert!(said.len() == 1 && said[0].contains(how), "{said:?}");
        assert!(said[0].starts_with("rank 1 of n1: "), "{said:?}");
        assert!(silent.len() == 1 && silent[0].starts_with("n1: "));
    }
}

#[test]
fn what_is_local_is_lost_with_its_host_and_said() {
    let mut cluster = Cluster::new();
    cluster.make(1, Level::Xor);
    cluster.make(2, Level::Local);
    cluster.lose(3);
    let (found, _) = cluster.restore().unwrap();
    assert_eq!(found.restart.snapshot.id.epoch, 1);
    let lost: Vec<String> = found.restart.lost.iter().map(ToString::to_string).collect();
    assert!(lost.len() == 1 && lost[0].starts_with("checkpoint 2: the images of n3 are lost"));
    cluster.lose(0);
    assert!(cluster.restore().is_err());
}

#[test]
fn who_does_not_know_the_secret_or_the_job_reads_nothing() {
    let cluster = Cluster::new();
    let kept = cluster.make(1, Level::Local);
    let places = cluster.places.clone();
    let stranger = Secret::generate().unwrap();
    assert!(RemotePeers::new("j", stranger, places.clone(), None).list("n0").is_err());
    let mut other = RemotePeers::new("other", cluster.secret.clone(), places, None);
    assert_eq!(other.list("n0").unwrap_err().to_string(), "this is job 'j'");
    let read = fermata_storage::Peers::read;
    let why = read(&mut other, "n0", &kept, fermata_levels::Item::Images, 0, &mut [0; 8]);
    assert_eq!(why.unwrap_err().to_string(), "this is job 'j'");
}
