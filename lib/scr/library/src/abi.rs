// SPDX-License-Identifier: Apache-2.0
//! The functions that `mpi/` calls: those of `scr.h`, with what they need of the MPI handed in.
//!
//! Invariant: a null pointer where there has to be one is an error, not a crash; all else that C
//! hands over is trusted, as it is everywhere in C.
#![allow(unsafe_code)] // the boundary to C

use crate::comm::{Comm, Table};
use crate::library::{Outcome, Scr, Surroundings};
use crate::outputs::NAME_MAX;
use crate::problem::Problem;
use crate::sources;
use crate::team::print;
use fermata_scr::config::{Config, Request};
use fermata_scr::{Call, Phase};
use std::collections::BTreeMap;
use std::env;
use std::ffi::{CStr, CString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::slice::from_raw_parts_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

const SUCCESS: c_int = 0;
const FAILURE: c_int = 1;
/// The program is to be ended: `SCR_HALT_EXIT`.
const EXIT: c_int = 2;

/// What this process has called so far.
struct Session {
    program: Option<Config>,
    scr: Option<Scr<Table>>,
    /// The last answer of `SCR_Config`.
    value: Option<CString>,
}

static SESSION: Mutex<Session> = Mutex::new(Session { program: None, scr: None, value: None });

fn session() -> MutexGuard<'static, Session> {
    SESSION.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(0)
}

fn cwd() -> PathBuf {
    env::current_dir().unwrap_or_default()
}

/// Makes a collective call.
fn call(act: impl FnOnce(&mut Scr<Table>) -> Result<c_int, Problem>, name: Call) -> c_int {
    let mut session = session();
    let Some(scr) = &mut session.scr else {
        if let Err(error) = Phase::Before.allow(name) {
            print(&error.to_string());
        }
        return FAILURE;
    };
    match act(scr) {
        Ok(code) => code,
        Err(problem) => {
            scr.complain(&problem);
            FAILURE
        }
    }
}

fn code(outcome: Outcome) -> c_int {
    match outcome {
        Outcome::Continue => SUCCESS,
        Outcome::Exit => EXIT,
    }
}

fn missing(what: &str) -> Problem {
    Problem::Wrong(format!("a null pointer for {what}"))
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

/// Writes a C string of less than `NAME_MAX` bytes.
///
/// # Safety
/// There is room for `NAME_MAX` bytes at `place`, or it is null.
unsafe fn write(place: *mut c_char, bytes: &[u8]) -> Result<(), Problem> {
    if place.is_null() {
        return Ok(());
    }
    if bytes.len() >= NAME_MAX {
        return Err(Problem::Wrong(format!("a name is longer than {} bytes", NAME_MAX - 1)));
    }
    // SAFETY: the caller's promise.
    let to = unsafe { from_raw_parts_mut(place.cast::<u8>(), bytes.len() + 1) };
    to[..bytes.len()].copy_from_slice(bytes);
    to[bytes.len()] = 0;
    Ok(())
}

fn set(flag: Option<&mut c_int>, is_set: bool) -> Result<c_int, Problem> {
    *flag.ok_or_else(|| missing("the flag"))? = c_int::from(is_set);
    Ok(SUCCESS)
}

/// The configuration of a process that has not called `SCR_Init`: with its files, as they are.
fn with_files(program: &Config, variables: &BTreeMap<String, String>) -> Result<Config, Problem> {
    let mut config = program.clone();
    let texts = sources::texts(&config, variables, &cwd())?;
    sources::take_all(&mut config, &texts)?;
    Ok(config)
}

fn configure(session: &mut Session, line: &str) -> Result<Option<String>, Problem> {
    if let Some(scr) = &mut session.scr {
        return scr.query(line);
    }
    let variables = sources::variables();
    let program = session.program.get_or_insert_with(|| Config::new(variables.clone()));
    let error = |error| Problem::Config { file: "SCR_Config".into(), error };
    match program.request(line).map_err(error)? {
        Request::Value(_) => match with_files(program, &variables)?.request(line).map_err(error)? {
            Request::Value(value) => Ok(value),
            Request::Set | Request::Unset => Ok(None),
        },
        Request::Set | Request::Unset => Ok(None),
    }
}

/// `SCR_Config`: 0 with the value at `value`, which holds until the next call; 0 with a null
/// pointer there: nothing was asked, or there is no value; 1: it makes no sense.
///
/// # Safety
/// `line` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fscr_config(
    line: *const c_char,
    value: Option<&mut *const c_char>,
) -> c_int {
    let Some(out) = value else { return FAILURE };
    *out = std::ptr::null();
    let mut session = session();
    // SAFETY: the caller's promise.
    let line = unsafe { text(line) }.ok_or_else(|| missing("the configuration"));
    match line.and_then(|line| configure(&mut session, line)) {
        Ok(Some(value)) => {
            let value = session.value.insert(CString::new(value).unwrap_or_default());
            *out = value.as_ptr();
            SUCCESS
        }
        Ok(None) => SUCCESS,
        Err(problem) => {
            match &session.scr {
                Some(scr) => scr.complain(&problem),
                None => print(&problem.to_string()),
            }
            FAILURE
        }
    }
}

