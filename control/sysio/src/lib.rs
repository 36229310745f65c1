// SPDX-License-Identifier: Apache-2.0
//! What the control plane asks the kernel beyond the standard library. The only crate that may hold
//! `unsafe`; rustix's safe functions are enough for nearly all of it.

mod cores;
mod load;
mod log;
pub mod signals;

pub use cores::{Cores, NotCores, use_all_cores};
pub use load::{HostLoad, LoadMeter};
pub use log::Log;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

/// Tells the user on standard error. Whether anybody takes it must not matter to what continues
/// here: the reader of a pipe may be gone, or the disk full.
pub fn print_error(text: impl fmt::Display) {
    let line = format!("fermata: {}\n", printable(&text.to_string()));
    let _ = io::stderr().write_all(line.as_bytes());
}

/// The text with its control characters spelled out, but for line feeds and tabs: names, answers
/// and messages may be others', and a terminal obeys what it is sent.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let spell = |c: char| if is_obeyed(c) { c.escape_unicode().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(spell).collect())
}

/// The user id of the process at the other end of a UNIX socket.
///
/// # Errors
/// What getsockopt(2) says.
pub fn peer_uid(socket: impl AsFd) -> io::Result<u32> {
    Ok(rustix::net::sockopt::socket_peercred(socket)?.uid.as_raw())
}

/// Lets accept(2) and the like fail with `WouldBlock` when nothing has come for this long.
///
/// # Errors
/// What setsockopt(2) says.
pub fn set_receive_timeout(socket: impl AsFd, timeout: Duration) -> io::Result<()> {
    use rustix::net::sockopt::{Timeout, set_socket_timeout};
    Ok(set_socket_timeout(socket, Timeout::Recv, Some(timeout))?)
}

/// Bytes that nobody can guess.
///
/// # Errors
/// The system has no randomness.
pub fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(bytes)
}

/// The effective user id.
#[must_use]
pub fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Leaves the session of the terminal, so that its end does not reach this process.
///
/// # Errors
/// What setsid(2) says (the process leads a group already).
pub fn leave_session() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// Closes every descriptor above the standard streams that a parent left open. A process that
/// stays behind must not hold a process manager's pipes: they tell it that a rank has ended.
///
/// Call it first in a program, before anything is opened: descriptors that somebody owns would be
/// closed too.
pub fn close_inherited_descriptors() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<i32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for fd in open.into_iter().filter(|fd| *fd > 2) {
        // One is the listing's own, closed already: EBADF says so and is of no interest.
        // SAFETY: by the contract above nobody in this process owns any of them.
        #[allow(unsafe_code)]
        unsafe {
            rustix::io::close(fd);
        }
    }
}

/// Takes the exclusive lock of a file if nobody has it; it ends with the file.
///
/// # Errors
/// `WouldBlock` if somebody has it, or what flock(2) says.
pub fn try_lock(file: &std::fs::File) -> io::Result<()> {
    rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
    Ok(())
}

/// Takes the shared lock of a file if nobody has the exclusive one; it ends with the file.
///
/// # Errors
/// `WouldBlock` if somebody has it, or what flock(2) says.
pub fn try_lock_shared(file: &std::fs::File) -> io::Result<()> {
    rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockShared)?;
    Ok(())
}

/// Whether this answer to `try_lock` means that the file system has no such locks.
#[must_use]
pub fn has_no_locks(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let none = [Errno::NOSYS, Errno::OPNOTSUPP, Errno::NOLCK];
    Errno::from_io_error(error).is_some_and(|errno| none.contains(&errno))
}

/// Who has a lock of fcntl(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// `None`: on another host.
    pub pid: Option<u32>,
}

/// Who holds a lock of fcntl(2) on this byte of a file.
///
/// # Errors
/// What fcntl(2) says.
pub fn lock_holder(file: impl AsFd, byte: u64) -> io::Result<Option<Holder>> {
    use rustix::process::{Flock, FlockType, fcntl_getlk};
    let wish = Flock { start: byte, length: 1, ..Flock::from(FlockType::WriteLock) };
    let pid = |found: Flock| found.pid.and_then(|pid| u32::try_from(pid.as_raw_pid()).ok());
    Ok(fcntl_getlk(file, &wish)?.map(|found| Holder { pid: pid(found) }))
}

/// A process of this host. Process ids come again; together with the time of the start they do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pid: u32,
    /// In ticks since the host was started; 0 if it is not known.
    begun: u64,
}

impl Process {
    /// The process that has this id now.
    #[must_use]
    pub fn of(pid: u32) -> Self {
        Self { pid, begun: look_at(pid).map_or(0, |(_, begun)| begun) }
    }

    /// Whether it has not ended yet. One that nobody has waited for has.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        look_at(self.pid)
            .is_some_and(|(state, begun)| begun == self.begun && !matches!(state, 'Z' | 'X'))
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.pid, self.begun)
    }
}

