// SPDX-License-Identifier: Apache-2.0
//! What one replica knows: the machine of the service, until when it leads, and whose lines are
//! there. An offer is answered in the call that brings it.

use fermata_site::service::{Event, Service, Store};
use fermata_site::{Answer, JobId, Offer};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Who has said hello.
struct Guest {
    name: String,
    host: String,
    /// A job that comes back on a new line is there until the newer one ends.
    line: u64,
}

pub(crate) struct Desk {
    service: Service,
    store: Store,
    leads_until_ms: Option<u64>,
    guests: BTreeMap<JobId, Guest>,
}

impl Desk {
    pub(crate) fn new(store: Store, leases_from: u64) -> Self {
        let service = Service::new(store, leases_from);
        Self { service, store, leads_until_ms: None, guests: BTreeMap::new() }
    }

    /// Whether it leads at this time.
    pub(crate) fn leads(&mut self, now_ms: u64) -> bool {
        let leads = self.leads_until_ms.is_some_and(|until_ms| now_ms <= until_ms);
        if !leads && self.leads_until_ms.take().is_some() {
            self.service.step(&Event::Lead(false), now_ms);
        }
        leads
    }

    /// It leads until then, or no longer.
    pub(crate) fn lead(&mut self, until_ms: Option<u64>, now_ms: u64) {
        let was_leading = self.leads(now_ms);
        self.leads_until_ms = until_ms;
        if until_ms.is_some() != was_leading {
            self.service.step(&Event::Lead(until_ms.is_some()), now_ms);
        }
    }

    pub(crate) fn greet(&mut self, line: u64, job: JobId, name: String, host: String) {
        self.guests.insert(job, Guest { name, host, line });
    }

    /// `None`: it does not lead.
    pub(crate) fn offer(&mut self, offer: Offer, now_ms: u64) -> Option<Answer> {
        self.leads(now_ms).then(|| self.service.step(&Event::Offer(offer), now_ms)).flatten()
    }

    pub(crate) fn done(&mut self, job: JobId, lease: u64, now_ms: u64) {
        self.service.step(&Event::Done { job, lease }, now_ms);
    }

    pub(crate) fn gone(&mut self, line: u64, job: JobId, now_ms: u64) {
        if self.guests.get(&job).is_some_and(|guest| guest.line == line) {
            self.guests.remove(&job);
            self.service.step(&Event::Gone { job }, now_ms);
        }
    }

    /// `None`: it does not lead. Times are milliseconds from now.
    pub(crate) fn figures(&mut self, host: &str, now_ms: u64) -> Option<Value> {
        if !self.leads(now_ms) {
            return None;
        }
        let jobs = self.guests.iter().map(|(job, guest)| {
            let planned = self.service.planned(*job, now_ms);
            let held = self.service.held(*job, now_ms);
            json!({
                "name": guest.name, "host": guest.host,
                "lease": held.map(|held| held.lease),
                "reads": held.is_some_and(|held| held.is_restart),
                "done_in_ms": held.map(|held| held.done_in_ms),
                "ends_in_ms": held.map(|held| held.ends_in_ms),
                "nodes": planned.map(|planned| planned.offer.nodes),
                "bytes": planned.map(|planned| planned.offer.bytes),
                "due_in_ms": planned.map(|planned| planned.due_in_ms),
                "start_in_ms": planned.map(|planned| planned.start_in_ms),
            })
        });
        let jobs: Vec<Value> = jobs.collect();
        Some(json!({ "host": host, "bytes_per_s": self.store.per_s, "jobs": jobs }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(job: JobId) -> Offer {
        Offer {
            job,
            bytes: 1e10,
            nodes: 1,
            mtbf_s: 1e5,
            due_in_ms: 0,
            most_per_s: f64::INFINITY,
            is_restart: false,
        }
    }

    fn has_lease(answer: Option<Answer>) -> bool {
        matches!(answer, Some(Answer::Accept(_)))
    }

    #[test]
    fn it_answers_while_it_leads_and_knows_nothing_when_it_does_again() {
        let mut desk = Desk::new(Store { per_s: 1e9 }, 1);
        assert_eq!(desk.offer(offer(1), 0), None);
        desk.lead(Some(1000), 0);
        assert!(has_lease(desk.offer(offer(1), 500)));
        desk.lead(Some(2000), 900);
        assert!(!has_lease(desk.offer(offer(2), 1500)), "the first one's lease is still held");
        assert_eq!(desk.offer(offer(2), 2001), None, "nobody has let it lead on");
        desk.lead(Some(9000), 3000);
        assert!(has_lease(desk.offer(offer(2), 3000)));
    }

    #[test]
    fn the_end_of_a_line_ends_the_lease_but_not_that_of_a_newer_line() {
        let mut desk = Desk::new(Store { per_s: 1e9 }, 1);
        desk.lead(Some(100_000), 0);
        desk.greet(1, 7, "a".into(), "h".into());
        assert!(has_lease(desk.offer(offer(7), 0)));
        desk.greet(2, 7, "a".into(), "h".into());
        desk.gone(1, 7, 1);
        assert!(!has_lease(desk.offer(offer(8), 1)));
        let figures = desk.figures("here", 1).unwrap();
        assert_eq!(figures["jobs"][0]["done_in_ms"], 9_999);
        desk.gone(2, 7, 2);
        assert!(has_lease(desk.offer(offer(8), 2)));
        assert_eq!(desk.figures("here", 2).unwrap()["jobs"], json!([]));
    }
}
