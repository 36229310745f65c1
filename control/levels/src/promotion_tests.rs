// SPDX-License-Identifier: Apache-2.0
use super::*;

fn id(epoch: u32) -> Id {
    Id { taken_ms: u64::from(epoch), epoch }
}

fn promotion(chain: &str, keep: u32) -> Promotion {
    let chain = chain.parse().unwrap();
    let config = Config { chain, hosts: 2, keep, deadline_ms: 1000, on_demand: false };
    Promotion::new(config, &BTreeMap::new())
}

/// Which level is begun, of which snapshot, in which attempt.
fn begun(actions: &[Action]) -> Option<(u64, u32, Level)> {
    actions.iter().find_map(|action| match action {
        Action::Make { attempt, id, level, .. } => Some((*attempt, id.epoch, *level)),
        _ => None,
    })
}

fn dropped(actions: &[Action]) -> Vec<(u32, Level)> {
    let dropped = actions.iter().filter_map(|action| match action {
        Action::Drop { id, level } => Some((id.epoch, *level)),
        _ => None,
    });
    dropped.collect()
}

/// Both hosts make it, and it is noted.
fn finish(machine: &mut Promotion, attempt: u64) -> Vec<Action> {
    assert_eq!(machine.step(Event::Made { attempt, host: 0 }, 0), []);
    let actions = machine.step(Event::Made { attempt, host: 1 }, 0);
    assert!(matches!(actions[..], [Action::Note { attempt: a, .. }] if a == attempt));
    machine.step(Event::Noted { attempt }, 0)
}

fn status(machine: &Promotion, epoch: u32, level: Level) -> Option<Status> {
    let mut all = machine.statuses();
    all.find(|(e, l, _)| (e.epoch, *l) == (epoch, level)).map(|(_, _, status)| status.clone())
}

#[test]
fn levels_are_made_one_after_the_other() {
    let mut machine = promotion("local,partner,xor,shared", 2);
    let first = begun(&machine.step(Event::Saved(id(1)), 0)).unwrap();
    assert_eq!(first, (1, 1, Level::Partner));
    let second = begun(&finish(&mut machine, 1)).unwrap();
    assert_eq!(second, (2, 1, Level::Xor));
    assert_eq!(begun(&finish(&mut machine, 2)).unwrap(), (3, 1, Level::Shared));
    assert!(!machine.is_idle());
    assert_eq!(finish(&mut machine, 3), []);
    assert!(machine.is_idle());
    assert!(machine.statuses().all(|(_, _, status)| *status == Status::Done));
}

#[test]
fn a_newer_snapshot_supersedes_and_no_level_starves() {
    let mut machine = promotion("local,partner,shared", 2);
    machine.step(Event::Saved(id(1)), 0);
    assert_eq!(machine.step(Event::Saved(id(2)), 0), [], "one at a time");
    assert_eq!(status(&machine, 1, Level::Shared), None, "superseded");
    assert_eq!(begun(&finish(&mut machine, 1)).unwrap(), (2, 2, Level::Shared));
    machine.step(Event::Saved(id(3)), 0);
    assert_eq!(begun(&finish(&mut machine, 2)).unwrap(), (3, 3, Level::Partner));
}

#[test]
fn what_is_old_goes_when_enough_newer_is_done() {
    let mut machine = promotion("local,xor", 1);
    machine.step(Event::Saved(id(1)), 0);
    finish(&mut machine, 1);
    let actions = machine.step(Event::Saved(id(2)), 0);
    assert_eq!(dropped(&actions), [], "images stay for their parities");
    assert_eq!(begun(&actions).unwrap(), (2, 2, Level::Xor));
    assert_eq!(dropped(&finish(&mut machine, 2)), [(1, Level::Xor), (1, Level::Local)]);
    assert_eq!(machine.statuses().count(), 2);
}

