// SPDX-License-Identifier: Apache-2.0
//! A job whose ranks may die while the others continue (`--survive`): what its mpirun is told, and
//! what stands between mpirun and each rank.
//!
//! Open MPI's mpirun has an option, and then calls every end a good one. MPICH's ends all ranks of
//! a host when a child of its proxy dies by a signal, whatever it is told, and sends SIGUSR1 to the
//! others. So the child is not the rank, but a process that waits for it, outlives that signal, and
//! leaves word in the job's directory if the rank has ended with 0.

use crate::mpi::Family;
use anyhow::{Context, Result};
use fermata_storage::JobDir;
use std::process::Command;

/// What a process has died of, as shells say it: 128 and the signal.
const SIGNALLED: i32 = 128;

/// After so many seconds Open MPI's mpirun asks whether a silent host is still there, and ends the
/// job if it is not; 0: never. What it is told among its arguments holds.
const KEEPALIVE: &str = "OMPI_MCA_oob_tcp_keepalive_time";

/// Has the ranks of an mpirun of this family outlive each other, as far as that can be said.
pub fn tell(mpirun: &mut Command, family: Family) {
    mpirun.arg(match family {
        Family::OpenMpi => "--enable-recovery",
        Family::Mpich => "-disable-auto-cleanup",
    });
    if family == Family::OpenMpi && std::env::var_os(KEEPALIVE).is_none() {
        mpirun.env(KEEPALIVE, "0");
    }
}

/// Runs a rank beside this process until it ends. Returns the code to end with.
///
/// # Errors
/// It cannot be started.
pub fn run_beside(rank: &mut Command, number: u32, job: &JobDir) -> Result<i32> {
    fermata_sysio::signals::ignore_news().context("cannot ignore SIGUSR1")?;
    let status = rank.status().context("cannot start the rank")?;
    let code = status.code().unwrap_or(SIGNALLED);
    if code == 0 {
        // Without it the rank counts as one that has died.
        let _ = job.leave_word(number);
    }
    Ok(if code < SIGNALLED { code } else { 0 })
}
