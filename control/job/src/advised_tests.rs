// SPDX-License-Identifier: Apache-2.0
//! The machine of a job that asks the site's service.

use super::*;
use crate::SiteJob;
use crate::advice::Advice;
use fermata_site::{Answer as SiteAnswer, Lease};

/// One rank, saved every ten seconds, from now on.
fn advised() -> World {
    let mut w = World::new(1);
    w.machine.pace = Pace::new(Every::Fixed(10_000), None).with_leave();
    w.machine.advice = Some(Advice::new(SiteJob { job: 5, nodes: 1, restored_bytes: 0 }));
    w.machine.is_able = false; // as this pace knows
    w.event(Event::Tick);
    w
}

fn pass(w: &mut World, ms: u64) {
    for _ in 0..ms / 50 {
        w.now += 50;
        w.event(Event::Tick);
    }
}

fn offered(w: &World) -> Vec<u64> {
    let number = |action: &Action| match action {
        Action::Offer(number, _) => Some(*number),
        _ => None,
    };
    w.log.iter().filter_map(number).collect()
}

fn lease(number: u64) -> SiteAnswer {
    SiteAnswer::Accept(Lease { number, lasts_ms: 60_000, per_s: 1e9 })
}

#[test]
fn it_saves_when_the_site_says_and_gives_the_lease_back() {
    let mut w = advised();
    pass(&mut w, 5_000);
    assert_eq!(offered(&w).len(), 1);
    assert!(w.names_to(0).is_empty(), "it computes on");
    let number = offered(&w)[0];
    w.event(Event::Advised(number, lease(7)));
    assert_eq!(w.names_to(0), ["REQUEST"], "before it is due");
    assert!(!w.log.contains(&Action::LeaseDone(7)));
    w.say(0, Finalizing {}); // the checkpoint fails
    assert!(w.log.contains(&Action::LeaseDone(7)));
}

#[test]
fn it_saves_as_planned_when_nobody_answers() {
    let mut w = advised();
    pass(&mut w, 9_900);
    assert_eq!((offered(&w).len(), w.names_to(0).len()), (2, 0));
    pass(&mut w, 200);
    assert_eq!(w.names_to(0), ["REQUEST"]);
}

#[test]
fn a_lease_that_comes_when_nothing_can_be_saved_is_given_back() {
    let mut w = advised();
    pass(&mut w, 5_000);
    let number = offered(&w)[0];
    w.say(0, Finalizing {});
    w.event(Event::Advised(number, lease(7)));
    assert!(w.log.contains(&Action::LeaseDone(7)));
    assert!(w.names_to(0).iter().all(|name| *name != "REQUEST"));
}
