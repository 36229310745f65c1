// SPDX-License-Identifier: Apache-2.0
//! All orders in which hosts of a small cluster make levels, fail, and die: what was promised can
//! be restarted. What is checked is what runs.
#![allow(clippy::unwrap_used)]

use fermata_levels::promotion::{Action, Config, Damage, Event, Promotion, Status};
use fermata_levels::{Arrangement, Holdings, Home, Id, Item, Level, Snapshot, choose};
use stateright::{Checker, Model, Property};
use std::collections::{BTreeMap, BTreeSet};

fn id(epoch: u32) -> Id {
    Id { taken_ms: u64::from(epoch), epoch }
}

#[derive(Clone)]
struct Cluster {
    hosts: u32,
    chain: &'static str,
    keep: u32,
    saves: u32,
    deaths: u32,
    failures: u32,
    damage: Option<Damage>,
    arrangement: Arrangement,
}

/// What a host, or the coordinator, has been told and has not done yet. Each host does what it is
/// told in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Order {
    Make(u64, Id, Level),
    Note(u64, Id, Level),
    Drop(Id, Level),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    machine: Promotion,
    /// What each host has; `None`: it is dead.
    hosts: Vec<Option<BTreeSet<(Id, Item)>>>,
    /// Whose images the directory has.
    directory: BTreeSet<(Id, u32)>,
    /// Snapshots that have been committed there.
    shared: BTreeSet<Id>,
    orders: Vec<Vec<Order>>,
    /// Hosts that have not noted the level that is being noted.
    noting: BTreeSet<u32>,
    saved: u32,
    failures: u32,
    /// The newest snapshot that each level has been done for.
    promised: BTreeMap<Level, Id>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Move {
    Save,
    /// A host does the first of what it has been told.
    Do(u32),
    /// It cannot.
    Fail(u32),
    Die(u32),
}

