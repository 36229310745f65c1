// SPDX-License-Identifier: Apache-2.0
//! Clusters of directories: levels are made in them, hosts lose theirs, bytes change.
#![allow(clippy::cast_possible_truncation)]

use super::record;
use super::*;
use crate::own::Whose;
use crate::samples;
use fermata_levels::{Arrangement, Chain, Holdings, Home, Id, Item, Level, Snapshot};
use fermata_parity::{Layout, Sum, Sums};
use fermata_seal::Key;
use fermata_types::{Checkpointer, ImageRecord, MANIFEST_FORMAT, Manifest};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

pub(super) struct Scratch(pub PathBuf);

impl Scratch {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("fermata-hosts-{}-{number}", std::process::id());
        // In memory, where flushing costs nothing: there are thousands of files.
        let memory = PathBuf::from("/dev/shm");
        let is_there = fermata_sysio::is_writable(&memory);
        let path = if is_there { memory } else { std::env::temp_dir() }.join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Hosts that read each other's directories.
pub(super) struct Hosts(pub BTreeMap<String, HostStore>);

impl Hosts {
    fn get(&self, host: &str) -> io::Result<&HostStore> {
        self.0.get(host).ok_or_else(|| io::Error::other(format!("{host} is dead")))
    }
}

impl Peers for Hosts {
    fn read(
        &mut self,
        host: &str,
        kept: &Kept,
        item: Item,
        offset: u64,
        bytes: &mut [u8],
    ) -> io::Result<()> {
        self.get(host)?.reader(kept, item)?.read_at(bytes, offset)
    }

    fn sums(&mut self, host: &str, kept: &Kept, parities: u32) -> io::Result<Sums> {
        self.get(host)?.sums(kept, parities).map_err(io::Error::other)
    }
}

pub(super) struct Cluster {
    scratch: Scratch,
    pub hosts: Hosts,
    ranks: Vec<Vec<u32>>,
    arrangement: Arrangement,
}

fn name(host: u32) -> String {
    format!("n{host}")
}

pub(super) fn id(epoch: u32) -> Id {
    Id { taken_ms: 1000 + u64::from(epoch), epoch }
}

/// All images, in this directory.
fn all_to(directory: &Path) -> Wanted<'_> {
    Wanted { ranks: None, directory, own: None, whose: Whose::Own(None) }
}

impl Cluster {
    /// With so many ranks on each host.
    pub(super) fn new(chain: &Chain, ranks_of: &[u32]) -> Self {
        Self::at(Scratch::new(), chain, ranks_of)
    }

    pub(super) fn at(scratch: Scratch, chain: &Chain, ranks_of: &[u32]) -> Self {
        let mut hosts = BTreeMap::new();
        let mut ranks = Vec::new();
        let mut next = 0;
        for (host, count) in (0..).zip(ranks_of) {
            let directory = scratch.0.join(name(host));
            fs::create_dir_all(&directory).unwrap();
            let store = HostStore::open(&directory, "j", &name(host), None).unwrap();
            hosts.insert(name(host), store);
            ranks.push((next..next + count).collect());
            next += count;
        }
        let arrangement = Arrangement::new(ranks_of.len() as u32, &[], chain, 4).unwrap();
        Self { scratch, hosts: Hosts(hosts), ranks, arrangement }
    }

    fn size(&self) -> u32 {
        self.ranks.iter().map(|ranks| ranks.len() as u32).sum()
    }

    pub(super) fn image(&self, epoch: u32, rank: u32) -> Vec<u8> {
        samples::image("j", epoch, rank, self.size()).0
    }

