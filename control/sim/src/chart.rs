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

/// What of a chart is drawn by its logarithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Nothing.
    Linear,
    /// What lies along.
    Along,
    /// What is upwards: shares, all above 0.
    Upwards,
}

/// What a chart shows.
pub struct Chart {
    /// Its title.
    pub title: String,
    /// What lies along, with its unit.
    pub along: String,
    /// What is upwards, with its unit.
    pub upwards: String,
    /// What is drawn by its logarithm.
    pub scale: Scale,
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
/// A line of so many points has none drawn.
const DENSE: usize = 20;

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
        let (width, shares) = (left..right, bottom..top);
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
            match self.scale {
                Scale::Linear => self.draw(builder.build_cartesian_2d(width, upwards)),
                Scale::Along => self.draw(builder.build_cartesian_2d(width.log_scale(), upwards)),
                Scale::Upwards => self.draw(builder.build_cartesian_2d(width, shares.log_scale())),
            }?;
            area.present().map_err(|error| anyhow!("{error}"))?;
        }
        let names: Vec<&str> = self.lines.iter().map(|line| line.name.as_str()).collect();
        let described = format!(
            "<title>{}</title>\n<desc>{}, over {}: {}</desc>\n<rect",
            self.title,
            self.upwards,
            self.along,
            names.join("; ")
        );
        let text = text.replacen("<rect", &described, 1);
        let spdx = "<!-- SPDX-License-Identifier: Apache-2.0 -->\n";
        Ok(format!("{spdx}{}\n", text.trim_end()))
    }

    fn draw<'a, 'b: 'a, X, Y, E>(&self, built: Built<'a, 'b, X, Y, E>) -> Result<()>
    where
        X: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
        E: std::fmt::Display,
    {
        let mut context = built.map_err(|error| anyhow!("{error}"))?;
        context
            .configure_mesh()
            .x_desc(&self.along)
            .y_desc(&self.upwards)
            .light_line_style(TRANSPARENT)
            .draw()
            .map_err(|error| anyhow!("{error}"))?;
        for (line, colour) in self.lines.iter().zip(COLOURS.iter().cycle()) {
            let style = ShapeStyle::from(colour).stroke_width(2);
            let size = if line.points.len() < DENSE { 3 } else { 0 };
            context
                .draw_series(LineSeries::new(line.points.clone(), style).point_size(size))
                .map_err(|error| anyhow!("{error}"))?
                .label(&line.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        context
            .configure_series_labels()
            .background_style(WHITE.mix(0.9))
            .border_style(BLACK.mix(0.3))
            .position(match self.scale {
                Scale::Upwards => SeriesLabelPosition::LowerLeft, // shares begin at 1
                Scale::Linear | Scale::Along => SeriesLabelPosition::UpperLeft,
            })
            .draw()
            .map_err(|error| anyhow!("{error}"))
    }
}

type Built<'a, 'b, X, Y, E> = Result<ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>, E>;

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
            scale: Scale::Along,
            lines: vec![line("one", 1.0), line("two", 2.0)],
        };
        let svg = chart.svg().expect("a chart");
        assert!(svg.contains("<svg") && svg.contains("one") && svg.contains("two"));
    }
}
