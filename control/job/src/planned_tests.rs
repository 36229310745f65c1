// SPDX-License-Identifier: Apache-2.0
//! Jobs that follow a plan of several levels.

use super::*;
use fermata_plan::follow::Follower;
use fermata_plan::pace::Event as Paced;
use fermata_plan::placement::Order;
use fermata_plan::system::{Bandwidth, Failure, KindName, LevelSpec};
use fermata_plan::{Plan, Planner, System};

/// Saves every 400 s; every second checkpoint gets the second of three levels, every sixteenth the
/// third as well.
fn planned() -> Pace {
    let failure = |name: &str, mttf| Failure { name: name.into(), nodes: None, mttf };
    let level = |kind, bandwidth| LevelSpec {
        kind,
        name: None,
        set: None,
        parities: None,
        bandwidth,
        survives_system: true,
    };
    let system = System {
        nodes: 4,
        bytes_per_node: 1e9,
        relaunch: 30.0,
        slowdown: 0.05,
        behind: true,
        bandwidth: Bandwidth { local: 1e9, network: 1e9 },
        failure: vec![failure("node", 1e6), failure("system", 1e7)],
        level: vec![
            level(KindName::Local, None),
            level(KindName::Partner, None),
            level(KindName::Shared, Some(1e9)),
        ],
    };
    let planner = Planner::new(&system, Order::Groups).unwrap();
    let plan = Plan { levels: vec![0, 1, 2], every: vec![1, 2, 8], interval_s: 400.0 };
    let planned = planner.judge(&plan).unwrap();
    Pace::new(Every::Auto(Box::new(Follower::new(planner, planned))), None)
}

#[test]
fn levels_that_a_plan_wants_are_asked_for_and_counted() {
    let mut w = World::new(1);
    w.machine.pace = planned();
    let mut promoted = Vec::new();
    for epoch in 1..=4 {
        w.machine.pace(&Paced::Saved { epoch, pause_ms: 1000 }, w.now);
        let out = std::mem::take(&mut w.machine.out);
        promoted.extend(out.into_iter().filter(|action| matches!(action, Action::Promote { .. })));
        if epoch == 2 {
            w.event(Event::Promoted { level: 1, took_ms: 2000 });
        }
    }
    let wanted = |epoch| Action::Promote { epoch, level: 1 };
    assert_eq!(promoted, [wanted(2), wanted(4)]);
    w.event(Event::PromotionFailed { level: 1 });
    w.machine.pace(&Paced::Saved { epoch: 5, pause_ms: 1000 }, w.now);
    assert!(w.machine.out.contains(&wanted(5)), "it stays due");
}
