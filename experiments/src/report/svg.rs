//! A small canvas over plotters' SVG backend: the palette, marker shapes, axes and text every plot of a report uses.
//!
//! Colours are written as fixed values; the page's style sheet maps each value to a variable, which is how one drawing
//! serves light and dark pages. Drawings have no size of their own: they fill their container.

use plotters::prelude::{DrawingBackend, IntoTextStyle, RGBAColor, SVGBackend, ShapeStyle};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontFamily, FontStyle, RGBColor, TextStyle};

use super::data::ReportError;

/// Drawing units per unit of the plots' own coordinates: the backend knows whole numbers only, and this makes them
/// fine enough.
const FINE: f64 = 4.0;

/// Okabe and Ito's palette ("Color Universal Design", 2008): told apart with any common colour vision. Shapes differ too.
pub const SERIES: [(u8, u8, u8); 8] = [
    (0, 114, 178),
    (230, 159, 0),
    (0, 158, 115),
    (213, 94, 0),
    (204, 121, 167),
    (86, 180, 233),
    (120, 100, 60),
    (90, 90, 90),
];

/// The parts colours play. The style sheet knows these values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ink {
    /// Titles and labels.
    Text,
    /// Axis titles, ticks, what is left out.
    Muted,
    /// Grid lines.
    Grid,
    /// A series by its style number.
    Series(usize),
}

impl Ink {
    fn rgb(self) -> RGBColor {
        match self {
            Self::Text => RGBColor(27, 31, 36),
            Self::Muted => RGBColor(94, 102, 112),
            Self::Grid => RGBColor(221, 225, 230),
            Self::Series(style) => {
                let (r, g, b) = SERIES[style % SERIES.len()];
                RGBColor(r, g, b)
            }
        }
    }
}

/// Where a text stands relative to its point. Vertically it is centred on it.
#[derive(Debug, Clone, Copy)]
pub enum Align {
    /// Starts there.
    Start,
    /// Centred there.
    Middle,
    /// Ends there.
    End,
}

/// A drawing in progress.
pub struct Canvas<'a> {
    backend: SVGBackend<'a>,
}

/// Draws an SVG element of the given proportions, described by `label` to those who cannot see it.
pub fn draw(
    width: f64,
    height: f64,
    label: &str,
    paint: impl FnOnce(&mut Canvas<'_>) -> Result<(), ReportError>,
) -> Result<String, ReportError> {
    let mut drawing = String::new();
    let (w, h) = ((width * FINE) as u32, (height * FINE) as u32);
    let mut canvas = Canvas { backend: SVGBackend::with_string(&mut drawing, (w, h)) };
    paint(&mut canvas)?;
    canvas.backend.present().map_err(failed)?;
    drop(canvas);
    let body = drawing.split_once('>').map_or("", |(_, body)| body);
    let label = escape(label);
    Ok(format!("<svg role=\"img\" aria-label=\"{label}\" viewBox=\"0 0 {w} {h}\">{body}"))
}

fn failed(error: impl std::fmt::Display) -> ReportError {
    ReportError::Render { reason: error.to_string() }
}

/// Text for an attribute of HTML or SVG.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

fn at(x: f64, y: f64) -> (i32, i32) {
    ((x * FINE).round() as i32, (y * FINE).round() as i32)
}

impl Canvas<'_> {
    fn style(ink: Ink, opacity: f64, width: f64, filled: bool) -> ShapeStyle {
        let color: RGBAColor = ink.rgb().mix(opacity);
        ShapeStyle { color, filled, stroke_width: ((width * FINE).round() as u32).max(1) }
    }

    /// A straight line.
    pub fn line(
        &mut self,
        from: (f64, f64),
        to: (f64, f64),
        ink: Ink,
        width: f64,
        opacity: f64,
    ) -> Result<(), ReportError> {
        let style = Self::style(ink, opacity, width, false);
        self.backend.draw_line(at(from.0, from.1), at(to.0, to.1), &style).map_err(failed)
    }

    /// A line through several points.
    pub fn path(&mut self, points: &[(f64, f64)], ink: Ink, width: f64) -> Result<(), ReportError> {
        let style = Self::style(ink, 1.0, width, false);
        self.backend.draw_path(points.iter().map(|p| at(p.0, p.1)), &style).map_err(failed)
    }

    /// A dot, for a single round.
    pub fn dot(&mut self, x: f64, y: f64, radius: f64, ink: Ink, opacity: f64) -> Result<(), ReportError> {
        let style = Self::style(ink, opacity, 0.0, true);
        self.backend.draw_circle(at(x, y), (radius * FINE) as u32, &style, true).map_err(failed)
    }

    /// A filled area.
    pub fn polygon(&mut self, points: &[(f64, f64)], ink: Ink, opacity: f64) -> Result<(), ReportError> {
        let style = Self::style(ink, opacity, 0.0, true);
        self.backend.fill_polygon(points.iter().map(|p| at(p.0, p.1)), &style).map_err(failed)
    }

    /// The marker of a series, about `r` in radius; `hollow` for an estimate that shows nothing.
    pub fn marker(&mut self, x: f64, y: f64, r: f64, style: usize, hollow: bool) -> Result<(), ReportError> {
        let corners: &[(f64, f64)] = match style % 5 {
            0 => {
                let shape = Self::style(Ink::Series(style), 1.0, if hollow { 1.3 } else { 0.0 }, !hollow);
                return self
                    .backend
                    .draw_circle(at(x, y), (r * FINE) as u32, &shape, !hollow)
                    .map_err(failed);
            }
            1 => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
            2 => &[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
            3 => &[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)],
            _ => &[(0.0, 1.2), (-1.1, -0.8), (1.1, -0.8)],
        };
        let mut points: Vec<(f64, f64)> = corners.iter().map(|(dx, dy)| (x + dx * r, y + dy * r)).collect();
        if hollow {
            points.push(points[0]);
            self.path(&points, Ink::Series(style), 1.3)
        } else {
            self.polygon(&points, Ink::Series(style), 1.0)
        }
    }

    /// A small cross, for a round that is not valid.
    pub fn cross(&mut self, x: f64, y: f64, r: f64, ink: Ink) -> Result<(), ReportError> {
        self.line((x - r, y - r), (x + r, y + r), ink, 1.0, 1.0)?;
        self.line((x - r, y + r), (x + r, y - r), ink, 1.0, 1.0)
    }

    /// A text of `size` units.
    pub fn text(
        &mut self,
        text: &str,
        (x, y): (f64, f64),
        size: f64,
        ink: Ink,
        align: Align,
        bold: bool,
    ) -> Result<(), ReportError> {
        let h_pos = match align {
            Align::Start => HPos::Left,
            Align::Middle => HPos::Center,
            Align::End => HPos::Right,
        };
        // The backend divides sizes by 1.24 (its idea of a point); undone here, so that sizes are what they say.
        let font = (FontFamily::SansSerif, size * FINE * 1.24);
        let mut style: TextStyle<'_> = font.into_text_style(&(0, 0));
        let color = ink.rgb();
        style = style.color(&color).pos(Pos::new(h_pos, VPos::Center));
        if bold {
            style.font = style.font.style(FontStyle::Bold);
        }
        self.backend.draw_text(text, &style, at(x, y)).map_err(failed)
    }
}

