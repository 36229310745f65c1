// SPDX-License-Identifier: Apache-2.0
use super::*;

fn args(nodes: u32) -> PlanArgs {
    PlanArgs {
        file: None,
        nodes: Some(nodes),
        bytes_per_node: None,
        mttf: Vec::new(),
        local: None,
        network: None,
        shared: None,
        set: None,
    }
}

fn shown(args: PlanArgs) -> (String, Value) {
    let system = system(args).expect("a system");
    let planner = Planner::new(&system, Order::Groups).expect("a planner");
    let best = planner.best().expect("a plan");
    let (curve, others) = (curve(&planner, &best), others(&system, &planner));
    (
        text(&system, &planner, &best, &curve, &others),
        value(&system, &planner, &best, &curve, &others),
    )
}

#[test]
fn a_plan_fits_a_terminal() {
    for nodes in [1, 3, 64, 9000] {
        let (text, _) = shown(args(nodes));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("expected overhead"), "{text}");
    }
}

#[test]
fn flags_change_the_plan() {
    let interval = |args| shown(args).1["interval_s"].as_f64().expect("a number");
    let often = PlanArgs { mttf: vec![parse_failure("node=1y").expect("a class")], ..args(64) };
    assert!(interval(often) < interval(args(64)));
    let group = parse_failure("switch:16=5y").expect("a class");
    assert_eq!((group.name.as_str(), group.nodes), ("switch", Some(16)));
    for wrong in ["node", "node=soon", "switch:many=5y"] {
        assert!(parse_failure(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_best_is_the_lowest_point_of_the_curve() {
    let (_, value) = shown(args(640));
    let best = value["overhead"].as_f64().expect("a number");
    let points = value["curve"].as_array().expect("points");
    assert!(points.len() > 5);
    let at = |point: &Value| point["overhead"].as_f64().expect("a number");
    assert!(points.iter().all(|point| at(point) >= best - 1e-9));
}
