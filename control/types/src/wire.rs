// SPDX-License-Identifier: Apache-2.0
//! Frames on a stream (`spec/protocol.toml`): u32 payload bytes, u16 type, u16 version, payload.
//!
//! A peer may send anything. Every length is checked before memory is taken for it, and a frame
//! that makes no sense is an error that ends the connection, never a panic.

use crate::{Message, PAYLOAD_BYTES_MAX, PROTOCOL_VERSION};
use std::fmt;

/// Bytes before the payload.
pub const FRAME_HEAD_BYTES: usize = 8;

/// Why a frame cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireError {
    /// The payload ended inside a field, or a count exceeds what is there.
    TooShort,
    /// Bytes were left over after the last field.
    TooLong,
    /// No message has this number.
    UnknownType(u16),
    /// The peer speaks another version of the protocol.
    Version(u16),
    /// The frame announces more bytes than any frame may have.
    Oversized(u32),
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort => write!(f, "a message ends too early"),
            Self::TooLong => write!(f, "a message has bytes left over"),
            Self::UnknownType(number) => write!(f, "unknown message type {number}"),
            Self::Version(version) => write!(
                f,
                "the peer speaks protocol version {version}, this program {PROTOCOL_VERSION}"
            ),
            Self::Oversized(bytes) => write!(f, "a message of {bytes} bytes is too large"),
        }
    }
}

impl std::error::Error for WireError {}

/// Takes fields off the front of a payload.
pub struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first byte of `payload`.
    #[must_use]
    pub fn new(payload: &'a [u8]) -> Self {
        Self { left: payload }
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.left.split_at_checked(bytes).ok_or(WireError::TooShort)?;
        self.left = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        self.take(N)?.try_into().map_err(|_| WireError::TooShort)
    }

    /// Declares the payload read.
    ///
    /// # Errors
    /// `TooLong` if bytes are left.
    pub fn finish(self) -> Result<(), WireError> {
        if self.left.is_empty() { Ok(()) } else { Err(WireError::TooLong) }
    }
}

/// A type that can be a field of a message.
pub trait Field: Sized {
    /// Appends the field to `out`.
    fn write(&self, out: &mut Vec<u8>);
    /// Takes the field off the reader.
    ///
    /// # Errors
    /// Too few bytes.
    fn read(r: &mut Reader<'_>) -> Result<Self, WireError>;
}

macro_rules! scalar_field {
    ($($t:ty),*) => {$(
        impl Field for $t {
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn read(r: &mut Reader<'_>) -> Result<Self, WireError> {
                Ok(<$t>::from_le_bytes(r.array()?))
            }
        }
    )*};
}
scalar_field!(u32, i32, u64);

impl Field for String {
    fn write(&self, out: &mut Vec<u8>) {
        u32::try_from(self.len()).unwrap_or(u32::MAX).write(out);
        out.extend_from_slice(self.as_bytes());
    }
    fn read(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let bytes = u32::read(r)? as usize;
        Ok(text_of(r.take(bytes)?))
    }
}

/// Ranks send paths and names as they are, which may be in no encoding or cut within a letter; that
/// must not cost them their line. As many bytes stay, so that a frame never grows.
fn text_of(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '?'));
    }
    text
}

impl Field for Vec<u8> {
    fn write(&self, out: &mut Vec<u8>) {
        u32::try_from(self.len()).unwrap_or(u32::MAX).write(out);
        out.extend_from_slice(self);
    }
    fn read(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let bytes = u32::read(r)? as usize;
        Ok(r.take(bytes)?.to_vec())
    }
}

impl Field for Vec<(u64, u64)> {
    fn write(&self, out: &mut Vec<u8>) {
        (self.len() as u64).write(out);
        for (key, value) in self {
            key.write(out);
            value.write(out);
        }
    }
    fn read(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let count = u64::read(r)?;
        // Checked against what is there before any memory is taken for it.
        if count > (r.left.len() / 16) as u64 {
            return Err(WireError::TooShort);
        }
        (0..count).map(|_| Ok((u64::read(r)?, u64::read(r)?))).collect()
    }
}

/// The whole frame of a message.
#[must_use]
pub fn encode_frame(message: &Message) -> Vec<u8> {
    let mut out = vec![0; FRAME_HEAD_BYTES];
    message.write_payload(&mut out);
    let payload = u32::try_from(out.len() - FRAME_HEAD_BYTES).unwrap_or(u32::MAX);
    out[0..4].copy_from_slice(&payload.to_le_bytes());
    out[4..6].copy_from_slice(&message.type_number().to_le_bytes());
    out[6..8].copy_from_slice(&PROTOCOL_VERSION.to_le_bytes());
    out
}

/// The message of exactly one whole frame.
///
/// # Errors
/// Any `WireError`; `TooShort` or `TooLong` if it is not exactly one.
pub fn decode_frame(frame: &[u8]) -> Result<Message, WireError> {
    let mut buffer = FrameBuffer { bytes: frame.to_vec() };
    let message = buffer.pop()?.ok_or(WireError::TooShort)?;
    if buffer.bytes.is_empty() { Ok(message) } else { Err(WireError::TooLong) }
}

