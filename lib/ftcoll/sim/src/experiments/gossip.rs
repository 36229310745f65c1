// SPDX-License-Identifier: Apache-2.0
//! How long to gossip: the time at which the last process is reached earliest.

use super::broadcasts::series;
use super::{Effort, Findings};
use crate::failures::Placement;
use crate::page::Table;
use crate::scheme::Scheme;
use fermata_ftcoll::Time;
use fermata_ftcoll::correction::Rule;
use fermata_ftcoll::tree::Tree;

/// The best length of the gossip, and the sweep that shows it.
pub fn sweep(size: u32, effort: &Effort) -> (Time, Findings) {
    let steps = Time::from(size.ilog2());
    let runs = if size > 10_000 { effort.large_runs.min(3) } else { effort.runs.min(20) };
    let tree = Tree::binomial(size);
    let mut table =
        Table::new(&["gossip until", "messages per process", "last colouring", "missed"]);
    let mut best = (f64::MAX, 0);
    for until in (2 * steps - 4..=3 * steps).step_by(2) {
        let scheme = Scheme::gossip("", size, until, Rule::Checked);
        let seen = series(&scheme, Placement::Random, &tree, 0, (effort.seed, runs));
        table.row(&[
            until.to_string(),
            format!("{:.2}", seen.messages.mean()),
            seen.last.to_string(),
            format!("{:.0}", seen.missed.largest()),
        ]);
        if seen.last.mean() < best.0 {
            best = (seen.last.mean(), until);
        }
    }
    let text = format!(
        "\n### Corrected gossip (checked) at {size} processes, nobody dead\n\n{table}\nAt its best \
         until {}.\n",
        best.1
    );
    (best.1, Findings { text, ..Findings::default() })
}
