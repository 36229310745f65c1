// SPDX-License-Identifier: Apache-2.0
//! What a datagram says, between its sender's and receiver's guard.
//!
//! ```text
//!     errand u8, token u64, entries u8, then per entry 32 bytes:
//!     node u16, incarnation u16, beat u40, age u16, state u8, frozen u16,
//!     load: age u16, cpu u16, memory u32, space u32, written u16, in flight u16, ranks u16
//! ```
//! All numbers are little-endian. The first entry is the sender's own.
//!
//! Whoever knows the run's secret may still be of another build, or damaged: every number is
//! checked, and what makes no sense is an error, never a panic.

use crate::{DATAGRAM_BYTES, NODES_MAX, NodeId, State, guard};

const HEAD_BYTES: usize = 1 + 8 + 1;
/// Bytes of an entry.
const ENTRY_BYTES: usize = 32;
/// As many as fit into a datagram.
pub(crate) const ENTRIES_MAX: usize =
    (DATAGRAM_BYTES - guard::SEAL_BYTES - HEAD_BYTES) / ENTRY_BYTES;
/// The largest clock that travels: 34 years in milliseconds.
pub(crate) const BEAT_MAX: u64 = (1 << 40) - 1;

/// How a node fares. Zero where the kernel does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Of all processors together, in thousandths.
    pub cpu: u16,
    /// Memory that programs can have, in MiB.
    pub memory_mib: u32,
    /// Free space on the local disk, in MiB.
    pub space_mib: u32,
    /// What is written to the local disk, in MiB/s.
    pub written_mib_s: u16,
    /// Requests that the local disk has not completed.
    pub io_in_flight: u16,
    /// Ranks of this run there.
    pub ranks: u16,
}

/// What one node says, or hands on, about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which node.
    pub node: NodeId,
    /// Grows when it begins anew, and when it learns that it was pronounced down.
    pub incarnation: u16,
    /// The latest time at which it is known to have lived, on its own clock, in milliseconds.
    pub beat: u64,
    /// How long ago that is, in milliseconds; at most.
    pub age_ms: u16,
    /// What is thought of it.
    pub state: State,
    /// For how long after `beat` it has said that it stands still, in tenths of a second.
    pub frozen_ds: u16,
    /// How long before `beat` its load was measured, in tenths of a second.
    pub load_age_ds: u16,
    /// Its load.
    pub load: Load,
}

/// What a datagram wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
    /// Nothing: it only tells.
    Tell,
    /// An answer with the same token.
    Ask(u64),
    /// It is that answer.
    Answer(u64),
}

/// A datagram's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it wants.
    pub errand: Errand,
    /// At least one; the first is the sender's own.
    pub entries: Vec<Entry>,
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The length does not fit the count.
    #[error("a datagram about nodes has {0} bytes, which do not fit its count")]
    Length(usize),
    /// No errand has this number.
    #[error("a datagram about nodes has the unknown errand {0}")]
    Errand(u8),
    /// It wants nothing, and has a token all the same.
    #[error("a datagram about nodes has the token {0}, for which nobody waits")]
    Token(u64),
    /// No state has this number.
    #[error("a datagram about nodes has the unknown state {0}")]
    State(u8),
    /// There cannot be such a node.
    #[error("a datagram speaks of node {0}, and no run has as many")]
    Node(NodeId),
}

impl Message {
    /// Its bytes: at most `DATAGRAM_BYTES` with the seal. Entries that do not fit are left out.
    /// Allocates.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (kind, token) = match self.errand {
            Errand::Tell => (0, 0),
            Errand::Ask(token) => (1, token),
            Errand::Answer(token) => (2, token),
        };
        let entries = &self.entries[..self.entries.len().min(ENTRIES_MAX)];
        let mut bytes = Vec::with_capacity(HEAD_BYTES + entries.len() * ENTRY_BYTES);
        bytes.push(kind);
        bytes.extend_from_slice(&u64::to_le_bytes(token));
        bytes.push(u8::try_from(entries.len()).unwrap_or(u8::MAX));
        for entry in entries {
            entry.put(&mut bytes);
        }
        bytes
    }

    /// Reads it from bytes, which may be anything. Allocates.
    ///
    /// # Errors
    /// They are no message.
    pub fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        let wrong = Unreadable::Length(bytes.len());
        let mut left = Left(bytes);
        let kind = left.byte().ok_or(wrong)?;
        let token = left.u64().ok_or(wrong)?;
        let errand = match kind {
            0 if token == 0 => Errand::Tell,
            0 => return Err(Unreadable::Token(token)),
            1 => Errand::Ask(token),
            2 => Errand::Answer(token),
            other => return Err(Unreadable::Errand(other)),
        };
        let count = usize::from(left.byte().ok_or(wrong)?);
        if count == 0 || count > ENTRIES_MAX || left.0.len() != count * ENTRY_BYTES {
            return Err(wrong);
        }
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            entries.push(Entry::take(&mut left).ok_or(wrong)??);
        }
        Ok(Self { errand, entries })
    }
}

