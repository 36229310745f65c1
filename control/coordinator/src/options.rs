// SPDX-License-Identifier: Apache-2.0
//! What a coordinator needs to know of its job.

use fermata_levels::{Chain, Groups};
use fermata_plan::pace::Every;
use fermata_seal::Key;
use fermata_storage::JobDir;
use fermata_sysio::Process;
use fermata_types::{Checkpointer, JobEvent, ProgramRecord};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// What a coordinator needs to know of its job.
#[derive(Clone, Debug)]
pub struct Options {
    /// The job's directory; made if it does not exist.
    pub job: JobDir,
    /// Job name.
    pub name: String,
    /// Which run of the job this is, for its history.
    pub run: u32,
    /// Goes into manifests.
    pub argv: Vec<OsString>,
    /// Goes into manifests.
    pub programs: Vec<ProgramRecord>,
    /// Goes into manifests.
    pub front: String,
    /// Goes into manifests.
    pub cwd: String,
    /// The command that continues from the job's newest snapshot, for whoever is told of it.
    pub restart: String,
    /// What saves the ranks.
    pub checkpointer: Checkpointer,
    /// Snapshots to keep.
    pub keep: u32,
    /// When the job saves of itself.
    pub every: Every,
    /// Where the site's service is found, which is asked when to save; `None`: nobody is asked.
    pub site: Option<PathBuf>,
    /// Hosts that the job is on, for the service.
    pub nodes: u32,
    /// End by itself: this long without any agent after one was there, or (six times as long)
    /// without any ever coming. `None`: only when told.
    pub linger: Option<Duration>,
    /// Not before this process has ended: it may be a script that is still to start MPI programs.
    pub outlives: Option<Process>,
    /// The job may have ranks on other hosts: be reachable over the network, for daemons that know
    /// the secret. Without it nothing but a UNIX socket is opened.
    pub network: bool,
    /// The snapshot this run is restored from, for hosts that cannot read it themselves.
    pub restored: Option<PathBuf>,
    /// Who else hears of the events that the job's history gets from here.
    pub told: Option<Sender<JobEvent>>,
    /// Images stay on their hosts, and get from level to level; `None`: they go to the job's
    /// directory.
    pub levels: Option<Chain>,
    /// Which hosts fail together, for sets and partners.
    pub groups: Groups,
    /// What snapshots are sealed with, and this run's own was.
    pub key: Option<Key>,
}
