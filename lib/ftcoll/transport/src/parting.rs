// SPDX-License-Identifier: Apache-2.0
//! A process that is saved and made again elsewhere, as all of its job are at the same moment: its
//! connections are gone, and all else is as it was. What it was told to send is kept, what it has
//! got is counted, so the machines notice nothing (`session.rs`).
//!
//! ```text
//! hold       before it is saved        silence means nothing, a broken connection is nobody's loss
//! release    it just continues
//! part       it was made again: it listens, tells others where by its own means, and meets them
//! ```
//!
//! Between *part* and *meet again* a thread that waits in a call has somebody else look for the
//! others, the seeker: it may do what the caller of a collective may.

use crate::error::JoinError;
use crate::world::{Shared, World};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

/// Called by threads that wait in calls, several at a time, until [`World::meet_again`] was.
pub type Seeker = Arc<dyn Fn() + Send + Sync>;

impl World {
    /// Before the process is saved, with its memory and its threads.
    pub fn hold(&self) {
        self.shared.lock().engine.hold();
    }

    /// After that, where it just continues.
    pub fn release(&self) {
        self.shared.lock().engine.release();
    }

    /// After that, in the process that was made again. Who is not dead is awaited until
    /// [`World::meet_again`].
    pub fn part(&self) {
        self.shared.lock().engine.part();
    }

    /// How often it has been made again.
    #[must_use]
    pub fn partings(&self) -> u32 {
        self.shared.lock().engine.partings()
    }

    /// Has `seeker` called while nobody knows where the others are.
    pub fn seek_by(&self, seeker: Seeker) {
        *self.shared.seeker.lock().unwrap_or_else(PoisonError::into_inner) = Some(seeker);
    }

    /// Listens for the others once more. Returns where; `None`: it was made again since, and
    /// `parting`, the last [`World::partings`], is over.
    ///
    /// # Errors
    /// What the system says.
    pub fn open_again(
        &self,
        parting: u32,
        address: SocketAddr,
    ) -> Result<Option<SocketAddr>, JoinError> {
        let mut state = self.shared.lock();
        if state.engine.partings() != parting {
            return Ok(None);
        }
        let net = state.engine.net();
        let opened = net.open_door(address).and_then(|()| net.address());
        opened.map(Some).map_err(JoinError::at("listening"))
    }

    /// Begins to meet the others, each at one of its addresses, by rank. Does not wait: who has not
    /// come when the time for a meeting is over is dead. Nothing happens if it was made again
    /// since.
    pub fn meet_again(&self, parting: u32, ways: &[Vec<SocketAddr>]) {
        let mut state = self.shared.lock();
        if state.engine.partings() == parting && ways.len() == self.shared.size as usize {
            let until = Instant::now() + self.shared.meeting;
            state.engine.net().meet_again(ways, until);
        }
    }

    /// The descriptors of its sockets.
    #[must_use]
    pub fn sockets(&self) -> Vec<RawFd> {
        self.shared.lock().engine.net().sockets()
    }
}

impl Shared {
    pub(crate) fn seek(&self) {
        let seeker = self.seeker.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(seeker) = seeker {
            seeker();
        }
    }
}
