// SPDX-License-Identifier: Apache-2.0
//! A few machines on a network that loses nothing and takes a millisecond. What loss, delay and
//! numbers do is for `./x sim membership`.
#![allow(clippy::unwrap_used)]

use super::*;
use std::collections::{BTreeMap, VecDeque};

struct Cluster {
    now: u64,
    machines: BTreeMap<NodeId, Machine>,
    timers: BTreeMap<NodeId, u64>,
    under_way: VecDeque<(u64, NodeId, NodeId, Vec<u8>)>,
    /// Nodes whose process does not run, and what has come for them.
    still: BTreeMap<NodeId, Vec<(NodeId, Vec<u8>)>>,
    /// Nodes that nothing reaches and that reach nobody.
    cut: BTreeSet<NodeId>,
    /// What every node has said, and when.
    said: Vec<(u64, NodeId, Action)>,
}

impl Cluster {
    fn new(count: NodeId) -> Self {
        let mut cluster = Self {
            now: 1000,
            machines: BTreeMap::new(),
            timers: BTreeMap::new(),
            under_way: VecDeque::new(),
            still: BTreeMap::new(),
            cut: BTreeSet::new(),
            said: Vec::new(),
        };
        for node in 0..count {
            cluster.begin(node, 0);
        }
        cluster.run(3000);
        cluster
    }

    fn begin(&mut self, node: NodeId, incarnation: u16) {
        let seed = u64::from(node) + 1;
        let machine = Machine::new(Config::default(), node, incarnation, seed, self.now);
        self.machines.insert(node, machine);
        self.step(node, Event::Join { node: 0 });
    }

    fn step(&mut self, node: NodeId, event: Event) {
        let now = self.now;
        let Some(machine) = self.machines.get_mut(&node) else { return };
        for action in machine.step(event, now) {
            match action {
                Action::Send { to, bytes } => {
                    assert!(bytes.len() + crate::guard::SEAL_BYTES <= crate::DATAGRAM_BYTES);
                    self.under_way.push_back((now + 1, node, to, bytes));
                }
                Action::Timer { at } => {
                    self.timers.insert(node, at);
                }
                other => self.said.push((now, node, other)),
            }
        }
    }

    fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now += 1;
            while self.under_way.front().is_some_and(|(at, ..)| *at <= self.now) {
                let (_, from, to, bytes) = self.under_way.pop_front().unwrap();
                if self.cut.contains(&from) != self.cut.contains(&to) {
                    continue;
                }
                if let Some(waiting) = self.still.get_mut(&to) {
                    waiting.push((from, bytes));
                } else {
                    self.step(to, Event::Datagram { from, bytes });
                }
            }
            let due = self
                .timers
                .iter()
                .filter(|(node, at)| **at <= self.now && !self.still.contains_key(*node));
            let due: Vec<NodeId> = due.map(|(node, _)| *node).collect();
            for node in due {
                self.timers.remove(&node);
                self.step(node, Event::Timer);
            }
        }
    }

    fn stop(&mut self, node: NodeId) {
        self.still.insert(node, Vec::new());
    }

    fn resume(&mut self, node: NodeId) {
        for (from, bytes) in self.still.remove(&node).unwrap() {
            self.step(node, Event::Datagram { from, bytes });
        }
    }

    fn kill(&mut self, node: NodeId) {
        self.machines.remove(&node);
        self.timers.remove(&node);
    }

    /// What was said about a node since then, in order, by whom.
    fn about(&self, node: NodeId, since: u64) -> Vec<(u64, NodeId, State)> {
        let of = |(at, by, action): &(u64, NodeId, Action)| {
            let (about, state) = match action {
                Action::Up { node } => (*node, State::Up),
                Action::Suspect { node } => (*node, State::Suspect),
                Action::Down { node } => (*node, State::Down),
                _ => return None,
            };
            (about == node && *at >= since).then(|| (*at - since, *by, state))
        };
        self.said.iter().filter_map(of).collect()
    }

    fn state(&self, by: NodeId, of: NodeId) -> State {
        self.machines[&by].table.get(of).unwrap().state
    }
}

#[test]
fn all_hear_of_all_and_none_is_suspected() {
    let mut cluster = Cluster::new(9);
    cluster.run(60_000);
    for (node, machine) in &cluster.machines {
        assert_eq!(machine.members().count(), 8, "{node}");
        assert_eq!(machine.decider(), 0);
    }
    assert!(cluster.said.iter().all(|(_, _, action)| matches!(action, Action::Up { .. })));
}

