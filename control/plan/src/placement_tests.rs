// SPDX-License-Identifier: Apache-2.0
use super::*;
use proptest::prelude::*;

fn class(name: &str, scope: Scope) -> Class {
    Class { name: name.into(), scope, mttf_s: 1e6 }
}

/// Nodes behind switches and in racks, with consecutive numbers.
fn blocks(nodes: u32, sizes: &[u32]) -> (Topology, Vec<Class>) {
    let mut topology = Topology::new(nodes);
    let mut classes = vec![class("node", Scope::Node)];
    for size in sizes {
        let grouping = topology.add_blocks(*size);
        classes.push(class("group", Scope::Group(grouping)));
    }
    (topology, classes)
}

fn survives_all_of(level: &Placed, topology: &Topology, scope: Scope) -> bool {
    (0..topology.components(scope)).all(|component| {
        let mut one = [0];
        level.survives(topology.lost(scope, component, &mut one))
    })
}

#[test]
fn sets_over_groups_survive_every_group() {
    let (topology, classes) = blocks(50_000, &[32, 64, 512]);
    let xor = Placed::new(Kind::Xor { set: 16 }, &topology, &classes, Order::Groups);
    let partner = Placed::new(Kind::Partner, &topology, &classes, Order::Groups);
    for scope in [Scope::Node, Scope::Group(0), Scope::Group(1), Scope::Group(2)] {
        assert!(survives_all_of(&xor, &topology, scope), "{scope:?}");
        assert!(survives_all_of(&partner, &topology, scope), "{scope:?}");
    }
    assert!(!xor.survives(Lost::All) && !partner.survives(Lost::All));
}

#[test]
fn sets_of_neighbours_break_with_their_switch() {
    let (topology, classes) = blocks(50_000, &[32]);
    for kind in [Kind::Xor { set: 16 }, Kind::Partner] {
        let level = Placed::new(kind, &topology, &classes, Order::Hosts);
        assert!(survives_all_of(&level, &topology, Scope::Node), "{kind:?}");
        assert!(!survives_all_of(&level, &topology, Scope::Group(0)), "{kind:?}");
    }
}

#[test]
fn groups_that_are_not_runs_of_nodes_are_avoided_as_well() {
    let mut topology = Topology::new(96);
    let crossing = topology.add((0..96).map(|node| node % 24).collect());
    let runs = topology.add_blocks(4);
    let classes = [
        class("node", Scope::Node),
        class("psu", Scope::Group(crossing)),
        class("switch", Scope::Group(runs)),
    ];
    let xor = Placed::new(Kind::Xor { set: 8 }, &topology, &classes, Order::Groups);
    for scope in [Scope::Node, Scope::Group(crossing), Scope::Group(runs)] {
        assert!(survives_all_of(&xor, &topology, scope), "{scope:?}: {:?}", xor.of_node());
    }
}

#[test]
fn parities_survive_as_many_losses() {
    let (topology, classes) = blocks(64, &[]);
    let rs = Placed::new(Kind::Rs { set: 8, parities: 2 }, &topology, &classes, Order::Hosts);
    assert!(rs.survives(Lost::Nodes(&[0, 1])));
    assert!(!rs.survives(Lost::Nodes(&[0, 1, 2])));
    assert!(rs.survives(Lost::Nodes(&[0, 1, 8, 9, 16, 17])));
}

#[test]
fn stores_of_all_survive_their_nodes() {
    let (topology, classes) = blocks(8, &[]);
    let of = |kind| Placed::new(kind, &topology, &classes, Order::Groups);
    let burst = of(Kind::Shared { survives_system: false });
    assert!(burst.survives(Lost::Nodes(&[0, 1, 2, 3])) && !burst.survives(Lost::All));
    assert!(of(Kind::Shared { survives_system: true }).survives(Lost::All));
    assert!(of(Kind::Object).survives(Lost::All));
    let local = of(Kind::Local);
    assert!(local.survives(Lost::Nothing) && !local.survives(Lost::Nodes(&[3])));
}

#[test]
fn a_rotating_partner_leaves_every_group() {
    let (topology, _) = blocks(1024, &[32, 128]);
    let hops = hops(&topology);
    assert!(hops.len() > 1, "{hops:?}");
    for hop in hops {
        let mut nodes = 0..1024u32;
        let leaves = |node: u32| {
            let partner = (node + hop) % 1024;
            (0..2).all(|g| topology.group_of(g, node) != topology.group_of(g, partner))
        };
        assert!(nodes.all(leaves), "hop {hop}");
    }
}

proptest! {
    #[test]
    fn every_node_is_in_one_set_of_the_right_size(
        nodes in 2u32..300, set in 2u32..20, group in 1u32..40, seed in any::<u64>(),
        which in 0usize..3,
    ) {
        prop_assume!(set <= nodes);
        let order = [Order::Groups, Order::Hosts, Order::Shuffled(seed)][which];
        let (topology, classes) = blocks(nodes, &[group]);
        let xor = Placed::new(Kind::Xor { set }, &topology, &classes, order);
        let count = nodes.div_ceil(set);
        let mut sizes = vec![0u32; count as usize];
        for of in xor.of_node() {
            sizes[*of as usize] += 1;
        }
        prop_assert!(sizes.iter().all(|size| *size >= 1 && *size <= set), "{:?}", sizes);
    }

    #[test]
    fn a_group_takes_one_member_at_most_where_there_are_as_many_sets(
        sets in 2u32..30, set in 2u32..12, group in 1u32..30,
    ) {
        prop_assume!(group <= sets);
        let (topology, classes) = blocks(sets * set, &[group]);
        let xor = Placed::new(Kind::Xor { set }, &topology, &classes, Order::Groups);
        prop_assert!(survives_all_of(&xor, &topology, Scope::Group(0)));
    }

    #[test]
    fn nobody_is_its_own_partner(nodes in 2u32..200, group in 1u32..20, which in 0usize..2) {
        let order = [Order::Groups, Order::Hosts][which];
        let (topology, classes) = blocks(nodes, &[group]);
        let level = Placed::new(Kind::Partner, &topology, &classes, order);
        let mut partners = level.of_node().to_vec();
        prop_assert!((0..).zip(&partners).all(|(node, partner)| node != *partner));
        partners.sort_unstable();
        prop_assert_eq!(partners, (0..nodes).collect::<Vec<_>>());
    }
}
