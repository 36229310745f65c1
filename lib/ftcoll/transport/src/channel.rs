// SPDX-License-Identifier: Apache-2.0
//! One connection's secrecy, without I/O: bytes of the socket come in and go out, and between them
//! is what the peer says. Noise, pattern NNpsk0: both ends prove that they know the key of the job,
//! and from then on everything is encrypted and authenticated under keys of this connection alone.
//!
//! On the wire: u16 length (big-endian), then one Noise message of that length, as
//! `control/transport` has it. The dialer's first sealed bytes are its greeting, which also proves
//! that its first message is nobody's recording; only then does the other end answer with its own.
//!
//! Source: The Noise Protocol Framework, revision 34, sections 7.4, 7.7 and 9.

use crate::key::Key;
use snow::{HandshakeState, TransportState};

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
const PROLOGUE: &[u8] = b"fermata ftcoll 1";
const RECORD_BYTES_MAX: usize = 65_535;
const TAG_BYTES: usize = 16;
const HEAD_BYTES: usize = 2;
/// A message of the handshake is shorter.
const HANDSHAKE_BYTES_MAX: usize = 128;

/// The other end does not know the key, or somebody has changed what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stranger;

impl From<snow::Error> for Stranger {
    fn from(_: snow::Error) -> Self {
        Self
    }
}

enum Stage {
    Shaking(Box<HandshakeState>),
    Open(Box<TransportState>),
    Broken,
}

/// One end of a connection.
pub(crate) struct Channel {
    stage: Stage,
    /// Records taken apart, used again for each.
    record: Vec<u8>,
}

impl Channel {
    /// The end that dials: its first message is in `out`.
    pub fn dial(key: &Key, out: &mut Vec<u8>) -> Result<Self, Stranger> {
        let builder = snow::Builder::new(PATTERN.parse()?);
        let mut state = builder.prologue(PROLOGUE)?.psk(0, key.bytes())?.build_initiator()?;
        say(&mut state, out)?;
        Ok(Self::new(state))
    }

    /// The end that is dialed.
    pub fn answer(key: &Key) -> Result<Self, Stranger> {
        let builder = snow::Builder::new(PATTERN.parse()?);
        Ok(Self::new(builder.prologue(PROLOGUE)?.psk(0, key.bytes())?.build_responder()?))
    }

    fn new(state: HandshakeState) -> Self {
        Self { stage: Stage::Shaking(Box::new(state)), record: Vec::new() }
    }

