// SPDX-License-Identifier: Apache-2.0
//! All orders in which hosts of a small cluster make levels, fail, and die: what was promised can
//! be restarted. What is checked is what runs.

use crate::cluster::{Cluster, Order, World, id};
use fermata_levels::Item;
use fermata_levels::promotion::{Damage, Event};
use stateright::{Checker, Model, Property};
use std::collections::BTreeSet;

/// All that may happen to a cluster.
#[derive(Clone)]
struct Search {
    cluster: Cluster,
    saves: u32,
    deaths: u32,
    failures: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    world: World,
    failures: u32,
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

impl Search {
    fn new(hosts: u32, chain: &str, keep: u32) -> Self {
        Self {
            cluster: Cluster::new(hosts, chain, keep).unwrap(),
            saves: 3,
            deaths: 2,
            failures: 1,
        }
    }
}

impl Model for Search {
    type State = State;
    type Action = Move;

    fn init_states(&self) -> Vec<State> {
        vec![State { world: self.cluster.begin(), failures: 0 }]
    }

    fn actions(&self, state: &State, moves: &mut Vec<Move>) {
        let world = &state.world;
        let alive = |host: &u32| world.hosts[*host as usize].is_some();
        let deaths = (0..self.cluster.hosts).filter(|host| !alive(host)).count();
        if deaths == 0 && world.saved < self.saves {
            moves.push(Move::Save);
        }
        for host in (0..self.cluster.hosts).filter(alive) {
            if let Some(first) = world.orders[host as usize].first() {
                moves.push(Move::Do(host));
                if state.failures < self.failures && !matches!(first, Order::Drop(..)) {
                    moves.push(Move::Fail(host));
                }
            }
            if deaths < self.deaths as usize {
                moves.push(Move::Die(host));
            }
        }
    }

    fn next_state(&self, state: &State, action: Move) -> Option<State> {
        let mut next = state.clone();
        let world = &mut next.world;
        match action {
            Move::Save => self.cluster.save(world, 0),
            Move::Do(host) => {
                let order = world.orders[host as usize].remove(0);
                if let Some(event) = self.cluster.perform(world, host, &order) {
                    self.cluster.happen(world, event, 0);
                }
            }
            Move::Fail(host) => {
                let order = world.orders[host as usize].remove(0);
                let (Order::Make(attempt, ..) | Order::Note(attempt, ..)) = order else {
                    return None;
                };
                self.cluster.happen(world, Event::Failed { attempt, why: "full".into() }, 0);
                next.failures += 1;
            }
            Move::Die(host) => self.cluster.die(world, host, 0),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("promised", |search: &Self, state: &State| {
                search.cluster.breach(&state.world, &BTreeSet::new()).is_none()
            }),
            // Else little would be checked.
            Property::sometimes("dropped", |search: &Self, state: &State| {
                let has = |host: &BTreeSet<_>| host.contains(&(id(1), Item::Images));
                let world = &state.world;
                world.saved == search.saves && !world.hosts.iter().flatten().any(has)
            }),
        ]
    }
}

fn search(search: &Search) -> (usize, Option<String>) {
    let cluster = &search.cluster;
    let checker = search.clone().checker().threads(2).spawn_bfs().join();
    let found = checker.discovery("promised").map(|path| {
        let last = path.last_state().clone();
        let breach = cluster.breach(&last.world, &BTreeSet::new());
        format!("{breach:?} after {:?}", path.into_actions())
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
        let (states, found) = search(&Search::new(hosts, chain, keep));
        assert!(states > 1000, "{chain}: {states}");
        assert_eq!(found, None, "{chain}");
    }
}

#[test]
fn so_is_what_a_plan_wants() {
    for chain in ["local,partner", "local,xor,shared"] {
        let mut planned = Search::new(3, chain, 1);
        planned.cluster.is_planned = true;
        planned.saves = 4;
        assert_eq!(search(&planned).1, None, "{chain}");
    }
}

#[test]
fn two_parities_survive_two_hosts() {
    let fewer = Search { saves: 2, failures: 0, ..Search::new(3, "local,xor,rs2", 1) };
    assert_eq!(search(&fewer).1, None);
}

#[test]
fn what_is_wrong_is_found() {
    let all = [
        (Damage::DropsAtOnce, "local,xor"),
        (Damage::DropsImages, "local,xor"),
        (Damage::HearsOne, "local,shared"),
    ];
    for (damage, chain) in all {
        let mut damaged = Search::new(3, chain, 1);
        damaged.cluster.damage = Some(damage);
        let (_, found) = search(&damaged);
        assert!(found.is_some(), "{damage:?}");
    }
}
