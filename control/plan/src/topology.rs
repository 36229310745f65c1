// SPDX-License-Identifier: Apache-2.0
//! What can fail: nodes, the groups that they fall out with, and how often each class of failure
//! comes.
//!
//! Source: failure model of FFMK (2019): light faults leave the node alive, fatal ones take a node
//! or a set of nodes.

/// The nodes of a job and the groups that they are in. A node is in one group of each grouping.
#[derive(Clone, Debug)]
pub struct Topology {
    nodes: u32,
    groupings: Vec<Grouping>,
}

/// One way of grouping: by switch, by power supply, by rack.
#[derive(Clone, Debug)]
struct Grouping {
    of_node: Vec<u32>,
    members: Vec<Vec<u32>>,
}

/// What one failure of a class takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The ranks of a node, which itself lives.
    Rank,
    /// A node.
    Node,
    /// All nodes of a group of this grouping.
    Group(usize),
    /// All nodes.
    System,
}

/// A class of failures.
#[derive(Clone, Debug)]
pub struct Class {
    /// What people call it.
    pub name: String,
    /// What one failure takes.
    pub scope: Scope,
    /// Mean time to failure of one component (node, group, the system), in seconds.
    pub mttf_s: f64,
}

/// The nodes that one failure takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost<'a> {
    /// None; processes have ended.
    Nothing,
    /// These, in ascending order.
    Nodes(&'a [u32]),
    /// All.
    All,
}

impl Topology {
    /// Nodes without groups.
    pub fn new(nodes: u32) -> Self {
        Self { nodes, groupings: Vec::new() }
    }

    /// Adds groups of `size` nodes with consecutive numbers; the number of the grouping.
    pub fn add_blocks(&mut self, size: u32) -> usize {
        let of_node: Vec<u32> = (0..self.nodes).map(|node| node / size.max(1)).collect();
        self.add(of_node)
    }

    /// Adds a grouping by the group's number of each node; the number of the grouping.
    ///
    /// # Panics
    /// If there is not one number for each node.
    pub fn add(&mut self, of_node: Vec<u32>) -> usize {
        assert_eq!(of_node.len(), self.nodes as usize, "one group for each node");
        let count = of_node.iter().max().map_or(0, |most| *most as usize + 1);
        let mut members = vec![Vec::new(); count];
        for (node, group) in (0..self.nodes).zip(&of_node) {
            members[*group as usize].push(node);
        }
        self.groupings.push(Grouping { of_node, members });
        self.groupings.len() - 1
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// How many groupings there are.
    pub fn groupings(&self) -> usize {
        self.groupings.len()
    }

    /// The group of a node.
    pub fn group_of(&self, grouping: usize, node: u32) -> u32 {
        self.groupings[grouping].of_node[node as usize]
    }

    /// The most nodes that a group of this grouping has.
    pub fn largest(&self, grouping: usize) -> u32 {
        let sizes = self.groupings[grouping].members.iter().map(Vec::len);
        sizes.max().and_then(|most| u32::try_from(most).ok()).unwrap_or(0)
    }

    /// How many components can fail in this way.
    pub fn components(&self, scope: Scope) -> u32 {
        match scope {
            Scope::Rank | Scope::Node => self.nodes,
            Scope::Group(grouping) => {
                u32::try_from(self.groupings[grouping].members.len()).unwrap_or(u32::MAX)
            }
            Scope::System => 1,
        }
    }

    /// The nodes that the failure of one component takes. `one` is room for a single node.
    pub fn lost<'a>(&'a self, scope: Scope, component: u32, one: &'a mut [u32; 1]) -> Lost<'a> {
        match scope {
            Scope::Rank => Lost::Nothing,
            Scope::Node => {
                one[0] = component;
                Lost::Nodes(one)
            }
            Scope::Group(grouping) => {
                Lost::Nodes(&self.groupings[grouping].members[component as usize])
            }
            Scope::System => Lost::All,
        }
    }

    /// Failures of a class per second.
    pub fn rate(&self, class: &Class) -> f64 {
        f64::from(self.components(class.scope)) / class.mttf_s
    }

    /// Failures of all classes per second.
    pub fn total_rate(&self, classes: &[Class]) -> f64 {
        classes.iter().map(|class| self.rate(class)).sum()
    }

    /// How often one node falls out, per second: by itself or with a group.
    pub fn node_loss_rate(&self, classes: &[Class]) -> f64 {
        let of_one = |class: &Class| match class.scope {
            Scope::Node | Scope::Group(_) => 1.0 / class.mttf_s,
            Scope::Rank | Scope::System => 0.0,
        };
        classes.iter().map(of_one).sum()
    }
}
