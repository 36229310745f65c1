// SPDX-License-Identifier: Apache-2.0
//! The library's own thread: all that has to be done while nobody waits in a call. It answers who
//! asks whether this process lives, and goes through with calls that were begun.

use crate::net;
use crate::world::{PAUSE, Shared, State};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// What that thread waits at: the connections, and whoever wants it.
pub(crate) struct Door {
    bell: OwnedFd,
    both: OwnedFd,
}

impl Door {
    pub fn new(connections: impl AsFd) -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let both = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&both, &bell, EventData::new_u64(0), EventFlags::IN)?;
        epoll::add(&both, connections, EventData::new_u64(1), EventFlags::IN)?;
        Ok(Self { bell, both })
    }

    /// Has the thread look, now or as soon as it waits again.
    pub fn ring(&self) {
        // A counter at its end is one that wakes.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    fn wait(&self, limit: Duration) {
        net::wait(&self.both, limit);
        // Nothing to be read is a bell that has not rung.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }
}

impl Shared {
    /// Whoever sleeps may do so for too long: something has changed.
    pub(crate) fn wake(&self, state: &State) {
        if state.is_driven {
            state.engine.nudge();
        } else if state.callers == 0 {
            self.door.ring();
        }
    }

    /// The same if there is something to do.
    pub(crate) fn wake_if_busy(&self, state: &State) {
        if state.engine.is_busy() {
            self.wake(state);
        }
    }

    /// What the thread does.
    ///
    /// Invariant: when the last thread leaves its call and another call is in progress, the bell
    /// rings after that.
    pub(crate) fn attend(&self) {
        let mut limit = self.sleep;
        loop {
            self.door.wait(limit);
            let mut state = self.lock();
            if state.is_closing {
                return;
            }
            if state.callers > 0 {
                drop(state);
                std::thread::sleep(PAUSE);
                continue;
            }
            // Without a descriptor to wait at nothing comes any more, and calls end by timeouts.
            let is_working = state.engine.progress().is_ok();
            limit = state.engine.next_due().unwrap_or(self.sleep).min(self.sleep);
            drop(state);
            if !is_working {
                std::thread::sleep(PAUSE);
            }
        }
    }
}
