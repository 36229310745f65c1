// SPDX-License-Identifier: Apache-2.0
//! A snapshot is committed, then damaged in every way that can be named.

use crate::own::Whose;
use crate::{
    JobDir, commit, discard, list_snapshots, prepare, prepare_program, program_files, prune,
    samples, verify,
};
use fermata_seal::Key;
use fermata_types::{Checkpointer, ImageRecord, MANIFEST_FILE, MANIFEST_FORMAT, Manifest};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

const RANKS: u32 = 3;

pub(crate) struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("fermata-storage-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn job(&self) -> JobDir {
        JobDir::new(&self.0, "j")
    }

    pub fn fill(&self, epoch: u32) -> Manifest {
        let job = self.job();
        job.create().unwrap();
        let partial = prepare(&job, epoch).unwrap();
        let images = (0..RANKS)
            .map(|rank| {
                let (bytes, header_crc) = samples::image("j", epoch, rank, RANKS);
                let file = format!("rank-{rank}.img");
                fs::write(partial.join(&file), &bytes).unwrap();
                let bytes = bytes.len() as u64;
                let host = String::new();
                let mac = String::new();
                ImageRecord { rank, file, bytes, header_crc, mac, pause_ns: 0, host }
            })
            .collect();
        Manifest {
            format: MANIFEST_FORMAT,
            job: "j".into(),
            epoch,
            size: RANKS,
            created_unix_s: 0,
            lower: String::new(),
            front: String::new(),
            argv: vec![],
            programs: vec![],
            cwd: String::new(),
            checkpointer: Checkpointer::Native,
            images,
            files: vec![],
            fermata: String::new(),
        }
    }

    pub fn snapshot(&self, epoch: u32) -> PathBuf {
        let manifest = self.fill(epoch);
        commit(&self.job(), &manifest, None).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_committed_snapshot_is_good_and_latest() {
    let scratch = Scratch::new();
    let snapshot = scratch.snapshot(4);
    let verified = verify(&snapshot, Whose::Own(None), |_| {});
    assert_eq!(verified.problems, Vec::<String>::new());
    assert_eq!(verified.bytes, u64::from(RANKS) * 8192);
    let latest = fs::read_link(scratch.job().snapshots().join("latest")).unwrap();
    assert_eq!(latest, PathBuf::from("4"));
    assert!(!scratch.job().snapshots().join("4.partial").exists());
}

#[test]
fn every_flipped_byte_that_matters_is_noticed_and_the_rank_named() {
    let scratch = Scratch::new();
    let snapshot = scratch.snapshot(1);
    let path = snapshot.join("rank-1.img");
    let good = fs::read(&path).unwrap();
    // The whole file but the padding between table ends: header, both extents, all tables.
    for at in (0..good.len()).step_by(37).chain(good.len() - 170..good.len()) {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        fs::write(&path, &bad).unwrap();
        let problems = verify(&snapshot, Whose::Own(None), |_| {}).problems;
        assert_eq!(problems.len(), 1, "byte {at}");
        assert!(problems[0].starts_with("rank 1: rank-1.img: "), "{problems:?}");
    }
}

#[test]
fn pruning_removes_what_a_dead_coordinator_left() {
    let scratch = Scratch::new();
    let job = scratch.job();
    for epoch in [1, 2, 5] {
        scratch.fill(epoch);
    }
    fs::rename(job.snapshots().join("2.partial"), job.snapshots().join("2.discarded")).unwrap();
    scratch.snapshot(3);
    assert!(prune(&job, 2, None).is_empty());
    let mut left: Vec<_> = fs::read_dir(job.snapshots())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["3", "5.partial", "latest"], "a checkpoint under way is left alone");
}

#[test]
fn truncation_is_named() {
    let scratch = Scratch::new();
    let snapshot = scratch.snapshot(1);
    let path = snapshot.join("rank-2.img");
    let good = fs::read(&path).unwrap();
    for keep in [0, 100, 4096, good.len() / 2, good.len() - 1] {
        fs::write(&path, &good[..keep]).unwrap();
        let problems = verify(&snapshot, Whose::Own(None), |_| {}).problems;
        assert!(problems[0].contains("rank 2") && problems[0].contains("truncated"));
    }
}

#[test]
fn all_missing_ranks_are_named() {
    let scratch = Scratch::new();
    let snapshot = scratch.snapshot(1);
    fs::remove_file(snapshot.join("rank-0.img")).unwrap();
    fs::remove_file(snapshot.join("rank-2.img")).unwrap();
    let problems = verify(&snapshot, Whose::Own(None), |_| {}).problems;
    assert_eq!(problems.len(), 2);
    assert!(problems[0].contains("rank 0") && problems[0].contains("missing"));
    assert!(problems[1].contains("rank 2") && problems[1].contains("missing"));
}

#[test]
fn images_of_another_rank_epoch_or_job_are_refused() {
    let scratch = Scratch::new();
    let snapshot = scratch.snapshot(1);
    let path = snapshot.join("rank-0.img");
    for (bytes, _) in [
        samples::image("j", 1, 1, RANKS),
        samples::image("j", 2, 0, RANKS),
        samples::image("k", 1, 0, RANKS),
        samples::image("j", 1, 0, RANKS + 1),
    ] {
        fs::write(&path, &bytes).unwrap();
        assert_eq!(verify(&snapshot, Whose::Own(None), |_| {}).problems.len(), 1);
    }
}

#[test]
fn a_damaged_manifest_is_noticed() {
    let scratch = Scratch::new();
    let snapshot = scratch.snapshot(1);
    let path = snapshot.join("manifest.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"size\": 3", "\"size\": 2")).unwrap();
    assert!(
        verify(&snapshot, Whose::Own(None), |_| {}).problems[0]
            .contains("manifest.json is damaged")
    );
    fs::remove_file(&path).unwrap();
    assert!(!verify(&snapshot, Whose::Own(None), |_| {}).is_good());
}