#[test]
fn a_death_is_suspected_first_and_known_to_all_within_five_seconds() {
    for count in [2, 3, 9] {
        let mut cluster = Cluster::new(count);
        let died = cluster.now;
        cluster.kill(1);
        cluster.run(5000);
        let said = cluster.about(1, died);
        for by in (0..count).filter(|&node| node != 1) {
            let states: Vec<State> =
                said.iter().filter(|(_, who, _)| *who == by).map(|said| said.2).collect();
            assert_eq!(states, [State::Suspect, State::Down], "{count} nodes, by {by}");
        }
        let first = said.iter().find(|said| said.2 == State::Down).unwrap();
        assert_eq!(first.1, 0, "the coordinator pronounces it");
        assert!(first.0 >= 2500, "not before a standstill of 2 s is out of the question");
    }
}

#[test]
fn whoever_stands_still_for_two_seconds_is_suspected_and_refutes_it() {
    let mut cluster = Cluster::new(5);
    let begun = cluster.now;
    cluster.stop(3);
    cluster.run(2000);
    assert_eq!(cluster.state(0, 3), State::Suspect);
    cluster.resume(3);
    cluster.run(500);
    assert_eq!(cluster.state(0, 3), State::Up);
    cluster.run(20_000);
    let said = cluster.about(3, begun);
    assert!(said.iter().all(|said| said.2 != State::Down));
    for by in [0, 1, 2, 4] {
        assert_eq!(cluster.state(by, 3), State::Up);
    }
    let others = (0..5).filter(|&node| node != 3).flat_map(|node| cluster.about(node, begun));
    assert_eq!(others.count(), 0, "and it suspects nobody because it has slept itself");
}

#[test]
fn what_was_said_about_a_standstill_holds_until_then_and_not_longer() {
    let mut cluster = Cluster::new(5);
    let begun = cluster.now;
    cluster.step(3, Event::Frozen { until: begun + 20_000 });
    cluster.stop(3);
    cluster.run(20_000);
    assert_eq!(cluster.about(3, begun), [], "a node that has announced it is not suspected");
    cluster.kill(3);
    cluster.run(5000);
    assert_eq!(cluster.state(0, 3), State::Down);
}

#[test]
fn an_announcement_is_repeated_until_whoever_decides_has_confirmed_it() {
    let mut cluster = Cluster::new(3);
    let is_announced =
        |cluster: &Cluster| cluster.said.contains(&(cluster.now, 2, Action::Announced));
    cluster.cut.insert(2);
    cluster.step(2, Event::Frozen { until: cluster.now + 20_000 });
    cluster.run(300);
    assert!(!cluster.said.iter().any(|(_, _, action)| *action == Action::Announced));
    cluster.cut.clear();
    for _ in 0..100 {
        cluster.run(1);
        if is_announced(&cluster) {
            return;
        }
    }
    panic!("it was not confirmed");
}

#[test]
fn whoever_is_alone_has_nobody_to_convince_and_whoever_is_new_tells_its_contact() {
    let mut alone = Machine::new(Config::default(), 0, 0, 1, 0);
    assert!(alone.step(Event::Frozen { until: 9000 }, 1).contains(&Action::Announced));
    let mut new = Machine::new(Config::default(), 1, 0, 1, 0);
    let _ = new.step(Event::Join { node: 0 }, 0);
    let actions = new.step(Event::Frozen { until: 9000 }, 1);
    assert!(actions.iter().any(|action| matches!(action, Action::Send { to: 0, .. })));
    assert!(!actions.contains(&Action::Announced));
}

#[test]
fn a_standstill_is_news_even_if_something_else_was_said_in_the_same_millisecond() {
    let mut cluster = Cluster::new(2);
    let begun = cluster.now;
    cluster.step(1, Event::Frozen { until: begun + 10 });
    cluster.step(1, Event::Frozen { until: begun + 20_000 });
    cluster.stop(1);
    cluster.run(19_000);
    assert_eq!(cluster.about(1, begun), []);
}

#[test]
fn whoever_is_back_sooner_is_watched_again_at_once() {
    let mut cluster = Cluster::new(5);
    cluster.step(3, Event::Frozen { until: cluster.now + 600_000 });
    cluster.run(1000);
    cluster.step(3, Event::Frozen { until: cluster.now });
    cluster.run(1000);
    cluster.kill(3);
    cluster.run(5000);
    assert_eq!(cluster.state(0, 3), State::Down);
}

