// SPDX-License-Identifier: Apache-2.0
//! A limit of bandwidth for what is done behind a job.

use std::thread;
use std::time::{Duration, Instant};

/// What was not used earlier may be used at once, as far as it would have come in this time.
const BURST: Duration = Duration::from_millis(250);
/// So often whoever waits says that it is there.
const SAY_EVERY: Duration = Duration::from_secs(1);

/// Bytes that may pass, so many a second.
#[derive(Debug)]
pub(crate) struct Pace {
    per_s: Option<u64>,
    /// Since the beginning: when all that has passed would have passed at that rate.
    paid: Duration,
    begun: Instant,
}

impl Pace {
    /// `None`: there is no limit.
    pub fn new(per_s: Option<u64>) -> Self {
        Self { per_s, paid: Duration::ZERO, begun: Instant::now() }
    }

    /// How long to wait after so many bytes. `now`: since the beginning.
    fn step(&mut self, bytes: u64, now: Duration) -> Duration {
        let Some(per_s) = self.per_s else { return Duration::ZERO };
        let takes = Duration::from_secs(1).mul_f64(bytes as f64 / per_s as f64);
        self.paid = self.paid.max(now.saturating_sub(BURST)) + takes;
        self.paid.saturating_sub(now)
    }

    /// Waits as long as the limit wants after so many bytes. Calls `wait` now and then meanwhile.
    pub fn pass(&mut self, bytes: u64, mut waits: impl FnMut()) {
        let mut left = self.step(bytes, self.begun.elapsed());
        while !left.is_zero() {
            let some = left.min(SAY_EVERY);
            thread::sleep(some);
            left -= some;
            waits();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn no_limit_is_none() {
        assert_eq!(Pace::new(None).step(1 << 40, S), Duration::ZERO);
    }

    #[test]
    fn what_passes_is_paid_for() {
        let mut pace = Pace::new(Some(1000));
        assert_eq!(pace.step(500, Duration::ZERO), S / 2);
        assert_eq!(pace.step(500, Duration::ZERO), S);
        // Who waits comes back when that is over.
        assert_eq!(pace.step(2000, S), 2 * S);
    }

    #[test]
    fn of_an_idle_time_little_is_left_over() {
        let mut pace = Pace::new(Some(1000));
        assert_eq!(pace.step(250, 100 * S), Duration::ZERO);
        assert_eq!(pace.step(1000, 100 * S), S);
    }

    #[test]
    fn over_a_long_time_it_is_the_rate() {
        let (mut pace, mut now) = (Pace::new(Some(4 << 20)), Duration::ZERO);
        for _ in 0..1000 {
            now += pace.step(1 << 20, now);
        }
        assert!((now.as_secs_f64() - 250.0).abs() < 0.3, "{now:?}");
    }
}
