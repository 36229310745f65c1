// SPDX-License-Identifier: Apache-2.0
//! Records of a host's store: JSON, with a checksum and a seal, as manifests have.

use crate::error::Cause;
use crate::layout::image_name;
use crate::own::Whose;
use fermata_levels::Snapshot;
use fermata_seal::Key;
use fermata_types::{Manifest, hex, judge};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A snapshot that hosts keep: where its parts are, and its manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Its homes, and how they were arranged.
    pub snapshot: Snapshot,
    /// As it stands in the job's directory.
    pub manifest: Manifest,
}

impl Kept {
    /// Whether it is a record that a host writes: what is read from a disk may be anything.
    pub(super) fn check(&self) -> Result<(), Cause> {
        let images = &self.manifest.images;
        let listed: BTreeSet<u32> = images.iter().map(|image| image.rank).collect();
        let homes = self.snapshot.homes.iter();
        let of_homes: BTreeSet<u32> = homes.flat_map(|home| home.ranks.clone()).collect();
        let strange = |why| Err(Cause::RecordStrange(why));
        if !self.snapshot.is_sound() {
            return strange("its homes, sets or partners");
        }
        if self.manifest.epoch != self.snapshot.id.epoch {
            return strange("its number is not that of its manifest");
        }
        if listed.len() != images.len() || listed != of_homes {
            return strange("the ranks of its homes are not those of its manifest");
        }
        if images.iter().any(|image| image.file != image_name(image.rank)) {
            return strange("the names of its images");
        }
        // They are added up.
        if images.iter().any(|image| image.bytes > 1 << 48) {
            return strange("the sizes of its images");
        }
        Ok(())
    }

    /// The ranks of a home, and the sizes of their images.
    pub(super) fn images_of(&self, home: u32) -> Vec<(u32, u64)> {
        let bytes: BTreeMap<u32, u64> =
            self.manifest.images.iter().map(|image| (image.rank, image.bytes)).collect();
        let ranks = self.snapshot.homes.get(home as usize).map_or(&[][..], |home| &home.ranks);
        ranks.iter().map(|rank| (*rank, bytes.get(rank).copied().unwrap_or(0))).collect()
    }

    /// Bytes of a home's images.
    pub(super) fn bytes_of(&self, home: u32) -> u64 {
        self.images_of(home).iter().map(|(_, bytes)| bytes).sum()
    }
}

#[derive(Serialize, Deserialize)]
struct Sealed<T> {
    crc32c: u32,
    key: String,
    mac: String,
    record: T,
}

/// What checksum and MAC are of. `kind`: a record of one kind is none of another.
fn text(kind: &str, record: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut text = format!("{kind}\n").into_bytes();
    serde_json::to_writer(&mut text, record)?;
    Ok(text)
}

/// The text of a file that holds this record.
pub(crate) fn seal<T: Serialize>(
    kind: &str,
    record: &T,
    key: Option<&Key>,
) -> serde_json::Result<String> {
    let text = text(kind, record)?;
    let sealed = Sealed {
        crc32c: crc32c::crc32c(&text),
        key: key.map_or(String::new(), |key| hex(&key.id())),
        mac: key.map_or(String::new(), |key| hex(&key.store_mac(&text))),
        record,
    };
    serde_json::to_string(&sealed)
}

/// Reads it, if it may be believed.
pub(crate) fn unseal<T: Serialize + DeserializeOwned>(
    kind: &str,
    json: &str,
    whose: Whose,
) -> Result<T, Cause> {
    let sealed: Sealed<T> = serde_json::from_str(json)?;
    let text = text(kind, &sealed.record)?;
    if crc32c::crc32c(&text) != sealed.crc32c {
        return Err(Cause::RecordDamaged);
    }
    whose.accept(judge(&sealed.key, &sealed.mac, whose.key(), |key| key.store_mac(&text)))?;
    Ok(sealed.record)
}
