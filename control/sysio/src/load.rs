// SPDX-License-Identifier: Apache-2.0
//! How this host fares: its processors, its memory, the disk below a directory.

use std::fs;
use std::path::{Path, PathBuf};

/// What the kernel tells; `None` where it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostLoad {
    /// Of all processors together, the share that was not idle since the look before.
    pub cpu: Option<f64>,
    /// Memory that programs can have, bytes.
    pub memory: Option<u64>,
    /// Free space of the disk, bytes.
    pub space: Option<u64>,
}

/// Looks at this host again and again.
#[derive(Debug)]
pub struct LoadMeter {
    directory: PathBuf,
    last: Option<Ticks>,
}

/// Of all processors since the system began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    idle: u64,
    all: u64,
}

impl LoadMeter {
    /// `directory`: of the disk that counts.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), last: ticks() }
    }

    /// As it is now. Reads /proc, and asks the file system, which may block.
    pub fn look(&mut self) -> HostLoad {
        let (before, now) = (self.last, ticks());
        self.last = now.or(before);
        HostLoad {
            cpu: before.zip(now).and_then(|(before, now)| busy(before, now)),
            memory: fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text)),
            space: rustix::fs::statvfs(&self.directory)
                .ok()
                .map(|found| found.f_bavail.saturating_mul(found.f_frsize)),
        }
    }
}

fn ticks() -> Option<Ticks> {
    parsed(&fs::read_to_string("/proc/stat").ok()?)
}

/// proc(5): `cpu user nice system idle iowait irq softirq steal guest guest_nice`; the last two are
/// in the first two as well.
fn parsed(stat: &str) -> Option<Ticks> {
    const COUNTED: usize = 8;
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let numbers: Option<Vec<u64>> =
        line.split_whitespace().take(COUNTED).map(|word| word.parse().ok()).collect();
    let numbers = numbers?;
    let idle = numbers.get(3)? + numbers.get(4)?;
    Some(Ticks { idle, all: numbers.iter().sum() })
}

/// `None`: no time has passed.
fn busy(before: Ticks, now: Ticks) -> Option<f64> {
    let all = now.all.checked_sub(before.all).filter(|all| *all > 0)?;
    let idle = now.idle.saturating_sub(before.idle).min(all);
    Some(1.0 - idle as f64 / all as f64)
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_of_what_has_passed() {
        let before = parsed("cpu  10 0 10 70 10 0 0 0 5 0\ncpu0 1 2\n").unwrap();
        assert_eq!(before, Ticks { idle: 80, all: 100 });
        let now = parsed("cpu  85 0 10 90 15 0 0 0 5 0\n").unwrap();
        assert_eq!(busy(before, now), Some(0.75));
        assert_eq!(busy(now, now), None);
        assert_eq!(parsed("cpu0 1 2 3\n"), None);
        assert_eq!(parsed("cpu 1 x 3 4 5\n"), None);
    }

    #[test]
    fn this_host_tells_all_of_it() {
        let mut meter = LoadMeter::new(Path::new("/"));
        std::thread::sleep(std::time::Duration::from_millis(50));
        let load = meter.look();
        assert!(load.cpu.is_none_or(|cpu| (0.0..=1.0).contains(&cpu)), "{load:?}");
        assert!(load.memory.is_some_and(|bytes| bytes > 1 << 20), "{load:?}");
        assert!(load.space.is_some(), "{load:?}");
    }
}
