//! The line plots: one small panel per facet, one line per target, every single round shown.

use super::analysis::{Analysis, Block};
use super::data::ReportError;
use super::svg::{Align, Axis, Canvas, Ink, draw};
use super::words;

/// A measurement that gets a plot of its own.
pub struct Metric {
    /// The figure's id is `plot-` and this.
    pub id: &'static str,
    /// Its name in `results.jsonl`.
    pub name: &'static str,
    /// Heading of the figure.
    pub title: &'static str,
    /// Title of the vertical axis, with the unit.
    pub axis: &'static str,
    /// What a recorded value is multiplied with to be in that unit.
    pub scale: f64,
    /// Whether the vertical axis is logarithmic.
    pub log: bool,
    /// How to read it.
    pub caption: &'static str,
}

/// The plotted measurements, in reading order.
pub const METRICS: [Metric; 4] = [
    Metric {
        id: "throughput",
        name: "rps",
        title: "Throughput",
        axis: "requests per second",
        scale: 1.0,
        log: false,
        caption: "Higher is better.",
    },
    Metric {
        id: "latency-p99",
        name: "p99_us",
        title: "Response time, 99th percentile",
        axis: "milliseconds, log scale",
        scale: 1e-3,
        log: true,
        caption: "Lower is better: 99 of 100 requests were answered within this time. The client keeps every connection \
                  busy, so with more connections each request also waits for its turn.",
    },
    Metric {
        id: "memory",
        name: "pss_bytes",
        title: "Memory",
        axis: "MiB (PSS, all processes)",
        scale: 1.0 / 1048576.0,
        log: false,
        caption: "Lower is better. PSS (proportional set size) counts a page shared by several processes once, split \
                  among them, so the sum over the server's processes is what it really occupies.",
    },
    Metric {
        id: "cpu",
        name: "server_cpu_us_per_request",
        title: "CPU per request",
        axis: "microseconds of server CPU",
        scale: 1.0,
        log: false,
        caption: "Lower is better: CPU time, user and system, all the server's processes, divided by requests answered.",
    },
];

/// Panels under one heading.
pub struct Group {
    /// The level of the grouping factor; empty when there is a single group.
    pub heading: String,
    /// SVG elements.
    pub panels: Vec<String>,
}

/// More panels than this are not readable; the tables have the numbers.
pub const MOST_PANELS: usize = 36;

/// How many panels a plot of this run has.
pub fn panel_count(analysis: &Analysis<'_>) -> usize {
    let mut facets: Vec<Vec<usize>> = analysis.blocks.iter().map(|block| facet(analysis, block).1).collect();
    facets.sort();
    facets.dedup();
    facets.len()
}

/// What decides a block's group, and its panel.
fn facet(analysis: &Analysis<'_>, block: &Block) -> (Option<usize>, Vec<usize>) {
    let group = analysis.group.map(|factor| block[factor]);
    let panel = analysis.group.iter().chain(&analysis.panels).map(|factor| block[*factor]).collect();
    (group, panel)
}

/// The drawing style (colour and shape) of each series: fixed for known targets, so that reports look alike.
pub fn styles(names: &[String]) -> Vec<usize> {
    const KNOWN: [&str; 7] = ["prefork", "worker", "event", "apache2", "nginx", "caddy", "reactor"];
    let known: Option<Vec<usize>> =
        names.iter().map(|name| KNOWN.iter().position(|known| known == name)).collect();
    known.unwrap_or_else(|| (0..names.len()).collect())
}

/// All panels of one measurement.
pub fn panels(analysis: &Analysis<'_>, metric: &Metric) -> Result<Vec<Group>, ReportError> {
    let names = analysis.series_names();
    let all: Vec<&Block> = analysis.blocks.iter().collect();
    let mut groups = Vec::new();
    for group in all.chunk_by(|a, b| facet(analysis, a).0 == facet(analysis, b).0) {
        // Linear axes are shared within a group, where panels are compared; a log axis can afford to be the same everywhere.
        let axis = axis(analysis, metric, if metric.log { &all } else { group });
        let heading =
            analysis.group.map(|factor| group_heading(analysis, group[0], factor)).unwrap_or_default();
        let panels = group
            .chunk_by(|a, b| facet(analysis, a).1 == facet(analysis, b).1)
            .map(|blocks| panel(analysis, metric, &axis, &names, blocks, &heading))
            .collect::<Result<_, _>>()?;
        groups.push(Group { heading, panels });
    }
    Ok(groups)
}

/// The heading of a group of panels or rows.
pub fn group_heading(analysis: &Analysis<'_>, block: &Block, factor: usize) -> String {
    let known = &analysis.run.factors[factor];
    words::level_phrase(&known.name, &known.levels[block[factor]])
}

