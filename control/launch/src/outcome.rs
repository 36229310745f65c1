// SPDX-License-Identifier: Apache-2.0
//! What an mpirun's exit code means: the program's own word, a signal that a rank has died of, or
//! that mpirun has failed.
//!
//! Open MPI adds 128 to the signal, and its own errors are negative numbers, which end up above
//! those. hydra tells a signal by its bare number, which a program may have ended itself with: such
//! a code is taken for the signal, of those that kill a process from outside or for its faults.

use crate::mpi::Family;

/// What a code means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The program has ended itself with it.
    Program(i32),
    /// A rank has died of this signal.
    Signal(i32),
    /// mpirun has failed.
    Launcher(i32),
}

/// Signals are told by adding this.
const SIGNALLED: i32 = 128;
const SIGNAL_MAX: i32 = 64;
/// SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGSEGV, SIGTERM, SIGSYS.
const BARE: [i32; 9] = [4, 5, 6, 7, 8, 9, 11, 15, 31];

/// Of the exit code of an mpirun of this family.
#[must_use]
pub fn meaning(family: Family, code: i32) -> Meaning {
    match (family, code) {
        (_, code) if (SIGNALLED + 1..=SIGNALLED + SIGNAL_MAX).contains(&code) => {
            Meaning::Signal(code - SIGNALLED)
        }
        (_, code) if !(0..=SIGNALLED + SIGNAL_MAX).contains(&code) => Meaning::Launcher(code),
        (Family::Mpich, code) if BARE.contains(&code) => Meaning::Signal(code),
        (_, code) => Meaning::Program(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As seen of Open MPI 4.1.4 and MPICH 4.0.2.
    #[test]
    fn codes_mean_what_was_seen() {
        let open_mpi = |code| meaning(Family::OpenMpi, code);
        let mpich = |code| meaning(Family::Mpich, code);
        assert_eq!((open_mpi(137), mpich(9)), (Meaning::Signal(9), Meaning::Signal(9)));
        assert_eq!((open_mpi(139), mpich(11)), (Meaning::Signal(11), Meaning::Signal(11)));
        assert_eq!((open_mpi(3), mpich(3)), (Meaning::Program(3), Meaning::Program(3)));
        assert_eq!((open_mpi(9), mpich(137)), (Meaning::Program(9), Meaning::Signal(9)));
        assert_eq!((open_mpi(205), mpich(255)), (Meaning::Launcher(205), Meaning::Launcher(255)));
        assert_eq!((open_mpi(1), open_mpi(0)), (Meaning::Program(1), Meaning::Program(0)));
    }
}
