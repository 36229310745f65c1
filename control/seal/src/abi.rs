// SPDX-License-Identifier: Apache-2.0
//! What the launcher calls: runtime/image/seal.h declares the same.
#![allow(unsafe_code)] // the boundary to C++

use crate::{ID_BYTES, ImageKeys, KEY_BYTES, Key, MAC_BYTES, TAG_BYTES, is_equal};
use core::slice::{from_raw_parts, from_raw_parts_mut};

/// A run of bytes.
#[repr(C)]
pub struct Part {
    data: *const u8,
    bytes: usize,
}

/// # Safety
/// As of `from_raw_parts`, but nothing is read at a null pointer of no bytes.
unsafe fn slice<'a>(data: *const u8, bytes: usize) -> &'a [u8] {
    if bytes == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { from_raw_parts(data, bytes) }
}

/// `fermata_seal_keys`
#[unsafe(no_mangle)]
pub extern "C" fn fermata_seal_keys(
    key: &[u8; KEY_BYTES],
    salt: &[u8; 32],
    keys: &mut ImageKeys,
    id: &mut [u8; ID_BYTES],
) {
    let key = Key::new(*key);
    *keys = key.image(salt);
    *id = key.id();
}

/// `fermata_seal_tag`
///
/// # Safety
/// There are so many bytes at `pages`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fermata_seal_tag(
    keys: &ImageKeys,
    pages: *const u8,
    bytes: usize,
    tag: &mut [u8; TAG_BYTES],
) {
    // SAFETY: the caller's promise.
    *tag = keys.tag(unsafe { slice(pages, bytes) });
}

/// `fermata_seal_encrypt`
///
/// # Safety
/// There are so many bytes at `pages`, and they may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fermata_seal_encrypt(
    keys: &ImageKeys,
    extent: u64,
    pages: *mut u8,
    bytes: usize,
    tag: &mut [u8; TAG_BYTES],
) {
    // SAFETY: the caller's promise.
    *tag = keys.encrypt(extent, unsafe { from_raw_parts_mut(pages, bytes) });
}

/// `fermata_seal_decrypt`
///
/// # Safety
/// There are so many bytes at `pages`, and they may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fermata_seal_decrypt(
    keys: &ImageKeys,
    extent: u64,
    pages: *mut u8,
    bytes: usize,
    tag: &[u8; TAG_BYTES],
) -> bool {
    // SAFETY: the caller's promise.
    keys.decrypt(extent, unsafe { from_raw_parts_mut(pages, bytes) }, tag)
}

/// `fermata_seal_mac`
///
/// # Safety
/// There are so many parts, and so many bytes at each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fermata_seal_mac(
    keys: &ImageKeys,
    parts: *const Part,
    count: usize,
    mac: &mut [u8; MAC_BYTES],
) {
    // SAFETY: the caller's promise.
    let parts = unsafe { from_raw_parts(parts, count) };
    // SAFETY: likewise.
    *mac = keys.mac(parts.iter().map(|part| unsafe { slice(part.data, part.bytes) }));
}

/// `fermata_seal_equal`
///
/// # Safety
/// There are so many bytes at both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fermata_seal_equal(a: *const u8, b: *const u8, bytes: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { is_equal(slice(a, bytes), slice(b, bytes)) }
}

#[cfg(feature = "freestanding")]
unsafe extern "C" {
    /// The launcher's: ends the process.
    fn fermata_seal_broken() -> !;
}

/// Where a panic leads: there is nobody who could catch it.
#[cfg(feature = "freestanding")]
pub(crate) fn stop() -> ! {
    // SAFETY: it takes nothing and does not return.
    unsafe { fermata_seal_broken() }
}