/// `SCR_Init`, with the program's MPI.
#[unsafe(no_mangle)]
pub extern "C" fn fscr_init(table: Option<&Table>) -> c_int {
    let mut session = session();
    let Some(table) = table else { return FAILURE };
    if let Some(scr) = &session.scr {
        scr.refuse(Call::Init);
        return FAILURE;
    }
    let variables = sources::variables();
    let program = session.program.take().unwrap_or_else(|| Config::new(variables.clone()));
    let around =
        Surroundings { host: fermata_sysio::host_name(), variables, cwd: cwd(), clock: now_ms };
    match Scr::init(*table, around, program) {
        Ok((scr, outcome)) => {
            session.scr = Some(scr);
            code(outcome)
        }
        Err(problem) => {
            if !matches!(problem, Problem::Elsewhere) && table.rank() == 0 {
                print(&problem.to_string());
            }
            FAILURE
        }
    }
}

/// `SCR_Finalize`
#[unsafe(no_mangle)]
pub extern "C" fn fscr_finalize() -> c_int {
    call(|scr| scr.finalize().map(|()| SUCCESS), Call::Finalize)
}

/// `SCR_Need_checkpoint`
#[unsafe(no_mangle)]
pub extern "C" fn fscr_need_checkpoint(flag: Option<&mut c_int>) -> c_int {
    call(
        |scr| scr.need_checkpoint().and_then(|is_needed| set(flag, is_needed)),
        Call::NeedCheckpoint,
    )
}

/// `SCR_Should_exit`
#[unsafe(no_mangle)]
pub extern "C" fn fscr_should_exit(flag: Option<&mut c_int>) -> c_int {
    call(|scr| scr.should_exit().and_then(|is_time| set(flag, is_time)), Call::ShouldExit)
}

/// `SCR_Start_output`
///
/// # Safety
/// `name` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fscr_start_output(name: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let name = unsafe { text(name) };
    call(|scr| scr.start_output(name, flags).map(|()| SUCCESS), Call::StartOutput)
}

/// `SCR_Complete_output`
#[unsafe(no_mangle)]
pub extern "C" fn fscr_complete_output(valid: c_int) -> c_int {
    call(|scr| scr.complete_output(valid != 0).map(code), Call::CompleteOutput)
}

/// `SCR_Route_file`
///
/// # Safety
/// `name` is null or a C string; there is room for `SCR_MAX_FILENAME` bytes at `file`, or it is
/// null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fscr_route_file(name: *const c_char, file: *mut c_char) -> c_int {
    let act = |scr: &mut Scr<Table>| {
        // SAFETY: the caller's promise.
        let name = unsafe { text(name) }.ok_or_else(|| missing("the name"));
        let routed = name.and_then(|name| {
            if file.is_null() {
                return Err(missing("the file"));
            }
            let path = scr.route_file(name, &cwd())?;
            // SAFETY: the caller's promise.
            unsafe { write(file, path.as_os_str().as_bytes()) }
        });
        match routed {
            Ok(()) => Ok(SUCCESS),
            Err(problem) => {
                scr.complain_here(&problem);
                Ok(FAILURE)
            }
        }
    };
    call(act, Call::RouteFile)
}

/// `SCR_Have_restart`
///
/// # Safety
/// There is room for `SCR_MAX_FILENAME` bytes at `name`, or it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fscr_have_restart(flag: Option<&mut c_int>, name: *mut c_char) -> c_int {
    let act = |scr: &mut Scr<Table>| {
        let found = scr.have_restart()?;
        if let Some(found) = found {
            // SAFETY: the caller's promise.
            unsafe { write(name, found.as_bytes()) }?;
        }
        set(flag, found.is_some())
    };
    call(act, Call::HaveRestart)
}

/// `SCR_Start_restart`
///
/// # Safety
/// There is room for `SCR_MAX_FILENAME` bytes at `name`, or it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fscr_start_restart(name: *mut c_char) -> c_int {
    let act = |scr: &mut Scr<Table>| {
        let found = scr.start_restart()?;
        // SAFETY: the caller's promise.
        unsafe { write(name, found.as_bytes()) }.map(|()| SUCCESS)
    };
    call(act, Call::StartRestart)
}

/// `SCR_Complete_restart`
#[unsafe(no_mangle)]
pub extern "C" fn fscr_complete_restart(valid: c_int) -> c_int {
    call(|scr| scr.complete_restart(valid != 0).map(|()| SUCCESS), Call::CompleteRestart)
}

/// # Safety
/// `name` is null or a C string.
unsafe fn with_name(
    name: *const c_char,
    act: impl FnOnce(&mut Scr<Table>, &str) -> Result<(), Problem>,
    of: Call,
) -> c_int {
    // SAFETY: the caller's promise.
    let name = unsafe { text(name) };
    let named =
        |scr: &mut Scr<Table>| act(scr, name.ok_or_else(|| missing("the name"))?).map(|()| SUCCESS);
    call(named, of)
}

/// `SCR_Current`
///
/// # Safety
/// `name` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fscr_current(name: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { with_name(name, Scr::current, Call::Current) }
}

/// `SCR_Drop`
///
/// # Safety
/// `name` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fscr_drop(name: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { with_name(name, Scr::drop_entry, Call::Drop) }
}

/// `SCR_Delete`
///
/// # Safety
/// `name` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fscr_delete(name: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { with_name(name, Scr::delete, Call::Delete) }
}