#[test]
fn a_commit_refuses_an_image_that_was_not_reported() {
    let scratch = Scratch::new();
    let mut manifest = scratch.fill(1);
    manifest.images[1].header_crc ^= 1;
    let error = commit(&scratch.job(), &manifest, None).unwrap_err().to_string();
    assert!(error.contains("rank-1.img"), "{error}");
    assert!(list_snapshots(&scratch.job()).is_empty());
    discard(&scratch.job(), 1);
    assert_eq!(fs::read_dir(scratch.job().snapshots()).unwrap().count(), 0);
}

#[test]
fn pruning_keeps_the_newest() {
    let scratch = Scratch::new();
    for epoch in [1, 2, 10, 11] {
        scratch.snapshot(epoch);
    }
    assert_eq!(prune(&scratch.job(), 2, None).len(), 2);
    let left: Vec<u32> = list_snapshots(&scratch.job()).iter().map(|s| s.epoch).collect();
    assert_eq!(left, [10, 11]);
    prune(&scratch.job(), 0, None);
    assert_eq!(list_snapshots(&scratch.job()).len(), 1);
}

#[test]
fn pruning_keeps_what_is_whole() {
    let scratch = Scratch::new();
    let job = scratch.job();
    let paths: Vec<_> = (1..=4).map(|epoch| scratch.snapshot(epoch)).collect();
    // Checkpoints 3 and 4 can be listed, but nobody could restart from them.
    fs::remove_file(paths[3].join("manifest.json")).unwrap();
    fs::write(paths[2].join("rank-1.img"), "short").unwrap();
    assert!(prune(&job, 3, None).is_empty(), "there are but two whole ones");
    let removed: Vec<u32> = prune(&job, 1, None).iter().map(|s| s.epoch).collect();
    assert_eq!(removed, [1]);
    let left: Vec<u32> = list_snapshots(&job).iter().map(|s| s.epoch).collect();
    assert_eq!(left, [2, 3, 4]);
    scratch.snapshot(5);
    let removed: Vec<u32> = prune(&job, 1, Some(2)).iter().map(|s| s.epoch).collect();
    assert_eq!(removed, [3, 4], "checkpoint 2 is spared");
}

#[test]
fn what_a_program_saved_itself_is_listed_and_missed() {
    let scratch = Scratch::new();
    let (job, partial) = (scratch.job(), prepare(&scratch.job(), 5).unwrap());
    prepare_program(&job, 5).unwrap();
    fs::create_dir(partial.join("program/sub")).unwrap();
    fs::write(partial.join("program/sub/b"), "state").unwrap();
    fs::write(partial.join("program/a"), "").unwrap();
    let files = program_files(&job, 5).unwrap();
    let listed: Vec<_> = files.iter().map(|file| (file.path.as_str(), file.bytes)).collect();
    assert_eq!(listed, [("program/a", 0), ("program/sub/b", 5)]);
    let images = vec![];
    let checkpointer = Checkpointer::Itself;
    let manifest = Manifest { epoch: 5, images, files, checkpointer, ..scratch.fill(4) };
    let snapshot = commit(&job, &manifest, None).unwrap();
    assert_eq!(verify(&snapshot, Whose::Own(None), |_| {}).problems, Vec::<String>::new());
    fs::write(snapshot.join("program/sub/b"), "sta").unwrap();
    fs::remove_file(snapshot.join("program/a")).unwrap();
    let problems = verify(&snapshot, Whose::Own(None), |_| {}).problems;
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[1].contains("program/sub/b: has 3 bytes, not 5"), "{problems:?}");
}

#[test]
fn what_a_program_saved_must_be_files() {
    let scratch = Scratch::new();
    let partial = prepare(&scratch.job(), 5).unwrap();
    prepare_program(&scratch.job(), 5).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", partial.join("program/link")).unwrap();
    let error = program_files(&scratch.job(), 5).unwrap_err().to_string();
    assert!(error.contains("program/link: it is neither a file nor a directory"), "{error}");
}

#[test]
fn what_cannot_be_read_or_is_not_for_us_is_not_taken_for_damaged() {
    let scratch = Scratch::new();
    let snapshot = scratch.snapshot(1);
    let (manifest, image) = (snapshot.join(MANIFEST_FILE), snapshot.join("rank-1.img"));
    let ours = Whose::Own(None);
    let look = |whose: Whose| {
        let verified = verify(&snapshot, whose, |_| {});
        assert!(!verified.is_good());
        verified.is_out_of_reach
    };
    assert!(look(Whose::Own(Some(Key::new([1; 32])))), "there is no seal");
    let good = fs::read(&image).unwrap();
    for path in [&manifest, &image] {
        let kept = fs::read(path).unwrap();
        fs::remove_file(path).unwrap();
        assert!(!look(ours), "{} is missing", path.display());
        fs::create_dir(path).unwrap();
        assert!(look(ours), "{} cannot be read", path.display());
        fs::remove_dir(path).unwrap();
        fs::write(path, &kept[..kept.len() / 2]).unwrap();
        assert!(!look(ours), "{} is cut", path.display());
        fs::write(path, &kept).unwrap();
    }
    fs::write(&image, [&good[..good.len() - 1], b"?"].concat()).unwrap();
    assert!(!look(ours), "an image is changed");
    let text = fs::read_to_string(&manifest).unwrap().replace("\"format\": 3", "\"format\": 99");
    fs::write(&manifest, text).unwrap();
    assert!(look(ours), "another version wrote it");
}
