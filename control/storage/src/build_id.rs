// SPDX-License-Identifier: Apache-2.0
//! The identity of a program file: its GNU build-id, written as the ranks write it into images
//! (`runtime/image/build_id.cpp`).

use crate::own::{self, Whose};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;

const HEADER_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;
const PT_NOTE: u64 = 4;
const NT_GNU_BUILD_ID: u64 = 3;
const NOTES_BYTES_MAX: u64 = 1024;
const ID_BYTES_MAX: usize = 20;

/// The build-id of an ELF file in hexadecimal; empty if it has none.
///
/// # Errors
/// The file cannot be opened or read.
pub fn build_id(path: &Path) -> io::Result<String> {
    let mut file = own::open(path, Whose::Anybodys(None))?;
    let header = read_at(&mut file, 0, HEADER_BYTES as u64)?;
    if header.len() < HEADER_BYTES || number(&header, 54, 2) != SEGMENT_BYTES as u64 {
        return Ok(String::new());
    }
    let (table, count) = (number(&header, 32, 8), number(&header, 56, 2));
    for index in 0..count {
        let at = table.saturating_add(index * SEGMENT_BYTES as u64);
        let segment = read_at(&mut file, at, SEGMENT_BYTES as u64)?;
        if segment.len() < SEGMENT_BYTES {
            break;
        }
        if number(&segment, 0, 4) != PT_NOTE {
            continue;
        }
        let bytes = number(&segment, 32, 8).min(NOTES_BYTES_MAX);
        let notes = read_at(&mut file, number(&segment, 8, 8), bytes)?;
        if let Some(id) = find(&notes) {
            return Ok(id.iter().take(ID_BYTES_MAX).map(|byte| format!("{byte:02x}")).collect());
        }
    }
    Ok(String::new())
}

/// Writes what a process maps of an ELF file: not what only debuggers read, nor the table of
/// sections, which is most of the file.
///
/// # Errors
/// One cannot be read, or the other written.
pub fn copy_mapped(from: &Path, to: &mut File) -> io::Result<()> {
    const TABLE_AT: Range<usize> = 40..48; // e_shoff
    const COUNTS_AT: Range<usize> = 58..64; // e_shentsize, e_shnum, e_shstrndx
    let mut file = own::open(from, Whose::Anybodys(None))?;
    let mut header = read_at(&mut file, 0, HEADER_BYTES as u64)?;
    if header.len() < HEADER_BYTES {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    }
    let (table, count) = (number(&header, 32, 8), number(&header, 56, 2));
    let table_bytes = count * SEGMENT_BYTES as u64;
    let segments = read_at(&mut file, table, table_bytes)?;
    let end_of = |segment: &[u8]| number(segment, 8, 8).saturating_add(number(segment, 32, 8));
    let ends = segments.chunks_exact(SEGMENT_BYTES).map(end_of);
    let end = ends.fold(table.saturating_add(table_bytes), u64::max);
    header[TABLE_AT].fill(0);
    header[COUNTS_AT].fill(0);
    to.write_all(&header)?;
    file.seek(SeekFrom::Start(HEADER_BYTES as u64))?;
    io::copy(&mut file.take(end.saturating_sub(HEADER_BYTES as u64)), to)?;
    Ok(())
}

/// What there is of the file from there on, at most so many bytes.
fn read_at(file: &mut File, offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let mut data = Vec::new();
    if offset >= file.metadata()?.len() {
        return Ok(data); // not asked for: the kernel refuses to read where offsets would wrap
    }
    file.seek(SeekFrom::Start(offset))?;
    file.take(bytes).read_to_end(&mut data)?;
    Ok(data)
}

/// A little-endian number; zero beyond the end.
fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    let digits = bytes.get(at..at + size).unwrap_or_default();
    digits.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn find(mut notes: &[u8]) -> Option<&[u8]> {
    while notes.len() >= 12 {
        let bytes = |at| usize::try_from(number(notes, at, 4)).unwrap_or(0);
        let (name_bytes, data_bytes) = (bytes(0), bytes(4));
        let data_at = 12 + name_bytes.next_multiple_of(4);
        let data = notes.get(data_at..data_at.checked_add(data_bytes)?)?;
        let is_gnu = notes.get(12..16) == Some(b"GNU\0") && name_bytes == 4;
        if is_gnu && number(notes, 8, 4) == NT_GNU_BUILD_ID && data_bytes > 0 {
            return Some(data);
        }
        notes = notes.get(data_at + data_bytes.next_multiple_of(4)..)?;
    }
    None
}
