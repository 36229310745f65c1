// SPDX-License-Identifier: Apache-2.0
//! Trees alone: when the last process is reached, nobody being dead.

use super::Findings;
use crate::page::Table;
use crate::scheme::finish;
use crate::world::LogP;
use fermata_ftcoll::tree::Tree;
use std::sync::Arc;

const MACHINE: LogP = LogP::PAPER;

/// Times of the shapes over sizes, up to `most` processes.
pub fn times(most: u32) -> Findings {
    let sizes: Vec<u32> =
        [64, 1 << 10, 1 << 12, 1 << 16, 1 << 20].into_iter().filter(|&size| size <= most).collect();
    let mut headings = vec!["tree".to_owned()];
    headings.extend(sizes.iter().map(ToString::to_string));
    headings.push("reference at 4096".to_owned());
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&headings);
    let mut findings = Findings::default();
    let references = [48, 34, 30, 28, 32];
    for order in 1..=5u32 {
        let name = if order == 1 { "binomial" } else { "Lamé" };
        let times = sizes.iter().map(|&size| finish(MACHINE, &Arc::new(Tree::lame(size, order))));
        let times: Vec<_> = times.collect();
        let reference = references[order as usize - 1];
        if let Some(at) = sizes.iter().position(|&size| size == 4096) {
            findings.promise(
                &format!("{name} (order {order}) reaches 4096 when the reference does"),
                format!("{} and {reference}", times[at]),
                times[at] == reference,
            );
        }
        let mut cells = vec![format!("{name}, order {order}")];
        cells.extend(times.iter().map(ToString::to_string));
        cells.push(reference.to_string());
        table.row(&cells);
    }
    for arity in [2, 4, 8] {
        let mut cells = vec![format!("{arity}-ary")];
        let time = |&size: &u32| finish(MACHINE, &Arc::new(Tree::kary(size, arity))).to_string();
        cells.extend(sizes.iter().map(time));
        cells.push(if arity == 4 { "40".into() } else { String::new() });
        table.row(&cells);
    }
    findings.text = format!(
        "\n### Trees alone, L = 2, o = g = 1\n\n{table}\nThe Lamé tree of order (L + 2o) / o = 4 \
         is the optimal one.\n"
    );
    findings.append(optimal());
    findings
}

/// The optimal tree beside the Lamé trees where o and g differ.
fn optimal() -> Findings {
    let mut table = Table::new(&["L, o, g", "optimal", "best Lamé (order)", "binomial", "4-ary"]);
    let mut holds = true;
    for (latency, overhead, gap) in [(2, 1, 1), (6, 1, 2), (5, 2, 2), (10, 1, 4), (1, 3, 5)] {
        let machine = LogP { latency, overhead, gap };
        let size = 4096;
        let [hop, step] =
            [machine.hop(), gap.max(overhead)].map(|time| u32::try_from(time).unwrap_or(1));
        let best = finish(machine, &Arc::new(Tree::optimal(size, hop, step)));
        let lame = (1..=14).map(|k| (finish(machine, &Arc::new(Tree::lame(size, k))), k)).min();
        let (lame, order) = lame.unwrap_or_default();
        let binomial = finish(machine, &Arc::new(Tree::binomial(size)));
        let kary = finish(machine, &Arc::new(Tree::kary(size, 4)));
        holds &= best <= lame && best <= binomial && best <= kary;
        table.row(&[
            format!("{latency}, {overhead}, {gap}"),
            best.to_string(),
            format!("{lame} ({order})"),
            binomial.to_string(),
            kary.to_string(),
        ]);
    }
    let mut findings = Findings::default();
    findings.promise("no tree is faster than the optimal one", String::new(), holds);
    findings.text = format!("\n### The optimal tree for L, o and g, 4096 processes\n\n{table}");
    findings
}
