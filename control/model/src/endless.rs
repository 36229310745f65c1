// SPDX-License-Identifier: Apache-2.0
//! Can a run continue for ever?
//!
//! A job has finitely many states, as how many directives there have been is no part of them. So an
//! endless run is one that comes back to where it has been.

use stateright::Model;
use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

/// A run that comes back to where it has been; none if every run ends.
///
/// Depth first: a step to a state that is on the way there closes a cycle.
#[must_use]
pub fn endless<M: Model<State: Hash, Action: Clone>>(model: &M) -> Option<Vec<M::Action>> {
    let mut over = HashSet::new();
    let mut on_the_way = HashSet::new();
    for state in model.init_states() {
        let mut path = vec![Visit::new(model, state, None)];
        on_the_way.insert(digest(&path[0].state));
        while let Some(visit) = path.last_mut() {
            let Some(action) = visit.open.pop() else {
                let print = digest(&visit.state);
                on_the_way.remove(&print);
                over.insert(print);
                path.pop();
                continue;
            };
            let Some(state) = model.next_state(&visit.state, action.clone()) else { continue };
            let print = digest(&state);
            if over.contains(&print) {
                continue;
            }
            let is_back = !on_the_way.insert(print);
            path.push(Visit::new(model, state, Some(action)));
            if is_back {
                return Some(path.into_iter().filter_map(|visit| visit.by).collect());
            }
        }
    }
    None
}

/// A state on the way, by what it was reached, and what has not been tried from it yet.
struct Visit<M: Model> {
    state: M::State,
    by: Option<M::Action>,
    open: Vec<M::Action>,
}

impl<M: Model> Visit<M> {
    fn new(model: &M, state: M::State, by: Option<M::Action>) -> Self {
        let mut open = Vec::new();
        model.actions(&state, &mut open);
        Self { state, by, open }
    }
}

fn digest(state: &impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(state)
}

#[cfg(test)]
mod tests {
    use super::endless;
    use stateright::Model;

    /// From 0 to 4 by steps of one or two; from 3 perhaps back to this one.
    struct Walk(Option<u8>);

    impl Model for Walk {
        type State = u8;
        type Action = u8;

        fn init_states(&self) -> Vec<u8> {
            vec![0]
        }
        fn actions(&self, at: &u8, to: &mut Vec<u8>) {
            to.extend((at + 1..=4).take(2));
            to.extend(self.0.filter(|_| *at == 3));
        }
        fn next_state(&self, _at: &u8, to: u8) -> Option<u8> {
            Some(to)
        }
    }

    #[test]
    fn only_a_way_back_is_endless() {
        assert_eq!(endless(&Walk(None)), None);
        let run = endless(&Walk(Some(1))).unwrap_or_default();
        let back = run.iter().filter(|at| run.last() == Some(*at)).count();
        assert_eq!(back, 2, "{run:?}");
    }
}
