// SPDX-License-Identifier: Apache-2.0
//! Intervals of one level at one rate, and the first-order pattern of several: what a plan begins
//! with, and what it is compared with.

/// The interval of J. W. Young (CACM 17(9), 1974): work between checkpoints, seconds.
pub fn young(pause_s: f64, mtbf_s: f64) -> f64 {
    (2.0 * pause_s * mtbf_s).sqrt()
}

/// The interval of higher order of J. T. Daly (FGCS 22(3), 2006, equation 37): work between
/// checkpoints, seconds.
pub fn daly(pause_s: f64, mtbf_s: f64) -> f64 {
    if pause_s >= 2.0 * mtbf_s {
        return mtbf_s;
    }
    let ratio = pause_s / (2.0 * mtbf_s);
    young(pause_s, mtbf_s) * (1.0 + ratio.sqrt() / 3.0 + ratio / 9.0) - pause_s
}

/// The first-order pattern: work between checkpoints, and how many of each level there are for one
/// of the last, as real numbers.
///
/// `costs_s[l]` is what level l adds to a checkpoint, `rates[l]` the failures that it is the first
/// to survive.
/// Source: A. Benoit et al., IEEE TC 66(7), 2017: the overhead is the sum of sqrt(2 rate cost).
pub fn first_order(costs_s: &[f64], rates: &[f64]) -> (f64, Vec<f64>) {
    const LEAST: f64 = 1e-15;
    let density = |level: usize| (rates[level].max(LEAST) / costs_s[level].max(1e-6)).sqrt();
    let last = costs_s.len().saturating_sub(1);
    let counts: Vec<f64> = (0..costs_s.len()).map(|level| density(level) / density(last)).collect();
    // Checkpoints of a level per second are sqrt(rate / (2 cost)).
    let interval_s = (0..costs_s.len()).map(|l| 2f64.sqrt() / density(l)).fold(f64::MAX, f64::min);
    (interval_s, counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daly_is_young_where_saving_is_cheap() {
        assert_eq!(young(2.0, 100.0), 20.0);
        let (cheap, rare) = (1e-3, 1e6);
        assert!((daly(cheap, rare) / young(cheap, rare) - 1.0).abs() < 1e-3);
        assert_eq!(daly(300.0, 100.0), 100.0);
    }

    #[test]
    fn levels_that_fail_more_are_made_more_often() {
        let (interval, counts) = first_order(&[1.0, 4.0], &[1e-3, 1e-5]);
        assert!((counts[0] - 20.0).abs() < 1e-9 && (counts[1] - 1.0).abs() < 1e-9);
        assert!((interval - young(1.0, 1e3)).abs() < 1e-9);
    }
}
