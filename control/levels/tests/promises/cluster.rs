// SPDX-License-Identifier: Apache-2.0
//! A cluster whose hosts do what the machine of a run orders, each in its own time: for all orders
//! of a small one (`promised.rs`), and for random lives of larger ones (`simulated.rs`). The
//! machine, the arrangement and the choice of a restart are what runs.

use fermata_levels::promotion::{Action, Config, Damage, Event, Promotion, Status};
use fermata_levels::{Arrangement, Chain, Holdings, Home, Id, Item, Level, Snapshot, choose};
use std::collections::{BTreeMap, BTreeSet};

/// A level of which nothing is heard for so long has failed.
pub const DEADLINE_MS: u64 = 1000;

pub fn id(epoch: u32) -> Id {
    Id { taken_ms: u64::from(epoch), epoch }
}

/// What stays as it is.
#[derive(Clone)]
pub struct Cluster {
    pub hosts: u32,
    pub chain: String,
    pub keep: u32,
    pub damage: Option<Damage>,
    /// A plan says which snapshots get which levels: one of so many as its place in the chain.
    pub is_planned: bool,
    pub arrangement: Arrangement,
}

/// What a host, or the coordinator, has been told and has not done yet. Each host does what it is
/// told in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Order {
    Make(u64, Id, Level),
    Note(u64, Id, Level),
    Drop(Id, Level),
}

/// A level has been done for this snapshot, and since then the disks of these hosts are lost.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Promise {
    pub id: Id,
    pub lost: BTreeSet<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub machine: Promotion,
    /// What each host has; `None`: it is dead.
    pub hosts: Vec<Option<BTreeSet<(Id, Item)>>>,
    /// Whose images the directory has.
    directory: BTreeSet<(Id, u32)>,
    /// Snapshots that have been committed there.
    shared: BTreeSet<Id>,
    pub orders: Vec<Vec<Order>>,
    /// Hosts that have not noted the level that is being noted.
    noting: BTreeSet<u32>,
    pub saved: u32,
    /// So many of them before this run: what has not been made in it promises nothing anew.
    before: u32,
    /// Of the newest snapshot that each level has been done for.
    promised: BTreeMap<Level, Promise>,
}

impl Cluster {
    /// None if there are too few hosts for this chain.
    pub fn new(hosts: u32, chain: &str, keep: u32) -> Option<Self> {
        let arrangement = Arrangement::new(hosts, &[], &chain.parse().ok()?, 8).ok()?;
        let chain = chain.to_owned();
        Some(Self { hosts, chain, keep, damage: None, is_planned: false, arrangement })
    }

    pub fn begin(&self) -> World {
        World {
            machine: self.machine(&BTreeMap::new()),
            hosts: vec![Some(BTreeSet::new()); self.hosts as usize],
            directory: BTreeSet::new(),
            shared: BTreeSet::new(),
            orders: vec![Vec::new(); self.hosts as usize],
            noting: BTreeSet::new(),
            saved: 0,
            before: 0,
            promised: BTreeMap::new(),
        }
    }

    /// Of a run. `earlier`: what those before it have left.
    fn machine(&self, earlier: &BTreeMap<Id, BTreeSet<Level>>) -> Promotion {
        let config = Config {
            chain: self.chain.parse().unwrap(),
            hosts: self.hosts,
            keep: self.keep,
            deadline_ms: DEADLINE_MS,
            on_demand: self.is_planned,
        };
        Promotion::new(config, earlier).damaged(self.damage)
    }

    fn snapshot(&self, epoch: u32) -> Snapshot {
        Snapshot {
            id: id(epoch),
            homes: (0..self.hosts)
                .map(|n| Home { host: format!("n{n}"), ranks: vec![n] })
                .collect(),
            sets: self.arrangement.sets().to_vec(),
            partners: self.arrangement.partners(epoch.into()),
        }
    }

    /// All hosts have written their images.
    pub fn save(&self, world: &mut World, now_ms: u64) {
        world.saved += 1;
        let epoch = world.saved;
        for host in world.hosts.iter_mut().flatten() {
            host.insert((id(epoch), Item::Images));
        }
        self.happen(world, Event::Saved(id(epoch)), now_ms);
        let chain: Chain = self.chain.parse().unwrap();
        let planned = (1..).zip(chain.levels()).filter(|(place, _)| epoch % place == 0);
        for (_, &level) in planned.filter(|_| self.is_planned) {
            self.happen(world, Event::Wanted { id: id(epoch), level }, now_ms);
        }
    }

    pub fn happen(&self, world: &mut World, event: Event, now_ms: u64) {
        let actions = world.machine.step(event, now_ms);
        for action in actions {
            match action {
                Action::Make { attempt, id: epoch, level, host } => {
                    world.orders[host as usize].push(Order::Make(attempt, epoch, level));
                }
                Action::Note { attempt, id: epoch, level } => {
                    world.noting = match level {
                        Level::Shared => BTreeSet::from([0]), // in truth the coordinator does it
                        _ => (0..self.hosts).collect(),
                    };
                    for host in world.noting.clone() {
                        world.orders[host as usize].push(Order::Note(attempt, epoch, level));
                    }
                }
                Action::Abort { attempt, .. } => {
                    world.noting.clear();
                    for orders in &mut world.orders {
                        orders.retain(|order| match order {
                            Order::Make(of, ..) | Order::Note(of, ..) => *of != attempt,
                            Order::Drop(..) => true,
                        });
                    }
                }
                Action::Drop { id: epoch, level: Level::Shared } => {
                    world.shared.remove(&epoch);
                }
                Action::Drop { id: epoch, level } => {
                    for orders in &mut world.orders {
                        orders.push(Order::Drop(epoch, level));
                    }
                }
            }
        }
        let done = world.machine.statuses().filter(|(_, _, status)| **status == Status::Done);
        for (epoch, level, _) in done.filter(|(epoch, ..)| epoch.epoch > world.before) {
            let promise = Promise { id: epoch, lost: BTreeSet::new() };
            let newest = world.promised.entry(level).or_insert_with(|| promise.clone());
            if newest.id < epoch {
                *newest = promise;
            }
        }
    }

