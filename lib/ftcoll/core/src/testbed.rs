// SPDX-License-Identifier: Apache-2.0
//! Runs cores in any order of messages, for tests: each pair of processes has a line in order, and
//! which line delivers next is drawn. Time passes only when nothing is under way, to the next
//! moment that a core wants to be woken at, so nobody living is taken for dead, unless the bed is
//! hasty.

use crate::ftco::Value;
use crate::{Actions, Core, Event, Rank, Time, draw};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;

/// Who contributed. To merge what holds somebody twice is a bug.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Members(pub u128);

impl Value for Members {
    fn merge(&mut self, behind: &Self) {
        assert_eq!(self.0 & behind.0, 0, "a contribution is merged twice");
        self.0 |= behind.0;
    }
}

pub fn only(rank: Rank) -> Members {
    Members(1 << rank)
}

/// A death: at which step, of whom, and how many of the messages of that step still leave.
#[derive(Clone, Copy, Debug)]
pub struct Death {
    pub step: u32,
    pub rank: Rank,
    pub sent: usize,
}

pub struct Bed<C: Core> {
    pub cores: Vec<C>,
    pub alive: Vec<bool>,
    pub outputs: Vec<Option<C::Output>>,
    pub sent: u64,
    pub now: Time,
    /// When the last output came.
    pub ended: Time,
    /// Time passes while messages are under way, so the living are taken for dead.
    pub is_hasty: bool,
    /// The living learn of each death at a drawn time, as from a connection that breaks: behind
    /// all that the dead one had sent them, whether a call is in progress or not.
    pub tells: bool,
    untold: Vec<(Rank, Rank)>,
    steps: u32,
    deaths: Vec<Death>,
    seed: u64,
    lines: BTreeMap<(Rank, Rank), VecDeque<C::Message>>,
    wakes: Vec<Option<Time>>,
    ports: Vec<bool>,
}

impl<C: Core + Debug> Bed<C> {
    pub fn new(cores: Vec<C>, seed: u64) -> Self {
        let size = cores.len();
        Self {
            cores,
            alive: vec![true; size],
            outputs: std::iter::repeat_with(|| None).take(size).collect(),
            sent: 0,
            now: 0,
            ended: 0,
            is_hasty: false,
            tells: false,
            untold: vec![],
            steps: 0,
            deaths: vec![],
            seed,
            lines: BTreeMap::new(),
            wakes: vec![None; size],
            ports: vec![false; size],
        }
    }

    /// From now on, counted in steps.
    pub fn plan_deaths(&mut self, deaths: &[Death]) {
        let begun = self.steps;
        self.deaths = deaths.iter().map(|d| Death { step: begun + d.step, ..*d }).collect();
    }

    pub fn living(&self) -> Vec<Rank> {
        (0..).zip(&self.alive).filter(|(_, alive)| **alive).map(|(rank, _)| rank).collect()
    }

    fn step(&mut self, at: Rank, event: Event<C::Message>) {
        let index = at as usize;
        if !self.alive[index] {
            return;
        }
        let mut actions = Actions::default();
        let asked_port = event_is_port(&event);
        self.cores[index].step(event, self.now, &mut actions);
        self.steps += 1;
        let mut left = actions.sends.len();
        if let Some(death) = self.deaths.iter().find(|d| d.rank == at && d.step <= self.steps) {
            left = left.min(death.sent);
            self.alive[index] = false;
            if self.tells {
                let others = (0..).zip(&self.alive).filter(|(_, alive)| **alive);
                self.untold.extend(others.map(|(other, _)| (at, other)));
            }
        }
        self.ports[index] = !asked_port || !actions.sends.is_empty();
        for (to, message) in actions.sends.into_iter().take(left) {
            assert_ne!(to, at, "a message to oneself");
            self.sent += 1;
            self.lines.entry((at, to)).or_default().push_back(message);
        }
        if self.alive[index] {
            if actions.output.is_some() {
                assert!(self.outputs[index].is_none(), "a second output");
                self.outputs[index] = actions.output;
                self.ended = self.now;
            }
            self.wakes[index] = actions.wake.or(self.wakes[index]);
        }
    }

    pub fn start(&mut self, order: impl Iterator<Item = Rank>) {
        for rank in order {
            self.step(rank, Event::Start);
        }
    }

    /// Until nothing happens any more. At most `limit` steps.
    pub fn run(&mut self, limit: u32) {
        for _ in 0..limit {
            self.lines.retain(|_, line| !line.is_empty());
            let ports = (0..).zip(&self.ports).filter(|(_, free)| **free);
            let ports: Vec<Rank> = ports.map(|(rank, _)| rank).collect();
            let heard = |pair: &&(Rank, Rank)| !self.lines.contains_key(pair);
            let news: Vec<(Rank, Rank)> = self.untold.iter().filter(heard).copied().collect();
            let choices = self.lines.len() + ports.len() + news.len();
            let is_early = self.is_hasty && draw::bits(!self.seed, u64::from(self.steps)) % 16 == 0;
            if choices > 0 && !is_early {
                let drawn = draw::bits(self.seed, u64::from(self.steps)) % choices as u64;
                let drawn = usize::try_from(drawn).unwrap();
                self.steps += 1;
                let port = drawn.checked_sub(self.lines.len());
                if let Some(piece) = port.and_then(|port| port.checked_sub(ports.len())) {
                    let (dead, to) = news[piece];
                    self.untold.retain(|pair| *pair != news[piece]);
                    self.step(to, Event::Dead(dead));
                } else if let Some(port) = port {
                    self.ports[ports[port] as usize] = false;
                    self.step(ports[port], Event::PortFree);
                } else if let Some((&(from, to), line)) = self.lines.iter_mut().nth(drawn) {
                    let message = line.pop_front().unwrap();
                    self.step(to, Event::Message { from, message });
                }
                continue;
            }
            let due = (0..).zip(&self.wakes).filter(|&(r, _)| self.alive[r as usize]);
            let Some((time, rank)) = due.filter_map(|(r, wake)| Some(((*wake)?, r))).min() else {
                if choices == 0 {
                    return;
                }
                self.steps += 1;
                continue;
            };
            self.now = self.now.max(time);
            self.steps += 1;
            self.wakes[rank as usize] = None;
            self.step(rank, Event::Timer);
        }
        let waits = |&rank: &Rank| self.outputs[rank as usize].is_none();
        let waiting: Vec<_> = self.living().into_iter().filter(waits).collect();
        let first = waiting.first().map(|&rank| &self.cores[rank as usize]);
        panic!("still busy after {limit} steps: {waiting:?} wait, the first is {first:#?}");
    }
}

fn event_is_port<M>(event: &Event<M>) -> bool {
    matches!(event, Event::PortFree)
}
