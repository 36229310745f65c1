// SPDX-License-Identifier: Apache-2.0
//! Random lives of jobs on up to twelve hosts, run after run: hosts die, or cannot be reached for a
//! while; disks are full; orders and answers are lost, or come late; a save is broken off. What was
//! promised can be restarted. FERMATA_SEEDS says how many lives; `./x sim levels` does that.
//!
//! A life that breaks a promise is named by its seed.

use crate::cluster::{Cluster, DEADLINE_MS, Order, World, id};
use fermata_levels::promotion::{Damage, Event, Status};
use fermata_levels::{Item, Level};
use proptest::prelude::RngCore;
use proptest::test_runner::{RngAlgorithm, TestRng};
use std::collections::BTreeSet;

const LIVES: u64 = 500;
const STEPS: u32 = 1000;
const CHAINS: [&str; 7] = [
    "local,partner",
    "local,xor",
    "local,shared",
    "local,partner,xor",
    "local,xor,rs2",
    "local,partner,xor,shared",
    "local,partner,xor,rs2,rs3,shared",
];

/// What all lives have come to.
#[derive(Debug, Default)]
struct Tally {
    lives: u64,
    saved: u64,
    broken_off: u64,
    levels: u64,
    full: u64,
    lost_words: u64,
    deadlines: u64,
    deaths: u64,
    away: u64,
    from_newest: u64,
    from_older: u64,
    from_none: u64,
}

struct Life<'a> {
    cluster: &'a Cluster,
    world: World,
    random: TestRng,
    now_ms: u64,
    /// What the machine has not heard yet, in any order.
    answers: Vec<Event>,
    /// Hosts that cannot be reached. Their disks are whole.
    away: BTreeSet<u32>,
    tally: &'a mut Tally,
}

fn random_of(seed: u64) -> TestRng {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..].copy_from_slice(b"a levels");
    TestRng::from_seed(RngAlgorithm::XorShift, &bytes)
}

fn below(random: &mut TestRng, bound: u64) -> u64 {
    random.next_u64() % bound.max(1)
}

/// Of a seed.
fn cluster_of(random: &mut TestRng) -> Cluster {
    loop {
        let hosts = 2 + u32::try_from(below(random, 11)).unwrap();
        let chain = CHAINS[usize::try_from(below(random, CHAINS.len() as u64)).unwrap()];
        let keep = 1 + u32::try_from(below(random, 3)).unwrap();
        if let Some(cluster) = Cluster::new(hosts, chain, keep) {
            return Cluster { is_planned: below(random, 3) == 0, ..cluster };
        }
    }
}