fn axis(analysis: &Analysis<'_>, metric: &Metric, blocks: &[&Block]) -> Axis {
    let rounds = blocks
        .iter()
        .flat_map(|block| (0..analysis.series_names().len()).flat_map(|s| analysis.rounds(block, s)));
    let values: Vec<f64> =
        rounds.filter_map(|round| round.metric(metric.name)).map(|value| value * metric.scale).collect();
    let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if metric.log {
        Axis::log(values.iter().copied().filter(|v| *v > 0.0).fold(f64::INFINITY, f64::min), max)
    } else {
        Axis::linear(max)
    }
}

const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 226.0;
const LEFT: f64 = 38.0;
const RIGHT: f64 = 62.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 38.0;
/// Labels closer than this run into each other.
const LABEL_GAP: f64 = 11.0;

fn panel(
    analysis: &Analysis<'_>,
    metric: &Metric,
    axis: &Axis,
    names: &[String],
    blocks: &[&Block],
    heading: &str,
) -> Result<String, ReportError> {
    let levels = |factors: &[usize]| -> Vec<String> {
        let known = |factor: &usize| &analysis.run.factors[*factor];
        factors.iter().map(|f| words::level_phrase(&known(f).name, &known(f).levels[blocks[0][*f]])).collect()
    };
    let title = levels(&analysis.panels).join(", ");
    let x_title = analysis.x.map(|x| words::factor_title(&analysis.run.factors[x].name)).unwrap_or_default();
    let ticks: Vec<String> = analysis
        .x
        .map(|x| blocks.iter().map(|block| analysis.level(block, x)).collect())
        .unwrap_or_else(|| vec![String::new()]);
    let facets = [heading, &title].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    let label = format!("{} ({}) by {x_title}; {facets}", metric.title, metric.axis);
    draw(WIDTH, HEIGHT, &label, |canvas| {
        let title_y = 9.0;
        canvas.text(&title, (0.0, title_y), 12.5, Ink::Text, Align::Start, true)?;
        canvas.text(metric.axis, (0.0, title_y + 15.0), 10.5, Ink::Muted, Align::Start, false)?;
        frame(canvas, axis, &ticks, &x_title)?;
        let (width, bottom) = (WIDTH - LEFT - RIGHT, HEIGHT - BOTTOM);
        let y = |value: f64| bottom - axis.place(value) * (bottom - TOP);
        let step = width / blocks.len() as f64;
        let dodge = (0.7 * step / names.len() as f64).min(5.0);
        let styles = styles(names);
        let mut ends = Vec::new();
        for (series, style) in styles.iter().copied().enumerate() {
            let ink = Ink::Series(style);
            let shift = (series as f64 - 0.5 * (names.len() as f64 - 1.0)) * dodge;
            let mut medians = Vec::new();
            for (index, block) in blocks.iter().enumerate() {
                let x = LEFT + (index as f64 + 0.5) * step + shift;
                for round in analysis.rounds(block, series) {
                    let Some(value) = round.metric(metric.name) else { continue };
                    let place = y(value * metric.scale);
                    if round.valid {
                        canvas.dot(x, place, 1.9, ink, 0.45)?;
                    } else {
                        canvas.cross(x, place, 2.6, Ink::Muted)?;
                    }
                }
                if let Some((median, low, high)) = analysis.spread(block, series, metric.name) {
                    let ends = (y(low * metric.scale), y(high * metric.scale));
                    canvas.line((x, ends.0), (x, ends.1), ink, 1.0, 0.8)?;
                    medians.push((x, y(median * metric.scale)));
                }
            }
            if medians.len() > 1 {
                canvas.path(&medians, ink, 1.5)?;
            }
            for (x, y) in &medians {
                canvas.marker(*x, *y, 3.2, style, false)?;
            }
            // A label beside the last point only where there is one: its leader would look like data otherwise.
            let last = blocks.last().and_then(|block| analysis.spread(block, series, metric.name));
            if let (Some(end), Some(_)) = (medians.last(), last) {
                ends.push((series, *end));
            }
        }
        // Beyond eight lines labels cannot be kept apart; the legend has to do.
        if ends.len() <= 8 {
            direct_labels(canvas, names, &styles, ends)?;
        }
        Ok(())
    })
}

