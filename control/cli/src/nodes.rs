// SPDX-License-Identifier: Apache-2.0
//! `nodes`: the hosts of a running job, which ranks they have, and how they fare.

use crate::jobs::JobsDir;
use crate::output::Output;
use crate::state::{State, check_own, state_of};
use crate::table::{in_a_line, number, table, words};
use anyhow::Result;
use fermata_launch::units::human_bytes;
use serde_json::{Value, json};

/// `fermata nodes`
pub fn nodes(place: &JobsDir, name: Option<&str>, output: Output) -> Result<u8> {
    let job = place.find(name)?;
    check_own(&job, "nodes")?;
    let record = job.read_record()?;
    let figures = match state_of(&job, &record) {
        State::Running(figures) => figures,
        state => return Err(state.refusal(&job)),
    };
    // A coordinator of before does not tell of hosts.
    let hosts = figures["hosts"].as_array().cloned().unwrap_or_default();
    let rows: Vec<[String; 5]> = hosts.iter().map(row).collect();
    let columns =
        [words("HOST"), words("RANKS"), number("CPU"), number("FREE MEMORY"), number("FREE DISK")];
    output.answer(table(columns, &rows), &json!(hosts))?;
    Ok(0)
}

fn row(host: &Value) -> [String; 5] {
    let nothing = || "-".to_owned();
    let bytes = |key: &str| host[key].as_u64().map_or_else(nothing, human_bytes);
    let ranks: Vec<u64> =
        host["ranks"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
    [
        in_a_line(host["host"].as_str().unwrap_or("-")),
        if ranks.is_empty() { nothing() } else { in_ranges(&ranks) },
        host["cpu"].as_f64().map_or_else(nothing, |cpu| format!("{:.0} %", 100.0 * cpu)),
        bytes("memory"),
        bytes("space"),
    ]
}

/// `[0, 1, 2, 5]` -> "0-2,5"
fn in_ranges(ascending: &[u64]) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in ascending {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let word = |(first, last): &(u64, u64)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    };
    ranges.iter().map(word).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_told_in_ranges() {
        assert_eq!(in_ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        let host = json!({"host": "a\nb", "ranks": [0, 1], "cpu": 0.254, "memory": null,
                          "space": 2u64 << 30});
        assert_eq!(row(&host), ["a\\nb", "0-1", "25 %", "-", "2.0 GiB"]);
        assert_eq!(row(&json!({}))[1], "-");
    }
}
