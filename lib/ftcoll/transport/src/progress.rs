// SPDX-License-Identifier: Apache-2.0
//! Progress of others while a thread waits in a call. An MPI sends and receives only while the
//! program is in one of its calls, so a process that waits here without it keeps others waiting for
//! messages that it has begun to send, maybe those that are to enter the same call.
//!
//! Source: MPI-4.1, section 2.9, progress.

use crate::world::{Shared, World};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Called by threads that wait in calls. It neither waits nor calls this library.
pub type Progress = Arc<dyn Fn() + Send + Sync>;

/// Between two of its calls, and before the first one of a call, which is over by then in most
/// cases. More often, it is noticed where many processes share a processor.
const STEP: Duration = Duration::from_millis(1);

/// Of one wait.
pub(crate) struct Pace {
    progress: Option<Progress>,
    next: Instant,
}

impl World {
    /// Has `progress` called again and again while a call waits.
    pub fn progress_by(&self, progress: Progress) {
        *self.shared.progress.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress);
    }
}

impl Shared {
    pub(crate) fn pace(&self, begun: Instant) -> Pace {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Pace { progress, next: begun + STEP }
    }
}

impl Pace {
    /// How long to wait at most.
    pub fn limit(&self, limit: Duration) -> Duration {
        if self.progress.is_some() { limit.min(STEP) } else { limit }
    }

    /// After that.
    pub fn step(&mut self) {
        let Some(progress) = &self.progress else { return };
        if Instant::now() >= self.next {
            progress();
            self.next = Instant::now() + STEP;
        }
    }
}
