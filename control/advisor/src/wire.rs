// SPDX-License-Identifier: Apache-2.0
//! Offers and answers as messages of the protocol (spec/site.toml), and whole messages out of what
//! a line brings.
//!
//! Invariant: whatever a peer says, what comes of it here is finite and above zero where that is
//!            needed.

use fermata_site::{Answer, JobId, Lease, Offer};
use fermata_transport::{Connection, is_waiting, next_message};
use fermata_types::{FrameBuffer, Message, SiteAnswer, SiteOffer, encode_frame};
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// Bounds of what an offer may say: within them no sum of the service's overflows.
const TIME_MS_MAX: u64 = 1 << 50;
const BYTES_MAX: f64 = 1e17;
const LEAST_PER_S: f64 = 1e4;
/// How long a line is read before the time is looked at again.
const SLICE: Duration = Duration::from_millis(200);

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
fn whole(number: f64) -> u64 {
    number as u64
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms.min(TIME_MS_MAX)).unwrap_or(i64::MAX)
}

pub(crate) fn offer_message(offer: &Offer) -> SiteOffer {
    let most_per_s = if offer.most_per_s.is_finite() { whole(offer.most_per_s) } else { 0 };
    SiteOffer {
        bytes: whole(offer.bytes),
        nodes: offer.nodes,
        mtbf_ms: whole(offer.mtbf_s * 1e3),
        due_in_ms: offer.due_in_ms.max(0).unsigned_abs(),
        late_ms: offer.due_in_ms.min(0).unsigned_abs(),
        most_per_s,
        restart: u32::from(offer.is_restart),
    }
}

pub(crate) fn offer_of(job: JobId, message: &SiteOffer) -> Offer {
    Offer {
        job,
        bytes: (message.bytes as f64).min(BYTES_MAX),
        nodes: message.nodes.max(1),
        mtbf_s: message.mtbf_ms.max(1) as f64 / 1e3,
        due_in_ms: signed(message.due_in_ms) - signed(message.late_ms),
        most_per_s: match message.most_per_s {
            0 => f64::INFINITY,
            per_s => (per_s as f64).max(LEAST_PER_S),
        },
        is_restart: message.restart != 0,
    }
}

pub(crate) fn answer_message(answer: Answer) -> SiteAnswer {
    match answer {
        Answer::Accept(Lease { number, lasts_ms, per_s }) => {
            SiteAnswer { lease: number, lasts_ms, per_s: whole(per_s), ask_in_ms: 0 }
        }
        Answer::Deny { ask_in_ms } => SiteAnswer { ask_in_ms, ..SiteAnswer::default() },
    }
}

pub(crate) fn answer_of(message: &SiteAnswer) -> Answer {
    match message.lease {
        0 => Answer::Deny { ask_in_ms: message.ask_in_ms },
        number => {
            let per_s = message.per_s as f64;
            Answer::Accept(Lease { number, lasts_ms: message.lasts_ms, per_s })
        }
    }
}

/// A connection that whole messages come from.
pub(crate) struct Messages {
    pub connection: Connection,
    frames: FrameBuffer,
}

impl Messages {
    pub(crate) fn new(mut connection: Connection) -> io::Result<Self> {
        connection.reader.set_timeout(Some(SLICE))?;
        Ok(Self { connection, frames: FrameBuffer::default() })
    }

    /// Blocks for a few seconds at most.
    pub(crate) fn send(&mut self, message: impl Into<Message>) -> io::Result<()> {
        self.connection.writer.send(&encode_frame(&message.into()))
    }

    /// Blocks for the next message, until `until`, if that is given, or until `goes_on` says no;
    /// `None`: there is none any more.
    pub(crate) fn next(
        &mut self,
        until: Option<Instant>,
        goes_on: impl Fn() -> bool,
    ) -> io::Result<Option<Message>> {
        while goes_on() {
            if until.is_some_and(|until| Instant::now() >= until) {
                return Err(ErrorKind::TimedOut.into());
            }
            match next_message(&mut *self.connection.reader, &mut self.frames) {
                Err(error) if is_waiting(&error) => {}
                heard => return heard,
            }
        }
        Ok(None)
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        self.connection.writer.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_and_answers_come_back() {
        let offer = Offer {
            job: 7,
            bytes: 1e12,
            nodes: 3,
            mtbf_s: 1e6,
            due_in_ms: -40_000,
            most_per_s: f64::INFINITY,
            is_restart: true,
        };
        assert_eq!(offer_of(7, &offer_message(&offer)), offer);
        let early = Offer { due_in_ms: 1_000, most_per_s: 5e9, is_restart: false, ..offer };
        assert_eq!(offer_of(7, &offer_message(&early)), early);
        let lease = Lease { number: 9, lasts_ms: 10, per_s: 1e9 };
        for answer in [Answer::Accept(lease), Answer::Deny { ask_in_ms: 77 }] {
            assert_eq!(answer_of(&answer_message(answer)), answer);
        }
    }

    #[test]
    fn no_offer_makes_numbers_that_are_none() {
        for number in [0, u64::MAX] {
            let message = SiteOffer {
                bytes: number,
                nodes: 0,
                mtbf_ms: number,
                due_in_ms: number,
                late_ms: number,
                most_per_s: number,
                restart: 2,
            };
            let offer = offer_of(1, &message);
            assert!(offer.mtbf_s > 0.0 && offer.mtbf_s.is_finite() && offer.bytes.is_finite());
            assert!(offer.nodes > 0 && offer.most_per_s > 0.0 && offer.due_in_ms == 0);
        }
    }
}
