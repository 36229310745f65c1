// SPDX-License-Identifier: Apache-2.0
//! Communicators and their collectives. All members make the same calls of a communicator in the
//! same order; each call blocks until it has a result, at most until the deadline.

use crate::buffer::Buffer;
use crate::calls::Task;
use crate::error::CallError;
use crate::lane::{LARGE_BYTES, LaneKey};
use crate::pending::Pending;
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

/// A communicator. A clone is the same one. When the last is dropped, others may not be in a call
/// of it any more.
#[derive(Clone)]
pub struct Comm(Arc<Own>);

struct Own {
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
        Self(Arc::new(Own { shared: Arc::clone(shared), id, me, size }))
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0.shared
    }

    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    /// This process's rank in it.
    #[must_use]
    pub fn rank(&self) -> Rank {
        self.0.me
    }

    /// Its processes, dead ones included.
    #[must_use]
    pub fn size(&self) -> Rank {
        self.0.size
    }

    /// Has its calls survive nothing: the same tree over the same connections, to measure what it
    /// costs that others survive. All members say so before any of them makes a call.
    pub fn survive_nothing(&self) {
        self.shared().lock().engine.make_plain(self.id());
    }

    /// Gives the root's bytes to all. All buffers have the same length.
    ///
    /// # Errors
    /// The root died and nobody has the value, lengths differ, or nobody came by the deadline.
    pub fn bcast(&self, buffer: &mut [u8], root: Rank) -> Result<Ended, CallError> {
        self.run(self.bcast_of(buffer, root)?, self.rank() != root, buffer)
    }

    /// Combines all contributions, in the order of the ranks, and gives the result to all.
    ///
    /// # Errors
    /// The calls do not fit each other, or somebody did not come by the deadline.
    pub fn allreduce(&self, buffer: &mut [u8], combine: &Combine) -> Result<Ended, CallError> {
        self.run(self.allreduce_of(buffer, combine)?, true, buffer)
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
        self.run(self.reduce_of(buffer, combine, root)?, self.rank() == root, buffer)
    }

    /// Waits until all living processes have entered it.
    ///
    /// # Errors
    /// Somebody did not come by the deadline.
    pub fn barrier(&self) -> Result<Ended, CallError> {
        self.run(self.barrier_of(), false, &mut [])
    }

    /// Begins a [`Comm::bcast`] and does not wait for it. So do the others: calls that are begun
    /// before one has ended are made one after the other. The program's own operation may be called
    /// by the library's own thread.
    ///
    /// # Errors
    /// There is no such root, or an earlier call was given up.
    pub fn begin_bcast(&self, bytes: &[u8], root: Rank) -> Result<Pending, CallError> {
        Pending::begin(self, self.bcast_of(bytes, root)?, self.rank() != root)
    }

    /// Begins a [`Comm::allreduce`].
    ///
    /// # Errors
    /// The operation does not fit the buffer, or an earlier call was given up.
    pub fn begin_allreduce(&self, bytes: &[u8], combine: &Combine) -> Result<Pending, CallError> {
        Pending::begin(self, self.allreduce_of(bytes, combine)?, true)
    }

    /// Begins a [`Comm::reduce`].
    ///
    /// # Errors
    /// As of the two others.
    pub fn begin_reduce(
        &self,
        bytes: &[u8],
        combine: &Combine,
        root: Rank,
    ) -> Result<Pending, CallError> {
        Pending::begin(self, self.reduce_of(bytes, combine, root)?, self.rank() == root)
    }

    /// Begins a [`Comm::barrier`].
    ///
    /// # Errors
    /// An earlier call was given up.
    pub fn begin_barrier(&self) -> Result<Pending, CallError> {
        Pending::begin(self, self.barrier_of(), false)
    }

    fn run(&self, task: Task, receives: bool, buffer: &mut [u8]) -> Result<Ended, CallError> {
        conclude(self.shared().call(self.id(), task)?, receives, buffer)
    }

    fn check_root(&self, root: Rank) -> Result<(), CallError> {
        if root < self.size() { Ok(()) } else { Err(CallError::Argument) }
    }

    fn bcast_of(&self, bytes: &[u8], root: Rank) -> Result<Task, CallError> {
        self.check_root(root)?;
        let own = || Data { bytes: Arc::new(Buffer::copy_of(bytes)), how: How::Opaque };
        let value = (self.rank() == root).then(own);
        Ok(Task { lane: lane(root, bytes), operation: Operation::Bcast, value, op: None })
    }

    fn allreduce_of(&self, bytes: &[u8], combine: &Combine) -> Result<Task, CallError> {
        combine.check(bytes.len())?;
        self.gather(0, Operation::Allreduce, bytes, combine)
    }

    fn reduce_of(&self, bytes: &[u8], combine: &Combine, root: Rank) -> Result<Task, CallError> {
        self.check_root(root)?;
        combine.check(bytes.len())?;
        if combine.commutes() || root == 0 {
            return self.gather(root, Operation::Reduce, bytes, combine);
        }
        self.gather(0, Operation::Allreduce, bytes, combine)
    }

    fn barrier_of(&self) -> Task {
        Task { lane: lane(0, &[]), operation: Operation::Allreduce, value: None, op: None }
    }

    fn gather(
        &self,
        root: Rank,
        operation: Operation,
        bytes: &[u8],
        combine: &Combine,
    ) -> Result<Task, CallError> {
        let lane = lane(root, bytes);
        let (how, op) = match combine {
            Combine::Predefined(kind, op) => (How::Elements(*kind, *op), None),
            Combine::User(op) => {
                let element = u32::try_from(op.element).map_err(|_| CallError::Argument)?;
                let to = Address { group: self.id(), lane };
                (How::User(element, self.shared().lock().engine.slot(to)), Some(op.clone()))
            }
        };
        let value = Some(Data { bytes: Arc::new(Buffer::copy_of(bytes)), how });
        Ok(Task { lane, operation, value, op })
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.shared.lock().engine.free_group(self.id);
    }
}

fn lane(root: Rank, bytes: &[u8]) -> LaneKey {
    LaneKey { root, is_large: bytes.len() >= LARGE_BYTES }
}

/// How a call has ended. Its value comes into the buffer of who receives it.
pub(crate) fn conclude(
    verdict: Verdict<Data>,
    receives: bool,
    buffer: &mut [u8],
) -> Result<Ended, CallError> {
    match verdict.ending {
        Ending::RootFailed => return Err(CallError::RootDied),
        Ending::Forgotten => return Err(CallError::Forgotten),
        Ending::Complete => {}
    }
    let value = verdict.value.as_ref();
    if value.is_some_and(|data| matches!(data.how, How::Mismatch)) {
        return Err(CallError::Mismatch);
    }
    if receives {
        let bytes = value.map_or(&[][..], |data| &data.bytes);
        if bytes.len() != buffer.len() {
            return Err(CallError::Mismatch);
        }
        buffer.copy_from_slice(bytes);
    }
    Ok(Ended { missing: verdict.missing })
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
