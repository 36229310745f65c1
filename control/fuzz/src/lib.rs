// SPDX-License-Identifier: Apache-2.0
//! What the fuzz targets of `tests/fuzz` call of the control plane. A panic is a finding, and so is
//! an invariant that does not hold.
#![allow(unsafe_code)] // the boundary to libFuzzer is C

use fermata_membership::{Action, Config, Event, Guard, Machine, Message, NODES_MAX};
use fermata_seal::{Key, Seal};
use fermata_storage::{Image, Whose, build_id};
use fermata_types::{
    FrameBuffer, JobRecord, MANIFEST_FORMAT, Manifest, decode_frame, encode_frame,
};
use serde_json::Value;
use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// # Safety
/// `path` is a NUL-terminated string that nobody changes during the call.
unsafe fn path_of<'a>(path: *const c_char) -> &'a Path {
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(path) };
    Path::new(OsStr::from_bytes(text.to_bytes()))
}

/// # Safety
/// `data` points at `bytes` bytes that nobody changes during the call.
unsafe fn slice_of<'a>(data: *const u8, bytes: usize) -> &'a [u8] {
    if bytes == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data, bytes) }
}

/// What `tests/fuzz/targets/image.cpp` seals images with.
const KEY: Key = Key::new([0x5a; 32]);

/// Reads an image with all its pages, as a restart would believe it. Returns 0 if it is good.
///
/// # Safety
/// `path` is a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fermata_fuzz_image(path: *const c_char, sealed: bool) -> i32 {
    // SAFETY: the caller's promise.
    let path = unsafe { path_of(path) };
    let Ok(mut image) = Image::open(path, Whose::Own(sealed.then_some(KEY))) else { return 1 };
    for region in &image.regions {
        let _ = image.string(region.path_string);
    }
    let mut read = 0;
    let extents: u64 = image.extents.iter().fold(0, |sum, e| sum.saturating_add(e.bytes));
    match image.check_pages(|bytes| read += bytes) {
        Ok(()) => {
            assert_eq!(read, extents);
            0
        }
        Err(problem) => {
            assert!(!problem.to_string().is_empty());
            1
        }
    }
}

/// Takes messages off a stream that arrives in pieces. Returns how many there were.
///
/// # Safety
/// `stream` points at `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fermata_fuzz_frames(stream: *const u8, bytes: usize, piece: usize) -> u32 {
    // SAFETY: the caller's promise.
    let stream = unsafe { slice_of(stream, bytes) };
    let mut buffer = FrameBuffer::default();
    let mut count = 0;
    for part in stream.chunks(piece.max(1)) {
        buffer.push(part);
        loop {
            match buffer.pop() {
                Ok(Some(message)) => {
                    count += 1;
                    assert_eq!(decode_frame(&encode_frame(&message)).as_ref(), Ok(&message));
                }
                Ok(None) => break,
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    return count;
                }
            }
        }
    }
    count
}

/// What became of a text: `Outcome` of `tests/fuzz/targets/records.cpp`.
#[repr(u32)]
pub enum Outcome {
    /// No record, or one that lacks something.
    Neither,
    /// A manifest in which nothing is missing, with all it may have.
    Manifest,
    /// Such a job record.
    Job,
}

/// Reads a text as the two records. What was read is written and read again as the same. Formats
/// become the current one, except `other`.
///
/// # Safety
/// `text` points at `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fermata_fuzz_records(
    text: *const u8,
    bytes: usize,
    other: u32,
) -> Outcome {
    // SAFETY: the caller's promise.
    let Ok(text) = std::str::from_utf8(unsafe { slice_of(text, bytes) }) else {
        return Outcome::Neither;
    };
    if let Ok((manifest, _)) = Manifest::unseal(text, Some(&KEY)) {
        reseal(&manifest);
    }
    // The checksum keeps changed manifests out; their content alone must stand the way as well.
    if let Ok(manifest) = serde_json::from_str::<Manifest>(text) {
        reseal(&manifest);
    }
    if let Ok(record) = serde_json::from_str::<JobRecord>(text) {
        let again = serde_json::to_string_pretty(&record).unwrap_or_default();
        assert_eq!(serde_json::from_str::<JobRecord>(&again).ok(), Some(record));
    }
    if let Ok((record, _)) = JobRecord::unseal(text, Some(&KEY)) {
        let again = record.seal(Some(&KEY)).unwrap_or_default();
        assert_eq!(JobRecord::unseal(&again, Some(&KEY)).ok(), Some((record, Seal::Ours)));
    }
    whole_record(text, other).unwrap_or(Outcome::Neither)
}

