// SPDX-License-Identifier: Apache-2.0
//! What makes snapshots authentic and, if wanted, secret: keys, and what is computed with them. The
//! launcher links the same code (`abi`), so it needs no libc, no allocator and no thread register.
//!
//! ```text
//!     the user's key ─┬─ its public id
//!                     ├─ manifests: MAC
//!                     ├─ records of jobs: MAC
//!                     ├─ records of hosts' stores: MAC
//!                     └─ with the random salt of an image: three keys of that image alone,
//!                        for the tags of its pages, for its header and tables, and to encrypt
//! ```
//!
//! Everything is derived by BLAKE3 under a context of its own, so no key serves two purposes.

#![cfg_attr(not(test), no_std)]

#[cfg(feature = "abi")]
mod abi;

use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit, Nonce};
use core::fmt;

/// Of the user's key, and of every key that is derived from it.
pub const KEY_BYTES: usize = 32;
/// Public: it tells which key a seal was made with.
pub const ID_BYTES: usize = 8;
/// Of manifests, of records of jobs, and of an image's header and tables.
pub const MAC_BYTES: usize = 32;
/// Of the pages of one extent.
pub const TAG_BYTES: usize = 16;

const ID_CONTEXT: &str = "Fermata 2026 id of a user's key";
const MANIFEST_CONTEXT: &str = "Fermata 2026 manifest";
const JOB_CONTEXT: &str = "Fermata 2026 record of a job";
const STORE_CONTEXT: &str = "Fermata 2026 record of a host's store";
const PAGES_CONTEXT: &str = "Fermata 2026 image, tags of pages";
const TABLES_CONTEXT: &str = "Fermata 2026 image, header and tables";
const CIPHER_CONTEXT: &str = "Fermata 2026 image, encryption of pages";

/// What a MAC says to whoever has a key, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seal {
    /// There is none.
    Absent,
    /// Made with this key, and nothing has changed since.
    Ours,
    /// Made with another key than this one, or there is none to compare with.
    Others,
    /// It names this key, but was not made with it: something has been changed.
    Broken,
}

/// A user's key. Prints as nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key([u8; KEY_BYTES]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// A key of these bytes, which have to be random.
    #[must_use]
    pub const fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// Which key it is, for everybody to see.
    #[must_use]
    pub fn id(&self) -> [u8; ID_BYTES] {
        first(&blake3::derive_key(ID_CONTEXT, &self.0))
    }

    /// The MAC of a manifest's text.
    #[must_use]
    pub fn manifest_mac(&self, text: &[u8]) -> [u8; MAC_BYTES] {
        *blake3::keyed_hash(&blake3::derive_key(MANIFEST_CONTEXT, &self.0), text).as_bytes()
    }

    /// The MAC of a job's record.
    #[must_use]
    pub fn job_mac(&self, text: &[u8]) -> [u8; MAC_BYTES] {
        *blake3::keyed_hash(&blake3::derive_key(JOB_CONTEXT, &self.0), text).as_bytes()
    }

    /// The MAC of a record of a host's store.
    #[must_use]
    pub fn store_mac(&self, text: &[u8]) -> [u8; MAC_BYTES] {
        *blake3::keyed_hash(&blake3::derive_key(STORE_CONTEXT, &self.0), text).as_bytes()
    }

    /// The keys of an image with this salt, which no two images share.
    #[must_use]
    pub fn image(&self, salt: &[u8; 32]) -> ImageKeys {
        let derived = |context| {
            let mut hasher = blake3::Hasher::new_derive_key(context);
            *hasher.update(&self.0).update(salt).finalize().as_bytes()
        };
        ImageKeys {
            pages: derived(PAGES_CONTEXT),
            tables: derived(TABLES_CONTEXT),
            cipher: derived(CIPHER_CONTEXT),
        }
    }
}

/// The keys of one image.
#[repr(C)]
#[derive(Clone)]
pub struct ImageKeys {
    pages: [u8; KEY_BYTES],
    tables: [u8; KEY_BYTES],
    cipher: [u8; KEY_BYTES],
}

impl fmt::Debug for ImageKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ImageKeys(..)")
    }
}

impl ImageKeys {
    /// The tag of an extent's pages.
    #[must_use]
    pub fn tag(&self, pages: &[u8]) -> [u8; TAG_BYTES] {
        first(blake3::keyed_hash(&self.pages, pages).as_bytes())
    }

    /// Encrypts the pages of the extent of that number, and returns their tag.
    #[must_use]
    pub fn encrypt(&self, extent: u64, pages: &mut [u8]) -> [u8; TAG_BYTES] {
        // It fails for more than 256 GiB; an extent has 4 MiB at most. Then no tag ever fits.
        let tag = self.cipher().encrypt_in_place_detached(&nonce(extent), &[], pages);
        tag.map_or([0; TAG_BYTES], Into::into)
    }

