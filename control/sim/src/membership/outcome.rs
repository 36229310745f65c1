// SPDX-License-Identifier: Apache-2.0
//! What is counted.

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// From each death to the coordinator's knowing, in milliseconds.
    pub known_ms: Vec<u64>,
    /// The same without the time in which the coordinator itself stood still.
    pub awake_ms: Vec<u64>,
    /// Deaths that nobody noticed.
    pub unnoticed: u64,
    /// Living nodes that were taken for dead, each counted once.
    pub alarms: u64,
    /// Suspicions at any node.
    pub suspicions: u64,
    /// Of living nodes.
    pub node_seconds: f64,
    /// Sent, with headers of IP and UDP.
    pub bytes: u64,
    /// Sent.
    pub datagrams: u64,
    /// Of all entries at all nodes, sampled every second, in milliseconds.
    pub ages_ms: Vec<u64>,
}

impl Outcome {
    pub fn add(&mut self, other: Self) {
        self.known_ms.extend(other.known_ms);
        self.awake_ms.extend(other.awake_ms);
        self.unnoticed += other.unnoticed;
        self.alarms += other.alarms;
        self.suspicions += other.suspicions;
        self.node_seconds += other.node_seconds;
        self.bytes += other.bytes;
        self.datagrams += other.datagrams;
        self.ages_ms.extend(other.ages_ms);
    }
}
