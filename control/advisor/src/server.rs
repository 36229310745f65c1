// SPDX-License-Identifier: Apache-2.0
//! One replica of the service: a thread that accepts, one for each line, one that says that it is
//! alive while it leads, and the caller's own, which looks who leads.
//!
//! Invariant: a replica answers only while `fermata_site::lead` says that it leads; it ends lines
//!            that ask it at another time, and who asked looks anew for the one that leads.

use crate::desk::Desk;
use crate::place::{Leader, Place, PlaceError, random};
use crate::wire::{Messages, answer_message, offer_of};
use fermata_site::lead::{Candidate, Event, LOOK_MS};
use fermata_site::service::Store;
use fermata_sysio::host_name;
use fermata_transport::{Listener, PendingPeer, SecureListener};
use fermata_types::{Answer, Message};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(50);
/// How long the end of the service may take.
const STOP_POLL: Duration = Duration::from_millis(50);

/// What a replica is told.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bytes per second of the file system.
    pub per_s: f64,
}

/// A replica.
pub struct Server {
    place: Place,
    shared: Arc<Shared>,
    addresses: Vec<String>,
    who: u64,
}

struct Shared {
    desk: Mutex<Desk>,
    begun: Instant,
    host: String,
    lines: AtomicU64,
    over: AtomicBool,
    say: Box<dyn Fn(&str) + Send + Sync>,
}

