// SPDX-License-Identifier: Apache-2.0
//! Faults at named points (`spec/faults.toml`): what `FERMATA_FAULT` has armed happens when the
//! point is met. With nothing armed a point costs a load and a test.

mod points_gen;

use fermata_sysio::{print_error, send_signal};
pub use points_gen::{Action, Fault};
use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// Where faults are armed: `POINT[@RANK][#NTH]=ACTION[:VALUE]`, several with commas.
pub const VARIABLE: &str = "FERMATA_FAULT";
/// As many as the runtime takes (`sys/faults.h`).
const CAPACITY: usize = 8;
const SIGKILL: i32 = 9;

/// One fault.
#[derive(Debug)]
struct Armed {
    point: Fault,
    action: Action,
    /// Of sleep: ms; of error: the errno.
    value: i32,
    /// Left until it happens, which it does once.
    meetings: AtomicU32,
}

/// What is left for the caller of [`fault`] to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Continue.
    Nothing,
    /// Let the system call that comes next fail like this.
    Error(i32),
    /// One of the others, as far as it makes sense there.
    Act(Action),
}

/// Refuses what names no point, no action, or makes no sense, with a list of what there is.
///
/// # Errors
/// What is wrong with it.
pub fn check() -> Result<(), String> {
    parse(&std::env::var(VARIABLE).unwrap_or_default()).map(|_| ())
}

fn parse(text: &str) -> Result<Vec<Armed>, String> {
    let list: Vec<Armed> =
        text.split(',').filter(|word| !word.is_empty()).map(parse_one).collect::<Result<_, _>>()?;
    if list.len() > CAPACITY {
        return Err(format!("{VARIABLE} arms {} faults, {CAPACITY} are the most", list.len()));
    }
    Ok(list)
}

fn parse_one(word: &str) -> Result<Armed, String> {
    let shape = || format!("{VARIABLE}: '{word}' is not POINT[@RANK][#NTH]=ACTION[:VALUE]");
    let (place, what) = word.split_once('=').ok_or_else(shape)?;
    let (place, nth) = place.split_once('#').unwrap_or((place, "1"));
    let (point, rank) = place.split_once('@').map_or((place, None), |(p, rank)| (p, Some(rank)));
    let (action, value) = what.split_once(':').unwrap_or((what, "0"));
    let point = named(Fault::ALL, "point", point)?;
    let action = named(Action::ALL, "action", action)?;
    let meetings: u32 = nth.parse().ok().filter(|nth| *nth > 0).ok_or_else(shape)?;
    let value: i32 = value.parse().ok().filter(|value| *value >= 0).ok_or_else(shape)?;
    if rank.is_some_and(|rank| rank.parse::<u32>().is_err()) {
        return Err(shape());
    }
    if matches!(action, Action::Sleep | Action::Error) != (value > 0) {
        return Err(format!("{VARIABLE}: '{word}': sleep:MS and error:ERRNO take a value"));
    }
    Ok(Armed { point, action, value, meetings: AtomicU32::new(meetings) })
}

fn named<T: Copy>(all: &[(&str, T)], what: &str, name: &str) -> Result<T, String> {
    all.iter().find(|(known, _)| *known == name).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(known, _)| *known).collect();
        format!("{VARIABLE}: there is no {what} '{name}'; there are: {}", names.join(", "))
    })
}

fn armed() -> &'static [Armed] {
    static ARMED: OnceLock<Vec<Armed>> = OnceLock::new();
    ARMED.get_or_init(|| parse(&std::env::var(VARIABLE).unwrap_or_default()).unwrap_or_default())
}

/// To be called at every point. Kill and sleep are seen to here.
pub fn fault(point: Fault) -> Effect {
    for fault in armed() {
        if fault.point == point && fault.meetings.fetch_sub(1, Ordering::Relaxed) == 1 {
            return happen(fault);
        }
    }
    Effect::Nothing
}

fn happen(fault: &Armed) -> Effect {
    let (point, action) = (name_in(Fault::ALL, fault.point), name_in(Action::ALL, fault.action));
    print_error(format_args!("fault: {point}={action}"));
    match fault.action {
        Action::Kill => {
            let _ = send_signal(std::process::id(), SIGKILL);
            Effect::Nothing
        }
        Action::Sleep => {
            thread::sleep(Duration::from_millis(u64::from(fault.value.unsigned_abs())));
            Effect::Nothing
        }
        Action::Error => Effect::Error(fault.value),
        action => Effect::Act(action),
    }
}

fn name_in<T: PartialEq + Copy>(all: &[(&'static str, T)], value: T) -> &'static str {
    all.iter().find(|(_, known)| *known == value).map_or("", |(name, _)| name)
}

/// A point before a system call.
///
/// # Errors
/// The one that is armed.
pub fn failing(point: Fault) -> io::Result<()> {
    match fault(point) {
        Effect::Error(errno) => Err(io::Error::from_raw_os_error(errno)),
        _ => Ok(()),
    }
}

/// A writer with a point before its first write, which is the one that fails, is short or flips a
/// bit. What a short write leaves is the caller's to continue with.
#[derive(Debug)]
pub struct Writing<W> {
    point: Option<Fault>,
    out: W,
}

impl<W: Write> Writing<W> {
    /// What is written to this goes to `out`.
    pub const fn new(point: Fault, out: W) -> Self {
        Self { point: Some(point), out }
    }
}

impl<W: Write> Write for Writing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.point.take().map_or(Effect::Nothing, fault) {
            Effect::Error(errno) => Err(io::Error::from_raw_os_error(errno)),
            Effect::Act(Action::Flip) => {
                let mut damaged = bytes.to_vec();
                if let Some(byte) = damaged.get_mut(bytes.len() / 2) {
                    *byte ^= 0x10;
                }
                self.out.write(&damaged)
            }
            Effect::Act(Action::Short) => self.out.write(&bytes[..bytes.len().min(1)]),
            _ => self.out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_taken_apart() {
        let list = parse("writer-pages@1#3=error:28,commit-rename=kill").unwrap();
        assert_eq!(list.len(), 2);
        assert_eq!((list[0].point, list[0].action), (Fault::WriterPages, Action::Error));
        assert_eq!((list[0].value, list[0].meetings.load(Ordering::Relaxed)), (28, 3));
        assert_eq!((list[1].point, list[1].action), (Fault::CommitRename, Action::Kill));
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn nonsense_is_refused_with_the_names_there_are() {
        let unknown = parse("writer-page=kill").unwrap_err();
        assert!(
            unknown.contains("'writer-page'") && unknown.contains("commit-rename"),
            "{unknown}"
        );
        assert!(parse("commit-rename=explode").unwrap_err().contains("there are: kill"));
        for wrong in
            ["commit-rename", "commit-rename@x=kill", "commit-rename#0=kill", "commit-rename=sleep"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
