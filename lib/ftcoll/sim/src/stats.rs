// SPDX-License-Identifier: Apache-2.0
//! Means with confidence intervals.

use std::fmt;

/// Figures of one kind, one per run.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    count: f64,
    sum: f64,
    squares: f64,
    largest: f64,
}

impl Sample {
    /// Takes in one run's figure.
    pub fn add(&mut self, figure: f64) {
        self.count += 1.0;
        self.sum += figure;
        self.squares += figure * figure;
        self.largest = if self.count > 1.0 { self.largest.max(figure) } else { figure };
    }

    /// The mean; 0 without runs.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.count > 0.0 { self.sum / self.count } else { 0.0 }
    }

    /// The largest.
    #[must_use]
    pub fn largest(&self) -> f64 {
        self.largest
    }

    /// Half the width of the 95 % confidence interval of the mean, by the normal distribution.
    #[must_use]
    pub fn half_width(&self) -> f64 {
        if self.count < 2.0 {
            return 0.0;
        }
        let spread = (self.squares - self.sum * self.sum / self.count) / (self.count - 1.0);
        1.96 * (spread.max(0.0) / self.count).sqrt()
    }
}

/// `mean ± half width (max largest)`.
impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let half = self.half_width();
        if half == 0.0 {
            return write!(f, "{:.1}", self.mean());
        }
        write!(f, "{:.1} ± {half:.1} (max {:.0})", self.mean(), self.largest)
    }
}

/// The 95 % confidence interval of a probability, `hits` of `runs` seen.
/// Source: Wilson, "Probable inference, the law of succession, and statistical inference" (1927).
#[must_use]
pub fn interval(hits: u32, runs: u32) -> (f64, f64) {
    let (hits, runs) = (f64::from(hits), f64::from(runs));
    let (z2, share) = (1.96 * 1.96, hits / runs);
    let middle = share + z2 / (2.0 * runs);
    let half = (z2 * (share * (1.0 - share) / runs + z2 / (4.0 * runs * runs))).sqrt();
    let scale = 1.0 + z2 / runs;
    (((middle - half) / scale).max(0.0), ((middle + half) / scale).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::{Sample, interval};

    #[test]
    fn a_sample_has_mean_and_width() {
        let mut sample = Sample::default();
        for figure in [1.0, 2.0, 3.0, 4.0] {
            sample.add(figure);
        }
        assert!((sample.mean() - 2.5).abs() < 1e-9 && (sample.largest() - 4.0).abs() < 1e-9);
        assert!((sample.half_width() - 1.265).abs() < 1e-3);
    }

    #[test]
    fn nothing_seen_is_not_never() {
        let (low, high) = interval(0, 1000);
        assert!(low < 1e-12 && (0.003..0.005).contains(&high));
    }
}
