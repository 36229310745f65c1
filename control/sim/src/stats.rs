// SPDX-License-Identifier: Apache-2.0
//! Means and their 95 % confidence intervals over seeds.

/// A figure and how far it may be off, at 95 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// Half the width of its interval.
    pub off: f64,
}

impl Estimate {
    /// The lower end of the interval.
    pub fn low(self) -> f64 {
        self.value - self.off
    }

    /// The upper end of the interval.
    pub fn high(self) -> f64 {
        self.value + self.off
    }

    /// "12.3 ± 0.4" per cent.
    pub fn percent(self) -> String {
        format!("{:.1} ± {:.1}", 100.0 * self.value, 100.0 * self.off)
    }
}

/// The 97.5 % quantile of Student's t, within 0.01 from 5 degrees of freedom on.
///
/// Source: Cornish and Fisher's expansion, Abramowitz and Stegun 26.7.5.
fn quantile(freedom: f64) -> f64 {
    let z: f64 = 1.959_964;
    let third = (z.powi(3) + z) / (4.0 * freedom);
    let fifth = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * freedom.powi(2));
    let seventh = 3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z;
    z + third + fifth + seventh / (384.0 * freedom.powi(3))
}

/// Mean of independent samples. One sample has no interval.
pub fn mean(samples: &[f64]) -> Estimate {
    let count = samples.len() as f64;
    let value = samples.iter().sum::<f64>() / count.max(1.0);
    if samples.len() < 2 {
        return Estimate { value, off: f64::INFINITY };
    }
    let squares: f64 = samples.iter().map(|sample| (sample - value).powi(2)).sum();
    let off = quantile(count - 1.0) * (squares / (count - 1.0) / count).sqrt();
    Estimate { value, off }
}

/// How much less the mean of `new` is than that of `old`, as a share of `old`; pairs belong to the
/// same seed. The interval is that of a ratio of means (delta method).
pub fn gain(new: &[f64], old: &[f64]) -> Estimate {
    let base = mean(old).value;
    let ratio = mean(new).value / base;
    let residuals: Vec<f64> = new.iter().zip(old).map(|(a, b)| (a - ratio * b) / base).collect();
    Estimate { value: 1.0 - ratio, off: mean(&residuals).off }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_leave_out_what_both_share() {
        let old: Vec<f64> = (1..=50).map(f64::from).collect();
        let new: Vec<f64> = old.iter().map(|value| value * 0.8).collect();
        let found = gain(&new, &old);
        assert!((found.value - 0.2).abs() < 1e-12 && found.off < 1e-12, "{found:?}");
        assert!(mean(&old).off > 3.0);
    }

    #[test]
    fn quantiles_are_those_of_tables() {
        for (freedom, table) in [(5.0, 2.571), (10.0, 2.228), (30.0, 2.042), (200.0, 1.972)] {
            assert!((quantile(freedom) - table).abs() < 0.01, "{freedom}");
        }
    }
}