/// Collects bytes of a stream and gives out whole messages.
#[derive(Default)]
pub struct FrameBuffer {
    bytes: Vec<u8>,
}

impl FrameBuffer {
    /// Appends what was received.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message, `None` if it has not arrived yet.
    ///
    /// # Errors
    /// Any `WireError`; the stream cannot be read on after one.
    pub fn pop(&mut self) -> Result<Option<Message>, WireError> {
        let mut head = Reader::new(&self.bytes);
        let (Ok(length), Ok(words)) = (u32::read(&mut head), head.array::<4>()) else {
            return Ok(None);
        };
        let number = u16::from_le_bytes([words[0], words[1]]);
        let version = u16::from_le_bytes([words[2], words[3]]);
        if version != PROTOCOL_VERSION {
            return Err(WireError::Version(version));
        }
        if length > PAYLOAD_BYTES_MAX {
            return Err(WireError::Oversized(length));
        }
        let end = FRAME_HEAD_BYTES + length as usize;
        let Some(payload) = self.bytes.get(FRAME_HEAD_BYTES..end) else {
            return Ok(None);
        };
        let message = Message::read_payload(number, payload)?;
        self.bytes.drain(..end);
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Exit, Failed, Hello, Parked, Relayed, Saved};

    fn samples() -> Vec<Message> {
        vec![
            Hello {
                job: "a job".into(),
                pid: 7,
                rank_hint: u32::MAX,
                host: "höst".into(),
                restart_epoch: 3,
                lower: "Some MPI 1.0".into(),
            }
            .into(),
            Parked { epoch: 1, version: u64::MAX, list: vec![(1, 2), (u64::MAX, 0)] }.into(),
            Saved {
                epoch: 2,
                error: -5,
                message: "x".into(),
                bytes: 1 << 40,
                pause_ns: 9,
                crc: 0xdead_beef,
            }
            .into(),
            Relayed { channel: 9, frame: vec![0, 255, 7] }.into(),
            Exit { code: -1 }.into(),
        ]
    }

    #[test]
    fn messages_survive_any_split_of_the_stream() {
        let stream: Vec<u8> = samples().iter().flat_map(encode_frame).collect();
        for chunk in [1, 2, 3, 7, 64, stream.len()] {
            let mut buffer = FrameBuffer::default();
            let mut got = Vec::new();
            for part in stream.chunks(chunk) {
                buffer.push(part);
                while let Some(message) = buffer.pop().unwrap() {
                    got.push(message);
                }
            }
            assert_eq!(got, samples());
        }
    }

    #[test]
    fn one_whole_frame_is_one_message() {
        for message in samples() {
            let mut frame = encode_frame(&message);
            assert_eq!(decode_frame(&frame).as_ref(), Ok(&message));
            frame.push(0);
            assert_eq!(decode_frame(&frame), Err(WireError::TooLong));
            assert!(decode_frame(&frame[..frame.len() - 2]).is_err());
        }
    }

    #[test]
    fn every_truncated_payload_is_an_error() {
        for message in samples() {
            let frame = encode_frame(&message);
            let payload = &frame[FRAME_HEAD_BYTES..];
            for cut in 0..payload.len() {
                let number = message.type_number();
                assert!(
                    Message::read_payload(number, &payload[..cut]).is_err(),
                    "{} cut at {cut}",
                    message.name()
                );
            }
        }
    }

    #[test]
    fn text_that_is_not_utf8_can_be_read() {
        let number = Message::from(Failed::default()).type_number();
        let mut payload = Vec::new();
        7u32.write(&mut payload);
        b"caf\xe9 \xc3\xa4 cut \xe2\x82".to_vec().write(&mut payload);
        let read = Message::read_payload(number, &payload).unwrap();
        let message = "caf? \u{e4} cut ??".into();
        assert_eq!(read, Failed { epoch: 7, message }.into());
    }

    #[test]
    fn a_huge_count_takes_no_memory() {
        let mut payload = Vec::new();
        1u32.write(&mut payload);
        u64::MAX.write(&mut payload);
        assert_eq!(Message::read_payload(4, &payload), Err(WireError::TooShort));
    }

    #[test]
    fn foreign_versions_and_oversized_frames_are_refused() {
        let mut frame = encode_frame(&Exit { code: 0 }.into());
        frame[6] = 99;
        let mut buffer = FrameBuffer::default();
        buffer.push(&frame);
        assert_eq!(buffer.pop(), Err(WireError::Version(99)));

        let mut frame = encode_frame(&Exit { code: 0 }.into());
        frame[0..4].copy_from_slice(&u32::MAX.to_le_bytes());
        let mut buffer = FrameBuffer::default();
        buffer.push(&frame);
        assert_eq!(buffer.pop(), Err(WireError::Oversized(u32::MAX)));
    }
}
