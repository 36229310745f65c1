// SPDX-License-Identifier: Apache-2.0
//! Which of several replicas leads, by one small file that all of them can read and write.
//!
//! The file holds a word: who leads, and by which claim. Whoever leads also *beats*: a number of
//! its own, in a file of its own, that grows, so others see that it is alive; no clock of one host
//! is compared with another's. One that sees the same word without a new beat for `SILENT_MS`, or
//! no word, *claims*: it writes its own, waits for `SETTLE_MS`, and leads if its word still stands.
//! Of two that claim at once the later writer finds its own word, and the other that writer's.
//!
//! Who leads writes no word, and is deposed by another's only. A file system that is busy with
//! checkpoints, which is when the service is needed, makes a write wait for seconds: beats come
//! late then, and claims are void.
//!
//! Invariant: no two lead at a time, however long a replica or a write stands still, if the file is
//!            replaced by rename and clocks run alike. Whoever leads has found its own word at a
//!            time t, and leads until t + `HOLD_MS`. Who claims afterwards has looked no earlier
//!            than t - `WRITE_MS`, a slower write being void, and leads no earlier than `SETTLE_MS`
//!            after that look; and `SETTLE_MS` is `WRITE_MS` and `HOLD_MS`.

/// What the file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// A number that a replica has drawn for itself.
    pub who: u64,
    /// Another one in each of its claims.
    pub claim: u64,
}

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The file has been read.
    Read {
        /// When reading began, milliseconds.
        begun_ms: u64,
        /// What it says; `None`: there is none, or it makes no sense.
        word: Option<Word>,
        /// The newest beat of who that names.
        beat: u64,
    },
    /// The claim is written.
    Wrote,
    /// It may be written, or not.
    NotWritten,
}

/// The file is looked at this often.
pub const LOOK_MS: u64 = 1_000;
/// A word that stands for so long is of a replica that is gone.
pub const SILENT_MS: u64 = 5_000;
/// A write that ends so long after the look before it is void.
pub const WRITE_MS: u64 = 1_000;
/// So long after a look that has found its own word a replica leads.
pub const HOLD_MS: u64 = 3_000;
/// So long a claim waits for those of others.
pub const SETTLE_MS: u64 = WRITE_MS + HOLD_MS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Following { seen: Option<(Word, u64)>, since_ms: u64 },
    Claiming { looked_ms: u64 },
    Leading { until_ms: u64 },
}

/// One replica's part.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its newest claim.
    own: Word,
    state: State,
    /// When the look began that the write under way follows.
    writing_since_ms: u64,
}

impl Candidate {
    /// A replica of that number, which no other has.
    pub fn new(who: u64) -> Self {
        Self {
            own: Word { who, claim: 0 },
            state: State::Following { seen: None, since_ms: 0 },
            writing_since_ms: 0,
        }
    }

    /// Until when it leads, milliseconds, if it does.
    pub fn leads_until_ms(&self) -> Option<u64> {
        match self.state {
            State::Leading { until_ms } => Some(until_ms),
            _ => None,
        }
    }

    /// Takes an event at `now_ms`; the claim that is to be written now, if any. It is answered by
    /// `Wrote` or `NotWritten` before the next look.
    pub fn step(&mut self, event: Event, now_ms: u64) -> Option<Word> {
        match event {
            Event::Read { begun_ms, word, beat } => {
                self.read(begun_ms, word.map(|word| (word, beat)), now_ms)
            }
            Event::Wrote if now_ms <= self.writing_since_ms + WRITE_MS => None,
            Event::Wrote => self.follow(Some((self.own, 0)), now_ms),
            Event::NotWritten => self.follow(None, now_ms),
        }
    }

    fn read(&mut self, begun_ms: u64, found: Option<(Word, u64)>, now_ms: u64) -> Option<Word> {
        let is_own = found.is_some_and(|(word, _)| word == self.own);
        match self.state {
            State::Leading { until_ms } if is_own && begun_ms <= until_ms => self.lead(begun_ms),
            State::Claiming { looked_ms } if is_own && begun_ms < looked_ms + SETTLE_MS => None,
            State::Claiming { .. } if is_own => self.lead(begun_ms),
            State::Following { seen, since_ms } => {
                let is_silent = found == seen && now_ms >= since_ms + SILENT_MS;
                if is_silent || found.is_none() {
                    return self.claim(begun_ms);
                }
                if found != seen {
                    return self.follow(found, now_ms);
                }
                None
            }
            _ => self.follow(found, now_ms),
        }
    }

    fn lead(&mut self, begun_ms: u64) -> Option<Word> {
        self.state = State::Leading { until_ms: begun_ms + HOLD_MS };
        None
    }

    fn claim(&mut self, looked_ms: u64) -> Option<Word> {
        self.state = State::Claiming { looked_ms };
        self.writing_since_ms = looked_ms;
        self.own.claim += 1;
        Some(self.own)
    }

    fn follow(&mut self, seen: Option<(Word, u64)>, since_ms: u64) -> Option<Word> {
        self.state = State::Following { seen, since_ms };
        None
    }
}

#[cfg(test)]
#[path = "lead_tests.rs"]
mod tests;
