// SPDX-License-Identifier: Apache-2.0
//! The hosts of a job as `fermata nodes` shows them: which ranks they have, and how they fare. The
//! coordinator looks at its own; daemons tell of theirs by the membership.

use crate::members::Members;
use fermata_job::RankView;
use fermata_membership::Load;
use fermata_sysio::{HostLoad, LoadMeter, host_name};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const MIB: u64 = 1 << 20;

/// How hosts fare.
pub(crate) struct Hosts {
    own: LoadMeter,
    members: Option<Arc<Members>>,
}

impl Hosts {
    /// `directory`: the job's.
    pub(crate) fn new(directory: &Path, members: Option<Arc<Members>>) -> Self {
        Self { own: LoadMeter::new(directory), members }
    }

    /// The hosts of these ranks, in the order of their lowest ranks. Blocks as the file system
    /// does, and for a second at most for the membership.
    pub(crate) fn figures(&mut self, ranks: &[RankView]) -> Value {
        let mut loads: BTreeMap<String, HostLoad> =
            self.members.as_ref().map_or_else(BTreeMap::new, |members| members.loads());
        loads.insert(host_name(), self.own.look());
        let mut hosts: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for view in ranks {
            let there = hosts.entry(&view.host).or_default();
            there.extend(view.rank);
        }
        let mut hosts: Vec<(&str, Vec<u32>)> = hosts.into_iter().collect();
        for (_, ranks) in &mut hosts {
            ranks.sort_unstable();
        }
        // Hosts whose ranks have not begun come last.
        hosts.sort_by_key(|(_, ranks)| ranks.first().copied().unwrap_or(u32::MAX));
        let value = |(host, ranks): &(&str, Vec<u32>)| {
            let load = loads.get(*host).copied().unwrap_or_default();
            json!({ "host": host, "ranks": ranks, "cpu": load.cpu, "memory": load.memory,
                    "space": load.space })
        };
        hosts.iter().map(value).collect()
    }
}

/// As a daemon has told it; zero where its kernel did not.
pub(crate) fn told(load: Load) -> HostLoad {
    let bytes = |mib: u32| Some(u64::from(mib) * MIB).filter(|bytes| *bytes != 0);
    HostLoad {
        cpu: Some(f64::from(load.cpu) / 1000.0),
        memory: bytes(load.memory_mib),
        space: bytes(load.space_mib),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_in_the_order_of_their_ranks() {
        let view = |rank, host: &str| RankView { rank, pid: 1, host: host.into(), state: "ready" };
        let ranks = [
            view(Some(3), "a"),
            view(Some(0), "b"),
            view(Some(2), "b"),
            view(None, "c"),
            view(Some(1), "a"),
        ];
        let figures = Hosts::new(Path::new("/"), None).figures(&ranks);
        let told: Vec<(&str, &Value)> = figures
            .as_array()
            .unwrap()
            .iter()
            .map(|host| (host["host"].as_str().unwrap(), &host["ranks"]))
            .collect();
        assert_eq!(told, [("b", &json!([0, 2])), ("a", &json!([1, 3])), ("c", &json!([]))]);
    }
}
