// SPDX-License-Identifier: Apache-2.0
//! What lets the connection with one process be made again without a frame lost or doubled, without
//! I/O: frames are counted, and kept until the other end has said that it has them. On a new
//! connection each end says first how many it has, and the other one begins with the next. Who
//! wants to know asks, and is told when all that was sent before has come.
//!
//! Invariant: `kept` are the last of the `sent` frames, and the other end has all before them.

use crate::wire::Malformed;
use std::collections::VecDeque;

/// In the place of a body's address; a receipt is shorter than any body, and so is a question.
const RECEIPT: u32 = 0x4654_4352;
const QUESTION: u32 = 0x4654_4351;
const READY: u32 = 0x4654_4359;
const SWITCH: u32 = 0x4654_4353;
const WORD_BYTES: usize = 12;
/// After so many frames or bytes the other end is told that they are here.
const FRAMES_UNTOLD: u64 = 16;
const BYTES_UNTOLD: usize = 1 << 20;

/// One direction and the other.
#[derive(Default)]
pub(crate) struct Session {
    sent: u64,
    /// How many were sent when the other end was asked last.
    asked: u64,
    /// The other end has said that it has so many.
    told: u64,
    kept: VecDeque<Vec<u8>>,
    received: u64,
    untold: u64,
    untold_bytes: usize,
}

impl Session {
    /// A frame is sent.
    pub fn count(&mut self) {
        self.sent += 1;
    }

    /// A frame is sent, and may have to be sent again.
    pub fn keep(&mut self, frame: &[u8]) {
        self.count();
        self.kept.push_back(frame.to_vec());
    }

    /// How many have come.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// A body has come that is no receipt. Returns the frame that says how many have, when it is
    /// time for that.
    pub fn note(&mut self, body: &[u8]) -> Option<Vec<u8>> {
        self.received += 1;
        self.untold += 1;
        self.untold_bytes += body.len();
        if self.untold < FRAMES_UNTOLD && self.untold_bytes < BYTES_UNTOLD {
            return None;
        }
        Some(self.tell())
    }

    /// The frame that says how many have come.
    pub fn tell(&mut self) -> Vec<u8> {
        (self.untold, self.untold_bytes) = (0, 0);
        Word::Receipt(self.received).frame()
    }

    /// Whether the other end has not said of all that was sent that it came.
    pub fn is_owing(&self) -> bool {
        self.told < self.sent
    }

    /// The frame that asks whether all has come; `None` if that is known, or was asked.
    pub fn ask(&mut self) -> Option<Vec<u8>> {
        let is_open = self.is_owing() && self.asked < self.sent;
        is_open.then(|| {
            self.asked = self.sent;
            Word::Question.frame()
        })
    }

    /// The other end has so many.
    pub fn forget(&mut self, count: u64) -> Result<(), Malformed> {
        if count > self.sent {
            return Err(Malformed);
        }
        // One that was under way when the connection was made again is an old one.
        self.told = self.told.max(count);
        let left = usize::try_from(self.sent - self.told).unwrap_or(usize::MAX);
        self.kept.drain(..self.kept.len().saturating_sub(left));
        Ok(())
    }

    /// What is sent first on a new connection to who has so many.
    pub fn resume(&mut self, count: u64) -> Result<impl Iterator<Item = &[u8]>, Malformed> {
        if count + (self.kept.len() as u64) < self.sent {
            return Err(Malformed);
        }
        self.forget(count)?;
        (self.untold, self.untold_bytes) = (0, 0);
        self.asked = 0;
        Ok(self.kept.iter().map(Vec::as_slice))
    }
}

/// What the ends say to each other about frames.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// So many have come.
    Receipt(u64),
    /// How many have?
    Question,
    /// This end can be reached by the carrier.
    Ready,
    /// This is the last frame that does not come by the carrier.
    Switch,
}

