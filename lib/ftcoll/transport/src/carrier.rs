// SPDX-License-Identifier: Apache-2.0
//! What carries bytes instead of the sockets once two processes of different hosts have greeted
//! each other: UCX, if it is asked for and reaches the other one. It is a library by itself
//! (`lib/ftcoll/ucx`), loaded from where this one is, or by the name in `FTCOLL_CARRIER`.
//!
//! The sockets stay, for one who dies closes them. What is carried is sealed as ever, so it is no
//! matter who else can write to the carrier's memory or network.
#![allow(unsafe_code)] // the boundary to C

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::OnceLock;

const ABI: u32 = 2;
const NAME: &str = "libftcoll_ucx.so";

/// `ftc_carrier`, `ftc_end`
type Raw = c_void;

/// `ftc_carrier_table` of `lib/ftcoll/ucx/carrier.h`
#[repr(C)]
struct Table {
    abi: u32,
    open: unsafe extern "C" fn(*mut c_char, usize) -> *mut Raw,
    close: unsafe extern "C" fn(*mut Raw),
    event_fd: unsafe extern "C" fn(*mut Raw) -> c_int,
    arm: unsafe extern "C" fn(*mut Raw) -> c_int,
    progress: unsafe extern "C" fn(*mut Raw) -> c_int,
    address: unsafe extern "C" fn(*mut Raw, *mut usize) -> *const u8,
    connect: unsafe extern "C" fn(*mut Raw, *const u8, usize, usize) -> *mut Raw,
    send: unsafe extern "C" fn(*mut Raw, *const u8, usize) -> c_int,
    waiting: unsafe extern "C" fn(*const Raw) -> usize,
    receive: unsafe extern "C" fn(*mut Raw, *mut u8, usize) -> isize,
    ready: unsafe extern "C" fn(*mut Raw, *mut usize, usize) -> usize,
    drop: unsafe extern "C" fn(*mut Raw),
}

/// A process's part of it. All ends are gone before it is.
pub(crate) struct Carrier {
    raw: NonNull<Raw>,
    table: &'static Table,
}

/// One end of what leads to another process.
pub(crate) struct End {
    raw: NonNull<Raw>,
    table: &'static Table,
}

// SAFETY: the library may be called by any thread, by one at a time, and all calls are under the
// lock of their world.
unsafe impl Send for Carrier {}
// SAFETY: likewise.
unsafe impl Send for End {}

/// Where this library lies, or the program that it is part of.
fn own_file() -> Option<PathBuf> {
    // SAFETY: all zero is a value of this type.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the address is this function's, and there is room.
    if unsafe { libc::dladdr(own_file as *const c_void, &raw mut found) } == 0 {
        return None;
    }
    // SAFETY: dladdr(3) has found a name, which stays as long as the library.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

fn load() -> Result<&'static Table, String> {
    let named = std::env::var_os("FTCOLL_CARRIER").map(PathBuf::from);
    let path = named.or_else(|| Some(own_file()?.with_file_name(NAME)));
    let path = path.unwrap_or_else(|| PathBuf::from(NAME));
    // SAFETY: what its constructors do is the business of who has put it there.
    let library = unsafe { libloading::Library::new(&path) }.map_err(|error| error.to_string())?;
    // Never unloaded: it has threads and handlers that nobody can take back.
    let library: &'static libloading::Library = Box::leak(Box::new(library));
    // SAFETY: carrier.h says what this function is.
    let find = unsafe { library.get::<extern "C" fn() -> *const u32>(b"ftc_carrier_find\0") };
    let table = find.map_err(|error| error.to_string())?();
    // SAFETY: every version begins with its number.
    if unsafe { table.as_ref() } != Some(&ABI) {
        return Err(format!("{NAME}: another version"));
    }
    // SAFETY: it is this one, and the library stays.
    Ok(unsafe { &*table.cast::<Table>() })
}

