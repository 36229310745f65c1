// SPDX-License-Identifier: Apache-2.0
//! A job's end of its line to the service, in a thread of its own: finds who leads, connects, and
//! brings answers. Whatever hangs here, a disk, a network, a service, the job computes on and goes
//! by its plan.
//!
//! Invariant: an offer that is not answered in time is never answered: the line is ended then.

use crate::place::{Place, PlaceError};
use crate::wire::{Messages, answer_of, offer_message};
use fermata_site::client::ANSWER_MS;
use fermata_site::{Answer, JobId, Offer};
use fermata_transport::dial_any;
use fermata_types::{Message, SiteDone, SiteHello, Status};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

const ANSWER: Duration = Duration::from_millis(ANSWER_MS);

/// A job, as the service gets to know it.
#[derive(Clone, Debug)]
pub struct Me {
    /// A number of this run's own, drawn at random.
    pub job: JobId,
    /// Its name.
    pub name: String,
    /// Where its coordinator is.
    pub host: String,
}

/// What the thread tells.
#[derive(Debug)]
pub enum Heard {
    /// The answer to the offer of this number.
    Answer(u64, Answer),
    /// For the log.
    Note(String),
}

enum Said {
    Offer { number: u64, offer: Offer, at: Instant },
    Done(u64),
}

/// The way to the thread.
pub struct Line(Sender<Said>);

impl Line {
    /// Begins; nobody is looked for yet. `hear` is called in the thread.
    ///
    /// # Errors
    /// There is no thread.
    pub fn begin(site: PathBuf, me: Me, hear: impl Fn(Heard) + Send + 'static) -> io::Result<Self> {
        let (sender, said) = channel();
        let hear = Box::new(hear);
        let mut caller = Caller { site, me, hear, line: None, noted: String::new() };
        thread::Builder::new().spawn(move || caller.serve(&said))?;
        Ok(Self(sender))
    }

    /// Offers this; answered with `Heard::Answer`, or not. Does not block.
    pub fn offer(&self, number: u64, offer: Offer) {
        let _ = self.0.send(Said::Offer { number, offer, at: Instant::now() });
    }

    /// The lease is no longer used. Does not block.
    pub fn done(&self, lease: u64) {
        let _ = self.0.send(Said::Done(lease));
    }
}

struct Caller {
    site: PathBuf,
    me: Me,
    hear: Box<dyn Fn(Heard) + Send>,
    line: Option<Messages>,
    /// The last note: once is enough.
    noted: String,
}

impl Caller {
    /// Until the coordinator has ended; the line ends with it.
    fn serve(&mut self, said: &Receiver<Said>) {
        while let Ok(first) = said.recv() {
            match first {
                Said::Done(lease) => self.done(lease),
                Said::Offer { at, .. } if at.elapsed() >= ANSWER => {}
                Said::Offer { number, offer, at } => match self.ask(&offer, at + ANSWER) {
                    Ok(answer) => {
                        self.note("the site's service answers".into());
                        (self.hear)(Heard::Answer(number, answer));
                    }
                    Err(why) => {
                        self.line = None;
                        self.note(format!("the site's service does not answer: {why}"));
                    }
                },
            }
        }
    }

    fn note(&mut self, text: String) {
        if text != self.noted {
            (self.hear)(Heard::Note(text.clone()));
            self.noted = text;
        }
    }

    /// What cannot be said any more ends by itself.
    fn done(&mut self, lease: u64) {
        if let Some(line) = &mut self.line {
            if line.send(SiteDone { lease }).is_err() {
                self.line = None;
            }
        }
    }

    fn ask(&mut self, offer: &Offer, until: Instant) -> Result<Answer, PlaceError> {
        // One that was left open may lead to a service that is gone: nobody has looked since.
        if let Some(mut line) = self.line.take() {
            if let Ok(answer) = exchange(&mut line, offer, until) {
                self.line = Some(line);
                return Ok(answer);
            }
        }
        let mut line = connect(&self.site)?;
        let Me { job, name, host } = self.me.clone();
        let failed = |why| PlaceError::File(self.site.clone(), why);
        line.send(SiteHello { job, name, host }).map_err(failed)?;
        let answer = exchange(&mut line, offer, until).map_err(failed)?;
        self.line = Some(line);
        Ok(answer)
    }
}

fn exchange(line: &mut Messages, offer: &Offer, until: Instant) -> io::Result<Answer> {
    line.send(offer_message(offer))?;
    match line.next(Some(until), || true)? {
        Some(Message::SiteAnswer(answer)) => Ok(answer_of(&answer)),
        Some(other) => Err(io::Error::other(format!("it says {}", other.name()))),
        None => Err(io::Error::other("it does not lead, or has ended")),
    }
}

/// Blocks for some seconds for each address of the host that leads.
fn connect(site: &Path) -> Result<Messages, PlaceError> {
    let place = Place::open(site)?;
    let failed = |why| PlaceError::File(site.to_owned(), why);
    let key = place.key()?;
    let leader = place.leader()?.ok_or_else(|| failed(io::Error::other("nobody leads")))?;
    dial_any(&leader.addresses, &key).and_then(Messages::new).map_err(failed)
}

/// What the service that leads knows, as JSON.
///
/// # Errors
/// Nobody answers within some seconds, or what is in the directory cannot be used.
pub fn status(site: &Path) -> Result<String, PlaceError> {
    let mut line = connect(site)?;
    let until = Instant::now() + ANSWER;
    let said = line.send(Status {}).and_then(|()| line.next(Some(until), || true));
    let why = match said {
        Ok(Some(Message::Answer(answer))) => return Ok(answer.figures),
        Ok(_) => io::Error::other("the service there does not lead, or has ended"),
        Err(error) => error,
    };
    Err(PlaceError::File(site.to_owned(), why))
}
