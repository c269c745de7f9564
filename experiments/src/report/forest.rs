//! The forest plot: every cell's ratio to the reference with its interval, and the typical ratio over cells.

use super::analysis::{Analysis, Block};
use super::data::ReportError;
use super::plots::{group_heading, styles};
use super::svg::{Align, Axis, Canvas, Ink, draw};
use super::words;
use crate::stats::ratio::{Ratio, Verdict};

const WIDTH: f64 = 300.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 36.0;
const ROW: f64 = 14.0;

/// More cells than this make a panel nobody reads; the table has the rest.
pub const MOST_ROWS: usize = 48;

enum Row {
    Heading(String),
    Cell(String, Option<Ratio>),
    Typical(Option<Ratio>),
}

/// One panel per series other than the reference, all on one scale.
pub fn panels(analysis: &Analysis<'_>, reference: usize, metric: &str) -> Result<Vec<String>, ReportError> {
    let names = analysis.series_names();
    let others: Vec<usize> = (0..names.len()).filter(|s| *s != reference && analysis.measured(*s)).collect();
    let rows: Vec<Vec<Row>> =
        others.iter().map(|series| rows(analysis, *series, reference, metric)).collect();
    let axis = axis(&rows);
    let styles = styles(&names);
    let row_factors = analysis.panels.iter().chain(&analysis.x);
    let titles: Vec<String> =
        row_factors.map(|factor| words::factor_title(&analysis.run.factors[*factor].name)).collect();
    let labels = titles.join(" · ");
    let panels = others.iter().zip(&rows);
    panels
        .map(|(series, rows)| {
            let title = format!("{} / {}", names[*series], names[reference]);
            panel(&title, &labels, styles[*series], &axis, rows)
        })
        .collect()
}

fn rows(analysis: &Analysis<'_>, series: usize, reference: usize, metric: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut group = None;
    for block in analysis.blocks.iter().take(MOST_ROWS) {
        if let Some(factor) = analysis.group.filter(|factor| group != Some(block[*factor])) {
            group = Some(block[factor]);
            rows.push(Row::Heading(group_heading(analysis, block, factor)));
        }
        rows.push(Row::Cell(label(analysis, block), analysis.ratio(block, series, reference, metric)));
    }
    if analysis.has_typical() {
        rows.push(Row::Typical(analysis.pooled_ratio(series, reference, metric)));
    }
    rows
}

/// What tells a cell from the others of its group.
fn label(analysis: &Analysis<'_>, block: &Block) -> String {
    let factors = analysis.panels.iter().chain(&analysis.x);
    factors.map(|factor| analysis.level(block, *factor)).collect::<Vec<_>>().join(" · ")
}

impl Row {
    fn ratio(&self) -> Option<Ratio> {
        match self {
            Self::Heading(_) => None,
            Self::Cell(_, ratio) | Self::Typical(ratio) => *ratio,
        }
    }
}

/// A scale that holds every estimate, and as much of the intervals as leaves the estimates readable.
fn axis(rows: &[Vec<Row>]) -> Axis {
    let ratios: Vec<Ratio> = rows.iter().flatten().filter_map(Row::ratio).collect();
    let logs = ratios.iter().map(|ratio| ratio.estimate.ln());
    let reach = logs.clone().map(f64::abs).fold(1.25f64.ln(), f64::max);
    let (mut low, mut high) = (0f64, 0f64);
    for ratio in &ratios {
        let (a, b) = ratio.interval.unwrap_or((ratio.estimate, ratio.estimate));
        // Three noisy rounds can give an interval of several orders of magnitude: cut at twice the farthest estimate.
        low = low.min(ratio.estimate.ln()).min(a.ln().max(-2.0 * reach));
        high = high.max(ratio.estimate.ln()).max(b.ln().min(2.0 * reach));
    }
    let margin = 0.05 * (high - low).max(0.2);
    let ticks: &[f64] = match high - low {
        span if span < 0.9 => &[0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.6],
        span if span < 2.5 => &[0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 4.0, 5.0],
        _ => &[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0],
    };
    Axis::log_exact((low - margin).exp(), (high + margin).exp(), ticks)
}

