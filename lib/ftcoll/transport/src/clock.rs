// SPDX-License-Identifier: Apache-2.0
//! A clock that can stand.

use std::time::{Duration, Instant};

/// Counts from when it was made, but for the times in which it stands.
pub(crate) struct Clock {
    begun: Instant,
    stopped: Option<Instant>,
}

impl Default for Clock {
    fn default() -> Self {
        Self { begun: Instant::now(), stopped: None }
    }
}

impl Clock {
    /// What it shows at this moment, which no call of [`Clock::stand_if`] is after.
    pub fn at(&self, now: Instant) -> Duration {
        self.stopped.unwrap_or(now).saturating_duration_since(self.begun)
    }

    /// Whether it stands.
    pub fn stands(&self) -> bool {
        self.stopped.is_some()
    }

    /// From this moment on it stands, or runs.
    pub fn stand_if(&mut self, stands: bool, now: Instant) {
        if stands {
            self.stopped.get_or_insert(now);
        } else if let Some(stopped) = self.stopped.take() {
            self.begun += now.saturating_duration_since(stopped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_in_which_it_stands_does_not_count() {
        let mut clock = Clock::default();
        let at = |seconds| clock_begun(&clock) + Duration::from_secs(seconds);
        let moments: Vec<_> = (0..10).map(at).collect();
        assert_eq!(clock.at(moments[2]).as_secs(), 2);
        clock.stand_if(true, moments[3]);
        clock.stand_if(true, moments[5]);
        assert!(clock.stands());
        assert_eq!(clock.at(moments[6]).as_secs(), 3);
        clock.stand_if(false, moments[7]);
        clock.stand_if(false, moments[8]);
        assert!(!clock.stands());
        assert_eq!(clock.at(moments[9]).as_secs(), 5);
    }

    fn clock_begun(clock: &Clock) -> Instant {
        clock.begun
    }
}
