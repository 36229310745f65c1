// SPDX-License-Identifier: Apache-2.0
//! The collectives of `include/ftcoll.h`.

use super::{OK, bytes, code, number, rank, refuse};
use crate::comm::{Combine, Comm, Ended};
use crate::error::CallError;
use crate::value::{Kind, Op, UserOp};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// `ftc_user_op`
#[repr(C)]
pub struct CUserOp {
    function: Option<extern "C" fn(*const c_void, *mut c_void, usize, *mut c_void)>,
    context: *mut c_void,
    element_bytes: usize,
    commutes: c_int,
}

/// `ftc_ended`
#[repr(C)]
pub struct CEnded {
    processes: i32,
    contributions: i32,
    missing: *mut i32,
    room: i32,
}

/// The program's context, which it lets any thread use.
#[derive(Clone, Copy)]
struct Context(*mut c_void);

// SAFETY: ftcoll.h says that the function is called by other threads too, one at a time.
unsafe impl Send for Context {}
// SAFETY: likewise.
unsafe impl Sync for Context {}

impl Context {
    fn get(self) -> *mut c_void {
        self.0
    }
}

pub(super) fn report(
    result: Result<Ended, CallError>,
    comm: &Comm,
    out: Option<&mut CEnded>,
) -> c_int {
    let ended = match result {
        Ok(ended) => ended,
        Err(error) => return code(error),
    };
    if let Some(out) = out {
        let missing = i32::try_from(ended.missing.len()).unwrap_or(i32::MAX);
        out.processes = number(comm.size());
        out.contributions = out.processes - missing;
        let room = usize::try_from(out.room).unwrap_or(0).min(ended.missing.len());
        for (at, &rank) in ended.missing[..room].iter().enumerate() {
            // SAFETY: the caller has said that there is so much room.
            unsafe { out.missing.add(at).write(number(rank)) };
        }
    }
    OK
}

/// What two buffers and a way to combine them make.
pub(super) struct Task {
    pub send: *const c_void,
    pub receive: *mut c_void,
    pub count: usize,
    pub combine: Combine,
    pub element: usize,
}

impl Task {
    pub(super) fn predefined(
        send: *const c_void,
        receive: *mut c_void,
        count: usize,
        kind: c_int,
        op: c_int,
    ) -> Option<Self> {
        let kind = u8::try_from(kind).ok().and_then(Kind::of)?;
        let op = u8::try_from(op).ok().and_then(Op::of)?;
        let combine = Combine::Predefined(kind, op);
        Some(Self { send, receive, count, combine, element: kind.bytes() })
    }

    pub(super) fn user(
        send: *const c_void,
        receive: *mut c_void,
        count: usize,
        op: Option<&CUserOp>,
    ) -> Option<Self> {
        let op = op?;
        let (function, element, context) = (op.function?, op.element_bytes, Context(op.context));
        if element == 0 {
            return None;
        }
        let function = Arc::new(move |ahead: &[u8], behind: &mut [u8]| {
            let count = ahead.len() / element;
            function(ahead.as_ptr().cast(), behind.as_mut_ptr().cast(), count, context.get());
        });
        let combine = Combine::User(UserOp { element, commutes: op.commutes != 0, function });
        Some(Self { send, receive, count, combine, element })
    }
}

/// Runs a reduction on a copy of what is sent, and puts the result where it belongs.
///
/// # Safety
/// There are so many elements at `send`, and room for them at `receive` where a result comes.
unsafe fn run(
    comm: Option<&Comm>,
    task: Option<Task>,
    root: Option<i32>,
    ended: Option<&mut CEnded>,
) -> c_int {
    let (Some(comm), Some(task)) = (comm, task) else {
        return refuse("no communicator, or a type or an operation that is none");
    };
    let Some(length) = task.count.checked_mul(task.element) else {
        return refuse("more elements than there can be");
    };
    let root = root.map(rank);
    let receives = root.is_none_or(|root| root == comm.rank());
    if length > 0 && (task.send.is_null() || (receives && task.receive.is_null())) {
        return refuse("no buffer");
    }
    // SAFETY: the caller's promise.
    let mut buffer = unsafe { bytes(task.send.cast_mut(), length) }.to_vec();
    let result = match root {
        Some(root) => comm.reduce(&mut buffer, &task.combine, root),
        None => comm.allreduce(&mut buffer, &task.combine),
    };
    if receives && result.is_ok() {
        // SAFETY: the caller's promise.
        unsafe { bytes(task.receive, length) }.copy_from_slice(&buffer);
    }
    report(result, comm, ended)
}

/// `ftc_barrier`
#[unsafe(no_mangle)]
pub extern "C" fn ftc_barrier(comm: Option<&Comm>, ended: Option<&mut CEnded>) -> c_int {
    let Some(comm) = comm else { return refuse("ftc_barrier: no communicator") };
    report(comm.barrier(), comm, ended)
}

/// `ftc_bcast`
///
/// # Safety
/// There are so many elements at `buffer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftc_bcast(
    comm: Option<&Comm>,
    buffer: *mut c_void,
    count: usize,
    kind: c_int,
    root: i32,
    ended: Option<&mut CEnded>,
) -> c_int {
    let kind = u8::try_from(kind).ok().and_then(Kind::of);
    let length = kind.and_then(|kind| count.checked_mul(kind.bytes()));
    let (Some(comm), Some(length)) = (comm, length) else {
        return refuse("ftc_bcast: no communicator, or a type that is none");
    };
    if buffer.is_null() && length > 0 {
        return refuse("ftc_bcast: no buffer");
    }
    // SAFETY: the caller's promise.
    let result = comm.bcast(unsafe { bytes(buffer, length) }, rank(root));
    report(result, comm, ended)
}

/// `ftc_reduce`
///
/// # Safety
/// There are so many elements at the buffers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftc_reduce(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    kind: c_int,
    op: c_int,
    root: i32,
    ended: Option<&mut CEnded>,
) -> c_int {
    let task = Task::predefined(send, receive, count, kind, op);
    // SAFETY: the caller's promise.
    unsafe { run(comm, task, Some(root), ended) }
}

/// `ftc_allreduce`
///
/// # Safety
/// There are so many elements at the buffers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftc_allreduce(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    kind: c_int,
    op: c_int,
    ended: Option<&mut CEnded>,
) -> c_int {
    let task = Task::predefined(send, receive, count, kind, op);
    // SAFETY: the caller's promise.
    unsafe { run(comm, task, None, ended) }
}

/// `ftc_reduce_user`
///
/// # Safety
/// There are so many elements at the buffers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftc_reduce_user(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    op: Option<&CUserOp>,
    root: i32,
    ended: Option<&mut CEnded>,
) -> c_int {
    let task = Task::user(send, receive, count, op);
    // SAFETY: the caller's promise.
    unsafe { run(comm, task, Some(root), ended) }
}

/// `ftc_allreduce_user`
///
/// # Safety
/// There are so many elements at the buffers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftc_allreduce_user(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    op: Option<&CUserOp>,
    ended: Option<&mut CEnded>,
) -> c_int {
    let task = Task::user(send, receive, count, op);
    // SAFETY: the caller's promise.
    unsafe { run(comm, task, None, ended) }
}
