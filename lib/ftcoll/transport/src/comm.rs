// SPDX-License-Identifier: Apache-2.0
//! Communicators and their collectives. All members make the same calls of a communicator in the
//! same order; each call blocks until it has a result, at most until the deadline.

use crate::buffer::Buffer;
use crate::engine::Engine;
use crate::error::CallError;
use crate::lane::{LARGE_BYTES, LaneKey};
use crate::value::{Data, How, Kind, Op, UserOp};
use crate::wire::Address;
use crate::world::Shared;
use fermata_ftcoll::Rank;
use fermata_ftcoll::ftco::{Ending, Operation, Verdict};
use std::sync::{Arc, PoisonError};

const GROUP_CONTEXT: &str = "Fermata 2026 ftcoll group";

/// How contributions are combined.
#[derive(Clone, Debug)]
pub enum Combine {
    /// By a predefined operation on elements of a predefined type.
    Predefined(Kind, Op),
    /// By the program's.
    User(UserOp),
}

impl Combine {
    /// Bytes of an element.
    fn element(&self) -> usize {
        match self {
            Self::Predefined(kind, _) => kind.bytes(),
            Self::User(op) => op.element,
        }
    }

    fn check(&self, bytes: usize) -> Result<(), CallError> {
        match self {
            Self::Predefined(kind, op) if !kind.has(*op) => Err(CallError::Operation),
            _ if self.element() == 0 || bytes % self.element() != 0 => Err(CallError::Argument),
            _ => Ok(()),
        }
    }

    fn commutes(&self) -> bool {
        match self {
            Self::Predefined(..) => true,
            Self::User(op) => op.commutes,
        }
    }
}

/// How a call has ended, the same at all living processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Whose contributions the result lacks, ascending.
    pub missing: Vec<Rank>,
}

/// A communicator. When it is dropped, others may not be in a call of it any more.
pub struct Comm {
    shared: Arc<Shared>,
    id: u64,
    me: Rank,
    size: Rank,
}

impl Comm {
    pub(crate) fn make(shared: &Arc<Shared>, members: Vec<Rank>, me: Rank) -> Self {
        let mut made = shared.made.lock().unwrap_or_else(PoisonError::into_inner);
        let number = made.entry(members.clone()).or_default();
        let id = group_id(&members, *number);
        *number += 1;
        drop(made);
        let size = Rank::try_from(members.len()).unwrap_or(0);
        shared.lock().engine.make_group(id, members, me);
        Self { shared: Arc::clone(shared), id, me, size }
    }

    /// This process's rank in it.
    #[must_use]
    pub fn rank(&self) -> Rank {
        self.me
    }

    /// Its processes, dead ones included.
    #[must_use]
    pub fn size(&self) -> Rank {
        self.size
    }

    /// Has its calls survive nothing: the same tree over the same connections, to measure what it
    /// costs that others survive. All members say so before any of them makes a call.
    pub fn survive_nothing(&self) {
        self.shared.lock().engine.make_plain(self.id);
    }

    fn lane(&self, root: Rank, bytes: usize) -> Address {
        let is_large = bytes >= LARGE_BYTES;
        Address { group: self.id, lane: LaneKey { root, is_large } }
    }

    fn check_root(&self, root: Rank) -> Result<(), CallError> {
        if root < self.size { Ok(()) } else { Err(CallError::Argument) }
    }

    /// Gives the root's bytes to all. All buffers have the same length.
    ///
    /// # Errors
    /// The root died and nobody has the value, lengths differ, or nobody came by the deadline.
    pub fn bcast(&self, buffer: &mut [u8], root: Rank) -> Result<Ended, CallError> {
        self.check_root(root)?;
        let to = self.lane(root, buffer.len());
        let is_far_ahead = self.shared.lock().engine.is_far_ahead(to);
        if is_far_ahead {
            ended(self.shared.call(to, Operation::Allreduce, None, None)?)?;
        }
        let own = (self.me == root)
            .then(|| Data { bytes: Arc::new(Buffer::copy_of(buffer)), how: How::Opaque });
        let (ended, value) = ended(self.shared.call(to, Operation::Bcast, own, None)?)?;
        if self.me != root {
            put(value.as_ref(), buffer)?;
        }
        Ok(ended)
    }

