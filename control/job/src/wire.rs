// SPDX-License-Identifier: Apache-2.0
//! The words of the safe-state protocol as messages of the wire.

use fermata_protocol::{Clock, Directive, Origin, RankId, Report, Version, WaitEdge, WaitKind};
use fermata_types::{Message, Targets, cause, wait_kind};
use std::collections::BTreeMap;

/// Messages sent, by sender: to whom how many.
pub(crate) type Bookmarks = BTreeMap<u32, Vec<(u64, u64)>>;

/// What an agent's message means to the protocol; none if it is of another epoch, or of no concern.
pub(crate) fn report_of(message: &Message, epoch: u32) -> Option<Report> {
    let (of, report) = match message {
        Message::Clocks(m) => (m.epoch, Report::Clocks(clocks(&m.list))),
        Message::Raise(m) => (m.epoch, Report::Raise(Clock { group: m.comm_id, seq: m.seq })),
        Message::Waits(m) if m.list.is_empty() => (m.epoch, Report::Runs),
        Message::Waits(m) => {
            let derived = u64::from(m.own) == cause::OTHERS;
            let origin = if derived { Origin::Derived } else { Origin::Root };
            (m.epoch, Report::Waits(origin, m.list.iter().filter_map(edge_of).collect()))
        }
        Message::Parked(m) => {
            let version = Version(m.version & u64::from(u32::MAX));
            (m.epoch, Report::Parked(version, clocks(&m.list)))
        }
        Message::Saving(m) => (m.epoch, Report::Cut),
        _ => return None,
    };
    (of == epoch).then_some(report)
}

/// The directive for one rank. The wire's versions have the epoch in front, so that a rank cannot
/// take that of one attempt for one of another.
pub(crate) fn targets_of(epoch: u32, directive: &Directive) -> Targets {
    Targets {
        epoch,
        version: u64::from(epoch) << 32 | directive.version.0,
        list: directive.targets.iter().map(|clock| (clock.group, clock.seq)).collect(),
        obligations: directive.obligations.iter().map(pair_of).collect(),
    }
}

fn clocks(list: &[(u64, u64)]) -> Vec<Clock> {
    list.iter().map(|(group, seq)| Clock { group: *group, seq: *seq }).collect()
}

fn pair_of(edge: &WaitEdge) -> (u64, u64) {
    let kind = match edge.kind {
        WaitKind::Message => wait_kind::MESSAGE,
        WaitKind::Receipt => wait_kind::RECEIPT,
        WaitKind::Room => wait_kind::ROOM,
    };
    (u64::from(kind) << 32 | u64::from(edge.peer), edge.count)
}

fn edge_of(&(key, count): &(u64, u64)) -> Option<WaitEdge> {
    let kind = match u32::try_from(key >> 32).ok()? {
        wait_kind::MESSAGE => WaitKind::Message,
        wait_kind::RECEIPT => WaitKind::Receipt,
        wait_kind::ROOM => WaitKind::Room,
        _ => return None,
    };
    let peer = RankId::try_from(key & u64::from(u32::MAX)).ok()?;
    Some(WaitEdge { peer, kind, count })
}

/// Turns "what I have sent to whom" into "what whom has sent to me", by receiver.
pub(crate) fn received_of(sent: &Bookmarks) -> BTreeMap<u64, Vec<(u64, u64)>> {
    let mut by_receiver: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for (sender, list) in sent {
        for (receiver, count) in list {
            by_receiver.entry(*receiver).or_default().push((u64::from(*sender), *count));
        }
    }
    by_receiver
}
