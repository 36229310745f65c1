// SPDX-License-Identifier: Apache-2.0
//! Failure groups: which hosts something (a rack, a switch, a power supply) takes at once.
//!
//! Hosts are written as Slurm writes them: `n[01-16,20],login`.

use serde::Deserialize;
use std::collections::BTreeMap;

/// More hosts than any list names.
const HOSTS_MAX: usize = 1 << 20;

/// For each grouping (what kind of thing fails) the group of each host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Tables")]
pub struct Groups(BTreeMap<String, BTreeMap<String, String>>);

/// As people write them: for each grouping its groups, each with a list of hosts.
pub type Tables = BTreeMap<String, BTreeMap<String, String>>;

/// Why there are no such groups.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupsError {
    /// The list cannot be read.
    #[error("'{0}' names no hosts: write n[01-16,20],login")]
    Names(String),
    /// A list stands for too many.
    #[error("'{0}' names more than {HOSTS_MAX} hosts")]
    Many(String),
    /// Of the groups of a grouping only one can be a host's.
    #[error("{host} is in two groups of '{grouping}': {one} and {other}")]
    Twice {
        /// Which host.
        host: String,
        /// Of what.
        grouping: String,
        /// The one group.
        one: String,
        /// And the other.
        other: String,
    },
}

impl Groups {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The group of each of these hosts, by grouping. One that is named nowhere fails alone. Hosts
    /// are known by their whole name, else by what stands before its first dot.
    #[must_use]
    pub fn of(&self, hosts: &[String]) -> Vec<Vec<String>> {
        let group_of = |grouping: &BTreeMap<String, String>, host: &String| {
            let short = host.split('.').next().unwrap_or_default();
            let group = grouping.get(host).or_else(|| grouping.get(short));
            group.map_or_else(|| format!("{host} alone"), Clone::clone)
        };
        let groupings = self.0.values();
        groupings.map(|of| hosts.iter().map(|host| group_of(of, host)).collect()).collect()
    }
}

impl TryFrom<Tables> for Groups {
    type Error = GroupsError;

    fn try_from(written: Tables) -> Result<Self, GroupsError> {
        let mut groupings = BTreeMap::new();
        for (grouping, groups) in written {
            let mut of_host: BTreeMap<String, String> = BTreeMap::new();
            for (group, names) in groups {
                for host in hosts_of(&names)? {
                    if let Some(one) = of_host.insert(host.clone(), group.clone()) {
                        return Err(GroupsError::Twice { host, grouping, one, other: group });
                    }
                }
            }
            groupings.insert(grouping, of_host);
        }
        Ok(Self(groupings))
    }
}

/// The hosts of a list, in its order: `n[1-3,7]-ib,m`. Numbers keep their leading zeros.
///
/// # Errors
/// It is none, or stands for too many.
pub fn hosts_of(list: &str) -> Result<Vec<String>, GroupsError> {
    let bad = || GroupsError::Names(list.to_owned());
    let mut hosts = Vec::new();
    for word in outside_brackets(list) {
        let of_word = expand(word.trim(), HOSTS_MAX - hosts.len()).map_err(|why| match why {
            Wrong::Form => bad(),
            Wrong::Many => GroupsError::Many(list.to_owned()),
        })?;
        hosts.extend(of_word);
    }
    Ok(hosts)
}

/// The words between commas that stand in no brackets.
fn outside_brackets(list: &str) -> Vec<&str> {
    let mut is_inside = false;
    list.split(|c| {
        is_inside = if is_inside { c != ']' } else { c == '[' };
        c == ',' && !is_inside
    })
    .collect()
}

enum Wrong {
    Form,
    Many,
}

/// All that a word stands for, of which each pair of brackets multiplies the names; at most `most`.
fn expand(word: &str, most: usize) -> Result<Vec<String>, Wrong> {
    let (before, rest) = word.split_once('[').map_or((word, None), |(b, rest)| (b, Some(rest)));
    let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if word.is_empty() || !before.chars().all(is_of_a_name) {
        return Err(Wrong::Form);
    }
    let Some(rest) = rest else { return Ok(vec![word.to_owned()]) };
    let (inside, after) = rest.split_once(']').ok_or(Wrong::Form)?;
    let tails = if after.is_empty() { vec![String::new()] } else { expand(after, most)? };
    let mut names = Vec::new();
    for range in inside.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
            text.parse::<u32>().ok().filter(|_| is_number).ok_or(Wrong::Form)
        };
        let (from, to) = (number(first)?, number(last)?);
        let count = to.checked_sub(from).ok_or(Wrong::Form)? as usize + 1;
        if count.saturating_mul(tails.len()) > most - names.len() {
            return Err(Wrong::Many);
        }
        let width = first.len();
        for number in from..=to {
            names.extend(tails.iter().map(|tail| format!("{before}{number:0width$}{tail}")));
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(list: &str) -> Vec<String> {
        hosts_of(list).unwrap()
    }

    #[test]
    fn lists_are_those_of_slurm() {
        assert_eq!(names("login"), ["login"]);
        assert_eq!(names("n[08-10,2],m, k.site"), ["n08", "n09", "n10", "n2", "m", "k.site"]);
        assert_eq!(names("r[1-2]n[0-1]-ib"), ["r1n0-ib", "r1n1-ib", "r2n0-ib", "r2n1-ib"]);
    }

    #[test]
    fn what_names_no_hosts_is_refused() {
        for list in ["", "n[", "n[]", "n[3-1]", "n[a]", "n]1[", "a,,b", "a b", "n[1-2-3]", "n[+1]"]
        {
            assert_eq!(hosts_of(list), Err(GroupsError::Names(list.into())), "{list}");
        }
        let many = "n[0-9999]m[0-9999]";
        assert_eq!(hosts_of(many), Err(GroupsError::Many(many.into())));
    }

    #[test]
    fn each_host_has_its_group_and_others_are_alone() {
        let tables = r#"{"rack": {"r1": "n[1-2]", "r2": "n3"}, "power": {"p": "n[2-3]"}}"#;
        let groups: Groups = serde_json::from_str(tables).unwrap();
        let hosts = ["n1", "n2.site", "n3", "n4"].map(str::to_owned);
        let rack = ["r1", "r1", "r2", "n4 alone"];
        let power = ["n1 alone", "p", "p", "n4 alone"];
        assert_eq!(groups.of(&hosts), [power, rack]);
        assert!(Groups::default().of(&hosts).is_empty());
    }

    #[test]
    fn a_host_is_in_one_group_of_a_grouping() {
        let tables = r#"{"rack": {"r1": "n[1-2]", "r2": "n2"}}"#;
        let why = serde_json::from_str::<Groups>(tables).unwrap_err().to_string();
        assert!(why.contains("n2 is in two groups of 'rack': r1 and r2"), "{why}");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(list in "[n,\\[\\]0-9-]{0,24}") {
            let read = hosts_of(&list);
            prop_assert!(read.is_err() || read.is_ok_and(|hosts| !hosts.is_empty()));
        }
    }
}
