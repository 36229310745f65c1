// SPDX-License-Identifier: Apache-2.0
//! The edge: whoever does not know the run's secret can neither make a datagram nor have one
//! counted twice.
//!
//! ```text
//!     version u16, sender u16, receiver u16, counter u64, content, tag of 16 bytes
//! ```
//! The tag is keyed BLAKE3 over all that comes before it, under a key that is derived from the
//! run's secret for this use alone. Content is authentic, not secret: it tells nothing that a user
//! of the cluster could not see anyway.
//!
//! Invariant: no datagram is taken twice, and none that was made for another receiver.
//!
//! The counters of a sender begin at its incarnation times 2^40, so a sender that begins anew under
//! a higher incarnation is believed, and what it said before is not. A receiver that begins anew
//! has forgotten what it has taken: until the sender's next datagram an old one counts once more.
//! That makes a dead node seem to live at most once, by what it really said, and no living one
//! dead.

use crate::{DATAGRAM_BYTES, NODES_MAX, NodeId};
use std::collections::BTreeMap;

/// The first bytes of each datagram.
const VERSION: u16 = 1;
const HEAD_BYTES: usize = 2 + 2 + 2 + 8;
const TAG_BYTES: usize = 16;
/// What a datagram has beside its content.
pub(crate) const SEAL_BYTES: usize = HEAD_BYTES + TAG_BYTES;
const CONTEXT: &str = "Fermata 2026 datagrams between the nodes of a run";
/// How many datagrams the network may have reordered.
const WINDOW: u64 = 128;

/// Why a datagram counts for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is too short or too long to be one of ours.
    #[error("a datagram of {0} bytes is none of ours")]
    Length(usize),
    /// Another version of Fermata made it, or it is none of ours.
    #[error("a datagram of version {0}; this is version {VERSION}")]
    Version(u16),
    /// It was made for somebody else.
    #[error("a datagram for node {0} has come to another one")]
    Receiver(NodeId),
    /// There cannot be such a sender.
    #[error("a datagram from node {0}, which cannot be")]
    Sender(NodeId),
    /// Whoever made it does not know the secret, or it was changed on its way.
    #[error("a datagram that claims to be from node {0} was not made with this run's secret")]
    Tag(NodeId),
    /// It has been taken before, or is so old that this is not known.
    #[error("a datagram from node {0} has come a second time")]
    Replay(NodeId),
}

/// Of one sender: the highest counter that was taken, and which of the ones before it.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    highest: u64,
    before: u128,
}

impl Taken {
    /// Whether this counter is new; from now on it is not. Source: RFC 4303, appendix A2.
    fn take(&mut self, counter: u64) -> bool {
        if counter > self.highest {
            let ahead = counter - self.highest;
            let moved = if ahead < WINDOW { self.before << ahead } else { 0 };
            *self = Self { highest: counter, before: moved | 1 };
            return true;
        }
        let behind = self.highest - counter;
        let is_new = behind < WINDOW && self.before & (1 << behind) == 0;
        if is_new {
            self.before |= 1 << behind;
        }
        is_new
    }
}

/// Seals what one node sends, and opens what it receives.
pub struct Guard {
    me: NodeId,
    key: [u8; 32],
    next: u64,
    taken: BTreeMap<NodeId, Taken>,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Guard({})", self.me)
    }
}

impl Guard {
    /// Of node `me` in this incarnation, which no earlier life of the node has had under the same
    /// secret.
    #[must_use]
    pub fn new(secret: &[u8; 32], me: NodeId, incarnation: u16) -> Self {
        let key = blake3::derive_key(CONTEXT, secret);
        let next = (u64::from(incarnation) << 40) + 1;
        Self { me, key, next, taken: BTreeMap::new() }
    }

    /// The datagram for node `to` with this content. Allocates.
    pub fn seal(&mut self, to: NodeId, content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(content.len() + SEAL_BYTES);
        for number in [VERSION, self.me, to] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.next.to_le_bytes());
        self.next += 1;
        bytes.extend_from_slice(content);
        let tag = self.tag(&bytes);
        bytes.extend_from_slice(&tag);
        bytes
    }

    /// Whose datagram it is, and its content.
    ///
    /// # Errors
    /// It counts for nothing.
    pub fn open<'a>(&mut self, datagram: &'a [u8]) -> Result<(NodeId, &'a [u8]), Refusal> {
        let length = Refusal::Length(datagram.len());
        if datagram.len() > DATAGRAM_BYTES {
            return Err(length);
        }
        let (sealed, tag) = datagram.split_last_chunk::<TAG_BYTES>().ok_or(length)?;
        let (head, content) = sealed.split_first_chunk::<HEAD_BYTES>().ok_or(length)?;
        let [v, w, s, t, r, q, counter @ ..] = *head;
        let version = u16::from_le_bytes([v, w]);
        if version != VERSION {
            return Err(Refusal::Version(version));
        }
        let receiver = NodeId::from_le_bytes([r, q]);
        if receiver != self.me {
            return Err(Refusal::Receiver(receiver));
        }
        let sender = NodeId::from_le_bytes([s, t]);
        if sender >= NODES_MAX || sender == self.me {
            return Err(Refusal::Sender(sender));
        }
        // Compared in constant time: `blake3::Hash` is; so is this, by widening the tag to one.
        if widened(&self.tag(sealed)) != widened(tag) {
            return Err(Refusal::Tag(sender));
        }
        let counter = u64::from_le_bytes(counter);
        let is_new = self.taken.entry(sender).or_default().take(counter);
        if is_new { Ok((sender, content)) } else { Err(Refusal::Replay(sender)) }
    }

    fn tag(&self, sealed: &[u8]) -> [u8; TAG_BYTES] {
        let hash = blake3::keyed_hash(&self.key, sealed);
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&hash.as_bytes()[..TAG_BYTES]);
        tag
    }
}