    /// Combines all contributions, in the order of the ranks, and gives the result to all.
    ///
    /// # Errors
    /// The calls do not fit each other, or somebody did not come by the deadline.
    pub fn allreduce(&self, buffer: &mut [u8], combine: &Combine) -> Result<Ended, CallError> {
        combine.check(buffer.len())?;
        let (ended, value) = self.gather(0, Operation::Allreduce, buffer, combine)?;
        put(value.as_ref(), buffer)?;
        Ok(ended)
    }

    /// Combines all contributions and gives the result to the root; the others' buffers stay as
    /// they are. The order of the operands is that of the ranks if the operation does not commute,
    /// else that of the ranks counted from the root.
    ///
    /// # Errors
    /// The root died, the calls do not fit each other, or somebody did not come by the deadline.
    pub fn reduce(
        &self,
        buffer: &mut [u8],
        combine: &Combine,
        root: Rank,
    ) -> Result<Ended, CallError> {
        self.check_root(root)?;
        combine.check(buffer.len())?;
        let (at, operation) = if combine.commutes() || root == 0 {
            (root, Operation::Reduce)
        } else {
            (0, Operation::Allreduce)
        };
        let (ended, value) = self.gather(at, operation, buffer, combine)?;
        if self.me == root {
            put(value.as_ref(), buffer)?;
        }
        Ok(ended)
    }

    /// Waits until all living processes have entered it.
    ///
    /// # Errors
    /// Somebody did not come by the deadline.
    pub fn barrier(&self) -> Result<Ended, CallError> {
        let to = self.lane(0, 0);
        Ok(ended(self.shared.call(to, Operation::Allreduce, None, None)?)?.0)
    }

    fn gather(
        &self,
        root: Rank,
        operation: Operation,
        buffer: &[u8],
        combine: &Combine,
    ) -> Result<(Ended, Option<Data>), CallError> {
        let to = self.lane(root, buffer.len());
        let (how, op) = match combine {
            Combine::Predefined(kind, op) => (How::Elements(*kind, *op), None),
            Combine::User(op) => {
                let element = u32::try_from(op.element).map_err(|_| CallError::Argument)?;
                (How::User(element, self.shared.lock().engine.slot(to)), Some(op.clone()))
            }
        };
        let own = Data { bytes: Arc::new(Buffer::copy_of(buffer)), how };
        ended(self.shared.call(to, operation, Some(own), op)?)
    }
}

impl Drop for Comm {
    fn drop(&mut self) {
        Engine::free_group(&mut self.shared.lock().engine, self.id);
    }
}

fn put(value: Option<&Data>, buffer: &mut [u8]) -> Result<(), CallError> {
    let bytes = value.map_or(&[][..], |data| &data.bytes);
    if bytes.len() != buffer.len() {
        return Err(CallError::Mismatch);
    }
    buffer.copy_from_slice(bytes);
    Ok(())
}

fn ended(verdict: Verdict<Data>) -> Result<(Ended, Option<Data>), CallError> {
    match verdict.ending {
        Ending::RootFailed => return Err(CallError::RootDied),
        Ending::Forgotten => return Err(CallError::Forgotten),
        Ending::Complete => {}
    }
    if verdict.value.as_ref().is_some_and(|data| matches!(data.how, How::Mismatch)) {
        return Err(CallError::Mismatch);
    }
    Ok((Ended { missing: verdict.missing }, verdict.value))
}

/// Of these members, the communicator of this number: all members compute the same.
fn group_id(members: &[Rank], number: u64) -> u64 {
    let mut hasher = blake3::Hasher::new_derive_key(GROUP_CONTEXT);
    members.iter().for_each(|rank| {
        hasher.update(&rank.to_le_bytes());
    });
    hasher.update(&number.to_le_bytes());
    let hash = hasher.finalize();
    u64::from_le_bytes(hash.as_bytes().first_chunk().copied().unwrap_or_default())
}