impl Shared {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// Listens. `say` is told what happens, a line each, by any thread.
    ///
    /// # Errors
    /// There is no key, no socket or no thread.
    pub fn begin(
        place: Place,
        settings: Settings,
        say: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self, PlaceError> {
        let key = place.key_or_new()?;
        let failed = |error: io::Error| PlaceError::File(place.path().into(), error);
        let who = random().map_err(failed)?;
        // Leases of one are never taken for another's.
        let leases_from = (who << 32).max(1);
        let listener = SecureListener::bind(key).map_err(failed)?;
        let addresses = listener.addresses().map_err(failed)?;
        let shared = Arc::new(Shared {
            desk: Mutex::new(Desk::new(Store { per_s: settings.per_s }, leases_from)),
            begun: Instant::now(),
            host: host_name(),
            lines: AtomicU64::new(1),
            over: AtomicBool::new(false),
            say: Box::new(say),
        });
        let accepting = Arc::clone(&shared);
        thread::Builder::new().spawn(move || accept(listener, &accepting)).map_err(failed)?;
        Ok(Self { place, shared, addresses, who })
    }

    /// Takes part until `over` says so. Blocks.
    pub fn serve(&self, over: impl Fn() -> bool) {
        let mut candidate = Candidate::new(self.who);
        let beating = Beating { place: self.place.clone(), who: self.who };
        let shared = Arc::clone(&self.shared);
        if let Err(why) = thread::Builder::new().spawn(move || beating.beat(&shared)) {
            (self.shared.say)(&format!("another replica may take this one for dead: {why}"));
        }
        let mut did_lead = false;
        while !over() {
            self.look(&mut candidate);
            let leads = candidate.leads_until_ms().is_some();
            if leads != did_lead {
                (self.shared.say)(if leads { "leads" } else { "does not lead any more" });
            }
            did_lead = leads;
            let next = Instant::now() + Duration::from_millis(LOOK_MS);
            while Instant::now() < next && !over() {
                thread::sleep(STOP_POLL);
            }
        }
        self.shared.over.store(true, Ordering::Release);
        let now_ms = self.shared.now_ms();
        let led = self.shared.desk().leads(now_ms);
        self.shared.desk().lead(None, now_ms);
        if led {
            self.place.leave(self.who); // so that another need not wait for silence
        }
    }

    fn look(&self, candidate: &mut Candidate) {
        let begun_ms = self.shared.now_ms();
        let word = match self.place.leader() {
            Ok(leader) => leader.map(|leader| leader.word()),
            Err(why) => return (self.shared.say)(&format!("cannot see who leads: {why}")),
        };
        let beat = word.map_or(0, |word| self.place.newest_beat(word.who));
        let claim = candidate.step(Event::Read { begun_ms, word, beat }, self.shared.now_ms());
        self.shared.desk().lead(candidate.leads_until_ms(), self.shared.now_ms());
        let Some(word) = claim else { return };
        let (host, addresses) = (self.shared.host.clone(), self.addresses.clone());
        let said = self.place.say(&Leader { who: word.who, claim: word.claim, host, addresses });
        let event = if said.is_ok() { Event::Wrote } else { Event::NotWritten };
        candidate.step(event, self.shared.now_ms());
        self.shared.desk().lead(candidate.leads_until_ms(), self.shared.now_ms());
        if let Err(why) = said {
            (self.shared.say)(&format!("cannot say who leads: {why}"));
        }
    }
}

/// What shows others that a replica is alive. It has a thread of its own: while the file system is
/// busy a write may wait for longer than a replica leads without a look.
struct Beating {
    place: Place,
    who: u64,
}

impl Beating {
    fn beat(&self, shared: &Shared) {
        let mut beat = 0;
        while !shared.over.load(Ordering::Acquire) {
            let leads = shared.desk().leads(shared.now_ms());
            if leads {
                beat += 1;
                // Else others may claim, which costs no more than a change.
                let _ = self.place.beat(self.who, beat);
            }
            thread::sleep(Duration::from_millis(LOOK_MS));
        }
    }
}

fn accept(mut listener: SecureListener, shared: &Arc<Shared>) {
    while !shared.over.load(Ordering::Acquire) {
        let pending = match listener.accept() {
            Ok(pending) => pending,
            Err(error) => {
                // Out of descriptors, most likely: try again, but do not spin on it.
                thread::sleep(PAUSE_AFTER_ERROR);
                (shared.say)(&format!("refused a connection: {error}"));
                continue;
            }
        };
        let shared = Arc::clone(shared);
        // Without a thread there is nobody to hear this peer, who is sent away.
        let begun = thread::Builder::new().spawn(move || converse(pending, &shared));
        if begun.is_err() {
            thread::sleep(PAUSE_AFTER_ERROR);
        }
    }
}

/// One line, to its end.
fn converse(pending: Box<dyn PendingPeer>, shared: &Shared) {
    let mut line = match pending.admit().and_then(Messages::new) {
        Ok(line) => line,
        Err(error) => return (shared.say)(&format!("turned a guest away: {error}")),
    };
    let number = shared.lines.fetch_add(1, Ordering::AcqRel);
    let mut job = None;
    let goes_on = || !shared.over.load(Ordering::Acquire);
    while let Ok(Some(message)) = line.next(None, goes_on) {
        if reply(&mut line, number, &mut job, message, shared).is_none() {
            break;
        }
    }
    if let Some(job) = job {
        let now_ms = shared.now_ms();
        shared.desk().gone(number, job, now_ms);
    }
}

/// `None`: the line ends.
fn reply(
    line: &mut Messages,
    number: u64,
    job: &mut Option<u64>,
    message: Message,
    shared: &Shared,
) -> Option<()> {
    let now_ms = shared.now_ms();
    match (message, *job) {
        (Message::SiteHello(hello), None) => {
            *job = Some(hello.job);
            shared.desk().greet(number, hello.job, hello.name, hello.host);
            Some(())
        }
        (Message::SiteOffer(offer), Some(job)) => {
            let answer = shared.desk().offer(offer_of(job, &offer), now_ms)?;
            line.send(answer_message(answer)).ok()
        }
        (Message::SiteDone(done), Some(job)) => {
            shared.desk().done(job, done.lease, now_ms);
            Some(())
        }
        (Message::Status(_), None) => {
            let figures = shared.desk().figures(&shared.host, now_ms)?.to_string();
            line.send(Answer { figures, ..Answer::default() }).ok()
        }
        _ => None,
    }
}
