// SPDX-License-Identifier: Apache-2.0
//! The protocol as it is, others' rules, and damaged ones that the checker has to catch.
//!
//! The machines know nothing of this. A rule changes what goes over the lines, or the order in
//! which the agent does things; so there is nothing in the product that only a test can reach.

use fermata_protocol::{Directive, Origin, Report, WaitKind};

/// What is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Targets and the wait-for graph, as shipped.
    Ours,
    /// The collective clock as published: nobody runs on for a message (Xu and Cooperman 2024).
    /// Parked ranks give room, as ours do; otherwise it would lose to any large message.
    Published,
    /// A barrier before each collective call, in which a rank can be stopped (Garg et al. 2019,
    /// algorithm 1). The paper leaves open who lets a rank out of this barrier whose peers have
    /// left it before the request; here targets do.
    TwoPhase,
    /// Damaged: who is waited for stops one message too early.
    StopsEarly,
    /// Damaged: a target is raised and nobody is told.
    RaisesInSilence,
    /// Damaged: a rank's word that it is parked counts under any version of its directive.
    OldWordCounts,
    /// Damaged: the agent reads the clocks before the wrappers can see the request.
    ReadsFirst,
    /// Damaged: a rank that waits for a message receives what else its sender has sent.
    Receives,
    /// Damaged: every wait-for edge counts, whatever keeps the rank running that has it.
    EveryEdgeCounts,
    /// Damaged: a rank continues as soon as its own image has been cut.
    ResumesAlone,
}

impl Rule {
    /// Every one.
    pub const ALL: [Self; 10] = [
        Self::Ours,
        Self::Published,
        Self::TwoPhase,
        Self::StopsEarly,
        Self::RaisesInSilence,
        Self::OldWordCounts,
        Self::ReadsFirst,
        Self::Receives,
        Self::EveryEdgeCounts,
        Self::ResumesAlone,
    ];

    /// What the line makes of a report. None: it is lost.
    #[must_use]
    pub fn report(self, report: Report) -> Option<Report> {
        match (self, report) {
            (Self::Published | Self::TwoPhase, Report::Waits(origin, mut edges)) => {
                edges.retain(|edge| edge.kind == WaitKind::Room);
                Some(if edges.is_empty() { Report::Runs } else { Report::Waits(origin, edges) })
            }
            (Self::EveryEdgeCounts, Report::Waits(_, edges)) => {
                Some(Report::Waits(Origin::Root, edges))
            }
            (Self::RaisesInSilence, Report::Raise(_)) => None,
            (Self::RaisesInSilence, Report::Parked(version, _)) => {
                Some(Report::Parked(version, Vec::new()))
            }
            (_, report) => Some(report),
        }
    }

    /// What the line makes of directives.
    pub fn directive(self, directive: &mut Directive) {
        if self == Self::StopsEarly {
            let messages =
                directive.obligations.iter_mut().filter(|edge| edge.kind == WaitKind::Message);
            messages.for_each(|edge| edge.count -= 1);
        }
    }
}
