// SPDX-License-Identifier: Apache-2.0
//! The pictures of the page: latency and messages over the share of dead processes.

use super::broadcasts::{Series, series};
use super::{Effort, Findings};
use crate::failures::Placement;
use crate::scheme::Scheme;
use crate::world::LogP;
use fermata_ftcoll::correction::Rule;
use fermata_ftcoll::tree::Tree;
use plotters::prelude::*;
use std::sync::Arc;

const SIZE: u32 = 4096;
const MACHINE: LogP = LogP::PAPER;
/// Per mille.
const DEAD: [u32; 8] = [0, 2, 5, 10, 15, 20, 30, 40];

struct Line {
    name: String,
    points: Vec<(f64, Series)>,
}

fn lines(effort: &Effort) -> Vec<Line> {
    let trees = [
        ("Lamé 4", Tree::lame(SIZE, 4)),
        ("4-ary", Tree::kary(SIZE, 4)),
        ("binomial", Tree::binomial(SIZE)),
        ("binomial in order", Tree::binomial(SIZE).in_order()),
    ];
    let ring = Tree::binomial(SIZE);
    let mut schemes: Vec<_> = trees
        .into_iter()
        .map(|(name, tree)| {
            let tree = Arc::new(tree);
            (Scheme::synchronised(name, MACHINE, &tree, Rule::Checked), Tree::clone(&tree))
        })
        .collect();
    schemes.push((Scheme::gossip("gossip until 28", SIZE, 28, Rule::Checked), ring));
    let runs = effort.runs.min(30);
    let line = |(scheme, tree): (Scheme, Tree)| {
        let points = DEAD.iter().map(|&per_mille| {
            let count = SIZE * per_mille / 1000;
            let seen = series(&scheme, Placement::Random, &tree, count, (effort.seed, runs));
            (f64::from(per_mille) / 10.0, seen)
        });
        Line { points: points.collect(), name: scheme.name }
    };
    schemes.into_iter().map(line).collect()
}

type Figure = fn(&Series) -> f64;

fn draw(lines: &[Line], title: &str, figure: Figure) -> Result<String, Box<dyn std::error::Error>> {
    let colours = [RED, BLUE, GREEN, BLACK, MAGENTA];
    let all = lines.iter().flat_map(|line| &line.points);
    let highest = 1.25 * all.map(|(_, seen)| figure(seen)).fold(0.0, f64::max);
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (720, 420)).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(48)
            .build_cartesian_2d(0.0..4.0, 0.0..highest)?;
        chart.configure_mesh().x_desc("dead processes, %").light_line_style(WHITE).draw()?;
        for (line, colour) in lines.iter().zip(colours) {
            let points: Vec<_> = line.points.iter().map(|(x, seen)| (*x, figure(seen))).collect();
            let style = colour.stroke_width(2);
            chart
                .draw_series(LineSeries::new(points, style).point_size(3))?
                .label(line.name.clone())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE)
            .border_style(BLACK)
            .draw()?;
        root.present()?;
    }
    let described = format!(
        "<title>{title}</title>\n<desc>Over the share of dead processes: {}.</desc>\n<rect",
        lines.iter().map(|line| line.name.as_str()).collect::<Vec<_>>().join(", ")
    );
    Ok(text.replacen("<rect", &described, 1))
}

/// Draws both pictures.
///
/// # Errors
/// If the library cannot draw.
pub fn pictures(effort: &Effort) -> Result<Findings, Box<dyn std::error::Error>> {
    let lines = lines(effort);
    let latency = draw(
        &lines,
        "Last living process reached (worst run), 4096 processes, L = 2, o = g = 1",
        |seen| seen.last.largest(),
    )?;
    let messages =
        draw(&lines, "Messages per process, 4096 processes", |seen| seen.messages.mean())?;
    let mut findings = Findings::default();
    for (name, text) in [("ftcoll-latency.svg", latency), ("ftcoll-messages.svg", messages)] {
        findings.pictures.push((name.into(), text));
    }
    findings.text = "\n![The time at which the last living process is reached, over the share of \
                     dead processes](../img/ftcoll-latency.svg)\n\n![Messages per process, \
                     over the share of dead processes](../img/ftcoll-messages.svg)\n"
        .to_owned();
    Ok(findings)
}