#[test]
fn what_fails_is_thrown_away_and_nothing_older_goes() {
    let mut machine = promotion("local,xor", 1);
    machine.step(Event::Saved(id(1)), 0);
    finish(&mut machine, 1);
    machine.step(Event::Saved(id(2)), 0);
    let actions = machine.step(Event::Failed { attempt: 2, why: "disk full".into() }, 0);
    assert_eq!(actions, [Action::Abort { attempt: 2, id: id(2), level: Level::Xor }]);
    assert_eq!(status(&machine, 2, Level::Xor), Some(Status::Failed("disk full".into())));
    assert!(machine.is_idle());
    for late in [Event::Made { attempt: 2, host: 0 }, Event::Noted { attempt: 2 }] {
        assert_eq!(machine.step(late, 0), [], "it is over");
    }
    assert_eq!(begun(&machine.step(Event::Saved(id(3)), 0)).unwrap(), (3, 3, Level::Xor));
}

#[test]
fn silence_has_an_end() {
    let mut machine = promotion("local,xor", 1);
    machine.step(Event::Saved(id(1)), 100);
    assert_eq!(machine.wake_ms(), Some(1100));
    machine.step(Event::Advanced { attempt: 1 }, 900);
    assert_eq!(machine.step(Event::Tick, 1899), []);
    let actions = machine.step(Event::Tick, 1900);
    assert_eq!(actions, [Action::Abort { attempt: 1, id: id(1), level: Level::Xor }]);
    assert_eq!(machine.wake_ms(), None);
}

#[test]
fn once_a_host_has_died_nothing_is_made_or_dropped() {
    let mut machine = promotion("local,partner,xor", 1);
    machine.step(Event::Saved(id(1)), 0);
    finish(&mut machine, 1);
    let actions = machine.step(Event::Died(1), 0);
    assert_eq!(actions, [Action::Abort { attempt: 2, id: id(1), level: Level::Xor }]);
    assert_eq!(machine.step(Event::Saved(id(2)), 0), []);
    assert!(machine.is_idle());
    assert_eq!(status(&machine, 1, Level::Partner), Some(Status::Done));
}

#[test]
fn what_earlier_runs_have_left_goes_when_it_is_old() {
    let earlier = BTreeMap::from([
        (id(1), BTreeSet::from([Level::Local, Level::Xor])),
        (id(2), BTreeSet::from([Level::Local, Level::Xor])),
    ]);
    let config = Config {
        chain: "local,xor".parse().unwrap(),
        hosts: 2,
        keep: 1,
        deadline_ms: 1000,
        on_demand: false,
    };
    let mut machine = Promotion::new(config, &earlier);
    assert_eq!(machine.step(Event::Tick, 0), [], "a host of theirs may be lost");
    machine.step(Event::Saved(id(3)), 0);
    let gone = dropped(&finish(&mut machine, 1));
    assert_eq!(gone, [(1, Level::Xor), (1, Level::Local), (2, Level::Xor), (2, Level::Local)]);
}

#[test]
fn on_demand_only_what_is_wanted_is_made_and_of_what_is_there() {
    let chain = "local,partner,shared".parse().unwrap();
    let config = Config { chain, hosts: 2, keep: 1, deadline_ms: 1000, on_demand: true };
    let mut machine = Promotion::new(config, &BTreeMap::new());
    assert_eq!(machine.step(Event::Saved(id(1)), 0), []);
    assert!(machine.is_idle());
    let wanted = |epoch, level| Event::Wanted { id: id(epoch), level };
    assert_eq!(begun(&machine.step(wanted(1, Level::Partner), 0)).unwrap(), (1, 1, Level::Partner));
    assert_eq!(machine.step(wanted(1, Level::Shared), 0), [], "one at a time");
    assert_eq!(machine.step(wanted(1, Level::Xor), 0), [], "no level of this run");
    // A newer snapshot takes nothing from what is wanted of an older one.
    assert_eq!(machine.step(Event::Saved(id(2)), 0), []);
    assert_eq!(begun(&finish(&mut machine, 1)).unwrap(), (2, 1, Level::Shared));
    assert_eq!(machine.step(wanted(1, Level::Partner), 0), [], "not again");
    finish(&mut machine, 2);
    assert_eq!(status(&machine, 2, Level::Partner), None);
    // Of what is gone nothing can be made.
    assert_eq!(machine.step(wanted(7, Level::Partner), 0), []);
}
