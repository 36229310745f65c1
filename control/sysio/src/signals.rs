// SPDX-License-Identifier: Apache-2.0
//! Which signals reach a program that is started here. A blocked one stays pending: programs that
//! install handlers of their own, as process managers do, are kept from it as well, which a signal
//! that is ignored does not achieve.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;

/// Has a child begin with these signals blocked. Its children inherit that, unless it says
/// otherwise.
pub fn block_for(command: &mut Command, signals: &[i32]) {
    let set = set_of(signals);
    // SAFETY: between fork and exec it makes one system call, and touches no memory of others.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(move || change(libc::SIG_BLOCK, &set));
    }
}

/// Those of these signals that this process ignores.
pub fn ignored_of(signals: &[i32]) -> Vec<i32> {
    signals.iter().copied().filter(|signal| is_ignored(*signal)).collect()
}

fn is_ignored(signal: i32) -> bool {
    let mut now = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: sigaction(2) without a new action only writes the old one, which is read if it did.
    #[allow(unsafe_code)]
    unsafe {
        libc::sigaction(signal, ptr::null(), now.as_mut_ptr()) == 0
            && now.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Has a child begin with these signals ignored. Its children inherit that, unless it says
/// otherwise.
pub fn ignore_for(command: &mut Command, signals: Vec<i32>) {
    // SAFETY: between fork and exec it makes system calls, and touches no memory of others.
    #[allow(unsafe_code)]
    unsafe {
        command
            .pre_exec(move || signals.iter().try_for_each(|signal| crate::ignore_signal(*signal)));
    }
}

/// Lets these signals reach the calling thread, and whatever program it becomes by exec(3).
///
/// # Errors
/// What pthread_sigmask(3) says.
pub fn unblock(signals: &[i32]) -> io::Result<()> {
    change(libc::SIG_UNBLOCK, &set_of(signals))
}

/// Numbers that are no signals are left out.
fn set_of(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset(3) writes all of the set that it is given; only then is it read.
    #[allow(unsafe_code)]
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}

fn change(how: i32, set: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: the set is whole, and nobody asks for the old one.
    #[allow(unsafe_code)]
    let error = unsafe { libc::pthread_sigmask(how, set, ptr::null_mut()) };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// Ignores SIGUSR1, here and in whatever is started from here: by it MPICH's process manager tells
/// the living ranks of a death.
///
/// # Errors
/// What sigaction(2) says.
pub fn ignore_news() -> io::Result<()> {
    // SAFETY: no handler is installed.
    #[allow(unsafe_code)]
    let before = unsafe { libc::signal(libc::SIGUSR1, libc::SIG_IGN) };
    if before == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_ignores_what_it_is_told_to_ignore() {
        assert!(!is_ignored(libc::SIGKILL));
        let mut command = Command::new("grep");
        command.args(["SigIgn", "/proc/self/status"]);
        ignore_for(&mut command, vec![libc::SIGWINCH]);
        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let mask = u64::from_str_radix(said.split_whitespace().next_back().unwrap(), 16).unwrap();
        assert_ne!(mask >> (libc::SIGWINCH - 1) & 1, 0, "{said}");
    }

    /// What a child says of its blocked signals.
    fn blocked(signals: &[i32]) -> u64 {
        let mut command = Command::new("grep");
        command.args(["SigBlk", "/proc/self/status"]);
        block_for(&mut command, signals);
        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
        u64::from_str_radix(said.split_whitespace().nth(1).unwrap(), 16).unwrap()
    }

    #[test]
    fn a_child_begins_with_these_signals_blocked_and_no_others() {
        let bit = |signal: i32| 1u64 << (signal - 1);
        let before = blocked(&[]);
        assert_eq!(blocked(&[libc::SIGTERM, libc::SIGUSR1]), before | bit(15) | bit(10));
        assert_eq!(blocked(&[-1, 4096]), before, "no signals");
    }
}
