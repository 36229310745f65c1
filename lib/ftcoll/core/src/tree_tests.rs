// SPDX-License-Identifier: Apache-2.0
use super::Tree;
use crate::Rank;
use proptest::prelude::*;

fn children(tree: &Tree, rank: Rank) -> Vec<Rank> {
    tree.children(rank).collect()
}

#[test]
fn kary_numbers_as_the_formula_says() {
    let tree = Tree::kary(40, 3);
    assert_eq!(children(&tree, 0), [1, 2, 3]);
    assert_eq!(children(&tree, 1), [4, 7, 10]);
    assert_eq!(children(&tree, 3), [6, 9, 12]);
    assert_eq!(children(&tree, 5), [14, 23, 32]);
    assert_eq!(tree.height(0), 3);
}

#[test]
fn binomial_is_by_bits() {
    let tree = Tree::binomial(1 << 10);
    for rank in 1..1u32 << 10 {
        let top = 1 << rank.ilog2();
        assert_eq!(tree.parent(rank), Some(rank - top));
        let wanted: Vec<_> = (rank.ilog2() + 1..10).map(|bit| rank + (1 << bit)).collect();
        assert_eq!(children(&tree, rank), wanted);
    }
}

/// children of r are r + R(t + k - 1) for t from start(r) on.
#[test]
fn lame_numbers_by_the_recurrence() {
    for order in 1..6usize {
        let size = 300;
        let mut ready = vec![1u32; order];
        while ready[ready.len() - 1] < 4 * size {
            ready.push(ready[ready.len() - 1] + ready[ready.len() - order]);
        }
        let tree = Tree::lame(size, u32::try_from(order).unwrap());
        for rank in 0..size {
            let start = if rank == 0 { 0 } else { ready.iter().position(|&r| r > rank).unwrap() };
            let wanted: Vec<_> = (start..)
                .map(|t| rank + ready[t + order - 1])
                .take_while(|&child| child < size)
                .collect();
            assert_eq!(children(&tree, rank), wanted, "order {order}, rank {rank}");
        }
    }
}

fn any_tree() -> impl Strategy<Value = Tree> {
    let shape = prop_oneof![
        (1..400u32, 2..7u32).prop_map(|(size, arity)| Tree::kary(size, arity)),
        (1..400u32, 1..7u32, 1..5u32).prop_map(|(size, hop, step)| Tree::optimal(size, hop, step)),
    ];
    (shape, any::<bool>())
        .prop_map(|(tree, in_order)| if in_order { tree.in_order() } else { tree })
}

proptest! {
    #[test]
    fn each_process_is_one_childs_place(tree in any_tree()) {
        let mut seen = vec![0; tree.size() as usize];
        for rank in 0..tree.size() {
            for child in tree.children(rank) {
                prop_assert!(child > rank);
                prop_assert_eq!(tree.parent(child), Some(rank));
                prop_assert!(tree.is_above(rank, child) && !tree.is_above(child, rank));
                seen[child as usize] += 1;
            }
        }
        prop_assert_eq!(seen[0], 0);
        prop_assert!(seen[1..].iter().all(|&count| count == 1));
    }

    /// Send and arrival times of the optimal tree are its definition's.
    #[test]
    fn optimal_reaches_in_ascending_order(size in 1..400u32, hop in 1..7u32, step in 1..5u32) {
        let tree = Tree::optimal(size, hop, step);
        let mut reached = vec![0u32; size as usize];
        for rank in 0..size {
            for (index, child) in (0..).zip(tree.children(rank)) {
                reached[child as usize] = reached[rank as usize] + index * step + hop;
            }
        }
        prop_assert!(reached.is_sorted());
    }

    #[test]
    fn in_order_subtrees_are_runs(size in 1..400u32, order in 1..6u32) {
        let tree = Tree::lame(size, order).in_order();
        for rank in 0..size {
            let mut next = rank + 1;
            for child in tree.children(rank) {
                prop_assert_eq!(child, next);
                let mut open = vec![child];
                while let Some(at) = open.pop() {
                    next = next.max(at + 1);
                    open.extend(tree.children(at));
                }
            }
        }
    }
}