/// `blake3::Hash` is compared in constant time.
fn widened(tag: &[u8; TAG_BYTES]) -> blake3::Hash {
    let mut bytes = [0; 32];
    bytes[..TAG_BYTES].copy_from_slice(tag);
    blake3::Hash::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SECRET: [u8; 32] = [7; 32];

    fn pair() -> (Guard, Guard) {
        (Guard::new(&SECRET, 1, 0), Guard::new(&SECRET, 2, 0))
    }

    #[test]
    fn content_comes_through_once() {
        let (mut a, mut b) = pair();
        let datagram = a.seal(2, b"content");
        assert_eq!(b.open(&datagram), Ok((1, &b"content"[..])));
        assert_eq!(b.open(&datagram), Err(Refusal::Replay(1)));
        assert_eq!(b.open(&a.seal(2, b"")), Ok((1, &b""[..])));
    }

    #[test]
    fn order_may_change_within_a_window() {
        let (mut a, mut b) = pair();
        let datagrams: Vec<Vec<u8>> = (0..300).map(|_| a.seal(2, b"x")).collect();
        assert!(b.open(&datagrams[200]).is_ok());
        assert!(b.open(&datagrams[100]).is_ok());
        assert!(b.open(&datagrams[73]).is_ok());
        assert_eq!(b.open(&datagrams[100]), Err(Refusal::Replay(1)));
        assert_eq!(b.open(&datagrams[72]), Err(Refusal::Replay(1)), "too old to be known");
        assert!(b.open(&datagrams[299]).is_ok());
        assert_eq!(b.open(&datagrams[200]), Err(Refusal::Replay(1)));
        assert!(b.open(&datagrams[201]).is_ok());
    }

    #[test]
    fn no_changed_bit_and_no_cut_is_taken() {
        let (mut a, _) = pair();
        let datagram = a.seal(2, b"some content");
        for at in 0..datagram.len() {
            for bit in 0..8 {
                let mut bytes = datagram.clone();
                bytes[at] ^= 1 << bit;
                assert!(pair().1.open(&bytes).is_err(), "byte {at}, bit {bit}");
            }
            assert!(pair().1.open(&datagram[..at]).is_err());
        }
        assert!(pair().1.open(&datagram).is_ok());
    }

    #[test]
    fn neither_another_secret_nor_another_receiver_nor_oneself_is_taken() {
        let (mut a, mut b) = pair();
        let mut stranger = Guard::new(&[8; 32], 1, 0);
        assert_eq!(b.open(&stranger.seal(2, b"x")), Err(Refusal::Tag(1)));
        assert_eq!(b.open(&a.seal(3, b"x")), Err(Refusal::Receiver(3)));
        let mut mirror = Guard::new(&SECRET, 2, 0);
        assert_eq!(b.open(&mirror.seal(2, b"x")), Err(Refusal::Sender(2)));
        assert_eq!(b.open(&vec![0; DATAGRAM_BYTES + 1]), Err(Refusal::Length(DATAGRAM_BYTES + 1)));
    }

    #[test]
    fn a_refused_datagram_uses_no_counter_up() {
        let (mut a, mut b) = pair();
        let mut stranger = Guard::new(&[8; 32], 1, 9);
        assert!(b.open(&stranger.seal(2, b"x")).is_err());
        assert!(b.open(&a.seal(2, b"x")).is_ok());
    }

    #[test]
    fn a_sender_that_begins_anew_is_believed_and_what_it_said_before_is_not() {
        let (mut a, mut b) = pair();
        let old = a.seal(2, b"old");
        let mut again = Guard::new(&SECRET, 1, 1);
        assert!(b.open(&again.seal(2, b"new")).is_ok());
        assert_eq!(b.open(&old), Err(Refusal::Replay(1)));
    }

    #[test]
    fn tells_nothing_of_its_key() {
        assert_eq!(format!("{:?}", pair().0), "Guard(1)");
    }
}