impl FromStr for Process {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (pid, begun) = text.split_once('.')?;
            Some(Self { pid: pid.parse().ok()?, begun: begun.parse().ok()? })
        };
        parse().ok_or_else(|| format!("'{text}' is not PID.START"))
    }
}

/// The fields of a process's stat behind its name, from the third one on. The name is bytes of any
/// kind, brackets and half of a character included: it is the program's, cut after 15 bytes.
fn stat_behind_the_name(pid: u32) -> Option<String> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    String::from_utf8(stat[end + 1..].to_vec()).ok()
}

/// State and start of a process: fields 3 and 22 of its stat.
fn look_at(pid: u32) -> Option<(char, u64)> {
    let stat = stat_behind_the_name(pid)?;
    let mut words = stat.split_whitespace();
    Some((words.next()?.chars().next()?, words.nth(18)?.parse().ok()?))
}

/// Whether the keys of the terminal that standard error goes to reach this process.
#[must_use]
pub fn is_in_foreground() -> bool {
    let foreground = rustix::termios::tcgetpgrp(io::stderr());
    foreground.is_ok_and(|group| group == rustix::process::getpgrp())
}

/// The parent of a process.
#[must_use]
pub fn parent_of(pid: u32) -> Option<u32> {
    stat_behind_the_name(pid)?.split_whitespace().nth(1)?.parse().ok()
}

/// Whether a process is stopped by a signal, or has ended: it starts no other.
#[must_use]
pub fn has_stopped(pid: u32) -> bool {
    look_at(pid).is_none_or(|(state, _)| matches!(state, 'T' | 't' | 'Z' | 'X'))
}

/// The children of a process that have not ended; none where the kernel does not list them
/// (`CONFIG_PROC_CHILDREN`).
#[must_use]
pub fn living_children(parent: u32) -> BTreeSet<u32> {
    let threads = std::fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let pids: Vec<u32> = lists
        .flat_map(|list| list.split_whitespace().map(str::parse).collect::<Vec<_>>())
        .flatten()
        .collect();
    let lives = |pid: &u32| look_at(*pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'));
    pids.into_iter().filter(lives).collect()
}

/// Whether this is a terminal whose shell has put this process in the background: who reads it is
/// stopped.
#[must_use]
pub fn is_behind_terminal(stream: impl AsFd) -> bool {
    let front = rustix::termios::tcgetpgrp(stream);
    front.is_ok_and(|group| group != rustix::process::getpgrp())
}

/// Gives a variable of this process a value, or takes it away.
///
/// Call it first in a program, before there is another thread: those may be reading.
pub fn set_variable(name: &str, value: Option<&OsStr>) {
    // SAFETY: by the contract above no other thread reads or writes the environment.
    #[allow(unsafe_code)]
    unsafe {
        match value {
            Some(value) => std::env::set_var(name, value),
            None => std::env::remove_var(name),
        }
    }
}

#[allow(unsafe_code)]
// SAFETY: as in signal.h; a small number for a handler names no code of ours.
unsafe extern "C" {
    /// signal(2). The handler is an address, or one of two small numbers.
    safe fn signal(number: i32, handler: usize) -> usize;
}

/// From here on this process ignores a signal, and so does what it executes.
///
/// # Errors
/// There is no such signal, or it cannot be ignored.
pub fn ignore_signal(number: i32) -> io::Result<()> {
    const SIG_IGN: usize = 1;
    const SIG_ERR: usize = usize::MAX;
    if signal(number, SIG_IGN) == SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Sends a signal by number to one process.
///
/// # Errors
/// An unknown signal, or what kill(2) says.
pub fn send_signal(pid: u32, signal: i32) -> io::Result<()> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let pid =
        i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).ok_or_else(invalid)?;
    let signal = rustix::process::Signal::from_named_raw(signal).ok_or_else(invalid)?;
    rustix::process::kill_process(pid, signal)?;
    Ok(())
}

/// Makes the kernel end a TCP connection whose peer has acknowledged nothing for `limit`, whether
/// we are sending or only listening.
///
/// # Errors
/// What setsockopt(2) says.
pub fn notice_silence(socket: impl AsFd, limit: Duration) -> io::Result<()> {
    use rustix::net::sockopt;
    let probe = limit / 5;
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, limit - probe * 3)?;
    sockopt::set_tcp_keepintvl(&socket, probe)?;
    sockopt::set_tcp_keepcnt(&socket, 3)?;
    bear_silence(socket, limit)
}

/// How long the peer of a TCP connection may take nothing of what we send, also if it only has no
/// room for it.
///
/// # Errors
/// What setsockopt(2) says.
pub fn bear_silence(socket: impl AsFd, limit: Duration) -> io::Result<()> {
    let limit_ms = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
    rustix::net::sockopt::set_tcp_user_timeout(&socket, limit_ms)?;
    Ok(())
}

/// How many files a process may have open: the soft limit, and the hard one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLimit(rustix::process::Rlimit);