impl Cluster {
    fn new(hosts: u32, chain: &'static str, keep: u32) -> Self {
        let arrangement = Arrangement::new(hosts, &[], &chain.parse().unwrap(), 8).unwrap();
        let (saves, deaths, failures, damage) = (3, 2, 1, None);
        Self { hosts, chain, keep, saves, deaths, failures, damage, arrangement }
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

    fn happen(&self, world: &mut World, event: Event) {
        let actions = world.machine.step(event, 0);
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
        let done: Vec<(Level, Id)> = world
            .machine
            .statuses()
            .filter(|(_, _, status)| **status == Status::Done)
            .map(|(epoch, level, _)| (level, epoch))
            .collect();
        for (level, epoch) in done {
            let newest = world.promised.entry(level).or_insert(epoch);
            *newest = epoch.max(*newest);
        }
    }

    fn perform(&self, world: &mut World, host: u32, order: &Order) {
        let partners = |id: Id| self.arrangement.partners(id.epoch.into());
        let Some(mine) = world.hosts[host as usize].as_mut() else { return };
        match order {
            Order::Make(attempt, epoch, level) => {
                if *level == Level::Shared {
                    world.directory.insert((*epoch, host));
                } else if *level == Level::Partner {
                    let of = partners(*epoch).iter().position(|keeper| *keeper == host).unwrap();
                    mine.insert((*epoch, Item::Copy(u32::try_from(of).unwrap())));
                }
                self.happen(world, Event::Made { attempt: *attempt, host });
            }
            Order::Note(attempt, epoch, level) => {
                if *level == Level::Shared {
                    world.shared.insert(*epoch);
                } else if level.parities() > 0 {
                    mine.insert((*epoch, Item::Parities(level.parities())));
                }
                world.noting.remove(&host);
                if world.noting.is_empty() {
                    self.happen(world, Event::Noted { attempt: *attempt });
                }
            }
            Order::Drop(epoch, level) => mine.retain(|(of, item)| {
                let is_of_level = match (level, item) {
                    (Level::Partner, Item::Copy(_)) | (Level::Local, Item::Images) => true,
                    (_, Item::Parities(parities)) => level.parities() == *parities,
                    _ => false,
                };
                of != epoch || !is_of_level
            }),
        }
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

    fn breach(&self, world: &World) -> Option<(Level, Id)> {
        let dead: BTreeSet<u32> =
            (0..self.hosts).filter(|host| world.hosts[*host as usize].is_none()).collect();
        let living = (0..self.hosts).filter_map(|host| {
            world.hosts[host as usize].clone().map(|mine| (format!("n{host}"), mine))
        });
        let holdings: Holdings = living.collect();
        let snapshots: Vec<Snapshot> = (1..=world.saved).map(|e| self.snapshot(e)).collect();
        let is_whole =
            |epoch: &Id| (0..self.hosts).all(|host| world.directory.contains(&(*epoch, host)));
        let shared = world.shared.iter().copied().filter(is_whole).collect();
        let newest =
            choose(&snapshots, &holdings, &shared).map_or(None, |found| Some(found.snapshot.id));
        let mut promised = world.promised.iter();
        promised
            .find(|(level, epoch)| self.survives(**level, &dead) && newest < Some(**epoch))
            .map(|(level, epoch)| (*level, *epoch))
    }
}

impl Model for Cluster {
    type State = World;
    type Action = Move;

    fn init_states(&self) -> Vec<World> {
        let config = Config {
            chain: self.chain.parse().unwrap(),
            hosts: self.hosts,
            keep: self.keep,
            deadline_ms: 1000,
        };
        vec![World {
            machine: Promotion::new(config, &BTreeMap::new()).damaged(self.damage),
            hosts: vec![Some(BTreeSet::new()); self.hosts as usize],
            directory: BTreeSet::new(),
            shared: BTreeSet::new(),
            orders: vec![Vec::new(); self.hosts as usize],
            noting: BTreeSet::new(),
            saved: 0,
            failures: 0,
            promised: BTreeMap::new(),
        }]
    }

    fn actions(&self, world: &World, moves: &mut Vec<Move>) {
        let alive = |host: &u32| world.hosts[*host as usize].is_some();
        let deaths = (0..self.hosts).filter(|host| !alive(host)).count();
        if deaths == 0 && world.saved < self.saves {
            moves.push(Move::Save);
        }
        for host in (0..self.hosts).filter(alive) {
            if let Some(first) = world.orders[host as usize].first() {
                moves.push(Move::Do(host));
                if world.failures < self.failures && !matches!(first, Order::Drop(..)) {
                    moves.push(Move::Fail(host));
                }
            }
            if deaths < self.deaths as usize {
                moves.push(Move::Die(host));
            }
        }
    }

    fn next_state(&self, world: &World, action: Move) -> Option<World> {
        let mut next = world.clone();
        match action {
            Move::Save => {
                next.saved += 1;
                let epoch = next.saved;
                for host in next.hosts.iter_mut().flatten() {
                    host.insert((id(epoch), Item::Images));
                }
                self.happen(&mut next, Event::Saved(id(epoch)));
            }
            Move::Do(host) => {
                let order = next.orders[host as usize].remove(0);
                self.perform(&mut next, host, &order);
            }
            Move::Fail(host) => {
                next.failures += 1;
                let order = next.orders[host as usize].remove(0);
                let (Order::Make(attempt, ..) | Order::Note(attempt, ..)) = order else {
                    return None;
                };
                self.happen(&mut next, Event::Failed { attempt, why: "full".into() });
            }
            Move::Die(host) => {
                next.hosts[host as usize] = None;
                next.orders[host as usize].clear();
                self.happen(&mut next, Event::Died(host));
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("promised", |cluster: &Self, world: &World| {
                cluster.breach(world).is_none()
            }),
            // Else little would be checked.
            Property::sometimes("dropped", |cluster: &Self, world: &World| {
                let has = |host: &BTreeSet<_>| host.contains(&(id(1), Item::Images));
                world.saved == cluster.saves && !world.hosts.iter().flatten().any(has)
            }),
        ]
    }
}

fn search(cluster: &Cluster) -> (usize, Option<String>) {
    let checker = cluster.clone().checker().threads(2).spawn_bfs().join();
    let found = checker.discovery("promised").map(|path| {
        let last = path.last_state().clone();
        format!("{:?} after {:?}", cluster.breach(&last), path.into_actions())
    });
    if found.is_none() {
        assert!(checker.discovery("dropped").is_some(), "{}: nothing was dropped", cluster.chain);
    }
    (checker.unique_state_count(), found)
}

#[test]
fn what_is_promised_can_be_restarted() {
    let all = [
        (3, "local,partner", 1),
        (3, "local,xor", 1),
        (2, "local,partner,xor,shared", 1),
        (3, "local,partner,xor,shared", 1),
    ];
    for (hosts, chain, keep) in all {
        let (states, found) = search(&Cluster::new(hosts, chain, keep));
        assert!(states > 1000, "{chain}: {states}");
        assert_eq!(found, None, "{chain}");
    }
}

#[test]
fn two_parities_survive_two_hosts() {
    let cluster = Cluster { saves: 2, failures: 0, ..Cluster::new(3, "local,xor,rs2", 1) };
    assert_eq!(search(&cluster).1, None);
}

#[test]
fn what_is_wrong_is_found() {
    let all = [
        (Damage::DropsAtOnce, "local,xor"),
        (Damage::DropsImages, "local,xor"),
        (Damage::HearsOne, "local,shared"),
    ];
    for (damage, chain) in all {
        let cluster = Cluster { damage: Some(damage), ..Cluster::new(3, chain, 1) };
        let (_, found) = search(&cluster);
        assert!(found.is_some(), "{damage:?}");
    }
}
