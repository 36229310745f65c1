// SPDX-License-Identifier: Apache-2.0
//! What is asked of the MPI: a communicator of all ranks that nobody else uses.

use std::ffi::{c_int, c_void};

/// What the MPI says is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the MPI reports error {0}")]
pub struct CommError(pub i32);

/// A communicator. All calls block; collective ones are made by all ranks in the same order.
#[allow(clippy::missing_errors_doc)] // each fails if the MPI does
pub trait Comm {
    /// This rank.
    fn rank(&self) -> u32;

    /// How many there are.
    fn size(&self) -> u32;

    /// Collective: the least of all values.
    fn min(&self, value: i64) -> Result<i64, CommError>;

    /// Collective: all get what the root has; as long everywhere.
    fn broadcast(&self, root: u32, bytes: &mut [u8]) -> Result<(), CommError>;

    /// Collective: all get what each has, as long as `lengths` say, one after the other.
    fn gather(&self, mine: &[u8], lengths: &[usize]) -> Result<Vec<u8>, CommError>;

    /// To one rank.
    fn send(&self, to: u32, bytes: &[u8]) -> Result<(), CommError>;

    /// From one rank, just so many bytes.
    fn receive(&self, from: u32, bytes: &mut [u8]) -> Result<(), CommError>;

    /// Both at a time.
    fn exchange(
        &self,
        to: u32,
        sent: &[u8],
        from: u32,
        received: &mut [u8],
    ) -> Result<(), CommError>;
}

/// The functions that `mpi/` gives, `struct fscr_comm` there. Each returns 0, or an error of the
/// MPI's.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Table {
    rank: i32,
    size: i32,
    min: extern "C" fn(value: *mut i64) -> c_int,
    broadcast: extern "C" fn(bytes: *mut c_void, length: c_int, root: c_int) -> c_int,
    gather: extern "C" fn(
        mine: *const c_void,
        all: *mut c_void,
        lengths: *const c_int,
        offsets: *const c_int,
    ) -> c_int,
    send: extern "C" fn(bytes: *const c_void, length: c_int, to: c_int) -> c_int,
    receive: extern "C" fn(bytes: *mut c_void, length: c_int, from: c_int) -> c_int,
    exchange: extern "C" fn(
        sent: *const c_void,
        sent_length: c_int,
        to: c_int,
        received: *mut c_void,
        received_length: c_int,
        from: c_int,
    ) -> c_int,
}

/// An error of ours: a message is too long for the MPI.
const TOO_LONG: i32 = -1;

fn length(bytes: usize) -> Result<c_int, CommError> {
    c_int::try_from(bytes).map_err(|_| CommError(TOO_LONG))
}

fn number(rank: u32) -> c_int {
    c_int::try_from(rank).unwrap_or(c_int::MAX)
}

fn check(code: c_int) -> Result<(), CommError> {
    if code == 0 { Ok(()) } else { Err(CommError(code)) }
}

impl Comm for Table {
    fn rank(&self) -> u32 {
        u32::try_from(self.rank).unwrap_or(0)
    }

    fn size(&self) -> u32 {
        u32::try_from(self.size).unwrap_or(1)
    }

    fn min(&self, mut value: i64) -> Result<i64, CommError> {
        check((self.min)(&raw mut value)).map(|()| value)
    }

    fn broadcast(&self, root: u32, bytes: &mut [u8]) -> Result<(), CommError> {
        check((self.broadcast)(bytes.as_mut_ptr().cast(), length(bytes.len())?, number(root)))
    }

    fn gather(&self, mine: &[u8], lengths: &[usize]) -> Result<Vec<u8>, CommError> {
        let (mut counts, mut offsets, mut total) = (Vec::new(), Vec::new(), 0);
        for bytes in lengths {
            counts.push(length(*bytes)?);
            offsets.push(length(total)?);
            total += bytes;
        }
        let mut all = vec![0; total];
        let (mine, to) = (mine.as_ptr().cast(), all.as_mut_ptr().cast());
        check((self.gather)(mine, to, counts.as_ptr(), offsets.as_ptr())).map(|()| all)
    }

    fn send(&self, to: u32, bytes: &[u8]) -> Result<(), CommError> {
        check((self.send)(bytes.as_ptr().cast(), length(bytes.len())?, number(to)))
    }

    fn receive(&self, from: u32, bytes: &mut [u8]) -> Result<(), CommError> {
        check((self.receive)(bytes.as_mut_ptr().cast(), length(bytes.len())?, number(from)))
    }

    fn exchange(
        &self,
        to: u32,
        sent: &[u8],
        from: u32,
        received: &mut [u8],
    ) -> Result<(), CommError> {
        check((self.exchange)(
            sent.as_ptr().cast(),
            length(sent.len())?,
            number(to),
            received.as_mut_ptr().cast(),
            length(received.len())?,
            number(from),
        ))
    }
}
