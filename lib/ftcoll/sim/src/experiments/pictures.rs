// SPDX-License-Identifier: Apache-2.0
//! The pictures of the page: latency and messages over the share of dead processes.

use super::broadcasts::{Series, series};
use super::{Effort, Findings};
use crate::failures::Placement;
use crate::scheme::Scheme;
use crate::world::LogP;
use fermata_ftcoll::correction::Rule;
use fermata_ftcoll::tree::Tree;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use std::sync::Arc;

const SIZE: u32 = 4096;
const MACHINE: LogP = LogP::PAPER;
const COLOURS: [RGBColor; 5] = [RED, BLUE, RGBColor(0, 130, 0), BLACK, MAGENTA];
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

/// Times differ by a factor of fifty, so they are drawn on a logarithmic scale.
fn latencies(lines: &[Line], title: &str) -> Result<String, Box<dyn std::error::Error>> {
    draw(lines, title, |seen| seen.last.largest(), (20.0..4000.0).log_scale())
}

fn draw<Y>(
    lines: &[Line],
    title: &str,
    figure: Figure,
    range: Y,
) -> Result<String, Box<dyn std::error::Error>>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (720, 420)).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(48)
            .build_cartesian_2d(0.0..4.0, range)?;
        let whole = |figure: &f64| format!("{figure:.0}");
        let mut mesh = chart.configure_mesh();
        mesh.x_desc("dead processes, %").y_label_formatter(&whole);
        mesh.light_line_style(WHITE).draw()?;
        for (line, colour) in lines.iter().zip(COLOURS) {
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
    let title = "Last living process reached (worst run), 4096 processes, L = 2, o = g = 1";
    let latency = latencies(&lines, title)?;
    let title = "Messages per process, 4096 processes";
    let messages = draw(&lines, title, |seen| seen.messages.mean(), 0.0..10.0)?;
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

/// Of the scale of misses.
const LEAST: f64 = 1e-6;

/// How often a miss was seen over the distance, and how often it is predicted at most.
pub struct Curve {
    /// For the legend.
    pub name: String,
    /// Distance and share of runs.
    pub seen: Vec<(f64, f64)>,
    /// Distance and chance.
    pub predicted: Vec<(f64, f64)>,
}

/// Draws the chances of a miss, on a logarithmic scale; shares of 0 are left out.
///
/// # Errors
/// If the library cannot draw.
pub fn misses(curves: &[Curve]) -> Result<String, Box<dyn std::error::Error>> {
    let title = "Runs with a miss, opportunistic: points seen, lines predicted at most";
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (720, 420)).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..18.0, (LEAST..2.0).log_scale())?;
        chart
            .configure_mesh()
            .x_desc("distance of the correction")
            .light_line_style(WHITE)
            .draw()?;
        for (curve, colour) in curves.iter().zip(COLOURS) {
            let above = |point: &&(f64, f64)| point.1 >= LEAST;
            let line = curve.predicted.iter().filter(above).copied();
            let style = colour.stroke_width(2);
            chart
                .draw_series(LineSeries::new(line, style))?
                .label(curve.name.clone())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
            let points = curve.seen.iter().filter(above);
            chart.draw_series(points.map(|&point| Circle::new(point, 4, colour.filled())))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE)
            .border_style(BLACK)
            .draw()?;
        root.present()?;
    }
    let names: Vec<&str> = curves.iter().map(|curve| curve.name.as_str()).collect();
    let described = format!(
        "<title>{title}</title>\n<desc>Over the distance of the correction: {}.</desc>\n<rect",
        names.join(", ")
    );
    Ok(text.replacen("<rect", &described, 1))
}
