// SPDX-License-Identifier: Apache-2.0
//! A process that is saved and made again elsewhere, as all of its job are at the same moment: its
//! connections are gone, and all else is as it was. What it was told to send is kept, what it has
//! got is counted, so the machines notice nothing (`session.rs`).
//!
//! ```text
//! hold       before it is saved        silence means nothing, a broken connection is nobody's loss
//! release    it just continues
//! part       it was made again: it listens, tells others where by its own means, and connects to
//!            each as soon as it knows where that one is
//! ```
//!
//! Only who is in a call of the library may be able to look for the others, so nobody who is in
//! none may have something to say to them: *hold* waits until they have what was sent, and between
//! it and *release*, or the new connections, a call with a result waits for that, too, up to a
//! timeout.
//!
//! Between *part* and a connection to all members a thread that waits in a call of a communicator
//! has somebody look for the others, the seeker: it may do what the caller of a collective may. Of
//! others than the members nothing is expected: they may be in no call of this library.

use crate::error::JoinError;
use crate::world::{Shared, World};
use fermata_ftcoll::Rank;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

/// Called by threads that wait in calls, several at a time, until [`World::meet_again`] was for all
/// members of lower rank, and all of higher rank have connected.
pub type Seeker = Arc<dyn Fn() + Send + Sync>;

impl World {
    /// Before the process is saved, with its memory and its threads. Waits until the others have
    /// what was sent to them: for their libraries, not for their programs, and no longer than a
    /// timeout. False: somebody has not said so, and if the process is made again and makes no call
    /// then, that one may wait for it in vain.
    pub fn hold(&self) -> bool {
        self.shared.lock().engine.hold();
        self.shared.say_all(self.shared.timeout)
    }

    /// After that, where it just continues.
    pub fn release(&self) {
        self.shared.lock().engine.release();
    }

    /// After that, in the process that was made again.
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

    /// Listens for the others once more, there too. Returns where; `None`: it was made again since,
    /// and `parting`, the last [`World::partings`], is over.
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
        state.engine.open_door(address).map(Some).map_err(JoinError::at("listening"))
    }

    /// Begins to connect again to a process of lower rank, at one of its addresses; those of higher
    /// rank connect themselves. Does not wait: if it is not reached when the time for a meeting is
    /// over it is dead. Nothing happens if it was made again since.
    pub fn meet_again(&self, parting: u32, rank: Rank, ways: &[SocketAddr]) {
        let mut state = self.shared.lock();
        if state.engine.partings() == parting {
            let until = Instant::now() + self.shared.meeting;
            state.engine.meet_again(rank, ways, until);
        }
    }

    /// The descriptors of its sockets.
    #[must_use]
    pub fn sockets(&self) -> Vec<RawFd> {
        self.shared.lock().engine.sockets()
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