impl Carrier {
    /// # Errors
    /// There is no such library, or it cannot be used here; the text says why.
    pub fn open() -> Result<Self, String> {
        static LOADED: OnceLock<Result<&'static Table, String>> = OnceLock::new();
        let table = LOADED.get_or_init(load).clone()?;
        let mut why = [0u8; 256];
        // SAFETY: there is so much room.
        let raw = unsafe { (table.open)(why.as_mut_ptr().cast(), why.len()) };
        let Some(raw) = NonNull::new(raw) else {
            let why = CStr::from_bytes_until_nul(&why).unwrap_or_default();
            return Err(why.to_string_lossy().into_owned());
        };
        Ok(Self { raw, table })
    }

    /// Can be read when there is something to do, after [`Carrier::arm`].
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the carrier is open.
        let fd: RawFd = unsafe { (self.table.event_fd)(self.raw.as_ptr()) };
        // SAFETY: it is the carrier's as long as that is open.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }

    /// False: there is something to do at once.
    pub fn arm(&self) -> bool {
        // SAFETY: the carrier is open.
        unsafe { (self.table.arm)(self.raw.as_ptr()) == 0 }
    }

    /// Does some of what can be done. False: that was all.
    pub fn progress(&self) -> bool {
        // SAFETY: the carrier is open.
        unsafe { (self.table.progress)(self.raw.as_ptr()) != 0 }
    }

    /// Whether something waits here to be sent. There is no event when it can be.
    pub fn is_sending(&self) -> bool {
        // SAFETY: the carrier is open.
        unsafe { (self.table.waiting)(self.raw.as_ptr()) > 0 }
    }

    /// What another process needs to connect.
    pub fn address(&self) -> Vec<u8> {
        let mut length = 0;
        // SAFETY: the carrier is open; it keeps as many bytes there as it says.
        unsafe {
            let bytes = (self.table.address)(self.raw.as_ptr(), &raw mut length);
            std::slice::from_raw_parts(bytes, length).to_vec()
        }
    }

    /// An end of what leads to the process with that address, `None` if nothing does. The address
    /// is believed: its sender has shown the key.
    pub fn connect(&self, address: &[u8], token: usize) -> Option<End> {
        let (bytes, length) = (address.as_ptr(), address.len());
        // SAFETY: the carrier is open, and the address is that of such a library.
        let raw = unsafe { (self.table.connect)(self.raw.as_ptr(), bytes, length, token) };
        Some(End { raw: NonNull::new(raw)?, table: self.table })
    }

    /// Tokens of ends of which something has come since.
    pub fn ready<'a>(&self, tokens: &'a mut [usize]) -> &'a [usize] {
        // SAFETY: the carrier is open, and there is so much room.
        let count =
            unsafe { (self.table.ready)(self.raw.as_ptr(), tokens.as_mut_ptr(), tokens.len()) };
        &tokens[..count]
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        // SAFETY: it is open, and nobody uses it any more.
        unsafe { (self.table.close)(self.raw.as_ptr()) };
    }
}

impl End {
    /// Sends a copy. False: nothing will arrive any more.
    pub fn send(&self, bytes: &[u8]) -> bool {
        // SAFETY: the end is there as long as this is.
        unsafe { (self.table.send)(self.raw.as_ptr(), bytes.as_ptr(), bytes.len()) == 0 }
    }

    /// What has come, as much as there is room for; empty: nothing now; `None`: nothing any more.
    pub fn receive<'a>(&self, room: &'a mut [u8]) -> Option<&'a [u8]> {
        // SAFETY: likewise, and there is so much room.
        let count =
            unsafe { (self.table.receive)(self.raw.as_ptr(), room.as_mut_ptr(), room.len()) };
        usize::try_from(count).ok().map(|count| &room[..count])
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // SAFETY: likewise, and nobody uses it any more.
        unsafe { (self.table.drop)(self.raw.as_ptr()) };
    }
}