/// A scale from values to positions, linear from zero or logarithmic.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    low: f64,
    high: f64,
    log: bool,
    /// Where grid lines and labels stand.
    pub ticks: Vec<f64>,
}

impl Axis {
    /// From zero to a round number at or above `max`.
    pub fn linear(max: f64) -> Self {
        let max = if max.is_finite() && max > 0.0 { max } else { 1.0 };
        let rough = max / 4.0;
        let magnitude = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|nice| nice * magnitude)
            .find(|step| *step >= rough * 0.999)
            .unwrap_or(10.0 * magnitude);
        let steps = (max / step - 1e-9).ceil().max(1.0);
        Self {
            low: 0.0,
            high: steps * step,
            log: false,
            ticks: (0..=steps as usize).map(|n| n as f64 * step).collect(),
        }
    }

    /// Logarithmic, from a round number at or below `min` to one at or above `max`.
    pub fn log(min: f64, max: f64) -> Self {
        let usable = |value: f64, other: f64| if value.is_finite() && value > 0.0 { value } else { other };
        let (min, max) = (usable(min, 1.0), usable(max, 1.0));
        let (min, max) = (min.min(max), max.max(min));
        let first = min.log10().floor() as i32 - 1;
        let last = max.log10().ceil() as i32 + 1;
        let ladder: Vec<f64> =
            (first..=last).flat_map(|e| [1.0, 2.0, 5.0].map(|n| n * 10f64.powi(e))).collect();
        let low = ladder.iter().rposition(|tick| *tick <= min * 1.0001).unwrap_or(0);
        let high = ladder.iter().position(|tick| *tick >= max * 0.9999).unwrap_or(ladder.len() - 1);
        let high = high.max(low + 1).min(ladder.len() - 1);
        // Over several decades only their ends are marked (every third step of the ladder).
        let wide = high - low > 8;
        let ticks = (low..=high).filter(|step| !wide || step % 3 == 0).map(|step| ladder[step]).collect();
        Self { low: ladder[low], high: ladder[high], log: true, ticks }
    }

    /// Logarithmic from `low` to `high` exactly, with ticks at those of `ticks` that lie within.
    pub fn log_exact(low: f64, high: f64, ticks: &[f64]) -> Self {
        let ticks = ticks.iter().copied().filter(|tick| (low..=high).contains(tick)).collect();
        Self { low, high, log: true, ticks }
    }

    /// Where between 0 (low end) and 1 (high end) a value stands; beyond the ends it stands at the end.
    pub fn place(&self, value: f64) -> f64 {
        let part = if self.log {
            (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        part.clamp(0.0, 1.0)
    }

    /// Whether a value lies beyond the ends.
    pub fn beyond(&self, value: f64) -> bool {
        value < self.low || value > self.high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!(Axis::linear(31204.0).ticks, [0.0, 10000.0, 20000.0, 30000.0, 40000.0]);
        assert_eq!(Axis::linear(20000.0).ticks.last(), Some(&20000.0));
        assert_eq!(Axis::log(0.3, 40.0).ticks, [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(Axis::log(0.3, 4000.0).ticks, [1.0, 10.0, 100.0, 1000.0]);
    }

    #[test]
    fn axes_survive_senseless_bounds() {
        for axis in [
            Axis::linear(0.0),
            Axis::linear(f64::NAN),
            Axis::log(0.0, 0.0),
            Axis::log(5.0, 5.0),
            Axis::log(-1.0, 3.0),
        ] {
            assert!(axis.ticks.len() >= 2, "{axis:?}");
            assert!((0.0..=1.0).contains(&axis.place(3.0)), "{axis:?}");
        }
    }

    #[test]
    fn labels_and_texts_are_escaped() {
        let svg = draw(10.0, 10.0, "a \"b\" <c>", |canvas| {
            canvas.text("<script>", (1.0, 1.0), 5.0, Ink::Text, Align::Start, false)
        });
        let svg = svg.unwrap();
        assert!(
            svg.contains("aria-label=\"a &quot;b&quot; &lt;c&gt;\"") && svg.contains("&lt;script&gt;"),
            "{svg}"
        );
        assert!(!svg.contains("http"), "{svg}");
    }
}
