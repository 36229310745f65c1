// SPDX-License-Identifier: Apache-2.0
//! Waiting for mpirun: it gets the signals that are meant for the job. When a host is lost some
//! mpiruns wait for it, deaf to signals; then the user is told, and a signal ends what they do not.

use anyhow::{Context, Result};
use fermata_coordinator::{Ending, Handle};
use fermata_sysio::tell;
use signal_hook::consts::{SIGHUP, SIGINT, SIGKILL, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(50);
/// Time for an mpirun to end its job by itself: before the user is told of a lost host, and after
/// it has been asked to.
const GRACE: Duration = Duration::from_secs(5);

/// Waits for the end of `child`, an mpirun with the ranks of `job`.
pub fn for_mpirun(mut child: Child, coordinator: &Handle, job: &str) -> Result<ExitStatus> {
    let forwarded = [SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2];
    let mut signals = Signals::new(forwarded).context("cannot watch signals")?;
    let (mut asked, mut lost, mut told) = (None, None, false);
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for mpirun")? {
            return Ok(status);
        }
        for signal in signals.pending() {
            // It may be gone already; then there is nobody to tell.
            let _ = fermata_sysio::send_signal(child.id(), signal);
            if signal != SIGUSR1 && signal != SIGUSR2 {
                asked.get_or_insert_with(Instant::now);
            }
        }
        if let Some(host) = coordinator.lost_host() {
            let since = *lost.get_or_insert_with(Instant::now);
            if since.elapsed() > GRACE && !told {
                told = true;
                tell(format_args!(
                    "host {host} is lost, and mpirun does not end\n  \
                     hint: end it (Ctrl-C), then fermata restart {job} --host HOSTS"
                ));
            }
            if asked.is_some_and(|at| at.elapsed() > GRACE) {
                end_tree(&mut child);
            }
        }
        thread::sleep(TICK);
    }
}

/// Ends a coordinator whose mpirun has ended. It may have to store a snapshot; a signal ends that.
pub fn for_coordinator(coordinator: Handle) -> Result<Ending> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).context("cannot watch signals")?;
    let begun = Instant::now();
    let mut told = false;
    Ok(coordinator.stop(|| {
        if !told && begun.elapsed() > GRACE {
            told = true;
            tell(
                "a snapshot is still being stored, or old ones are being removed\n  \
                 hint: Ctrl-C breaks that off",
            );
        }
        signals.pending().next().is_none()
    }))
}

/// Ends mpirun and what it has started on this host. What it started elsewhere ends there by itself
/// when it finds mpirun gone.
fn end_tree(child: &mut Child) {
    for pid in descendants(child.id()) {
        let _ = fermata_sysio::send_signal(pid, SIGKILL);
    }
    let _ = child.kill();
}

fn descendants(root: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some((pid, parent)) = pid.and_then(|pid| Some((pid, fermata_sysio::parent_of(pid)?)))
        else {
            continue;
        };
        children.entry(parent).or_default().push(pid);
    }
    let (mut found, mut next) = (Vec::new(), vec![root]);
    while let Some(pid) = next.pop() {
        let below = children.remove(&pid).unwrap_or_default();
        found.extend(&below);
        next.extend(below);
    }
    found
}
