// SPDX-License-Identifier: Apache-2.0
//! The collectives of `ftco` along the same tree, with the same messages, and without tolerance:
//! nobody is watched, asked or replaced. To compare with: what surviving costs while nobody dies.

use crate::ftco::{Body, Contribution, Ending, Message, Operation, Value, Verdict};
use crate::tree::Tree;
use crate::{Actions, Core, Event, Rank, Time};
use std::sync::Arc;

/// One process's part of the collectives of a communicator in which nobody dies.
#[derive(Clone, Debug)]
pub struct Plain<V> {
    tree: Arc<Tree>,
    me: Rank,
    epoch: u32,
    next: Option<(Operation, Option<V>)>,
    call: Option<Call<V>>,
    /// Messages of calls that this process has not entered yet.
    parked: Vec<(Rank, Message<V>)>,
}

#[derive(Clone, Debug)]
struct Call<V> {
    operation: Operation,
    own: Option<V>,
    /// Of the children, in the order of the tree.
    parts: Vec<(Rank, Option<Contribution<V>>)>,
}

type Doing<V> = Actions<Message<V>, Verdict<V>>;

impl<V: Value> Plain<V> {
    /// Process `me` of the communicator, before its first call.
    #[must_use]
    pub fn new(tree: Arc<Tree>, me: Rank) -> Self {
        Self { tree, me, epoch: 0, next: None, call: None, parked: Vec::new() }
    }

    /// As `Ftco::prepare`.
    pub fn prepare(&mut self, operation: Operation, value: Option<V>) {
        self.next = Some((operation, value));
    }

    fn start(&mut self, actions: &mut Doing<V>) {
        let Some((operation, own)) = self.next.take() else { return };
        self.epoch += 1;
        let gathers = operation != Operation::Bcast;
        let children = self.tree.children(self.me).filter(|_| gathers);
        let parts = children.map(|rank| (rank, None)).collect();
        self.call = Some(Call { operation, own, parts });
        self.look(actions);
        for (from, message) in std::mem::take(&mut self.parked) {
            self.receive(from, message, actions);
        }
    }

    fn receive(&mut self, from: Rank, message: Message<V>, actions: &mut Doing<V>) {
        if message.epoch > self.epoch {
            self.parked.push((from, message));
            return;
        }
        let Some(call) = &mut self.call else { return };
        match message.body {
            Body::Contribution(part) => {
                let waiting = call.parts.iter_mut().find(|(rank, _)| *rank == from);
                if let Some((_, held)) = waiting {
                    *held = Some(part);
                }
                self.look(actions);
            }
            Body::Verdict { verdict, .. } => self.adopt(verdict, actions),
            Body::KeepAlive(_) | Body::Ack => {}
        }
    }

    /// Passes on what the subtree holds, once it is all there.
    fn look(&mut self, actions: &mut Doing<V>) {
        let Some(call) = &mut self.call else { return };
        let is_root = self.me == 0;
        if call.parts.iter().any(|(_, held)| held.is_none())
            || call.operation == Operation::Bcast && !is_root
        {
            return;
        }
        let mut value = call.own.take();
        for part in call.parts.drain(..).filter_map(|(_, held)| held?.value) {
            match &mut value {
                Some(value) => value.merge(&part),
                empty => *empty = Some(part),
            }
        }
        let missing = Vec::new();
        if let Some(parent) = self.tree.parent(self.me) {
            let body = Body::Contribution(Contribution { value, missing });
            actions.send(parent, Message { epoch: self.epoch, body });
        } else {
            self.adopt(Verdict { value, missing, ending: Ending::Complete }, actions);
        }
    }

    fn adopt(&mut self, verdict: Verdict<V>, actions: &mut Doing<V>) {
        let Some(call) = self.call.take() else { return };
        let mut told = verdict.clone();
        if call.operation == Operation::Reduce {
            told.value = None;
        }
        for child in self.tree.children(self.me) {
            let body = Body::Verdict { root: 0, verdict: told.clone() };
            actions.send(child, Message { epoch: self.epoch, body });
        }
        actions.output = Some(verdict);
    }
}

impl<V: Value> Core for Plain<V> {
    type Message = Message<V>;
    type Output = Verdict<V>;

    fn step(&mut self, event: Event<Message<V>>, _now: Time, actions: &mut Doing<V>) {
        match event {
            Event::Start => self.start(actions),
            Event::Message { from, message } => self.receive(from, message, actions),
            Event::Timer | Event::Dead(_) | Event::PortFree => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Plain;
    use crate::ftco::{Ending, Operation};
    use crate::testbed::{Bed, Members, only};
    use crate::tree::Tree;
    use std::sync::Arc;

    #[test]
    fn all_get_the_same_with_the_messages_of_the_tree() {
        let tree = Arc::new(Tree::binomial(13).in_order());
        let cores = (0..13).map(|rank| Plain::new(Arc::clone(&tree), rank)).collect();
        let mut bed = Bed::new(cores, 5);
        let all = Members((1 << 13) - 1);
        for (operation, at_root, below, messages) in [
            (Operation::Allreduce, &all, Some(&all), 24),
            (Operation::Bcast, &only(0), Some(&only(0)), 12),
            (Operation::Reduce, &all, None, 24),
        ] {
            for (rank, core) in (0..).zip(&mut bed.cores) {
                let has_value = operation != Operation::Bcast || rank == 0;
                core.prepare(operation, has_value.then(|| only(rank)));
            }
            bed.outputs.fill(None);
            bed.sent = 0;
            bed.start(0..13);
            bed.run(10_000);
            assert_eq!(bed.sent, messages, "{operation:?}");
            for (rank, verdict) in bed.outputs.iter().enumerate() {
                let verdict = verdict.clone().expect("it has ended");
                let expected = if rank == 0 { Some(at_root) } else { below };
                assert_eq!(verdict.value.as_ref(), expected, "{operation:?} at {rank}");
                assert_eq!(verdict.ending, Ending::Complete);
            }
        }
    }
}
