// SPDX-License-Identifier: Apache-2.0
//! A chart of lines as SVG, by plotters.

use anyhow::{Result, anyhow};
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;

/// One line of a chart.
pub struct Line {
    /// What it is.
    pub name: String,
    /// Where it leads.
    pub points: Vec<(f64, f64)>,
}

/// What a chart shows.
pub struct Chart {
    /// Its title.
    pub title: String,
    /// What lies along, with its unit.
    pub along: String,
    /// What is upwards, with its unit.
    pub upwards: String,
    /// Whether what lies along is drawn by its logarithm.
    pub is_logarithmic: bool,
    /// The lines.
    pub lines: Vec<Line>,
}

/// Colours that differ for people who do not see all of them. Source: Okabe and Ito, 2008.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
];

const SIZE: (u32, u32) = (760, 420);

impl Chart {
    /// The chart as SVG.
    ///
    /// # Errors
    /// It has no points, or cannot be drawn.
    pub fn svg(&self) -> Result<String> {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let ends = |of: fn(&(f64, f64)) -> f64| {
            let values = points().map(of);
            values.fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)))
        };
        let ((left, right), (bottom, top)) = (ends(|p| p.0), ends(|p| p.1));
        anyhow::ensure!(left < right, "a chart wants two points or more");
        let upwards = bottom.min(0.0)..top.max(0.0) * 1.05 + 1e-9;
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            area.fill(&WHITE).map_err(|error| anyhow!("{error}"))?;
            let mut builder = ChartBuilder::on(&area);
            builder
                .caption(&self.title, ("sans-serif", 18))
                .margin(12)
                .x_label_area_size(44)
                .y_label_area_size(56);
            let drawn = if self.is_logarithmic {
                let mut context = builder
                    .build_cartesian_2d((left..right).log_scale(), upwards)
                    .map_err(|error| anyhow!("{error}"))?;
                self.draw(&mut context)
            } else {
                let mut context = builder
                    .build_cartesian_2d(left..right, upwards)
                    .map_err(|error| anyhow!("{error}"))?;
                self.draw(&mut context)
            };
            drawn?;
            area.present().map_err(|error| anyhow!("{error}"))?;
        }
        let spdx = "<!-- SPDX-License-Identifier: Apache-2.0 -->\n";
        Ok(format!("{spdx}{}\n", text.trim_end()))
    }

    fn draw<'a, 'b: 'a, X>(&self, context: &mut Context<'a, 'b, X>) -> Result<()>
    where
        X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        context
            .configure_mesh()
            .x_desc(&self.along)
            .y_desc(&self.upwards)
            .light_line_style(TRANSPARENT)
            .draw()
            .map_err(|error| anyhow!("{error}"))?;
        for (line, colour) in self.lines.iter().zip(COLOURS.iter().cycle()) {
            let style = ShapeStyle::from(colour).stroke_width(2);
            context
                .draw_series(LineSeries::new(line.points.clone(), style).point_size(3))
                .map_err(|error| anyhow!("{error}"))?
                .label(&line.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        context
            .configure_series_labels()
            .background_style(WHITE.mix(0.9))
            .border_style(BLACK.mix(0.3))
            .position(SeriesLabelPosition::UpperLeft)
            .draw()
            .map_err(|error| anyhow!("{error}"))
    }
}

type Context<'a, 'b, X> =
    ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, plotters::coord::types::RangedCoordf64>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_names_its_lines() {
        let line = |name: &str, up: f64| Line {
            name: name.into(),
            points: vec![(6.0, up), (24.0, 2.0 * up), (240.0, 3.0 * up)],
        };
        let chart = Chart {
            title: "Overhead".into(),
            along: "GB".into(),
            upwards: "%".into(),
            is_logarithmic: true,
            lines: vec![line("one", 1.0), line("two", 2.0)],
        };
        let svg = chart.svg().expect("a chart");
        assert!(svg.contains("<svg") && svg.contains("one") && svg.contains("two"));
    }
}