    fn kept(&self, epoch: u32) -> Kept {
        let homes = (0..).zip(&self.ranks);
        let images = (0..self.size()).map(|rank| {
            let (bytes, header_crc) = samples::image("j", epoch, rank, self.size());
            ImageRecord {
                rank,
                file: format!("rank-{rank}.img"),
                bytes: bytes.len() as u64,
                header_crc,
                mac: String::new(),
                pause_ns: 0,
                host: String::new(),
            }
        });
        Kept {
            snapshot: Snapshot {
                id: id(epoch),
                homes: homes
                    .map(|(host, ranks)| Home { host: name(host), ranks: ranks.clone() })
                    .collect(),
                sets: self.arrangement.sets().to_vec(),
                partners: self.arrangement.partners(epoch.into()),
            },
            manifest: Manifest {
                format: MANIFEST_FORMAT,
                job: "j".into(),
                epoch,
                size: self.size(),
                created_unix_s: 0,
                lower: String::new(),
                front: String::new(),
                argv: vec![],
                programs: vec![],
                cwd: String::new(),
                checkpointer: Checkpointer::Native,
                images: images.collect(),
                files: vec![],
                fermata: String::new(),
            },
        }
    }

    pub(super) fn make(&mut self, epoch: u32, levels: &[Level]) -> Kept {
        let kept = self.kept(epoch);
        for (store, ranks) in self.hosts.0.values().zip(&self.ranks) {
            store.prepare(id(epoch)).unwrap();
            for rank in ranks {
                let path = store.image_path(id(epoch), *rank);
                fs::write(path, self.image(epoch, *rank)).unwrap();
            }
            store.keep(&kept).unwrap();
        }
        for level in levels {
            self.promote(&kept, *level);
        }
        kept
    }

    pub(super) fn promote(&mut self, kept: &Kept, level: Level) {
        let stores: Vec<HostStore> = self.hosts.0.values().cloned().collect();
        let mut sums = BTreeMap::new();
        for (home, store) in (0u32..).zip(&stores) {
            match level {
                Level::Partner => {
                    let keeper = kept.snapshot.partners[home as usize] as usize;
                    stores[keeper].make_copy(kept, home, &mut self.hosts).unwrap();
                }
                Level::Xor | Level::Rs(_) => {
                    let parities = level.parities();
                    let made = store.make_parities(kept, parities, &mut self.hosts).unwrap();
                    sums.insert(home, made);
                }
                Level::Local | Level::Shared => {}
            }
        }
        if level.parities() > 0 {
            self.note(kept, level, &sums);
        }
    }

    /// All members have made their parities, and returned these checksums.
    pub(super) fn note(&self, kept: &Kept, level: Level, made: &BTreeMap<u32, Vec<Sum>>) {
        let parities = level.parities();
        for members in &kept.snapshot.sets {
            let lengths = members.iter().map(|member| kept.bytes_of(*member)).collect();
            let layout = Layout::new(lengths, parities as usize).unwrap();
            let all: Vec<Sum> = members.iter().flat_map(|member| made[member].clone()).collect();
            let sums = Sums::of(&layout, &all);
            for member in members {
                self.hosts.0[&name(*member)].note_parities(kept, parities, &sums).unwrap();
            }
        }
    }

    /// A host's own.
    pub(super) fn store(&self, host: &str) -> HostStore {
        self.hosts.0[host].clone()
    }

    /// A host more, which has nothing.
    pub(super) fn join(&mut self, host: u32) {
        let directory = self.scratch.0.join(name(host));
        fs::create_dir_all(&directory).unwrap();
        let store = HostStore::open(&directory, "j", &name(host), None).unwrap();
        self.hosts.0.insert(name(host), store);
    }

    /// The directories of these hosts are gone.
    pub(super) fn lose(&mut self, dead: &BTreeSet<u32>) {
        for host in dead {
            self.hosts.0.remove(&name(*host));
            fs::remove_dir_all(self.scratch.0.join(name(*host))).unwrap();
        }
    }

    pub(super) fn gather(&self) -> (Vec<Kept>, Holdings) {
        let mut known: BTreeMap<Id, Kept> = BTreeMap::new();
        let mut holdings = Holdings::new();
        for (host, store) in &self.hosts.0 {
            for kept in store.kept().0 {
                holdings.entry(host.clone()).or_default().extend(store.holdings(&kept));
                known.insert(kept.snapshot.id, kept);
            }
        }
        (known.into_values().collect(), holdings)
    }

