// SPDX-License-Identifier: Apache-2.0
//! What a checkpoint costs on each level, estimated from bytes and bandwidths; once a job has made
//! some, what it has measured takes the place of these (`follow`).

use crate::placement::Kind;

/// Bytes per second that there are.
#[derive(Clone, Copy, Debug)]
pub struct Bandwidths {
    /// Of a node's own store.
    pub local: f64,
    /// Of a node's link.
    pub network: f64,
}

/// What one checkpoint of a level costs, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Writing there directly, while the job stands; for levels on nodes, the local copy.
    pub direct_s: f64,
    /// Bringing it there from the local copy.
    pub promote_s: f64,
    /// Reading it back, rebuilt where something is lost, onto all nodes. Without starting ranks.
    pub restore_s: f64,
}

/// What a checkpoint of `bytes` a node costs. `all_nodes` is the bandwidth of a store that all
/// share, bytes per second.
///
/// The ring of an XOR set sends each node's bytes once, and keeps 1/(set - 1) of them as parity
/// (W. Gropp et al.; SCR's redset). Several parities send them once for each parity.
pub fn cost(kind: Kind, bytes: f64, nodes: u32, bandwidths: Bandwidths, all_nodes: f64) -> Cost {
    let local = bytes / bandwidths.local;
    let network = bytes / bandwidths.network;
    match kind {
        Kind::Local => Cost { direct_s: local, promote_s: 0.0, restore_s: local },
        Kind::Xor { set } => parity(local, network, f64::from(set), 1.0),
        Kind::Rs { set, parities } => parity(local, network, f64::from(set), f64::from(parities)),
        Kind::Partner => Cost {
            direct_s: local,
            promote_s: local.max(network) + local,
            restore_s: local.max(network) + local,
        },
        Kind::Shared { .. } | Kind::Object => {
            let shared = (f64::from(nodes) * bytes / all_nodes).max(network);
            Cost { direct_s: shared, promote_s: shared, restore_s: shared }
        }
    }
}

/// Reading and sending overlap; so do receiving and writing what is rebuilt.
fn parity(local: f64, network: f64, set: f64, parities: f64) -> Cost {
    let kept = parities / (set - parities).max(1.0);
    Cost {
        direct_s: local,
        promote_s: local.max(parities * network) + kept * local,
        restore_s: local.max(parities * network) + (1.0 + kept) * local,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BANDWIDTHS: Bandwidths = Bandwidths { local: 5e9, network: 10e9 };

    #[test]
    fn costs_follow_the_bytes() {
        let of = |kind| cost(kind, 60e9, 1000, BANDWIDTHS, 2e12);
        assert_eq!(of(Kind::Local).direct_s, 12.0);
        assert_eq!(of(Kind::Shared { survives_system: true }).promote_s, 30.0);
        let (xor, rs) = (of(Kind::Xor { set: 16 }), of(Kind::Rs { set: 16, parities: 2 }));
        assert!((xor.promote_s - 12.8).abs() < 1e-9, "{xor:?}");
        assert!(rs.promote_s > xor.promote_s);
        assert!(of(Kind::Partner).promote_s > rs.promote_s);
    }

    #[test]
    fn few_nodes_are_bound_by_their_links() {
        let few = cost(Kind::Object, 60e9, 4, BANDWIDTHS, 2e12);
        assert_eq!(few.promote_s, 6.0);
    }
}
