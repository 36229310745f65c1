// SPDX-License-Identifier: Apache-2.0
//! The rank's machine by itself: what it says, what it lets pass. The rest is in `fermata-model`.
use fermata_protocol::{
    Clock, CollectiveEntry, Directive, MessageCounts, Position, RankId, RankMachine, Tell, Version,
    WaitEdge, WaitKind,
};

/// Messages sent to, arrived from and matched from every peer; none is held, or all.
struct Counts(u64, u64, u64);
struct Held(Counts);

impl MessageCounts for Counts {
    fn sent(&self, _to: RankId) -> u64 {
        self.0
    }
    fn arrived(&self, _from: RankId) -> u64 {
        self.1
    }
    fn matched(&self, _from: RankId) -> u64 {
        self.2
    }
}

impl MessageCounts for Held {
    fn sent(&self, to: RankId) -> u64 {
        self.0.sent(to)
    }
    fn arrived(&self, from: RankId) -> u64 {
        self.0.arrived(from)
    }
    fn held(&self, from: RankId) -> u64 {
        self.0.arrived(from)
    }
    fn matched(&self, from: RankId) -> u64 {
        self.0.matched(from)
    }
}

const NONE: Counts = Counts(0, 0, 0);

fn directive(version: u64, target: u64, obligations: &[WaitEdge]) -> Directive {
    let targets = vec![Clock { group: 7, seq: target }];
    Directive { version: Version(version), targets, obligations: obligations.to_vec() }
}

fn machine() -> RankMachine<2, 1> {
    let mut machine = RankMachine::default();
    assert!(machine.join(7));
    machine.on_request();
    machine
}

fn message(peer: RankId, count: u64) -> WaitEdge {
    WaitEdge { peer, kind: WaitKind::Message, count }
}

#[test]
fn entry_is_held_before_a_directive_and_without_an_obligation() {
    let mut machine = machine();
    assert_eq!(machine.enter_collective(7, &NONE), CollectiveEntry::Hold);
    machine.on_directive(&directive(1, 1, &[]));
    assert_eq!(machine.enter_collective(7, &NONE), CollectiveEntry::Enter);
    assert_eq!(machine.enter_collective(7, &NONE), CollectiveEntry::Hold);
}

#[test]
fn a_need_raises_the_target_and_ends_with_its_count() {
    let mut machine = machine();
    machine.on_directive(&directive(1, 0, &[message(3, 2)]));
    assert!(!machine.may_park(&[Position::Computing], &Counts(1, 0, 0)));
    assert_eq!(
        machine.enter_collective(7, &Counts(1, 0, 0)),
        CollectiveEntry::Raise(Clock { group: 7, seq: 1 })
    );
    assert!(machine.may_park(&[Position::Computing], &Counts(2, 0, 0)));
    assert!(machine.may_park(&[Position::Ending], &Counts(1, 0, 0)));
}

#[test]
fn an_old_directive_changes_nothing() {
    let mut machine = machine();
    machine.on_directive(&directive(2, 0, &[]));
    machine.on_directive(&directive(1, 5, &[message(3, 2)]));
    assert!(!machine.owes_collective());
    assert!(machine.may_park(&[Position::Computing], &NONE));
}

#[test]
fn each_need_is_told_once_and_again_when_its_count_has_grown() {
    let mut machine = machine();
    machine.on_directive(&directive(1, 1, &[]));
    let at = [Position::Receiving(&[4])];
    assert_eq!(machine.tell(&at, &NONE), Some(Tell::Waits));
    assert_eq!(machine.edges(&at, &NONE).collect::<Vec<_>>(), [message(4, 1)]);
    assert_eq!(machine.tell(&at, &NONE), None);
    assert_eq!(machine.tell(&at, &Counts(0, 1, 0)), Some(Tell::Waits));
    assert_eq!(machine.tell(&[Position::Computing], &Counts(0, 1, 1)), Some(Tell::Runs));
    assert_eq!(machine.tell(&[Position::Computing], &Counts(0, 1, 1)), None);
}

/// More obligations than there is room for are never forgotten: the rank runs on until it is told
/// less.
#[test]
fn too_many_needs_keep_a_rank_running() {
    let mut machine = machine();
    machine.on_directive(&directive(1, 0, &[message(3, 1), message(4, 1)]));
    assert!(!machine.may_park(&[Position::Computing], &Counts(9, 9, 9)));
    machine.on_directive(&directive(2, 0, &[message(4, 1)]));
    assert!(machine.may_park(&[Position::Computing], &Counts(9, 9, 9)));
}

#[test]
fn room_is_given_no_further_than_it_is_needed() {
    let mut machine = machine();
    machine.on_directive(&directive(1, 0, &[WaitEdge { peer: 5, kind: WaitKind::Room, count: 3 }]));
    assert!(machine.may_park(&[Position::Computing], &NONE));
    assert!(machine.gives_room(5, &Counts(0, 2, 0)));
    assert!(!machine.gives_room(5, &Counts(0, 3, 0)));
    assert!(machine.gives_room(5, &Held(Counts(0, 3, 0))));
    assert!(!machine.gives_room(6, &NONE));
}