    /// Restores, and looks whether each image is what it was.
    pub(super) fn restore(&mut self) -> Result<Restored, RestoreError> {
        let (known, holdings) = self.gather();
        let to = self.scratch.0.join("restored");
        let _ = fs::remove_dir_all(&to);
        fs::create_dir(&to).unwrap();
        let restored =
            restore_newest(&known, holdings, BTreeMap::new(), all_to(&to), &mut self.hosts)?;
        for rank in 0..self.size() {
            let image = fs::read(to.join(format!("rank-{rank}.img"))).unwrap();
            assert_eq!(image, self.image(restored.restart.snapshot.id.epoch, rank), "rank {rank}");
        }
        Ok(restored)
    }

    pub(super) fn promises(&self, levels: &[Level], dead: &BTreeSet<u32>) -> bool {
        let most = self.arrangement.sets().iter();
        let most = most.map(|set| set.iter().filter(|host| dead.contains(host)).count()).max();
        dead.is_empty()
            || levels.iter().any(|level| match level {
                Level::Partner => dead.len() <= 1,
                Level::Xor | Level::Rs(_) => most.unwrap_or(0) <= level.parities() as usize,
                Level::Local | Level::Shared => false,
            })
    }

    fn files(&self) -> Vec<PathBuf> {
        fn walk(path: &Path, all: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(path).unwrap().flatten() {
                let path = entry.path();
                if path.is_dir() { walk(&path, all) } else { all.push(path) }
            }
        }
        let mut all = Vec::new();
        walk(&self.scratch.0, &mut all);
        all.sort();
        all
    }
}

fn flip(path: &Path, at: u64) {
    let mut bytes = fs::read(path).unwrap();
    let at = (at % bytes.len().max(1) as u64) as usize;
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 0x10;
    }
    fs::write(path, bytes).unwrap();
}

/// Ranks of each host, the chain, how many of its levels each snapshot has, and who dies.
fn histories() -> impl Strategy<Value = (Vec<u32>, Chain, Vec<usize>, BTreeSet<u32>)> {
    let chains = ["local,partner", "local,xor", "local,partner,xor", "local,xor,rs2"];
    (3_usize..7, 0..chains.len()).prop_flat_map(move |(hosts, chain)| {
        let chain: Chain = chains[chain].parse().unwrap();
        let ranks = proptest::collection::vec(0_u32..3, hosts).prop_map(|mut ranks| {
            ranks[0] = ranks[0].max(1);
            ranks
        });
        let made = proptest::collection::vec(0..chain.levels().len(), 1..3);
        let dead = proptest::collection::btree_set(0..hosts as u32, 0..3);
        (ranks, Just(chain), made, dead)
    })
}

fn cluster_of(ranks: &[u32], chain: &Chain, made: &[usize]) -> Cluster {
    let mut cluster = Cluster::new(chain, ranks);
    for (epoch, levels) in (1..).zip(made) {
        cluster.make(epoch, &chain.levels()[1..=*levels]);
    }
    cluster
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn what_is_promised_is_restored((ranks, chain, made, dead) in histories()) {
        let mut cluster = cluster_of(&ranks, &chain, &made);
        cluster.lose(&dead);
        let promised = (1..).zip(&made).filter(|(_, levels)| {
            cluster.promises(&chain.levels()[1..=**levels], &dead)
        });
        let newest: u32 = promised.map(|(epoch, _)| epoch).max().unwrap_or(0);
        match cluster.restore() {
            Ok(restored) => {
                prop_assert!(restored.restart.snapshot.id.epoch >= newest);
                prop_assert_eq!(restored.notes, Vec::<String>::new());
            }
            Err(error) => prop_assert_eq!(newest, 0, "{}", error),
        }
    }

    /// A byte of somebody who lives changes: what is restored is right, or nothing is.
    #[test]
    fn what_has_changed_is_not_restored(
        (ranks, chain, made, dead) in histories(), file in any::<usize>(), at in any::<u64>(),
    ) {
        let mut cluster = cluster_of(&ranks, &chain, &made);
        cluster.lose(&dead);
        let files = cluster.files();
        prop_assume!(!files.is_empty());
        flip(&files[file % files.len()], at);
        let _ = cluster.restore(); // it compares
    }
}