fn panel(title: &str, labels: &str, style: usize, axis: &Axis, rows: &[Row]) -> Result<String, ReportError> {
    let height = TOP + ROW * rows.len() as f64 + BOTTOM;
    let label = format!("Requests per second of {title}: ratio per cell with 95 % interval");
    draw(WIDTH, height, &label, |canvas| {
        let (right, bottom) = (WIDTH - RIGHT, height - BOTTOM);
        let x = |value: f64| LEFT + axis.place(value) * (right - LEFT);
        canvas.text(title, (0.0, 9.0), 12.5, Ink::Text, Align::Start, true)?;
        canvas.text(labels, (0.0, 24.0), 10.5, Ink::Muted, Align::Start, false)?;
        canvas.text("← slower", (x(1.0) - 6.0, TOP - 10.0), 10.5, Ink::Muted, Align::End, false)?;
        canvas.text("faster →", (x(1.0) + 6.0, TOP - 10.0), 10.5, Ink::Muted, Align::Start, false)?;
        // 1 is what every row is read against, so it is labelled first; of the others those that have room.
        let mut labelled = Vec::new();
        for tick in std::iter::once(&1.0).chain(&axis.ticks) {
            let place = x(*tick);
            if labelled.iter().all(|other: &f64| (place - other).abs() > 22.0) {
                labelled.push(place);
                canvas.line((place, TOP), (place, bottom), Ink::Grid, 0.75, 1.0)?;
                let text = words::tick(*tick);
                canvas.text(&text, (place, bottom + 10.0), 10.5, Ink::Muted, Align::Middle, false)?;
            }
        }
        canvas.line((x(1.0), TOP - 16.0), (x(1.0), bottom), Ink::Muted, 1.0, 1.0)?;
        let axis_title = "requests/s ratio, log scale";
        canvas.text(
            axis_title,
            (0.5 * (LEFT + right), bottom + 26.0),
            10.5,
            Ink::Muted,
            Align::Middle,
            false,
        )?;
        for (index, row) in rows.iter().enumerate() {
            let y = TOP + ROW * (index as f64 + 0.5);
            match row {
                Row::Heading(text) => canvas.text(text, (0.0, y), 10.5, Ink::Text, Align::Start, true)?,
                Row::Cell(text, ratio) => {
                    canvas.text(text, (LEFT - 6.0, y), 10.5, Ink::Muted, Align::End, false)?;
                    match ratio {
                        Some(ratio) => estimate(canvas, axis, &x, y, ratio, style)?,
                        None => {
                            canvas.text("no pair", (x(1.0) + 5.0, y), 9.5, Ink::Muted, Align::Start, false)?
                        }
                    }
                }
                Row::Typical(ratio) => {
                    canvas.line((0.0, y - ROW / 2.0), (right, y - ROW / 2.0), Ink::Grid, 0.75, 1.0)?;
                    canvas.text("all cells", (LEFT - 6.0, y), 10.5, Ink::Text, Align::End, true)?;
                    if let Some(ratio) = ratio {
                        diamond(canvas, &x, y, ratio, style)?;
                    }
                }
            }
        }
        Ok(())
    })
}

/// Marker and interval of a cell: filled when the interval excludes 1, hollow when no difference is shown.
fn estimate(
    canvas: &mut Canvas<'_>,
    axis: &Axis,
    x: &impl Fn(f64) -> f64,
    y: f64,
    ratio: &Ratio,
    style: usize,
) -> Result<(), ReportError> {
    let ink = Ink::Series(style);
    if let Some((low, high)) = ratio.interval {
        canvas.line((x(low), y), (x(high), y), ink, 1.2, 0.75)?;
        // An interval that goes on beyond the scale ends in an arrow head.
        for (end, inward) in [(low, 4.0), (high, -4.0)] {
            if axis.beyond(end) {
                canvas.line((x(end), y), (x(end) + inward, y - 3.0), ink, 1.0, 0.9)?;
                canvas.line((x(end), y), (x(end) + inward, y + 3.0), ink, 1.0, 0.9)?;
            }
        }
    }
    let shown = matches!(ratio.verdict(), Verdict::Above | Verdict::Below);
    canvas.marker(x(ratio.estimate), y, 3.2, style, !shown)
}

/// The typical ratio: a diamond as wide as its interval, as forest plots have it.
fn diamond(
    canvas: &mut Canvas<'_>,
    x: &impl Fn(f64) -> f64,
    y: f64,
    ratio: &Ratio,
    style: usize,
) -> Result<(), ReportError> {
    let (low, high) = ratio.interval.unwrap_or((ratio.estimate, ratio.estimate));
    let middle = x(ratio.estimate);
    let (left, right) = (x(low).min(middle - 1.5), x(high).max(middle + 1.5));
    canvas.polygon(&[(left, y), (middle, y - 5.0), (right, y), (middle, y + 5.0)], Ink::Series(style), 1.0)
}
