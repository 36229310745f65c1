// SPDX-License-Identifier: Apache-2.0
use super::{Arm, Correction, Rule, Side, distance, neighbour};

#[test]
fn neighbours_and_distances_agree() {
    for size in 1..9 {
        for rank in 0..size {
            for far in 0..size {
                for side in [Side::Left, Side::Right] {
                    let other = neighbour(rank, far, side, size);
                    assert!(other < size);
                    assert_eq!(distance(rank, other, side, size), far);
                    assert_eq!(distance(other, rank, side.opposite(), size), far);
                }
            }
        }
    }
}

#[test]
fn an_arm_keeps_the_nearest() {
    let mut arm = Arm::default();
    for far in [9, 4, 7, 1, 8] {
        arm.hear(far, 3);
    }
    assert_eq!((&arm.heard[..3], arm.heard_count), (&[1, 4, 7][..], 3));
    arm.reached = 6;
    assert!(!arm.is_covered(3) && arm.is_covered(2));
}

#[test]
fn checked_sends_as_far_as_it_heard() {
    let mut correction = Correction::new();
    let mut sent = vec![];
    for _ in 0..4 {
        sent.extend(correction.next(Rule::Checked, 100));
    }
    assert_eq!(sent, [(Side::Right, 1), (Side::Left, 1), (Side::Right, 2), (Side::Left, 2)]);
    correction.hear(Rule::Checked, Side::Right, 1);
    correction.hear(Rule::Checked, Side::Left, 4);
    assert_eq!(correction.next(Rule::Checked, 100), Some((Side::Left, 3)));
    assert_eq!(correction.next(Rule::Checked, 100), Some((Side::Left, 4)));
    assert_eq!(correction.next(Rule::Checked, 100), None);
}

#[test]
fn fail_proof_wants_more_witnesses() {
    let rule = Rule::FailProof { faults: 1 };
    let mut correction = Correction::new();
    correction.hear(rule, Side::Right, 1);
    correction.hear(rule, Side::Left, 1);
    correction.hear(rule, Side::Left, 2);
    let sent: Vec<_> = std::iter::from_fn(|| correction.next(rule, 8)).collect();
    assert_eq!(sent.iter().filter(|(side, _)| *side == Side::Left).count(), 2);
    assert_eq!(sent.len(), 7, "the right side has one witness: around the ring");
}

#[test]
fn optimised_leaves_out_what_others_cover() {
    let rule = Rule::Optimised { distance: 4 };
    let mut correction = Correction::new();
    correction.hear(rule, Side::Left, 1);
    assert_eq!(correction.next(rule, 100), Some((Side::Right, 2)));
    assert_eq!(correction.next(rule, 100), None);
    let mut crossed = Correction::new();
    assert_eq!(crossed.next(rule, 100), Some((Side::Right, 1)));
    crossed.hear(rule, Side::Right, 1);
    assert_eq!(crossed.next(rule, 100), Some((Side::Left, 2)));
    assert_eq!(crossed.next(rule, 100), Some((Side::Right, 2)), "the one it sent to relies on it");
}

#[test]
fn nothing_is_heard_beyond_the_horizon() {
    let rule = Rule::FailProof { faults: 1 };
    assert_eq!(Correction::new().horizon(rule, 5), [0, 0], "around the ring in any case");
    assert_eq!(Correction::new().horizon(rule, 6), [2, 2]);
    assert_eq!(Correction::new().horizon(Rule::Checked, 4), [1, 1]);
    assert_eq!(Correction::new().horizon(Rule::Opportunistic { distance: 4 }, 9), [0, 0]);
    // Whatever is heard, and when: to forget what lies beyond changes nothing that is sent.
    for size in 3..8 {
        for heard in 0..1u32 << (2 * (size - 1)) {
            let (mut all, mut near) = (Correction::new(), Correction::new());
            for bit in 0..2 * (size - 1) {
                if heard & 1 << bit != 0 {
                    let side = if bit % 2 == 0 { Side::Left } else { Side::Right };
                    all.hear(rule, side, bit / 2 + 1);
                    near.hear(rule, side, bit / 2 + 1);
                }
                near.forget(near.horizon(rule, size));
                assert_eq!(all.next(rule, size), near.next(rule, size), "{size}, {heard:b}");
            }
        }
    }
}