impl Life<'_> {
    fn below(&mut self, bound: u64) -> u64 {
        below(&mut self.random, bound)
    }

    fn host(&mut self) -> u32 {
        u32::try_from(below(&mut self.random, self.cluster.hosts.into())).unwrap()
    }

    /// The first of the hosts from here that has been told something.
    fn busy_from(&self, first: u32) -> u32 {
        let hosts = self.cluster.hosts;
        let all = (0..hosts).map(|n| (first + n) % hosts);
        let mut busy = all.filter(|host| !self.world.orders[*host as usize].is_empty());
        busy.next().unwrap_or(first)
    }

    fn is_dead(&self, host: u32) -> bool {
        self.world.hosts[host as usize].is_none()
    }

    fn is_over(&self) -> bool {
        !self.away.is_empty() || (0..self.cluster.hosts).any(|host| self.is_dead(host))
    }

    fn happen(&mut self, event: Event) {
        let done = |world: &World| -> BTreeSet<(u32, Level)> {
            let all = world.machine.statuses().filter(|(_, _, status)| **status == Status::Done);
            all.map(|(id, level, _)| (id.epoch, level)).collect()
        };
        let before = done(&self.world);
        self.cluster.happen(&mut self.world, event, self.now_ms);
        self.tally.levels += done(&self.world).difference(&before).count() as u64;
    }

    /// Returns a promise that does not hold.
    fn step(&mut self) -> Option<(Level, u32)> {
        self.now_ms += self.below(20);
        if self.is_over() && self.below(20) == 0 {
            return self.begin_again();
        }
        let may_break = self.something_happens();
        if may_break { self.breach(&BTreeSet::new()) } else { None }
    }

    /// Whether a promise may be broken by it.
    fn something_happens(&mut self) -> bool {
        let host = self.host();
        match self.below(1000) {
            0..12 if !self.is_over() => {
                self.cluster.save(&mut self.world, self.now_ms);
                self.tally.saved += 1;
            }
            12..14 => self.break_off(host),
            14..600 => return self.obey(self.busy_from(host)),
            600..960 => self.hear(),
            960..970 => self.cannot(host),
            970..975 => self.lose_words(host),
            975..990 => {
                self.now_ms += self.below(2 * DEADLINE_MS);
                self.tally.deadlines +=
                    u64::from(self.world.machine.wake_ms().is_some_and(|at| at <= self.now_ms));
                self.happen(Event::Tick);
            }
            990..993 => return self.die(host),
            993..995 => return self.leave(host),
            _ => {}
        }
        false
    }

    /// The host does the first of what it has been told; what it answers comes at once, or later.
    fn obey(&mut self, host: u32) -> bool {
        if self.away.contains(&host) || self.world.orders[host as usize].is_empty() {
            return false;
        }
        let order = self.world.orders[host as usize].remove(0);
        if let Some(event) = self.cluster.perform(&mut self.world, host, &order) {
            if self.below(2) == 0 {
                self.happen(event);
            } else {
                self.answers.push(event);
            }
        }
        matches!(order, Order::Drop(..))
    }

    fn hear(&mut self) {
        if !self.answers.is_empty() {
            let which = usize::try_from(self.below(self.answers.len() as u64)).unwrap();
            let event = self.answers.swap_remove(which);
            self.happen(event);
        }
    }

    /// Its disk is full.
    fn cannot(&mut self, host: u32) {
        let first = self.world.orders[host as usize].first();
        let Some(Order::Make(attempt, ..) | Order::Note(attempt, ..)) = first else { return };
        let event = Event::Failed { attempt: *attempt, why: "full".into() };
        self.world.orders[host as usize].remove(0);
        self.tally.full += 1;
        self.happen(event);
    }

    fn lose_words(&mut self, host: u32) {
        if !self.answers.is_empty() && self.below(2) == 0 {
            self.answers.pop();
        } else if !self.world.orders[host as usize].is_empty() {
            self.world.orders[host as usize].remove(0);
        } else {
            return;
        }
        self.tally.lost_words += 1;
    }

    /// Some hosts have written their images when one dies.
    fn break_off(&mut self, victim: u32) {
        if self.is_over() {
            return;
        }
        self.world.saved += 1;
        let epoch = id(self.world.saved);
        for host in 0..self.cluster.hosts {
            if host != victim && self.below(2) == 0 {
                self.world.hosts[host as usize].as_mut().unwrap().insert((epoch, Item::Images));
            }
        }
        self.tally.broken_off += 1;
        self.die(victim);
    }

    fn die(&mut self, host: u32) -> bool {
        if self.is_dead(host) {
            return false;
        }
        self.tally.deaths += 1;
        self.away.remove(&host);
        self.cluster.die(&mut self.world, host, self.now_ms);
        true
    }

    /// It is taken for dead, and does nothing any more.
    fn leave(&mut self, host: u32) -> bool {
        if self.is_dead(host) || !self.away.insert(host) {
            return false;
        }
        self.tally.away += 1;
        self.world.orders[host as usize].clear();
        self.happen(Event::Died(host));
        true
    }

    /// Of the hosts that could not be reached some are back by now.
    fn begin_again(&mut self) -> Option<(Level, u32)> {
        let away: Vec<u32> = self.away.iter().copied().collect();
        let unreachable: BTreeSet<u32> = away.into_iter().filter(|_| self.below(2) == 0).collect();
        let breach = self.breach(&unreachable);
        match self.cluster.newest(&self.world, &unreachable) {
            Some(newest) if newest.epoch == self.world.saved => self.tally.from_newest += 1,
            Some(_) => self.tally.from_older += 1,
            None => self.tally.from_none += 1,
        }
        let dead = (0..self.cluster.hosts).filter(|host| self.is_dead(*host));
        let gone = dead.chain(unreachable).collect();
        self.cluster.begin_again(&mut self.world, &gone);
        self.away.clear();
        self.answers.clear();
        breach
    }

    fn breach(&self, unreachable: &BTreeSet<u32>) -> Option<(Level, u32)> {
        let breach = self.cluster.breach(&self.world, unreachable);
        breach.map(|(level, id)| (level, id.epoch))
    }
}

/// What of a life's promises does not hold, and when.
fn live(seed: u64, damage: Option<Damage>, tally: &mut Tally) -> Option<String> {
    let mut random = random_of(seed);
    let mut cluster = cluster_of(&mut random);
    cluster.damage = damage;
    let world = cluster.begin();
    let (answers, away) = (Vec::new(), BTreeSet::new());
    let mut life = Life { cluster: &cluster, world, random, now_ms: 0, answers, away, tally };
    life.tally.lives += 1;
    for step in 0..STEPS {
        if let Some((level, epoch)) = life.step() {
            return Some(format!(
                "seed {seed}, {} hosts, {}, {} kept: step {step}: {level} of checkpoint {epoch}",
                cluster.hosts, cluster.chain, cluster.keep
            ));
        }
    }
    None
}

#[test]
fn no_promise_is_broken_in_random_lives() {
    let given = std::env::var("FERMATA_SEEDS").ok().and_then(|text| text.parse().ok());
    let mut tally = Tally::default();
    for seed in 0..given.unwrap_or(LIVES) {
        assert_eq!(live(seed, None, &mut tally), None);
    }
    println!("{tally:#?}");
    for (what, times) in [
        ("levels", tally.levels),
        ("deadlines", tally.deadlines),
        ("restarts from the newest", tally.from_newest),
        ("restarts from an older one", tally.from_older),
        ("restarts from none", tally.from_none),
    ] {
        assert!(times > tally.lives / 10, "too few {what} to say anything: {times}");
    }
}

#[test]
fn what_is_wrong_is_found() {
    for damage in [Damage::DropsAtOnce, Damage::DropsImages, Damage::HearsOne] {
        let mut lives =
            (0..LIVES).filter_map(|seed| live(seed, Some(damage), &mut Tally::default()));
        assert!(lives.next().is_some(), "{damage:?}");
    }
}
