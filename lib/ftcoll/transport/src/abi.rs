// SPDX-License-Identifier: Apache-2.0
//! The functions of `include/ftcoll.h`, which says what they do.
//!
//! Invariant: a null pointer where there has to be one is an error, not a crash; all else that C
//! hands over is trusted, as it is everywhere in C.
#![allow(unsafe_code)] // the boundary to C

mod calls;
mod parting;
mod persistent;

use crate::comm::Comm;
use crate::error::{CallError, JoinError};
use crate::key::Key;
use crate::world::{Door, Options, Transport, World};
use crate::{Rank, environment};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::net::{IpAddr, SocketAddr};
use std::slice::{from_raw_parts, from_raw_parts_mut};
use std::time::Duration;

const OK: c_int = 0;
const ARGUMENT: c_int = 7;
const JOIN: c_int = 8;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

fn say(text: &str) {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    LAST.with(|last| last.replace(text));
}

fn refuse(what: &str) -> c_int {
    say(what);
    ARGUMENT
}

fn code(error: CallError) -> c_int {
    say(&error.to_string());
    match error {
        CallError::RootDied => 1,
        CallError::Mismatch => 2,
        CallError::Forgotten => 3,
        CallError::Deadline => 4,
        CallError::Busy => 5,
        CallError::Operation => 6,
        CallError::Argument => ARGUMENT,
    }
}

fn join_code(error: &JoinError) -> c_int {
    say(&error.to_string());
    JOIN
}

/// `ftc_options`
#[repr(C)]
pub struct COptions {
    address: *const c_char,
    meeting_ms: u32,
    timeout_ms: u32,
    timeout_step_ms: u32,
    deadline_ms: u32,
    only_silence: u32,
    may_part: u32,
    transport: u32,
}

/// `FTC_UCX`
const UCX: u32 = 1;

/// # Safety
/// As of `from_raw_parts_mut`, but nothing is touched at a null pointer of no bytes.
unsafe fn bytes<'a>(data: *mut c_void, length: usize) -> &'a mut [u8] {
    if length == 0 {
        return &mut [];
    }
    // SAFETY: the caller's promise.
    unsafe { from_raw_parts_mut(data.cast(), length) }
}

fn rank(number: i32) -> Rank {
    Rank::try_from(number).unwrap_or(Rank::MAX)
}

fn number(rank: Rank) -> i32 {
    i32::try_from(rank).unwrap_or(-1)
}

/// # Safety
/// `text` is null or a C string.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

/// # Safety
/// `options` is null or valid.
unsafe fn options(given: *const COptions) -> Option<Options> {
    let mut options = Options::default();
    // SAFETY: the caller's promise.
    let Some(given) = (unsafe { given.as_ref() }) else { return Some(options) };
    let time = |ms: u32, otherwise: Duration| {
        if ms == 0 { otherwise } else { Duration::from_millis(u64::from(ms)) }
    };
    if !given.address.is_null() {
        // SAFETY: the caller's promise.
        let ip: IpAddr = unsafe { text(given.address) }?.parse().ok()?;
        options.address = SocketAddr::new(ip, 0);
    }
    options.meeting = time(given.meeting_ms, options.meeting);
    options.timeout = time(given.timeout_ms, options.timeout);
    options.timeout_step = time(given.timeout_step_ms, options.timeout_step);
    options.deadline = time(given.deadline_ms, options.deadline);
    options.heeds_closing = given.only_silence == 0;
    options.may_part = given.may_part != 0;
    options.transport = match given.transport {
        0 => Transport::Tcp,
        UCX => Transport::Ucx,
        _ => return None,
    };
    Some(options)
}

fn give<T>(value: T, out: &mut *mut T) -> c_int {
    *out = Box::into_raw(Box::new(value));
    OK
}

/// `ftc_error`
#[unsafe(no_mangle)]
pub extern "C" fn ftc_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}

/// `ftc_join`
#[unsafe(no_mangle)]
pub extern "C" fn ftc_join(world: Option<&mut *mut World>) -> c_int {
    let Some(out) = world else { return refuse("ftc_join: no place for the world") };
    match environment::join() {
        Ok(world) => give(world, out),
        Err(error) => join_code(&error),
    }
}

/// `ftc_listen`
///
/// # Safety
/// `given` and `address` are what ftcoll.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftc_listen(
    key: Option<&[u8; 32]>,
    given: *const COptions,
    door: Option<&mut *mut Door>,
    address: *mut c_char,
    room: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let options = unsafe { options(given) };
    let (Some(key), Some(options), Some(out)) = (key, options, door) else {
        return refuse("ftc_listen: no key, no place for the door, no IP, or no such transport");
    };
    let door = match Door::open(Key::new(*key), options) {
        Ok(door) => door,
        Err(error) => return join_code(&error),
    };
    let text = format!("{}\0", door.address());
    if address.is_null() || room < text.len() {
        return refuse("ftc_listen: no room for the address; 64 bytes suffice");
    }
    // SAFETY: there is so much room.
    unsafe { bytes(address.cast(), text.len()) }.copy_from_slice(text.as_bytes());
    give(door, out)
}

