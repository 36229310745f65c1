// SPDX-License-Identifier: Apache-2.0
//! The promotion machine over real directories: what it orders is done there in random order, until
//! hosts are lost. What it has called done can be restored then.
#![allow(clippy::cast_possible_truncation)]

use super::record::Kept;
use super::tests::{Cluster, chain, id};
use fermata_levels::promotion::{Action, Config, Event, Promotion, Status};
use fermata_levels::{Id, Level};
use fermata_parity::Sum;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const RANKS_OF: [u32; 4] = [1, 2, 1, 1];

struct Run {
    cluster: Cluster,
    machine: Promotion,
    kept: BTreeMap<Id, Kept>,
    /// What the machine has ordered and nobody has done yet.
    orders: Vec<Action>,
    /// What hosts have returned in the attempt under way.
    sums: BTreeMap<u32, Vec<Sum>>,
    promised: BTreeMap<Level, Id>,
    state: u64,
}

impl Run {
    fn new(list: &str, seed: u64) -> Self {
        let chain = chain(list);
        let cluster = Cluster::new(&chain, &RANKS_OF);
        let config = Config {
            chain,
            hosts: RANKS_OF.len() as u32,
            keep: 1,
            deadline_ms: 1000,
            on_demand: false,
        };
        Self {
            cluster,
            machine: Promotion::new(config, &BTreeMap::new()),
            kept: BTreeMap::new(),
            orders: Vec::new(),
            sums: BTreeMap::new(),
            promised: BTreeMap::new(),
            state: seed,
        }
    }

    fn random(&mut self, below: usize) -> usize {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.state >> 33) as usize % below.max(1)
    }

    fn happen(&mut self, event: Event) {
        for action in self.machine.step(event, 0) {
            if let Action::Abort { attempt, id, level } = action {
                self.orders.retain(|order| match order {
                    Action::Make { attempt: of, .. } | Action::Note { attempt: of, .. } => {
                        *of != attempt
                    }
                    _ => true,
                });
                self.sums.clear();
                self.cluster.hosts.0.values().for_each(|store| store.abort(id, level));
            } else {
                self.orders.push(action);
            }
        }
        let done = self.machine.statuses().filter(|(_, _, status)| **status == Status::Done);
        for (id, level, _) in done {
            let newest = self.promised.entry(level).or_insert(id);
            *newest = id.max(*newest);
        }
    }

    fn save(&mut self, epoch: u32) {
        let kept = self.cluster.make(epoch, &[]);
        self.kept.insert(id(epoch), kept);
        self.happen(Event::Saved(id(epoch)));
    }

    fn perform(&mut self, order: Action) {
        match order {
            Action::Make { attempt, id, level, host } => {
                if self.random(12) == 0 {
                    return self.happen(Event::Failed { attempt, why: "no space".into() });
                }
                let kept = self.kept[&id].clone();
                let store = self.cluster.hosts.0[&format!("n{host}")].clone();
                if level == Level::Partner {
                    let homes = kept.snapshot.partners.iter();
                    let of = (0..).zip(homes).find(|(_, keeper)| **keeper == host).unwrap().0;
                    store.make_copy(&kept, of, &mut self.cluster.hosts).unwrap();
                } else {
                    let hosts = &mut self.cluster.hosts;
                    let sums = store.make_parities(&kept, level.parities(), hosts).unwrap();
                    self.sums.insert(host, sums);
                }
                self.happen(Event::Made { attempt, host });
            }
            Action::Note { attempt, id, level } => {
                let sums = std::mem::take(&mut self.sums);
                if level.parities() > 0 {
                    self.cluster.note(&self.kept[&id], level, &sums);
                }
                self.happen(Event::Noted { attempt });
            }
            Action::Drop { id, level } => {
                for store in self.cluster.hosts.0.values() {
                    store.drop_level(id, level).unwrap();
                }
            }
            Action::Abort { .. } => {}
        }
    }

    /// So many steps: a snapshot, or what has been ordered, in any order.
    fn run(&mut self, steps: usize) {
        let mut epoch = 0;
        for _ in 0..steps {
            if self.orders.is_empty() || self.random(10) == 0 {
                epoch += 1;
                self.save(epoch);
            } else {
                let at = self.random(self.orders.len());
                let order = self.orders.swap_remove(at);
                self.perform(order);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn what_is_called_done_is_restored(
        list in prop_oneof![
            Just("local,partner"), Just("local,xor"), Just("local,partner,xor,rs2"),
        ],
        seed in any::<u64>(),
        steps in 1_usize..50,
        dead in proptest::collection::btree_set(0..RANKS_OF.len() as u32, 0..3),
    ) {
        let mut run = Run::new(list, seed);
        run.run(steps);
        run.cluster.lose(&dead);
        let promised = run.promised.iter();
        let holds = promised.filter(|(level, _)| run.cluster.promises(&[**level], &dead));
        let newest: Option<Id> = holds.map(|(_, id)| *id).max();
        match run.cluster.restore() {
            Ok(restored) => prop_assert!(Some(restored.restart.snapshot.id) >= newest),
            Err(error) => prop_assert_eq!(newest, None, "{}", error),
        }
        let had: BTreeSet<Level> = run.promised.keys().copied().collect();
        prop_assert!(had.contains(&Level::Local));
    }
}
