// SPDX-License-Identifier: Apache-2.0
//! Connections that are made again, and progress of others while a call waits.

use super::{JOIN, OK, bytes, join_code, rank, refuse, text, ways};
use crate::world::World;
use std::ffi::{c_char, c_int, c_void};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// `ftc_seeker`, `ftc_progress`
type CFunction = unsafe extern "C" fn(*mut c_void);

/// What C hands over to be handed back.
struct Context(*mut c_void);

// SAFETY: ftcoll.h says that any thread in a call may get it, several at a time.
unsafe impl Send for Context {}
// SAFETY: likewise.
unsafe impl Sync for Context {}

impl Context {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// `ftc_hold`
#[unsafe(no_mangle)]
pub extern "C" fn ftc_hold(world: Option<&World>) {
    if let Some(world) = world {
        world.hold();
    }
}

/// `ftc_release`
#[unsafe(no_mangle)]
pub extern "C" fn ftc_release(world: Option<&World>) {
    if let Some(world) = world {
        world.release();
    }
}

/// `ftc_part`
#[unsafe(no_mangle)]
pub extern "C" fn ftc_part(world: Option<&World>) {
    if let Some(world) = world {
        world.part();
    }
}

/// `ftc_partings`
#[unsafe(no_mangle)]
pub extern "C" fn ftc_partings(world: Option<&World>) -> u32 {
    world.map_or(0, World::partings)
}

/// `ftc_sockets`
///
/// # Safety
/// There is room for `room` numbers at `descriptors`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftc_sockets(
    world: Option<&World>,
    descriptors: *mut c_int,
    room: i32,
) -> i32 {
    let all = world.map(World::sockets).unwrap_or_default();
    let room = usize::try_from(room).unwrap_or(0);
    for (at, &descriptor) in all.iter().take(room).enumerate() {
        // SAFETY: the caller's promise.
        unsafe { descriptors.add(at).write(descriptor) };
    }
    i32::try_from(all.len()).unwrap_or(i32::MAX)
}

/// `ftc_seek_by`
///
/// # Safety
/// `function` is what ftcoll.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftc_seek_by(
    world: Option<&World>,
    function: Option<CFunction>,
    context: *mut c_void,
) -> c_int {
    let (Some(world), Some(function)) = (world, function) else {
        return refuse("ftc_seek_by: no world, or no function");
    };
    let context = Context(context);
    // SAFETY: the caller's promise.
    world.seek_by(Arc::new(move || unsafe { function(context.get()) }));
    OK
}

/// `ftc_progress_by`
///
/// # Safety
/// `function` is what ftcoll.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftc_progress_by(
    world: Option<&World>,
    function: Option<CFunction>,
    context: *mut c_void,
) -> c_int {
    let (Some(world), Some(function)) = (world, function) else {
        return refuse("ftc_progress_by: no world, or no function");
    };
    let context = Context(context);
    // SAFETY: the caller's promise.
    world.progress_by(Arc::new(move || unsafe { function(context.get()) }));
    OK
}

/// `ftc_open_again`
///
/// # Safety
/// `at` is a C string; there is room for `room` bytes at `address`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftc_open_again(
    world: Option<&World>,
    parting: u32,
    at: *const c_char,
    address: *mut c_char,
    room: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let ip = unsafe { text(at) }.and_then(|text| text.parse::<IpAddr>().ok());
    let (Some(world), Some(ip)) = (world, ip) else {
        return refuse("ftc_open_again: no world, or an address that is no IP");
    };
    let opened = match world.open_again(parting, SocketAddr::new(ip, 0)) {
        Ok(Some(opened)) => opened,
        Ok(None) => return JOIN,
        Err(error) => return join_code(&error),
    };
    let said = format!("{opened}\0");
    if address.is_null() || room < said.len() {
        return refuse("ftc_open_again: no room for the address; 64 bytes suffice");
    }
    // SAFETY: there is so much room.
    unsafe { bytes(address.cast(), said.len()) }.copy_from_slice(said.as_bytes());
    OK
}

/// `ftc_meet_again`
///
/// # Safety
/// `address` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftc_meet_again(
    world: Option<&World>,
    parting: u32,
    who: i32,
    address: *const c_char,
) -> c_int {
    let Some(world) = world else { return refuse("ftc_meet_again: no world") };
    // SAFETY: the caller's promise.
    match unsafe { ways(address) } {
        Ok(ways) => {
            world.meet_again(parting, rank(who), &ways);
            OK
        }
        Err(_) => refuse("ftc_meet_again: an address that is none"),
    }
}