pub(super) fn chain(list: &str) -> Chain {
    list.parse().unwrap()
}

#[test]
fn damage_is_rebuilt_and_said() {
    let chain = chain("local,partner,xor");
    let mut cluster = Cluster::new(&chain, &[1, 2, 1]);
    let kept = cluster.make(1, &chain.levels()[1..]);
    let store = cluster.hosts.0["n1"].clone();
    flip(&store.images_path(id(1), Item::Images).join("rank-2.img"), 6000);
    let restored = cluster.restore().unwrap();
    assert_eq!(restored.notes.len(), 1, "{:?}", restored.notes);
    assert!(restored.notes[0].starts_with("checkpoint 1, images on n1: damaged: the pages"));
    let partner = name(kept.snapshot.partners[1]);
    let said = restored.restart.sentences();
    assert_eq!(said, [format!("ranks 1, 2 of n1: from the copy on {partner}")]);
    // The copy is damaged as well.
    let copy = cluster.hosts.0[&partner].images_path(id(1), Item::Copy(1));
    flip(&copy.join("rank-1.img"), 5000);
    let restored = cluster.restore().unwrap();
    assert_eq!(restored.notes.len(), 2, "{:?}", restored.notes);
    assert_eq!(restored.restart.sentences(), ["ranks 1, 2 of n1: rebuilt from xor set 0 (n0, n2)"]);
    // And a parity: nothing is left.
    flip(&cluster.hosts.0["n2"].parities_path(id(1), 1), 100);
    let why = cluster.restore().unwrap_err().to_string();
    assert!(why.contains("checkpoint 1: the images of n1 are lost"), "{why}");
    assert!(why.contains("parities on n2: parities: what n2 has is not what it was"), "{why}");
}