impl Word {
    /// As it is sent.
    pub fn frame(&self) -> Vec<u8> {
        let (magic, count) = match *self {
            Self::Receipt(count) => (RECEIPT, count),
            Self::Question => (QUESTION, 0),
            Self::Ready => (READY, 0),
            Self::Switch => (SWITCH, 0),
        };
        let length = (WORD_BYTES as u64).to_le_bytes();
        [&length[..], &magic.to_le_bytes(), &count.to_le_bytes()].concat()
    }
}

/// The word in a body; `None`: it is none.
pub(crate) fn word(body: &[u8]) -> Option<Word> {
    let body = <&[u8; WORD_BYTES]>::try_from(body).ok()?;
    let (magic, count) = body.split_first_chunk()?;
    match u32::from_le_bytes(*magic) {
        RECEIPT => Some(Word::Receipt(u64::from_le_bytes(*count.first_chunk()?))),
        QUESTION => Some(Word::Question),
        READY => Some(Word::Ready),
        SWITCH => Some(Word::Switch),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::PREFIX_BYTES;

    fn hear(here: &mut Session, told: &[u8]) {
        let Some(Word::Receipt(count)) = word(&told[PREFIX_BYTES..]) else { panic!("{told:?}") };
        here.forget(count).unwrap();
    }

    #[test]
    fn who_asks_once_is_told_that_all_has_come() {
        let (mut here, mut there) = (Session::default(), Session::default());
        assert_eq!(here.ask(), None);
        here.keep(b"frame");
        there.note(b"");
        assert!(here.is_owing());
        let question = here.ask().unwrap();
        assert_eq!(word(&question[PREFIX_BYTES..]), Some(Word::Question));
        assert_eq!(here.ask(), None);
        hear(&mut here, &there.tell());
        assert!(!here.is_owing());
        here.keep(b"frame");
        here.ask().unwrap();
        assert_eq!(here.resume(1).unwrap().count(), 1);
        assert!(here.ask().is_some(), "what was asked on the connection before is lost");
    }

    /// All that one says reaches the other one once and in order, wherever connections end.
    #[test]
    fn nothing_is_lost_or_doubled_when_a_connection_is_made_again() {
        for seed in 1..200u64 {
            let (mut here, mut there) = (Session::default(), Session::default());
            let (mut wire, mut heard) = (VecDeque::new(), Vec::new());
            let mut state = seed;
            let mut said = 0u32;
            for _ in 0..400 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                match state >> 60 {
                    0 => {
                        wire.clear(); // what was under way is lost
                        wire.extend(here.resume(there.received()).unwrap().map(<[u8]>::to_vec));
                    }
                    1..8 => {
                        let frame = [&[0; PREFIX_BYTES][..], &said.to_le_bytes()].concat();
                        said += 1;
                        here.keep(&frame);
                        wire.push_back(frame);
                    }
                    _ => {
                        let Some(frame) = wire.pop_front() else { continue };
                        heard.push(u32::from_le_bytes(frame[PREFIX_BYTES..].try_into().unwrap()));
                        if let Some(told) = there.note(&frame[PREFIX_BYTES..]) {
                            hear(&mut here, &told);
                        }
                    }
                }
                assert!(here.kept.len() as u64 <= wire.len() as u64 + FRAMES_UNTOLD);
            }
            assert!(heard.iter().copied().eq(0..u32::try_from(heard.len()).unwrap()), "{seed}");
        }
    }

    #[test]
    fn a_count_that_cannot_be_is_malformed() {
        let mut session = Session::default();
        (0..3).for_each(|_| session.keep(b"frame"));
        assert_eq!(session.forget(4), Err(Malformed));
        session.forget(2).unwrap();
        session.forget(1).unwrap(); // an old one
        assert!(session.resume(1).is_err(), "those are gone");
        assert_eq!(session.resume(2).unwrap().count(), 1);
        assert_eq!(word(&[0; WORD_BYTES]), None);
        assert_eq!(word(b"short"), None);
    }
}