impl Entry {
    fn put(&self, bytes: &mut Vec<u8>) {
        let load = &self.load;
        bytes.extend_from_slice(&self.node.to_le_bytes());
        bytes.extend_from_slice(&self.incarnation.to_le_bytes());
        bytes.extend_from_slice(&self.beat.min(BEAT_MAX).to_le_bytes()[..5]);
        bytes.extend_from_slice(&self.age_ms.to_le_bytes());
        bytes.push(self.state as u8);
        for number in [self.frozen_ds, self.load_age_ds, load.cpu] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&load.memory_mib.to_le_bytes());
        bytes.extend_from_slice(&load.space_mib.to_le_bytes());
        for number in [load.written_mib_s, load.io_in_flight, load.ranks] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// None: the bytes end.
    fn take(left: &mut Left) -> Option<Result<Self, Unreadable>> {
        let node = left.u16()?;
        let incarnation = left.u16()?;
        let beat = left.u40()?;
        let age_ms = left.u16()?;
        let state = left.byte()?;
        let frozen_ds = left.u16()?;
        let load_age_ds = left.u16()?;
        let load = Load {
            cpu: left.u16()?,
            memory_mib: left.u32()?,
            space_mib: left.u32()?,
            written_mib_s: left.u16()?,
            io_in_flight: left.u16()?,
            ranks: left.u16()?,
        };
        if node >= NODES_MAX {
            return Some(Err(Unreadable::Node(node)));
        }
        let state = match state {
            0 => State::Up,
            1 => State::Suspect,
            2 => State::Down,
            other => return Some(Err(Unreadable::State(other))),
        };
        Some(Ok(Self { node, incarnation, beat, age_ms, state, frozen_ds, load_age_ds, load }))
    }
}

/// What has not been read yet.
struct Left<'a>(&'a [u8]);

impl Left<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u40(&mut self) -> Option<u64> {
        let [a, b, c, d, e] = self.take()?;
        Some(u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]))
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(node: NodeId) -> Entry {
        Entry {
            node,
            incarnation: 3,
            beat: BEAT_MAX,
            age_ms: 1234,
            state: State::Suspect,
            frozen_ds: 600,
            load_age_ds: 7,
            load: Load { cpu: 1000, memory_mib: 1 << 20, ranks: 64, ..Load::default() },
        }
    }

    #[test]
    fn what_was_written_is_read() {
        for errand in [Errand::Tell, Errand::Ask(u64::MAX), Errand::Answer(7)] {
            let message = Message { errand, entries: vec![entry(0), entry(4095)] };
            assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_a_datagram_is_never_too_long() {
        let entries: Vec<Entry> = (0..200).map(entry).collect();
        let bytes = Message { errand: Errand::Tell, entries }.encode();
        assert!(bytes.len() + guard::SEAL_BYTES <= DATAGRAM_BYTES);
        assert!(DATAGRAM_BYTES - bytes.len() - guard::SEAL_BYTES < ENTRY_BYTES);
        assert_eq!(Message::decode(&bytes).map(|m| m.entries.len()), Ok(ENTRIES_MAX));
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_read_or_refused() {
        let whole = Message { errand: Errand::Ask(9), entries: vec![entry(1), entry(2)] }.encode();
        for length in 0..whole.len() {
            assert!(Message::decode(&whole[..length]).is_err(), "{length}");
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                if let Ok(message) = Message::decode(&bytes) {
                    assert_eq!(Message::decode(&message.encode()), Ok(message));
                }
            }
        }
    }

    #[test]
    fn no_entries_unknown_numbers_and_impossible_nodes_are_refused() {
        let good = Message { errand: Errand::Tell, entries: vec![entry(1)] }.encode();
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            Message::decode(&bytes).err()
        };
        assert_eq!(with(0, 3), Some(Unreadable::Errand(3)));
        assert_eq!(with(1, 5), Some(Unreadable::Token(5)));
        assert_eq!(with(9, 0), Some(Unreadable::Length(good.len())));
        assert_eq!(with(HEAD_BYTES + 11, 9), Some(Unreadable::State(9)));
        assert_eq!(with(HEAD_BYTES + 1, 0x10), Some(Unreadable::Node(0x1001)));
        assert_eq!(Message::decode(&[]), Err(Unreadable::Length(0)));
    }
}