#[test]
fn what_is_in_the_directory_is_taken_from_there() {
    let mut cluster = Cluster::new(&chain("local,shared"), &[1, 1]);
    cluster.make(1, &[]);
    let shared = cluster.scratch.0.join("shared");
    fs::create_dir(&shared).unwrap();
    for rank in 0..2 {
        let path = shared.join(format!("rank-{rank}.img"));
        fs::write(&path, cluster.image(1, rank)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    cluster.lose(&BTreeSet::from([1]));
    assert!(cluster.restore().is_err());
    let (known, holdings) = cluster.gather();
    let to = cluster.scratch.0.join("restored");
    let directories = BTreeMap::from([(id(1), shared.clone())]);
    let mut get = |holdings: Holdings| {
        restore_newest(&known, holdings, directories.clone(), all_to(&to), &mut cluster.hosts)
    };
    let restored = get(holdings.clone()).unwrap();
    assert_eq!(restored.restart.sentences(), ["rank 1 of n1: from the job's directory"]);
    flip(&shared.join("rank-1.img"), 5000);
    let why = get(holdings).unwrap_err().to_string();
    assert!(why.contains("checkpoint 1 in the job's directory: damaged"), "{why}");
}

#[test]
fn levels_go_one_by_one_and_what_is_unfinished_at_once() {
    let chain = chain("local,partner,xor");
    let mut cluster = Cluster::new(&chain, &[1, 1, 1]);
    let kept = cluster.make(1, &chain.levels()[1..]);
    let store = cluster.hosts.0["n0"].clone();
    let items = |store: &HostStore| -> Vec<Item> {
        store.holdings(&kept).into_iter().map(|(_, item)| item).collect()
    };
    let copy = *items(&store).iter().find(|item| matches!(item, Item::Copy(_))).unwrap();
    assert_eq!(items(&store), [Item::Images, copy, Item::Parities(1)]);
    store.drop_level(id(1), Level::Xor).unwrap();
    assert_eq!(items(&store), [Item::Images, copy]);
    // Made, and not noted.
    store.make_parities(&kept, 1, &mut cluster.hosts).unwrap();
    assert_eq!(items(&store), [Item::Images, copy]);
    store.abort(id(1), Level::Xor);
    store.drop_level(id(1), Level::Partner).unwrap();
    assert_eq!(items(&store), [Item::Images]);
    store.make_parities(&kept, 1, &mut cluster.hosts).unwrap();
    store.prepare(id(2)).unwrap();
    let open = || HostStore::open(&cluster.scratch.0.join("n0"), "j", "n0", None);
    assert!(open().is_err(), "what is being made is nobody's leftover");
    drop(store);
    cluster.hosts.0.remove("n0");
    let again = open().unwrap();
    let left: Vec<String> = cluster
        .files()
        .iter()
        .filter(|path| path.starts_with(cluster.scratch.0.join("n0")))
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(left, ["rank-0.img", "record.json"], "what was unfinished is gone");
    again.drop_level(id(1), Level::Local).unwrap();
    again.drop_level(id(1), Level::Local).unwrap();
    assert_eq!(again.kept().0.len(), 0);
}

#[test]
fn an_image_that_was_not_reported_is_not_kept() {
    let cluster = Cluster::new(&chain("local"), &[1, 1]);
    let store = &cluster.hosts.0["n0"];
    store.prepare(id(3)).unwrap();
    let why = store.keep(&cluster.kept(3)).unwrap_err().to_string();
    assert!(why.contains("rank-0.img"), "{why}");
    fs::write(store.image_path(id(3), 0), cluster.image(4, 0)).unwrap();
    let why = store.keep(&cluster.kept(3)).unwrap_err().to_string();
    assert!(why.ends_with("it is not the image that rank reported"), "{why}");
    assert_eq!(store.kept().0.len(), 0);
}

#[test]
fn a_store_that_is_open_to_others_is_refused() {
    let scratch = Scratch::new();
    let open = || HostStore::open(&scratch.0, "j", "n0", None).map(|_| ());
    open().unwrap();
    let users = fs::read_dir(&scratch.0).unwrap().next().unwrap().unwrap().path();
    fs::set_permissions(&users, fs::Permissions::from_mode(0o750)).unwrap();
    let why = open().unwrap_err().to_string();
    assert!(why.ends_with("it is open to others (mode 750)"), "{why}");
    fs::remove_dir_all(&users).unwrap();
    std::os::unix::fs::symlink(&scratch.0, &users).unwrap();
    assert!(open().is_err(), "a link leads anywhere");
}

#[test]
fn records_are_sealed() {
    let (ours, others) = (Key::new([1; 32]), Key::new([2; 32]));
    let text = record::seal("kind", &vec![1, 2], Some(&ours)).unwrap();
    let read = |text: &str, kind, whose| {
        record::unseal::<Vec<u32>>(kind, text, whose).map_err(|why| why.to_string())
    };
    let own = Whose::Own(Some(ours));
    assert_eq!(read(&text, "kind", own), Ok(vec![1, 2]));
    assert!(read(&text, "kind", Whose::Own(Some(others))).is_err());
    assert!(read(&text, "kind", Whose::Own(None)).is_err());
    assert_eq!(read(&text, "other", own), Err("its checksum does not fit".into()));
    let bare = record::seal("kind", &vec![1, 2], None).unwrap();
    assert!(read(&bare, "kind", own).unwrap_err().starts_with("not sealed with your key"));
    assert_eq!(read(&bare, "kind", Whose::Own(None)), Ok(vec![1, 2]));
    // Somebody without the key makes the checksum fit.
    let other: serde_json::Value =
        serde_json::from_str(&record::seal("kind", &vec![1, 3], None).unwrap()).unwrap();
    let mut forged: serde_json::Value = serde_json::from_str(&text).unwrap();
    forged["record"] = other["record"].clone();
    forged["crc32c"] = other["crc32c"].clone();
    assert!(read(&forged.to_string(), "kind", own).unwrap_err().starts_with("changed since"));
}
