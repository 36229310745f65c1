// SPDX-License-Identifier: Apache-2.0
//! What hosts may take for what they do behind a running job: levels that are made of snapshots.

use fermata_sysio::Cores;

/// Of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// Bytes a second that it brings from other hosts, or to the job's directory.
    pub level_rate: Option<u64>,
    /// The processors of its daemon.
    pub service_cores: Option<Cores>,
}

impl Behind {
    /// With what this one does not say.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            level_rate: self.level_rate.or(other.level_rate),
            service_cores: self.service_cores.or(other.service_cores),
        }
    }

    /// As options of a command.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let rate = self.level_rate.map(|rate| ["--level-rate".into(), rate.to_string()]);
        let cores = self.service_cores.as_ref();
        let cores = cores.map(|cores| ["--service-cores".into(), cores.to_string()]);
        rate.into_iter().chain(cores).flatten().collect()
    }
}