    /// Whether both ends have shown the key, as far as this one can know.
    pub fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open(_))
    }

    /// Takes whole records from the front of `raw` and appends what they say to `plain`, and what
    /// is to be sent in answer to `out`. Returns how many bytes of `raw` it has taken.
    pub fn receive(
        &mut self,
        raw: &[u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<usize, Stranger> {
        let mut taken = 0;
        while let Some(head) = raw[taken..].first_chunk::<HEAD_BYTES>() {
            let length = usize::from(u16::from_be_bytes(*head));
            if !self.is_open() && length > HANDSHAKE_BYTES_MAX {
                return Err(Stranger);
            }
            let begin = taken + HEAD_BYTES;
            let Some(message) = raw.get(begin..begin + length) else { break };
            let taken_in = self.take(message, plain, out);
            if taken_in.is_err() {
                self.stage = Stage::Broken;
            }
            taken_in?;
            taken = begin + length;
        }
        Ok(taken)
    }

    fn take(
        &mut self,
        message: &[u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), Stranger> {
        match &mut self.stage {
            Stage::Broken => Err(Stranger),
            Stage::Open(state) => {
                self.record.resize(RECORD_BYTES_MAX, 0);
                let bytes = state.read_message(message, &mut self.record)?;
                plain.extend_from_slice(&self.record[..bytes]);
                Ok(())
            }
            Stage::Shaking(state) => {
                state.read_message(message, &mut [0; HANDSHAKE_BYTES_MAX])?;
                if !state.is_handshake_finished() {
                    say(state, out)?;
                }
                let Stage::Shaking(state) = std::mem::replace(&mut self.stage, Stage::Broken)
                else {
                    return Err(Stranger);
                };
                self.stage = Stage::Open(Box::new(state.into_transport_mode()?));
                Ok(())
            }
        }
    }

    /// Appends the records of what this end says to `out`.
    pub fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), Stranger> {
        let Stage::Open(state) = &mut self.stage else {
            return Err(Stranger);
        };
        for part in plain.chunks(RECORD_BYTES_MAX - TAG_BYTES) {
            let begin = out.len();
            out.resize(begin + HEAD_BYTES + part.len() + TAG_BYTES, 0);
            let bytes = state.write_message(part, &mut out[begin + HEAD_BYTES..])?;
            let length = u16::try_from(bytes).map_err(|_| Stranger)?;
            out[begin..begin + HEAD_BYTES].copy_from_slice(&length.to_be_bytes());
        }
        Ok(())
    }
}

fn say(state: &mut HandshakeState, out: &mut Vec<u8>) -> Result<(), Stranger> {
    let mut message = [0; HANDSHAKE_BYTES_MAX];
    let bytes = state.write_message(&[], &mut message)?;
    let length = u16::try_from(bytes).map_err(|_| Stranger)?;
    out.extend(length.to_be_bytes());
    out.extend_from_slice(&message[..bytes]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(one: &Key, other: &Key) -> Result<(Channel, Channel), Stranger> {
        let (mut to_other, mut to_one, mut plain) = (vec![], vec![], vec![]);
        let mut dialer = Channel::dial(one, &mut to_other)?;
        let mut answerer = Channel::answer(other)?;
        // Byte by byte, as a network may deliver it.
        let mut come = Vec::new();
        for byte in to_other {
            come.push(byte);
            let taken = answerer.receive(&come, &mut plain, &mut to_one)?;
            come.drain(..taken);
        }
        assert!(come.is_empty());
        dialer.receive(&to_one, &mut plain, &mut vec![])?;
        assert!(plain.is_empty());
        Ok((dialer, answerer))
    }

    #[test]
    fn what_one_says_the_other_hears_and_nobody_can_read_or_change() {
        let key = Key::generate().unwrap();
        let (mut dialer, mut answerer) = pair(&key, &key).unwrap();
        assert!(dialer.is_open() && answerer.is_open());
        let said: Vec<u8> = (0..200_000u32).flat_map(u32::to_le_bytes).collect();
        for direction in 0..2 {
            let (from, to) = if direction == 0 {
                (&mut dialer, &mut answerer)
            } else {
                (&mut answerer, &mut dialer)
            };
            let (mut wire, mut heard) = (vec![], vec![]);
            from.seal(&said, &mut wire).unwrap();
            assert!(!wire.windows(64).any(|run| run == &said[4000..4064]));
            assert_eq!(to.receive(&wire, &mut heard, &mut vec![]), Ok(wire.len()));
            assert!(heard == said);
            let mut wire = vec![];
            from.seal(b"again", &mut wire).unwrap();
            if direction == 1 {
                wire[5] ^= 1;
                assert_eq!(to.receive(&wire, &mut heard, &mut vec![]), Err(Stranger));
                assert_eq!(to.seal(b"on", &mut vec![]), Err(Stranger));
            } else {
                to.receive(&wire, &mut heard, &mut vec![]).unwrap();
                assert_eq!(to.receive(&wire, &mut heard, &mut vec![]), Err(Stranger), "replayed");
                (dialer, answerer) = pair(&key, &key).unwrap();
            }
        }
    }

    #[test]
    fn another_key_opens_nothing() {
        let (key, other) = (Key::generate().unwrap(), Key::generate().unwrap());
        assert_eq!(pair(&key, &other).err(), Some(Stranger));
        let mut answerer = Channel::answer(&key).unwrap();
        for said in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0, 0], &[0, 4, 1, 2, 3, 4]] {
            let answer = answerer.receive(said, &mut vec![], &mut vec![]);
            assert_eq!(answer, Err(Stranger), "{said:?}");
        }
    }
}