    /// The reverse of `encrypt`. False, and the pages stay as they are: the tag does not fit.
    #[must_use]
    pub fn decrypt(&self, extent: u64, pages: &mut [u8], tag: &[u8; TAG_BYTES]) -> bool {
        let cipher = self.cipher();
        cipher.decrypt_in_place_detached(&nonce(extent), &[], pages, tag.into()).is_ok()
    }

    /// The MAC of header and tables, in their order. Their sizes are in the header.
    #[must_use]
    pub fn mac<'a>(&self, parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; MAC_BYTES] {
        let mut hasher = blake3::Hasher::new_keyed(&self.tables);
        for part in parts {
            hasher.update(part);
        }
        *hasher.finalize().as_bytes()
    }

    fn cipher(&self) -> ChaCha20Poly1305 {
        ChaCha20Poly1305::new(&self.cipher.into())
    }
}

/// Whether two MACs or tags are the same; how long it takes does not tell where they differ.
#[must_use]
pub fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let differs = one.iter().zip(other).fold(0, |bits, (a, b)| bits | (a ^ b));
    one.len() == other.len() && core::hint::black_box(differs) == 0
}

/// A key encrypts one image, and in that each number occurs once.
fn nonce(extent: u64) -> Nonce {
    let mut nonce = Nonce::default();
    nonce[4..].copy_from_slice(&extent.to_le_bytes());
    nonce
}

fn first<const N: usize>(bytes: &[u8; 32]) -> [u8; N] {
    let mut start = [0; N];
    start.copy_from_slice(&bytes[..N]);
    start
}

#[cfg(feature = "freestanding")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    abi::stop()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: [u8; 32] = [7; 32];

    fn keys(byte: u8) -> ImageKeys {
        Key::new([byte; KEY_BYTES]).image(&SALT)
    }

    #[test]
    fn every_key_is_another_one() {
        let (one, other) = (keys(1), keys(2));
        let salted = Key::new([1; KEY_BYTES]).image(&[8; 32]);
        let all = [&one, &other, &salted].map(|keys| [keys.pages, keys.tables, keys.cipher]);
        let all = all.as_flattened();
        for (i, key) in all.iter().enumerate() {
            assert!(!all[..i].contains(key), "{i}");
        }
        assert_ne!(Key::new([1; KEY_BYTES]).id(), Key::new([2; KEY_BYTES]).id());
    }

    #[test]
    fn pages_come_back_under_their_key_number_and_tag_alone() {
        let text: [u8; 4096] = core::array::from_fn(|i| u8::try_from(i % 251).unwrap_or(0));
        let mut pages = text;
        let tag = keys(1).encrypt(5, &mut pages);
        assert!(pages.iter().zip(&text).filter(|(a, b)| a == b).count() < 100);
        let sealed = pages;
        let mut opens = |keys: &ImageKeys, extent, tag: &[u8; TAG_BYTES], flipped: usize| {
            pages = sealed;
            pages[flipped % 4096] ^= u8::from(flipped < 4096);
            let opened = keys.decrypt(extent, &mut pages, tag);
            assert_eq!(opened, pages == text);
            opened
        };
        assert!(opens(&keys(1), 5, &tag, 4096));
        assert!(!opens(&keys(2), 5, &tag, 4096));
        assert!(!opens(&keys(1), 6, &tag, 4096));
        assert!(!opens(&keys(1), 5, &[0; TAG_BYTES], 4096));
        assert!(!opens(&keys(1), 5, &tag, 17));
    }

    #[test]
    fn tags_and_macs_are_of_what_they_cover() {
        let keys = keys(3);
        assert_ne!(keys.tag(b"pages"), keys.tag(b"pagez"));
        let whole = keys.mac([b"header".as_slice(), b"tables"]);
        assert_eq!(whole, keys.mac([b"headertables".as_slice()]));
        assert_ne!(whole, keys.mac([b"headertablet".as_slice()]));
        let key = Key::new([3; KEY_BYTES]);
        assert_ne!(whole, key.manifest_mac(b"headertables"));
        assert_ne!(key.manifest_mac(b"headertables"), key.job_mac(b"headertables"));
    }

    #[test]
    fn equal_is_equal_in_every_byte() {
        assert!(is_equal(b"abc", b"abc") && is_equal(b"", b""));
        assert!(!is_equal(b"abc", b"abd") && !is_equal(b"abc", b"ab") && !is_equal(b"abc", b"xbc"));
    }

    #[test]
    fn keys_print_as_nothing() {
        assert_eq!(format!("{:?} {:?}", Key::new([1; 32]), keys(1)), "Key(..) ImageKeys(..)");
    }
}
