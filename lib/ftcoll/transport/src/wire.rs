// SPDX-License-Identifier: Apache-2.0
//! Messages as bytes. A frame is a u64 length and a body of so many bytes, all numbers
//! little-endian:
//!
//! ```text
//! u64 group, u32 root, u8 is_large    which machine of the receiver (lane.rs)
//! u32 epoch, u8 tag                   0 contribution, 1 verdict, 2 keepalive, 3 ack
//!   contribution: value, ranks        verdict: u32 root, u8 ending, value, ranks
//!   keepalive: u8 wanted
//! value: u8 how (0: none), what is needed to combine it, u64 length, bytes
//! ranks: u32 count, u32 each
//! ```
//!
//! Elements travel in the byte order of the sender, which is that of all: the greeting says so.
//! A body is read as if a stranger had written it; what is malformed ends the connection.

use crate::buffer::Buffer;
use crate::lane::LaneKey;
use crate::value::{Data, How, Kind, Op, Slot};
use fermata_ftcoll::Rank;
use fermata_ftcoll::ftco::{Body, Contribution, Ending, Message, Verdict, Wanted};
use std::sync::Arc;

/// Of the length in front of a body.
pub(crate) const PREFIX_BYTES: usize = 8;
/// Longer than any value that a process has memory for.
const BODY_BYTES_MAX: u64 = 1 << 42;

/// A body that nobody who has this code writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// To whom a body goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// Which communicator.
    pub group: u64,
    /// Which of its machines.
    pub lane: LaneKey,
}

