// SPDX-License-Identifier: Apache-2.0
//! On which processors a process runs.

use rustix::thread::{CpuSet, sched_setaffinity};
use std::fmt;
use std::io;
use std::str::FromStr;

/// Processors of a host, as taskset(1) lists them: `0,4-7`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores(Vec<usize>);

/// Why a list of processors is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotCores(String);

impl fmt::Display for NotCores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is no list of processors; write 0 or 0,4-7", self.0)
    }
}

impl std::error::Error for NotCores {}

impl Cores {
    /// Has this thread, and those that it makes from now on, run there only.
    ///
    /// # Errors
    /// The host has none of them, or this process may use none of them.
    pub fn use_them(&self) -> io::Result<()> {
        let mut set = CpuSet::new();
        self.0.iter().for_each(|&core| set.set(core));
        Ok(sched_setaffinity(None, &set)?)
    }
}

/// Has this thread, and those that it makes from now on, run wherever this process may: whoever has
/// started it may have been bound to one processor.
///
/// # Errors
/// What the system says.
pub fn use_all_cores() -> io::Result<()> {
    let mut set = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|core| set.set(core));
    Ok(sched_setaffinity(None, &set)?)
}

impl FromStr for Cores {
    type Err = NotCores;

    fn from_str(text: &str) -> Result<Self, NotCores> {
        let not = || NotCores(text.to_owned());
        let core = |word: &str| {
            let core = word.trim().parse::<usize>().ok();
            core.filter(|core| *core < CpuSet::MAX_CPU).ok_or_else(not)
        };
        let mut all = Vec::new();
        for word in text.split(',') {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            let (first, last) = (core(first)?, core(last)?);
            if first > last {
                return Err(not());
            }
            all.extend(first..=last);
        }
        all.sort_unstable();
        all.dedup();
        Ok(Self(all))
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|one, next| one + 1 == *next);
        let words: Vec<String> = runs
            .map(|run| match (run.first(), run.last()) {
                (Some(first), Some(last)) if first != last => format!("{first}-{last}"),
                (Some(only), _) => only.to_string(),
                _ => String::new(),
            })
            .collect();
        f.write_str(&words.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::sched_getaffinity;
    use std::thread;

    #[test]
    fn a_list_is_read_and_said() {
        let said = |text: &str| text.parse::<Cores>().map(|cores| cores.to_string());
        assert_eq!(said("3"), Ok("3".into()));
        assert_eq!(said("7,0, 4-6,5"), Ok("0,4-7".into()));
        for text in ["", "a", "1-", "-1", "3-1", "0,,1", "1024"] {
            assert!(said(text).is_err(), "{text}");
        }
    }

    #[test]
    fn threads_are_bound_and_freed() {
        let bound = thread::spawn(|| {
            let all = sched_getaffinity(None).unwrap();
            let first = (0..CpuSet::MAX_CPU).find(|core| all.is_set(*core)).unwrap();
            first.to_string().parse::<Cores>().unwrap().use_them().unwrap();
            let of_child = thread::spawn(|| sched_getaffinity(None).unwrap().count());
            assert_eq!(of_child.join().unwrap(), 1);
            use_all_cores().unwrap();
            assert_eq!(sched_getaffinity(None).unwrap(), all);
        });
        bound.join().unwrap();
        assert!("1023".parse::<Cores>().unwrap().use_them().is_err());
    }
}
