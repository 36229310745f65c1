// SPDX-License-Identifier: Apache-2.0
//! The picture of `docs/evidence/membership.md`: when deaths were known, by loss, all numbers of
//! nodes together, and the limit.

use super::plan::{LOSSES, Tables};
use super::report::KNOWN_MS;
use std::fmt::Write;

const WIDTH: u32 = 800;
const LEFT: f64 = 96.0;
const RIGHT: f64 = 776.0;
const TOP: f64 = 96.0;
const ROW: f64 = 64.0;
/// From 0 to here, in milliseconds.
const LONGEST: f64 = 5500.0;
/// Bars of a histogram are so wide, in milliseconds.
const BAR: u64 = 50;

const STYLE: &str = "<style>text{font-family:sans-serif;fill:#1f2328}\
    .quiet{fill:#59636e}.bar{fill:#0969da}.axis{stroke:#8c959f}\
    .limit{stroke:#cf222e;stroke-width:2}.limit-text{fill:#cf222e}\
    @media(prefers-color-scheme:dark){text{fill:#e6edf3}.quiet{fill:#9198a1}\
    .bar{fill:#4493f8}.axis{stroke:#656c76}.limit{stroke:#f85149}.limit-text{fill:#f85149}}\
    </style>";

fn x(ms: f64) -> f64 {
    LEFT + (RIGHT - LEFT) * ms / LONGEST
}

/// The picture as SVG.
pub fn draw(tables: &Tables) -> String {
    let bottom = TOP + ROW * LOSSES.len() as f64;
    let height = bottom + 56.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-labelledby=\"t d\">\n<title id=\"t\">When a dead node is known</title>\n\
         <desc id=\"d\">Histograms of the time from a node's death to the coordinator's knowing, \
         by the share of datagrams that are lost; the limit is 5 s.</desc>\n{STYLE}\n"
    );
    text(&mut svg, 24.0, 36.0, 20, "", "When a dead node is known");
    text(
        &mut svg,
        24.0,
        62.0,
        13,
        "quiet",
        "From its death to the coordinator's knowing, simulated, 2 to 256 nodes, by loss.",
    );
    for (row, loss) in LOSSES.iter().enumerate() {
        let base = TOP + ROW * (row + 1) as f64;
        histogram(&mut svg, tables, *loss, base);
    }
    for second in 0..=5 {
        let at = x(f64::from(second) * 1000.0);
        line(&mut svg, "axis", (at, bottom), (at, bottom + 6.0));
        text(&mut svg, at - 10.0, bottom + 24.0, 12, "quiet", &format!("{second} s"));
    }
    let limit = x(KNOWN_MS as f64);
    line(&mut svg, "limit", (limit, TOP - 6.0), (limit, bottom));
    text(&mut svg, limit - 60.0, TOP - 10.0, 12, "limit-text", "limit 5 s");
    svg.push_str("</svg>\n");
    svg
}

fn histogram(svg: &mut String, tables: &Tables, loss: u32, base: f64) {
    let of_loss = |setting: f64| (setting * 1000.0 - f64::from(loss)).abs() < 0.5;
    let rows = tables.main.iter().filter(|row| of_loss(row.setting.loss));
    let mut bars = std::collections::BTreeMap::<u64, u64>::new();
    let (mut most, mut deaths) = (0, 0);
    for known in rows.flat_map(|row| &row.outcome.known_ms) {
        *bars.entry(known / BAR).or_default() += 1;
        most = most.max(*known);
        deaths += 1;
    }
    let tallest = bars.values().copied().max().unwrap_or(1) as f64;
    for (bar, count) in bars {
        // The root, so that the rare ones can be seen.
        let height = ((count as f64 / tallest).sqrt() * (ROW - 18.0)).max(1.0);
        let left = x((bar * BAR) as f64);
        let width = x(BAR as f64) - x(0.0) - 0.5;
        let top = base - height;
        let _ = writeln!(
            svg,
            "<rect class=\"bar\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\"/>"
        );
    }
    line(svg, "axis", (LEFT, base), (RIGHT, base));
    let percent = format!("{} % lost", loss / 10);
    text(svg, 24.0, base - 4.0, 13, "", &percent);
    let said = format!("{deaths} deaths, the last known after {:.2} s", most as f64 / 1000.0);
    text(svg, LEFT + 8.0, base - ROW + 30.0, 12, "quiet", &said);
}

fn text(svg: &mut String, x: f64, y: f64, size: u32, class: &str, words: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" class=\"{class}\">{words}</text>"
    );
}

fn line(svg: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        svg,
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        from.0, from.1, to.0, to.1
    );
}