fn put_value(value: Option<&Data>, out: &mut Vec<u8>) {
    let Some(data) = value else {
        out.push(0);
        return;
    };
    match &data.how {
        How::Opaque => out.push(1),
        How::Elements(kind, op) => out.extend([2, *kind as u8, *op as u8]),
        How::User(element, _) => {
            out.push(3);
            out.extend(element.to_le_bytes());
        }
        How::Mismatch => out.push(4),
    }
    out.extend((data.bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(&data.bytes);
}

fn put_ranks(ranks: &[Rank], out: &mut Vec<u8>) {
    out.extend(u32::try_from(ranks.len()).unwrap_or(u32::MAX).to_le_bytes());
    ranks.iter().for_each(|rank| out.extend(rank.to_le_bytes()));
}

fn put_body(body: &Body<Data>, out: &mut Vec<u8>) {
    match body {
        Body::Contribution(contribution) => {
            out.push(0);
            put_value(contribution.value.as_ref(), out);
            put_ranks(&contribution.missing, out);
        }
        Body::Verdict { root, verdict } => {
            out.push(1);
            out.extend(root.to_le_bytes());
            out.push(match verdict.ending {
                Ending::Complete => 0,
                Ending::RootFailed => 1,
                Ending::Forgotten => 2,
            });
            put_value(verdict.value.as_ref(), out);
            put_ranks(&verdict.missing, out);
        }
        Body::KeepAlive(wanted) => {
            let code = match wanted {
                Wanted::Verdict => 0,
                Wanted::Contribution { as_root: false } => 1,
                Wanted::Contribution { as_root: true } => 2,
                Wanted::Life => 3,
            };
            out.extend([2, code]);
        }
        Body::Ack => out.push(3),
    }
}

/// Appends the frame of a message.
pub(crate) fn write(to: Address, message: &Message<Data>, out: &mut Vec<u8>) {
    let begin = out.len();
    out.extend([0; PREFIX_BYTES]);
    out.extend(to.group.to_le_bytes());
    out.extend(to.lane.root.to_le_bytes());
    out.push(u8::from(to.lane.is_large));
    out.extend(message.epoch.to_le_bytes());
    put_body(&message.body, out);
    let length = (out.len() - begin - PREFIX_BYTES) as u64;
    out[begin..begin + PREFIX_BYTES].copy_from_slice(&length.to_le_bytes());
}

/// The length of the first frame's body, if enough has come to know it.
pub(crate) fn body_length(stream: &[u8]) -> Result<Option<usize>, Malformed> {
    let Some(prefix) = stream.first_chunk::<PREFIX_BYTES>() else {
        return Ok(None);
    };
    let length = u64::from_le_bytes(*prefix);
    if length > BODY_BYTES_MAX {
        return Err(Malformed);
    }
    usize::try_from(length).map(Some).map_err(|_| Malformed)
}

/// What is left of a body.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    fn address(&mut self) -> Result<Address, Malformed> {
        let (group, root, is_large) = (self.u64()?, self.u32()?, self.byte()? != 0);
        Ok(Address { group, lane: LaneKey { root, is_large } })
    }

    fn value(&mut self, slot: &Slot) -> Result<Option<Data>, Malformed> {
        let how = match self.byte()? {
            0 => return Ok(None),
            1 => How::Opaque,
            2 => {
                let kind = Kind::of(self.byte()?).ok_or(Malformed)?;
                How::Elements(kind, Op::of(self.byte()?).ok_or(Malformed)?)
            }
            3 => How::User(self.u32()?, slot.clone()),
            4 => How::Mismatch,
            _ => return Err(Malformed),
        };
        let length = usize::try_from(self.u64()?).map_err(|_| Malformed)?;
        let bytes = Arc::new(Buffer::copy_of(self.take(length)?));
        Ok(Some(Data { bytes, how }))
    }

    fn ranks(&mut self, size: Rank) -> Result<Vec<Rank>, Malformed> {
        let count = self.u32()?;
        if count > size {
            return Err(Malformed);
        }
        let ranks = (0..count).map(|_| self.u32().and_then(|rank| is_below(rank, size)));
        ranks.collect()
    }

    fn body(&mut self, size: Rank, slot: &Slot) -> Result<Body<Data>, Malformed> {
        Ok(match self.byte()? {
            0 => {
                let value = self.value(slot)?;
                Body::Contribution(Contribution { value, missing: self.ranks(size)? })
            }
            1 => {
                let root = self.u32()?;
                let ending = match self.byte()? {
                    0 => Ending::Complete,
                    1 => Ending::RootFailed,
                    2 => Ending::Forgotten,
                    _ => return Err(Malformed),
                };
                let value = self.value(slot)?;
                Body::Verdict {
                    root,
                    verdict: Verdict { value, missing: self.ranks(size)?, ending },
                }
            }
            2 => Body::KeepAlive(match self.byte()? {
                0 => Wanted::Verdict,
                1 => Wanted::Contribution { as_root: false },
                2 => Wanted::Contribution { as_root: true },
                3 => Wanted::Life,
                _ => return Err(Malformed),
            }),
            3 => Body::Ack,
            _ => return Err(Malformed),
        })
    }
}

fn is_below(rank: Rank, size: Rank) -> Result<Rank, Malformed> {
    if rank < size { Ok(rank) } else { Err(Malformed) }
}

/// To whom a body goes.
pub(crate) fn address(body: &[u8]) -> Result<Address, Malformed> {
    Bytes(body).address()
}

/// The message in a body, to a machine of a group of `size` processes.
pub(crate) fn read(body: &[u8], size: Rank, slot: &Slot) -> Result<Message<Data>, Malformed> {
    let mut bytes = Bytes(body);
    bytes.address()?;
    let epoch = bytes.u32()?;
    let body = bytes.body(size, slot)?;
    if bytes.0.is_empty() { Ok(Message { epoch, body }) } else { Err(Malformed) }
}

/// The answer to a keepalive of a group that this process has not made yet: it lives.
pub(crate) fn ack_of(body: &[u8]) -> Option<Vec<u8>> {
    let to = address(body).ok()?;
    let message = read(body, Rank::MAX, &Slot::default()).ok()?;
    let mut frame = Vec::new();
    let is_asked = matches!(message.body, Body::KeepAlive(_));
    write(to, &Message { epoch: message.epoch, body: Body::Ack }, &mut frame);
    is_asked.then_some(frame)
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