fn whole_record(text: &str, other: u32) -> Option<Outcome> {
    let mut text: Value = serde_json::from_str(text).ok()?;
    let content = text.get("manifest").unwrap_or(&text);
    if let Ok(mut manifest) = serde_json::from_value::<Manifest>(content.clone()) {
        let whole = serde_json::to_value(&manifest).ok()? == *content;
        if manifest.format != other {
            manifest.format = MANIFEST_FORMAT;
        }
        return (reseal(&manifest) && whole).then_some(Outcome::Manifest);
    }
    let fields = text.as_object_mut()?;
    for name in ["key", "mac"] {
        fields.remove(name);
    }
    let record = serde_json::from_value::<JobRecord>(text.clone()).ok()?;
    (serde_json::to_value(&record).ok()? == text).then_some(Outcome::Job)
}

/// Whether a manifest can be read again.
fn reseal(manifest: &Manifest) -> bool {
    let again = manifest.seal(Some(&KEY)).and_then(|text| Manifest::unseal(&text, Some(&KEY)));
    let known = (2..=MANIFEST_FORMAT).contains(&manifest.format);
    assert_eq!(again.ok(), known.then(|| (manifest.clone(), Seal::Ours)));
    known
}

/// The build-id of a file, in hexadecimal without a closing NUL. Returns its length, -1 if the file
/// cannot be read.
///
/// # Safety
/// `path` is a NUL-terminated string, `hex` points at `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fermata_fuzz_build_id(
    path: *const c_char,
    hex: *mut c_char,
    capacity: usize,
) -> i32 {
    // SAFETY: the caller's promise.
    let path = unsafe { path_of(path) };
    let Ok(id) = build_id(path) else { return -1 };
    assert!(id.len() <= capacity);
    // SAFETY: the caller's promise, and the length was checked.
    unsafe { std::ptr::copy_nonoverlapping(id.as_ptr(), hex.cast(), id.len()) };
    i32::try_from(id.len()).unwrap_or(-1)
}

/// Datagrams of other nodes come to node 0, in a stream: who sends it, how many tenths of a second
/// later it comes, its length in two bytes, then it. First each as it comes from the network, then
/// as if the guard had let it through. Returns how many were understood.
///
/// # Safety
/// `stream` points at `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fermata_fuzz_membership(stream: *const u8, bytes: usize) -> u32 {
    // SAFETY: the caller's promise.
    let mut left = unsafe { slice_of(stream, bytes) };
    let mut guard = Guard::new(&[7; 32], 0, 0);
    let mut now = 1_000_000;
    let mut machine = Machine::new(Config::default(), 0, 0, 1, now);
    let mut count = 0;
    while let Some(([from, tenths, low, high], rest)) = left.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (datagram, rest) = rest.split_at(length);
        left = rest;
        now += 100 * u64::from(*tenths);
        assert!(guard.open(datagram).is_err());
        if let Ok(message) = Message::decode(datagram) {
            count += 1;
            assert_eq!(message.encode(), datagram);
        }
        let from = u16::from(*from);
        let heard = Event::Datagram { from, bytes: datagram.to_vec() };
        for event in [heard, Event::Timer] {
            for action in machine.step(event, now) {
                if let Action::Send { to, bytes } = action {
                    assert!(to != 0 && to < NODES_MAX && Message::decode(&bytes).is_ok());
                    assert!(guard.seal(to, &bytes).len() <= fermata_membership::DATAGRAM_BYTES);
                }
            }
        }
        assert!(machine.members().all(|(_, known)| known.alive_at() <= now));
    }
    count
}
