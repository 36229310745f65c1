// SPDX-License-Identifier: Apache-2.0
//! What a job reads as its standard input: mpirun forwards bytes, and a terminal belongs to whoever
//! is in the foreground.

use crate::mpi::Family;
use fermata_types::{Checkpointer, JobRecord};
use std::fs::{self, File};
use std::io::Seek;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

/// Gives mpirun its standard input. Returns what rank 0 has to read instead, if it is a file.
pub fn give_stdin(
    command: &mut Command,
    record: &JobRecord,
    family: Family,
    restores: bool,
) -> Option<String> {
    // An image has its own standard input.
    let begins = !restores || record.checkpointer == Checkpointer::Itself;
    let file = stdin_file().filter(|_| begins);
    // MPICH's mpirun would read a terminal whose shell has put the job in the background, and be
    // stopped with all of us: as our child it does not see that it may not.
    let stops = family == Family::Mpich && fermata_sysio::is_behind_terminal(std::io::stdin());
    if file.is_some() || stops {
        command.stdin(Stdio::null());
    }
    file
}

/// `OFFSET:PATH` of the file that standard input is. mpirun would forward its bytes through a pipe,
/// in which no restart finds its place again; so rank 0 reads the file itself.
fn stdin_file() -> Option<String> {
    let path = fs::read_link("/proc/self/fd/0").ok()?;
    let mut file = File::from(std::io::stdin().as_fd().try_clone_to_owned().ok()?);
    let (here, there) = (file.metadata().ok()?, fs::metadata(&path).ok()?);
    let same = here.is_file() && (here.dev(), here.ino()) == (there.dev(), there.ino());
    let offset = file.stream_position().ok().filter(|_| same)?;
    Some(format!("{offset}:{}", path.to_str()?))
}
