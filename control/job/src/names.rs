// SPDX-License-Identifier: Apache-2.0
//! How ranks are named to people: by number, and with their hosts where there are several.

use crate::Machine;
use std::collections::{BTreeMap, BTreeSet};

const RANKS_SHOWN: usize = 8;
const HOSTS_SHOWN: usize = 4;

impl Machine {
    /// "rank 3", with its host where there are several.
    pub(crate) fn name_rank(&self, rank: u32) -> String {
        self.list_by_host(&BTreeSet::from([rank]))
    }

    /// "rank 3 has" / "ranks 1, 2 have", with their hosts where there are several.
    pub(crate) fn name_ranks(&self, ranks: &BTreeSet<u32>) -> String {
        let verb = if ranks.len() == 1 { "has" } else { "have" };
        format!("{} {verb}", self.list_by_host(ranks))
    }

    fn list_by_host(&self, ranks: &BTreeSet<u32>) -> String {
        let all: BTreeSet<&String> = self.hosts.values().collect();
        if all.len() < 2 {
            return list_ranks(ranks);
        }
        let mut by_host: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
        for rank in ranks {
            let host = self.hosts.get(rank).map_or("unknown", String::as_str);
            by_host.entry(host).or_default().insert(*rank);
        }
        let mut parts: Vec<String> = by_host
            .iter()
            .take(HOSTS_SHOWN)
            .map(|(host, ranks)| format!("{} on host {host}", list_ranks(ranks)))
            .collect();
        if by_host.len() > HOSTS_SHOWN {
            parts.push(format!("others on {} more hosts", by_host.len() - HOSTS_SHOWN));
        }
        parts.join(", ")
    }
}

/// "rank 3" / "ranks 1, 2", shortened when there are many.
pub(crate) fn list_ranks(ranks: &BTreeSet<u32>) -> String {
    let list: Vec<String> = ranks.iter().take(RANKS_SHOWN).map(u32::to_string).collect();
    let more = ranks.len().saturating_sub(RANKS_SHOWN);
    match (ranks.len(), more) {
        (1, _) => format!("rank {}", list[0]),
        (_, 0) => format!("ranks {}", list.join(", ")),
        _ => format!("ranks {} and {more} more", list.join(", ")),
    }
}