impl FileLimit {
    /// That of this process.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self(rustix::process::getrlimit(rustix::process::Resource::Nofile))
    }

    /// Lets this process have as many as it may. Its children inherit that; see `give_to`.
    pub fn raise() {
        let now = Self::of_this_process().0;
        let most = rustix::process::Rlimit { current: now.maximum, ..now };
        // If it is refused the old one stays.
        let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, most);
    }

    /// Has a child begin with this limit.
    pub fn give_to(self, command: &mut std::process::Command) {
        use std::os::unix::process::CommandExt;
        let set = move || {
            rustix::process::setrlimit(rustix::process::Resource::Nofile, self.0)?;
            Ok(())
        };
        // SAFETY: between fork and exec it makes one system call, and touches no memory of others.
        #[allow(unsafe_code)]
        unsafe {
            command.pre_exec(set);
        }
    }
}

/// How much address space a process may have; `None`: all there is.
#[must_use]
pub fn address_space_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::As).current
}

/// Makes names in a directory durable.
///
/// # Errors
/// What open(2) or fsync(2) says.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    std::fs::File::open(path)?.sync_all()
}

/// Gives each of two files the other's name, at once.
///
/// # Errors
/// What renameat2(2) says: some file systems, NFS among them, cannot.
pub fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    let here = rustix::fs::CWD;
    Ok(rustix::fs::renameat_with(here, one, here, other, rustix::fs::RenameFlags::EXCHANGE)?)
}

/// Renames a file to a name that must not be taken yet.
///
/// # Errors
/// `AlreadyExists`, or what renameat2(2) says.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    let here = rustix::fs::CWD;
    rustix::fs::renameat_with(here, from, here, to, rustix::fs::RenameFlags::NOREPLACE)?;
    Ok(())
}

/// Whether user code may write the FS and GS bases (AT_HWCAP2 bit 1).
#[must_use]
pub fn has_fsgsbase() -> bool {
    rustix::param::linux_hwcap().1 & 2 != 0
}

/// Whether membarrier(2) has the private expedited command.
#[must_use]
pub fn has_private_membarrier() -> bool {
    rustix::thread::membarrier_query()
        .contains(rustix::thread::MembarrierQuery::REGISTER_PRIVATE_EXPEDITED)
}

/// Whether this process may make files in a directory (access(2), so a read-only mount counts).
#[must_use]
pub fn is_writable(dir: &Path) -> bool {
    let wanted = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::access(dir, wanted).is_ok()
}

/// Kind of the file system a path is on, and the bytes its users may still write there.
///
/// # Errors
/// What statfs(2) says.
pub fn file_system(path: &Path) -> io::Result<(&'static str, u64)> {
    let info = rustix::fs::statfs(path)?;
    // Numbers of linux/magic.h.
    let kind = match info.f_type {
        0x0102_1994 => "tmpfs",
        0x6969 => "nfs",
        0xef53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0x794c_7630 => "overlayfs",
        0x0bd0_0bd0 => "lustre",
        _ => "another file system",
    };
    let block = u64::try_from(info.f_bsize).unwrap_or(0);
    Ok((kind, info.f_bavail.saturating_mul(block)))
}

/// Kernel release, as in `uname -r`.
#[must_use]
pub fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// This host's name.
#[must_use]
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_id_that_came_again_is_another_process() {
        let here = Process::of(std::process::id());
        assert!(here.is_alive());
        assert_eq!(here.to_string().parse(), Ok(here));
        let earlier = Process { begun: here.begun - 1, ..here };
        assert!(!earlier.is_alive());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let ended = Process::of(child.id());
        child.wait().unwrap();
        assert!(!ended.is_alive());
    }

    #[test]
    fn a_child_that_has_ended_is_none_of_the_living_ones() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let is_there = || living_children(std::process::id()).contains(&child.id());
        assert!(is_there());
        send_signal(child.id(), 9).unwrap();
        let until = std::time::Instant::now() + Duration::from_secs(10);
        while is_there() && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!is_there(), "nobody has waited for it so far");
        child.wait().unwrap();
    }

    #[test]
    fn a_process_may_be_called_anything() {
        let here = std::process::id();
        for name in [&b"half \xc3"[..], b") S 1 (", b"two\nlines"] {
            std::fs::write("/proc/self/comm", name).unwrap();
            assert!(Process::of(here).is_alive(), "{name:?}");
            assert_eq!(parent_of(here), Some(std::os::unix::process::parent_id()), "{name:?}");
        }
    }

    #[test]
    fn a_child_gets_the_limit_it_is_given() {
        let old = FileLimit::of_this_process();
        let few = FileLimit(rustix::process::Rlimit { current: Some(100), ..old.0 });
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "ulimit -S -n"]);
        few.give_to(&mut command);
        FileLimit::raise();
        let now = FileLimit::of_this_process().0;
        assert_eq!(now.current, now.maximum);
        assert_eq!(command.output().unwrap().stdout, b"100\n");
    }
}