/// `ftc_meet`
///
/// # Safety
/// `door` is of `ftc_listen` and used once; there are `size` C strings at `addresses`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftc_meet(
    door: *mut Door,
    me: i32,
    size: i32,
    addresses: *const *const c_char,
    world: Option<&mut *mut World>,
) -> c_int {
    if door.is_null() {
        return refuse("ftc_meet: no door");
    }
    // SAFETY: of `give`, and not used again.
    let door = unsafe { Box::from_raw(door) };
    let Some(out) = world else { return refuse("ftc_meet: no place for the world") };
    let (Ok(count), false) = (usize::try_from(size), addresses.is_null()) else {
        return refuse("ftc_meet: no addresses");
    };
    // SAFETY: the caller's promise.
    let all = unsafe { from_raw_parts(addresses, count) };
    let mut list = Vec::with_capacity(count);
    for (index, &address) in all.iter().enumerate() {
        // SAFETY: likewise.
        match unsafe { ways(address) } {
            Ok(ways) => list.push(ways),
            Err(text) => return join_code(&JoinError::Address { index, count, text }),
        }
    }
    match door.meet_at(rank(me), &list) {
        Ok(world) => give(world, out),
        Err(error) => join_code(&error),
    }
}

/// Where one process may be found; else what was said instead.
///
/// # Safety
/// `address` is a C string.
unsafe fn ways(address: *const c_char) -> Result<Vec<SocketAddr>, String> {
    // SAFETY: the caller's promise.
    let said = unsafe { text(address) }.unwrap_or("");
    said.split(',').map(str::parse).collect::<Result<_, _>>().map_err(|_| said.to_owned())
}

/// `ftc_rank`
#[unsafe(no_mangle)]
pub extern "C" fn ftc_rank(world: Option<&World>) -> i32 {
    world.map_or(-1, |world| number(world.rank()))
}

/// `ftc_size`
#[unsafe(no_mangle)]
pub extern "C" fn ftc_size(world: Option<&World>) -> i32 {
    world.map_or(-1, |world| number(world.size()))
}

/// `ftc_leave`
///
/// # Safety
/// `world` is of `ftc_join` or `ftc_meet`, and not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftc_leave(world: *mut World) -> c_int {
    if world.is_null() {
        return refuse("ftc_leave: no world");
    }
    // SAFETY: of `give`, and not used again.
    unsafe { Box::from_raw(world) }.leave().map_or_else(code, |()| OK)
}

/// `ftc_close`
///
/// # Safety
/// `world` is of `ftc_join` or `ftc_meet`, and not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftc_close(world: *mut World) {
    if !world.is_null() {
        // SAFETY: of `give`, and not used again.
        drop(unsafe { Box::from_raw(world) });
    }
}

/// `ftc_comm_all`
#[unsafe(no_mangle)]
pub extern "C" fn ftc_comm_all(world: Option<&World>, comm: Option<&mut *mut Comm>) -> c_int {
    let (Some(world), Some(out)) = (world, comm) else {
        return refuse("ftc_comm_all: no world, or no place for the communicator");
    };
    give(world.comm(), out)
}

/// `ftc_comm_of`
///
/// # Safety
/// There are `count` ranks at `ranks`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftc_comm_of(
    world: Option<&World>,
    ranks: *const i32,
    count: i32,
    comm: Option<&mut *mut Comm>,
) -> c_int {
    let (Some(world), Some(out), Ok(count), false) =
        (world, comm, usize::try_from(count), ranks.is_null())
    else {
        return refuse("ftc_comm_of: no world, no ranks, or no place for the communicator");
    };
    // SAFETY: the caller's promise.
    let members = unsafe { from_raw_parts(ranks, count) };
    let members: Vec<_> = members.iter().map(|&member| rank(member)).collect();
    match world.comm_of(&members) {
        Some(comm) => give(comm, out),
        None => refuse("ftc_comm_of: ranks that are none, occur twice, or lack this process"),
    }
}

/// `ftc_comm_survive_nothing`
#[unsafe(no_mangle)]
pub extern "C" fn ftc_comm_survive_nothing(comm: Option<&Comm>) -> c_int {
    let Some(comm) = comm else { return refuse("ftc_comm_survive_nothing: no communicator") };
    comm.survive_nothing();
    OK
}

/// `ftc_comm_rank`
#[unsafe(no_mangle)]
pub extern "C" fn ftc_comm_rank(comm: Option<&Comm>) -> i32 {
    comm.map_or(-1, |comm| number(comm.rank()))
}

/// `ftc_comm_size`
#[unsafe(no_mangle)]
pub extern "C" fn ftc_comm_size(comm: Option<&Comm>) -> i32 {
    comm.map_or(-1, |comm| number(comm.size()))
}

/// `ftc_comm_free`
///
/// # Safety
/// `comm` is null or of this library, and not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftc_comm_free(comm: *mut Comm) {
    if !comm.is_null() {
        // SAFETY: of `give`, and not used again.
        drop(unsafe { Box::from_raw(comm) });
    }
}
