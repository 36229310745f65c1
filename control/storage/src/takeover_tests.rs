// SPDX-License-Identifier: Apache-2.0
//! What is taken over, what is refused, and what a takeover leaves that fails or is interrupted.

use crate::StorageError;
use crate::own::{self, Whose};
use crate::seal_tests::{KEY, OTHER, forge, problems, snapshot};
use crate::snapshot::commit;
use crate::takeover::Takeover;
use crate::verify::tests::Scratch;
use fermata_seal::Key;
use fermata_types::{IMAGE_HEADER_BYTES, Manifest};
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

const EPOCH_OFFSET: usize = 28;

pub(crate) fn trust(snapshot: &Path, key: &Key) -> Result<Manifest, StorageError> {
    Takeover::of(snapshot, key, |_| {})?.carry_out().cloned()
}

/// Every file of a snapshot.
fn contents(snapshot: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(snapshot).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.display().to_string(), fs::read(path).unwrap())).collect()
}

/// It is refused with that word, and nothing is written.
fn refused(snapshot: &Path, key: &Key, word: &str) {
    let before = contents(snapshot);
    let why = trust(snapshot, key).unwrap_err().to_string();
    assert!(why.contains(word), "{why}");
    assert!(contents(snapshot) == before, "something was written: {why}");
}

#[test]
fn what_is_whole_is_taken_over() {
    let scratch = Scratch::new();
    let snapshot = snapshot(&scratch);
    for (key, other) in [(OTHER, KEY), (KEY, OTHER)] {
        trust(&snapshot, &key).unwrap();
        assert_eq!(problems(&snapshot, Whose::Own(Some(key))), Vec::<String>::new());
        assert!(!problems(&snapshot, Whose::Own(Some(other))).is_empty());
        let sealed = contents(&snapshot);
        trust(&snapshot, &key).unwrap();
        assert!(contents(&snapshot) == sealed, "what is sealed with the key already");
    }
    let path = snapshot.join("rank-2.img");
    let mut bytes = fs::read(&path).unwrap();
    bytes[IMAGE_HEADER_BYTES + 5] ^= 1;
    fs::write(&path, bytes).unwrap();
    refused(&snapshot, &OTHER, "rank-2.img: damaged");
}

#[test]
fn an_image_that_the_manifest_does_not_list_is_not_taken_over() {
    let scratch = Scratch::new();
    let snapshot = snapshot(&scratch);
    let other = commit(&scratch.job(), &scratch.fill(2), Some(&KEY)).unwrap();
    fs::copy(other.join("rank-1.img"), snapshot.join("rank-1.img")).unwrap();
    refused(&snapshot, &OTHER, "rank-1.img: is of checkpoint 2, not 1");
    forge(&snapshot.join("rank-1.img"), |bytes| bytes[EPOCH_OFFSET] = 1);
    refused(&snapshot, &OTHER, "rank-1.img: is not the file the manifest describes");
}

#[test]
fn what_somebody_has_changed_under_ones_key_is_not_taken_over() {
    let scratch = Scratch::new();
    let snapshot = snapshot(&scratch);
    let path = snapshot.join("rank-1.img");
    let sealed = fs::read(&path).unwrap();
    forge(&path, |bytes| bytes[IMAGE_HEADER_BYTES] ^= 1);
    refused(&snapshot, &KEY, "rank-1.img: changed since it was sealed");
    fs::write(&path, sealed).unwrap();
    let manifest = snapshot.join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let at = text.find("\"mac\": \"").unwrap() + 8;
    let other = if &text[at..=at] == "0" { "1" } else { "0" };
    fs::write(&manifest, format!("{}{other}{}", &text[..at], &text[at + 1..])).unwrap();
    refused(&snapshot, &KEY, "manifest.json: changed since it was sealed");
}

#[test]
fn what_others_may_write_to_is_not_taken_over() {
    let scratch = Scratch::new();
    let snapshot = scratch.snapshot(1);
    let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    mode(&snapshot, 0o775);
    refused(&snapshot, &KEY, "others may write to it (mode 775)");
    mode(&snapshot, 0o700);
    let (image, elsewhere) = (snapshot.join("rank-1.img"), scratch.0.join("elsewhere"));
    mode(&image, 0o664);
    refused(&snapshot, &KEY, "others may write to it (mode 664)");
    mode(&image, 0o600);
    fs::rename(&image, &elsewhere).unwrap();
    symlink(&elsewhere, &image).unwrap();
    refused(&snapshot, &KEY, "is a link");
    fs::remove_file(&image).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&image).status().unwrap().success());
    let why = trust(&snapshot, &KEY).unwrap_err().to_string();
    assert!(why.contains("is no regular file"), "{why}");
}

/// The last image cannot be written to, whatever has been written before.
#[test]
fn what_fails_leaves_the_snapshot_as_it_was() {
    let scratch = Scratch::new();
    let sealed = commit(&scratch.job(), &scratch.fill(2), Some(&KEY)).unwrap();
    for snapshot in [scratch.snapshot(1), sealed] {
        let before = contents(&snapshot);
        let mut takeover = Takeover::of(&snapshot, &OTHER, |_| {}).unwrap();
        takeover.reseals[2].file = File::open(snapshot.join("rank-2.img")).unwrap();
        takeover.carry_out().unwrap_err();
        assert!(contents(&snapshot) == before);
        // At the last step.
        let takeover = Takeover::of(&snapshot, &OTHER, |_| {}).unwrap();
        fs::rename(snapshot.join("manifest.json"), scratch.0.join("manifest")).unwrap();
        fs::create_dir_all(snapshot.join("manifest.json/in the way")).unwrap();
        takeover.carry_out().unwrap_err();
        fs::remove_dir_all(snapshot.join("manifest.json")).unwrap();
        fs::rename(scratch.0.join("manifest"), snapshot.join("manifest.json")).unwrap();
        assert!(contents(&snapshot) == before);
    }
}

#[test]
fn a_takeover_continues_where_one_was_interrupted() {
    for steps in 1..=4 {
        let scratch = Scratch::new();
        let snapshot = snapshot(&scratch);
        let takeover = Takeover::of(&snapshot, &OTHER, |_| {}).unwrap();
        takeover.append_tags().unwrap();
        if steps > 1 {
            takeover.put_partial().unwrap();
        }
        let written = if steps > 2 { 2 * steps - 5 } else { 0 };
        for reseal in &takeover.reseals[..written] {
            reseal.put_header().unwrap();
        }
        drop(takeover);
        trust(&snapshot, &OTHER).unwrap();
        assert_eq!(problems(&snapshot, Whose::Own(Some(OTHER))), Vec::<String>::new(), "{steps}");
        assert!(!snapshot.join("manifest.json.partial").exists());
    }
}

/// Nor does what another takeover has left let images be mixed.
#[test]
fn an_interrupted_takeover_of_another_snapshot_lists_nothing() {
    let scratch = Scratch::new();
    let (first, second) = (scratch.snapshot(1), scratch.snapshot(2));
    let takeover = Takeover::of(&second, &KEY, |_| {}).unwrap();
    takeover.append_tags().unwrap();
    takeover.put_partial().unwrap();
    takeover.put_headers().unwrap();
    for name in ["rank-1.img", "manifest.json.partial"] {
        own::create(&first.join(name)).unwrap();
        fs::copy(second.join(name), first.join(name)).unwrap();
    }
    refused(&first, &KEY, "rank-1.img: is of checkpoint 2, not 1");
}
