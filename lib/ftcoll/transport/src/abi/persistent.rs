// SPDX-License-Identifier: Apache-2.0
//! The persistent calls of `include/ftcoll.h`.

use super::calls::{CEnded, CUserOp, Task, report};
use super::{OK, bytes, code, give, rank, refuse};
use crate::Rank;
use crate::comm::{Combine, Comm};
use crate::error::CallError;
use crate::pending::Pending;
use crate::value::Kind;
use std::ffi::{c_int, c_void};
use std::slice::from_raw_parts;

enum What {
    Barrier,
    Bcast(Rank),
    Reduce(Combine, Rank),
    Allreduce(Combine),
}

/// `ftc_call`
pub struct CCall {
    comm: Comm,
    what: What,
    send: *const c_void,
    receive: *mut c_void,
    length: usize,
    pending: Option<Pending>,
}

impl CCall {
    fn receives(&self) -> bool {
        match self.what {
            What::Barrier => false,
            What::Bcast(root) => root != self.comm.rank(),
            What::Reduce(_, root) => root == self.comm.rank(),
            What::Allreduce(_) => true,
        }
    }

    /// # Safety
    /// Nothing else refers to the caller's buffer meanwhile.
    unsafe fn sent<'a>(&self) -> &'a [u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: `make` has seen that there is a buffer, and the caller has said how long it is.
        unsafe { from_raw_parts(self.send.cast(), self.length) }
    }

    /// # Safety
    /// As of `sent`.
    unsafe fn received<'a>(&self) -> &'a mut [u8] {
        if !self.receives() {
            return &mut [];
        }
        // SAFETY: likewise.
        unsafe { bytes(self.receive, self.length) }
    }

    fn begin(&self) -> Result<Pending, CallError> {
        // SAFETY: the caller has said that the call may read it now.
        let sent = unsafe { self.sent() };
        match &self.what {
            What::Barrier => self.comm.begin_barrier(),
            What::Bcast(root) => self.comm.begin_bcast(sent, *root),
            What::Reduce(combine, root) => self.comm.begin_reduce(sent, combine, *root),
            What::Allreduce(combine) => self.comm.begin_allreduce(sent, combine),
        }
    }
}

fn make(call: Option<CCall>, out: Option<&mut *mut CCall>) -> c_int {
    let (Some(call), Some(out)) = (call, out) else {
        return refuse("no communicator, no place for the call, or no such type or operation");
    };
    if call.length > 0 && (call.send.is_null() || (call.receives() && call.receive.is_null())) {
        return refuse("no buffer");
    }
    give(call, out)
}

fn reduction(comm: Option<&Comm>, task: Option<Task>, root: Option<i32>) -> Option<CCall> {
    let (comm, Task { send, receive, count, combine, element }) = (comm?.clone(), task?);
    let length = count.checked_mul(element)?;
    let what = match root {
        Some(root) => What::Reduce(combine, rank(root)),
        None => What::Allreduce(combine),
    };
    Some(CCall { comm, what, send, receive, length, pending: None })
}

/// `ftc_barrier_init`
#[unsafe(no_mangle)]
pub extern "C" fn ftc_barrier_init(comm: Option<&Comm>, call: Option<&mut *mut CCall>) -> c_int {
    let (send, receive) = (std::ptr::null(), std::ptr::null_mut());
    let barrier = |comm: &Comm| CCall {
        comm: comm.clone(),
        what: What::Barrier,
        send,
        receive,
        length: 0,
        pending: None,
    };
    make(comm.map(barrier), call)
}

/// `ftc_bcast_init`
///
/// # Safety
/// There are so many elements at `buffer` whenever the call is in progress.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftc_bcast_init(
    comm: Option<&Comm>,
    buffer: *mut c_void,
    count: usize,
    kind: c_int,
    root: i32,
    call: Option<&mut *mut CCall>,
) -> c_int {
    let kind = u8::try_from(kind).ok().and_then(Kind::of);
    let length = kind.and_then(|kind| count.checked_mul(kind.bytes()));
    let bcast = |(comm, length): (&Comm, usize)| CCall {
        comm: comm.clone(),
        what: What::Bcast(rank(root)),
        send: buffer,
        receive: buffer,
        length,
        pending: None,
    };
    make(comm.zip(length).map(bcast), call)
}

/// `ftc_reduce_init`
///
/// # Safety
/// There are so many elements at the buffers whenever the call is in progress.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftc_reduce_init(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    kind: c_int,
    op: c_int,
    root: i32,
    call: Option<&mut *mut CCall>,
) -> c_int {
    let task = Task::predefined(send, receive, count, kind, op);
    make(reduction(comm, task, Some(root)), call)
}

/// `ftc_allreduce_init`
///
/// # Safety
/// As of `ftc_reduce_init`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftc_allreduce_init(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    kind: c_int,
    op: c_int,
    call: Option<&mut *mut CCall>,
) -> c_int {
    let task = Task::predefined(send, receive, count, kind, op);
    make(reduction(comm, task, None), call)
}

/// `ftc_reduce_user_init`
///
/// # Safety
/// As of `ftc_reduce_init`; the operation is there as long as the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftc_reduce_user_init(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    op: Option<&CUserOp>,
    root: i32,
    call: Option<&mut *mut CCall>,
) -> c_int {
    let task = Task::user(send, receive, count, op);
    make(reduction(comm, task, Some(root)), call)
}

/// `ftc_allreduce_user_init`
///
/// # Safety
/// As of `ftc_reduce_user_init`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftc_allreduce_user_init(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    op: Option<&CUserOp>,
    call: Option<&mut *mut CCall>,
) -> c_int {
    let task = Task::user(send, receive, count, op);
    make(reduction(comm, task, None), call)
}

/// `ftc_start`
#[unsafe(no_mangle)]
pub extern "C" fn ftc_start(call: Option<&mut CCall>) -> c_int {
    let Some(call) = call else { return refuse("ftc_start: no call") };
    if call.pending.is_some() {
        return code(CallError::Busy);
    }
    match call.begin() {
        Ok(pending) => {
            call.pending = Some(pending);
            OK
        }
        Err(error) => code(error),
    }
}

/// `ftc_test`
#[unsafe(no_mangle)]
pub extern "C" fn ftc_test(
    call: Option<&mut CCall>,
    is_over: Option<&mut c_int>,
    ended: Option<&mut CEnded>,
) -> c_int {
    let (Some(call), Some(is_over)) = (call, is_over) else {
        return refuse("ftc_test: no call, or no place for whether it is over");
    };
    *is_over = 1;
    let Some(mut pending) = call.pending.take() else { return OK };
    // SAFETY: the caller has said that the call may write there now.
    match pending.test(unsafe { call.received() }) {
        Ok(None) => {
            *is_over = 0;
            call.pending = Some(pending);
            OK
        }
        Ok(Some(over)) => report(Ok(over), &call.comm, ended),
        Err(error) => code(error),
    }
}

/// `ftc_wait`
#[unsafe(no_mangle)]
pub extern "C" fn ftc_wait(call: Option<&mut CCall>, ended: Option<&mut CEnded>) -> c_int {
    let Some(call) = call else { return refuse("ftc_wait: no call") };
    let Some(pending) = call.pending.take() else { return OK };
    // SAFETY: the caller has said that the call may write there now.
    report(pending.wait(unsafe { call.received() }), &call.comm, ended)
}

/// `ftc_call_free`
///
/// # Safety
/// `call` is null or of this library, and not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftc_call_free(call: *mut CCall) {
    if !call.is_null() {
        // SAFETY: of `give`, and not used again.
        drop(unsafe { Box::from_raw(call) });
    }
}