#[test]
fn who_has_stood_still_for_long_does_not_judge_by_what_the_socket_has_lost() {
    let mut cluster = Cluster::new(4);
    let begun = cluster.now;
    cluster.step(1, Event::Frozen { until: begun + 20_000 });
    cluster.run(100);
    cluster.stop(1);
    cluster.run(15_000);
    cluster.stop(0); // for two seconds, the last of which node 1 sees
    cluster.run(500);
    cluster.still.insert(1, Vec::new()); // nothing has been kept for it
    cluster.resume(1);
    cluster.run(1500);
    cluster.resume(0);
    cluster.run(2000);
    assert!(cluster.about(0, begun).iter().all(|said| said.2 != State::Down));
}

#[test]
fn whoever_was_pronounced_down_takes_the_next_incarnation() {
    let mut cluster = Cluster::new(5);
    let begun = cluster.now;
    cluster.stop(3);
    cluster.run(6000);
    assert_eq!(cluster.state(0, 3), State::Down);
    cluster.resume(3);
    cluster.run(4000);
    assert_eq!(cluster.machines[&3].incarnation(), 1);
    for by in [0, 1, 2, 4] {
        assert_eq!(cluster.state(by, 3), State::Up);
        let last = *cluster.about(3, begun).iter().rfind(|said| said.1 == by).unwrap();
        assert_eq!(last.2, State::Up);
    }
}

#[test]
fn a_node_that_is_cut_off_judges_nobody_and_the_coordinator_does() {
    let mut cluster = Cluster::new(5);
    let begun = cluster.now;
    cluster.cut.insert(3);
    cluster.run(8000);
    assert_eq!(cluster.state(0, 3), State::Down);
    for of in [0, 1, 2, 4] {
        assert_eq!(cluster.state(3, of), State::Suspect);
    }
    cluster.cut.clear();
    cluster.run(8000);
    for of in [0, 1, 2, 4] {
        assert_eq!(cluster.state(3, of), State::Up);
        assert_eq!(cluster.state(of, 3), State::Up);
        assert!(cluster.about(of, begun).iter().all(|said| said.2 != State::Down));
    }
}

#[test]
fn a_dead_coordinator_is_known_to_the_others_who_then_judge_by_majority() {
    let mut cluster = Cluster::new(5);
    cluster.kill(0);
    cluster.run(5500);
    assert_eq!(cluster.state(4, 0), State::Down);
    assert_eq!(cluster.machines[&4].decider(), 1);
    cluster.kill(2);
    cluster.run(5500);
    assert_eq!(cluster.state(1, 2), State::Down);
}

#[test]
fn several_deaths_at_once_hide_nobody() {
    let mut cluster = Cluster::new(24);
    for node in 8..24 {
        cluster.kill(node);
    }
    cluster.run(5000);
    assert!((8..24).all(|node| cluster.state(0, node) == State::Down));
    assert!((1..8).all(|node| cluster.state(0, node) == State::Up));
}

#[test]
fn loads_travel_with_their_ages() {
    let mut cluster = Cluster::new(5);
    let load = Load { cpu: 500, ranks: 7, ..Load::default() };
    cluster.step(3, Event::Load { entry: load });
    cluster.run(4000);
    let now = cluster.now;
    let known = cluster.machines[&1].table.get(3).unwrap();
    assert_eq!(known.load, load);
    let age = known.load_age(now);
    assert!((3900..=4200).contains(&age), "{age}");
}

#[test]
fn bytes_that_are_none_of_ours_and_entries_in_anothers_name_count_for_nothing() {
    let mut cluster = Cluster::new(3);
    let before: Vec<NodeId> = cluster.machines[&0].members().map(|(node, _)| node).collect();
    let now = cluster.now;
    let forged = cluster.machines.get_mut(&1).unwrap().own_entry(now);
    let mut random = SmallRng::seed_from_u64(5);
    for _ in 0..1000 {
        let mut bytes = vec![0; random.random_range(0..200)];
        random.fill(&mut bytes[..]);
        cluster.step(0, Event::Datagram { from: 1, bytes });
    }
    let entry = Entry { state: State::Down, ..forged };
    let bytes = Message { errand: Errand::Tell, entries: vec![entry] }.encode();
    cluster.step(0, Event::Datagram { from: 2, bytes });
    assert_eq!(cluster.state(0, 1), State::Up);
    let after: Vec<NodeId> = cluster.machines[&0].members().map(|(node, _)| node).collect();
    assert_eq!(before, after);
}

#[test]
fn the_order_of_events_and_times_gives_the_same_actions() {
    let run = || {
        let mut cluster = Cluster::new(6);
        cluster.kill(4);
        cluster.run(6000);
        cluster.said
    };
    assert_eq!(run(), run());
}
