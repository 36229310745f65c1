// SPDX-License-Identifier: Apache-2.0
//! How a job is to run: what its user says, or what it last ran with.

use crate::behind::Behind;
use crate::hosts::{self, Hosts};
use anyhow::Result;
use fermata_levels::{Chain, Groups};
use fermata_policy::signals::SaveOn;
use fermata_types::{Checkpointer, Every};
use std::path::PathBuf;

/// Snapshots kept when nobody says.
pub const KEEP_DEFAULT: u32 = 2;

/// What `run` and `restart` have in common.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// Name of the registered MPI to run on.
    pub mpi: Option<String>,
    /// How often the job is saved of itself; `None`: as it was started with.
    pub every: Option<Every>,
    /// What fails how often, for `Every::Auto`: a file of `fermata plan`.
    pub machine: Option<PathBuf>,
    /// Where the site's service is found, which is asked when to save; `None`: as the job was
    /// started with.
    pub site: Option<PathBuf>,
    /// Snapshots to keep; `None`: as the job was started with, else 2.
    pub keep: Option<u32>,
    /// What saves the ranks; at a restart the snapshot knows.
    pub checkpointer: Checkpointer,
    /// Hosts as given, `NAME` or `NAME:RANKS`; none = this one.
    pub hosts: Vec<String>,
    /// A file of them.
    pub hostfile: Option<PathBuf>,
    /// What mpirun starts commands on other hosts with.
    pub remote_shell: Option<String>,
    /// Each host's own directory for images.
    pub local_dir: Option<PathBuf>,
    /// Snapshots stay on the hosts, and get from level to level.
    pub levels: Option<Chain>,
    /// What hosts may take for making levels.
    pub behind: Behind,
    /// Which hosts fail together, as the site says.
    pub groups: Groups,
    /// Arguments for mpirun itself.
    pub mpirun_args: Vec<String>,
    /// What makes collective calls whole; a restart continues with what the image has.
    pub collectives: String,
    /// Files whose contents are saved; a restart continues with what the image has.
    pub save_files: SaveFiles,
    /// Images are encrypted; a restart continues as the image is.
    pub encrypt: bool,
    /// Ranks may die while the others continue.
    pub survive: bool,
    /// Signals that save and stop the job.
    pub save_on: SaveOn,
    /// After a death the job is begun again.
    pub is_begun_again: bool,
}

/// Which files are saved with their contents.
#[derive(Clone, Debug)]
pub struct SaveFiles {
    /// As `kept::parse_which` makes it; `None`: as the environment says.
    pub which: Option<String>,
    /// The most bytes of a rank.
    pub limit: u64,
}

impl Default for SaveFiles {
    fn default() -> Self {
        Self { which: None, limit: 1 << 30 }
    }
}

impl Start {
    /// The hosts that were given, if any, and whether they can do what is asked of them.
    pub fn hosts(&self, ranks: u32, checkpointer: Checkpointer) -> Result<Option<Hosts>> {
        let hosts = Hosts::from(&self.hosts, self.hostfile.as_deref(), ranks)?;
        hosts::check_shares(checkpointer, self.local_dir.as_deref())?;
        if let Some(chain) = &self.levels {
            hosts::check_levels(chain, self.local_dir.as_deref(), hosts.as_ref())?;
        }
        Ok(hosts)
    }

    /// How many hosts it runs on, if anybody has named them, and their number is known. A list that
    /// can be read but once, a pipe of the shell's, is left for whoever starts the job.
    pub fn count_of_hosts(&self) -> Option<u32> {
        let file = self.hostfile.as_deref();
        if file.is_some_and(|path| !path.is_file()) {
            return None;
        }
        match Hosts::from(&self.hosts, file, u32::MAX) {
            Ok(Some(hosts)) => u32::try_from(hosts.all().len()).ok(),
            _ => hosts::batch_system_count(),
        }
    }

    /// Whether ranks may be on other hosts, also on those that only mpirun knows of.
    pub fn spans_hosts(&self) -> bool {
        !self.hosts.is_empty()
            || self.hostfile.is_some()
            || self.local_dir.is_some()
            || !self.mpirun_args.is_empty()
            || hosts::batch_system_has_several()
    }
}
