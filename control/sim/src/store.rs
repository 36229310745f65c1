// SPDX-License-Identifier: Apache-2.0
//! A store whose bandwidth all that read and write share evenly, none faster than its nodes can.

/// Who uses it: the most bytes per second each can, and what is left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfer {
    /// Bytes per second.
    pub most_per_s: f64,
    /// Bytes.
    pub left: f64,
}

/// Bytes per second of each, in the order given: what is left over by slow ones goes to the others.
pub fn shares(transfers: &[Transfer], per_s: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..transfers.len()).collect();
    order.sort_by(|a, b| transfers[*a].most_per_s.total_cmp(&transfers[*b].most_per_s));
    let (mut left, mut users) = (per_s, transfers.len() as f64);
    let mut shares = vec![0.0; transfers.len()];
    for at in order {
        shares[at] = transfers[at].most_per_s.min(left / users);
        left -= shares[at];
        users -= 1.0;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        let of = |most_per_s| Transfer { most_per_s, left: 1.0 };
        assert_eq!(shares(&[of(10.0), of(1.0), of(10.0)], 9.0), [4.0, 1.0, 4.0]);
        assert_eq!(shares(&[of(2.0)], 9.0), [2.0]);
        assert!(shares(&[], 9.0).is_empty());
    }
}