    /// A host does something. Returns what the machine is to hear of it.
    pub fn perform(&self, world: &mut World, host: u32, order: &Order) -> Option<Event> {
        let partners = |id: Id| self.arrangement.partners(id.epoch.into());
        let mine = world.hosts[host as usize].as_mut()?;
        match order {
            Order::Make(attempt, epoch, level) => {
                if *level == Level::Shared {
                    world.directory.insert((*epoch, host));
                } else if *level == Level::Partner {
                    let of = partners(*epoch).iter().position(|keeper| *keeper == host).unwrap();
                    mine.insert((*epoch, Item::Copy(u32::try_from(of).unwrap())));
                }
                Some(Event::Made { attempt: *attempt, host })
            }
            Order::Note(attempt, epoch, level) => {
                if *level == Level::Shared {
                    world.shared.insert(*epoch);
                } else if level.parities() > 0 {
                    mine.insert((*epoch, Item::Parities(level.parities())));
                }
                world.noting.remove(&host);
                world.noting.is_empty().then_some(Event::Noted { attempt: *attempt })
            }
            Order::Drop(epoch, level) => {
                mine.retain(|(of, item)| {
                    let is_of_level = match (level, item) {
                        (Level::Partner, Item::Copy(_)) | (Level::Local, Item::Images) => true,
                        (_, Item::Parities(parities)) => level.parities() == *parities,
                        _ => false,
                    };
                    of != epoch || !is_of_level
                });
                None
            }
        }
    }

    /// A host is lost, with its disk.
    pub fn die(&self, world: &mut World, host: u32, now_ms: u64) {
        world.hosts[host as usize] = None;
        world.orders[host as usize].clear();
        for promise in world.promised.values_mut() {
            promise.lost.insert(host);
        }
        self.happen(world, Event::Died(host), now_ms);
    }

    /// Whether a level promises to survive what has been lost.
    fn survives(&self, level: Level, dead: &BTreeSet<u32>) -> bool {
        let most = self
            .arrangement
            .sets()
            .iter()
            .map(|set| set.iter().filter(|host| dead.contains(host)).count());
        match level {
            Level::Local => dead.is_empty(),
            Level::Partner => dead.len() <= 1,
            Level::Xor | Level::Rs(_) => most.max().unwrap_or(0) <= level.parities() as usize,
            Level::Shared => true,
        }
    }

    /// What a restart takes now, if these hosts cannot be reached.
    pub fn newest(&self, world: &World, away: &BTreeSet<u32>) -> Option<Id> {
        let living = (0..self.hosts).filter(|host| !away.contains(host)).filter_map(|host| {
            world.hosts[host as usize].clone().map(|mine| (format!("n{host}"), mine))
        });
        let holdings: Holdings = living.collect();
        let snapshots: Vec<Snapshot> = (1..=world.saved).map(|e| self.snapshot(e)).collect();
        let is_whole =
            |epoch: &Id| (0..self.hosts).all(|host| world.directory.contains(&(*epoch, host)));
        let shared = world.shared.iter().copied().filter(is_whole).collect();
        choose(&snapshots, &holdings, &shared).ok().map(|found| found.snapshot.id)
    }

    /// A promise that does not hold.
    pub fn breach(&self, world: &World, away: &BTreeSet<u32>) -> Option<(Level, Id)> {
        let newest = self.newest(world, away);
        let mut promised = world.promised.iter();
        promised
            .find(|(level, promise)| {
                let lost = &promise.lost | away;
                self.survives(**level, &lost) && newest < Some(promise.id)
            })
            .map(|(level, promise)| (*level, promise.id))
    }

    /// The next run: hosts that are gone come back with empty disks, and the machine hears what is
    /// there, as the coordinator does.
    pub fn begin_again(&self, world: &mut World, gone: &BTreeSet<u32>) {
        for promise in world.promised.values_mut() {
            promise.lost.extend(gone);
        }
        let mut earlier: BTreeMap<Id, BTreeSet<Level>> = BTreeMap::new();
        for (number, host) in (0..).zip(&mut world.hosts) {
            if gone.contains(&number) {
                *host = Some(BTreeSet::new());
            }
            for (epoch, item) in host.iter().flatten() {
                let levels = earlier.entry(*epoch).or_insert_with(|| [Level::Local].into());
                levels.insert(item.level());
            }
        }
        for epoch in &world.shared {
            earlier.entry(*epoch).or_default().insert(Level::Shared);
        }
        world.orders = vec![Vec::new(); self.hosts as usize];
        world.noting.clear();
        world.before = world.saved;
        world.machine = self.machine(&earlier);
    }
}