/// Grid, ticks and axis titles.
fn frame(canvas: &mut Canvas<'_>, axis: &Axis, ticks: &[String], x_title: &str) -> Result<(), ReportError> {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let thin = axis.ticks.len().div_ceil(8);
    for (index, tick) in axis.ticks.iter().enumerate() {
        let y = bottom - axis.place(*tick) * (bottom - TOP);
        canvas.line((LEFT, y), (right, y), Ink::Grid, 0.75, 1.0)?;
        if index % thin == 0 {
            canvas.text(&words::tick(*tick), (LEFT - 5.0, y), 10.5, Ink::Muted, Align::End, false)?;
        }
    }
    canvas.line((LEFT, bottom), (right, bottom), Ink::Muted, 0.75, 1.0)?;
    let step = (right - LEFT) / ticks.len() as f64;
    // About 20 units hold a tick of three digits.
    let thin = (22.0 / step).ceil().max(1.0) as usize;
    for (index, tick) in ticks.iter().enumerate().filter(|(index, _)| index % thin == 0) {
        let x = LEFT + (index as f64 + 0.5) * step;
        canvas.text(tick, (x, bottom + 10.0), 10.5, Ink::Muted, Align::Middle, false)?;
    }
    canvas.text(x_title, (0.5 * (LEFT + right), bottom + 26.0), 10.5, Ink::Muted, Align::Middle, false)
}

/// Names at the right ends of the lines, moved apart where they would run into each other.
fn direct_labels(
    canvas: &mut Canvas<'_>,
    names: &[String],
    styles: &[usize],
    mut ends: Vec<(usize, (f64, f64))>,
) -> Result<(), ReportError> {
    ends.sort_by(|a, b| a.1.1.total_cmp(&b.1.1));
    let wanted: Vec<f64> = ends.iter().map(|(_, (_, y))| *y).collect();
    let places = spread_apart(&wanted, LABEL_GAP, TOP - 2.0, HEIGHT - BOTTOM + 2.0);
    let x = WIDTH - RIGHT + 14.0;
    for ((series, end), place) in ends.iter().zip(places) {
        canvas.line((end.0 + 4.0, end.1), (x - 2.0, place), Ink::Series(styles[*series]), 0.75, 0.7)?;
        canvas.text(&shortened(&names[*series], 9), (x, place), 10.5, Ink::Text, Align::Start, false)?;
    }
    Ok(())
}

/// At most `most` characters of a name: its beginning and its end, since variants of a server differ at the end.
fn shortened(name: &str, most: usize) -> String {
    let length = name.chars().count();
    if length <= most {
        return name.to_owned();
    }
    let part = (most - 1) / 2;
    name.chars().take(part).chain(['…']).chain(name.chars().skip(length - part)).collect()
}

/// Sorted positions moved as little as needed to be `gap` apart within `low..high`.
fn spread_apart(wanted: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    // Runs of touching labels are centred on the mean of what they wanted, merging runs that meet.
    let mut runs: Vec<(f64, usize)> = Vec::new();
    let half = |count: usize| 0.5 * gap * (count as f64 - 1.0);
    let clamp = |centre: f64, count: usize| centre.min(high - half(count)).max(low + half(count));
    for place in wanted {
        runs.push((clamp(*place, 1), 1));
        while let [.., a, b] = runs[..] {
            if b.0 - half(b.1) - (a.0 + half(a.1)) >= gap {
                break;
            }
            let count = a.1 + b.1;
            let centre = (a.0 * a.1 as f64 + b.0 * b.1 as f64) / count as f64;
            runs.truncate(runs.len() - 2);
            runs.push((clamp(centre, count), count));
        }
    }
    runs.into_iter()
        .flat_map(|(centre, count)| {
            (0..count).map(move |n| centre + gap * (n as f64 - 0.5 * (count as f64 - 1.0)))
        })
        .collect()
}

/// A marker alone, for legends.
pub fn key(style: usize) -> Result<String, ReportError> {
    let svg = draw(22.0, 12.0, "", |canvas| {
        canvas.line((1.0, 6.0), (21.0, 6.0), Ink::Series(style), 1.5, 1.0)?;
        canvas.marker(11.0, 6.0, 3.6, style, false)
    })?;
    Ok(svg.replacen("role=\"img\" aria-label=\"\"", "aria-hidden=\"true\" class=\"key\"", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_moved_apart_and_stay_inside() {
        let places = spread_apart(&[10.0, 10.0, 10.0, 90.0, 100.0], 11.0, 0.0, 100.0);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] > 10.99), "{places:?}");
        assert!(places[0] >= 0.0 && places[4] <= 100.001, "{places:?}");
        assert_eq!(spread_apart(&[10.0, 50.0], 11.0, 0.0, 100.0), [10.0, 50.0]);
    }

    #[test]
    fn long_names_keep_what_tells_variants_apart() {
        assert_eq!(shortened("apache2", 9), "apache2");
        assert_eq!(shortened("apache2-prefork", 9), "apac…fork");
    }

    #[test]
    fn known_targets_look_the_same_in_every_report() {
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(styles(&names(&["event", "nginx"])), [2, 4]);
        assert_eq!(styles(&names(&["event", "mine"])), [0, 1]);
    }
}
