//! The report's tables: every number of every cell, ratios, errors by cause, rounds that are not valid.

use super::analysis::{Analysis, Block};
use super::answer::ERROR_CAUSES;
use super::data::Plan;
use super::summary::ratio_text;
use super::words;
use crate::stats::ratio::Verdict;

/// A table ready for the page.
pub struct Table {
    /// Column headings.
    pub headings: Vec<String>,
    /// How many columns from the left are names, not numbers.
    pub names: usize,
    /// Rows of cells; a true flag sets a cell off.
    pub rows: Vec<Vec<(String, bool)>>,
}

/// How a known metric is shown: name, heading, scale.
const COLUMNS: [(&str, &str, f64); 15] = [
    ("rps", "requests/s", 1.0),
    ("p50_us", "p50 ms", 1e-3),
    ("p99_us", "p99 ms", 1e-3),
    ("mean_us", "mean ms", 1e-3),
    ("max_us", "max ms", 1e-3),
    ("server_cpu_us_per_request", "CPU µs/request", 1.0),
    ("server_cpu_share", "server CPU %", 100.0),
    ("client_cpu_share", "client CPU %", 100.0),
    ("steal_share", "steal %", 100.0),
    ("pss_bytes", "PSS MiB", 1.0 / 1048576.0),
    ("rss_bytes", "RSS MiB", 1.0 / 1048576.0),
    ("processes", "processes", 1.0),
    ("threads", "threads", 1.0),
    ("requests", "requests per round", 1.0),
    ("connections_opened", "connections opened per round", 1.0),
];

/// Metrics that have a table of their own, or say nothing beside the others.
const ELSEWHERE: [&str; 4] = ["errors", "duration_s", "bytes_body", "bytes_header"];

fn plain(cells: impl IntoIterator<Item = String>) -> Vec<(String, bool)> {
    cells.into_iter().map(|text| (text, false)).collect()
}

/// The headings of a block's factors and of the series.
fn cell_headings(analysis: &Analysis<'_>) -> Vec<String> {
    let factors = analysis.block_factors();
    let titles = factors.iter().map(|factor| words::factor_heading(&analysis.run.factors[*factor].name));
    let series = analysis.series.map(|factor| words::factor_heading(&analysis.run.factors[factor].name));
    titles.chain(series).collect()
}

fn cell_names(analysis: &Analysis<'_>, block: &Block, series: usize) -> Vec<String> {
    let levels = analysis.block_factors().into_iter().map(|factor| analysis.level(block, factor));
    levels.chain(analysis.series.map(|factor| analysis.run.factors[factor].levels[series].clone())).collect()
}

/// Every cell that has a round: block and series.
fn cells<'a>(analysis: &'a Analysis<'_>) -> impl Iterator<Item = (&'a Block, usize)> {
    let count = analysis.series_names().len();
    let all = analysis.blocks.iter().flat_map(move |block| (0..count).map(move |series| (block, series)));
    all.filter(|(block, series)| !analysis.rounds(block, *series).is_empty())
}

/// Median and range of every metric in every cell.
pub fn numbers(analysis: &Analysis<'_>) -> Table {
    let known = COLUMNS.iter().filter(|(name, ..)| analysis.run.metrics.iter().any(|metric| metric == name));
    let mut columns: Vec<(&str, String, f64)> =
        known.map(|(name, heading, scale)| (*name, (*heading).to_owned(), *scale)).collect();
    for name in &analysis.run.metrics {
        let shown = COLUMNS.iter().any(|(known, ..)| known == name)
            || ELSEWHERE.contains(&name.as_str())
            || ERROR_CAUSES.iter().any(|(cause, _)| cause == name);
        if !shown {
            columns.push((name, name.replace('_', " "), 1.0));
        }
    }
    let mut headings = cell_headings(analysis);
    let names = headings.len();
    headings.push("valid rounds".into());
    headings.extend(columns.iter().map(|(_, heading, _)| heading.clone()));
    let rows = cells(analysis).map(|(block, series)| {
        let rounds = analysis.rounds(block, series);
        let valid = rounds.iter().filter(|round| round.valid).count();
        let mut row = plain(cell_names(analysis, block, series));
        row.push((format!("{valid} of {}", rounds.len()), valid < rounds.len()));
        row.extend(columns.iter().map(|(metric, _, scale)| {
            let spread = analysis.spread(block, series, metric);
            (spread.map_or("–".into(), |spread| spread_text(spread, *scale)), false)
        }));
        row
    });
    Table { headings, names, rows: rows.collect() }
}

/// "31,204 (30,100–32,000)", or the number alone when all rounds agree.
fn spread_text((median, low, high): (f64, f64, f64), scale: f64) -> String {
    let [median, low, high] = [median, low, high].map(|value| number(value * scale));
    if low == high { median } else { format!("{median} ({low}–{high})") }
}

/// Counts stay whole; everything else keeps three digits.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 { words::thousands(value) } else { words::number(value) }
}

/// Ratios to a reference in every cell, one column per measurement.
pub fn ratios(analysis: &Analysis<'_>, reference: usize) -> Table {
    let metrics: Vec<(&str, &str)> = [
        ("rps", "requests/s"),
        ("p99_us", "p99"),
        ("server_cpu_us_per_request", "CPU per request"),
        ("pss_bytes", "PSS"),
    ]
    .into_iter()
    .filter(|(name, _)| analysis.run.metrics.iter().any(|metric| metric == name))
    .collect();
    let mut headings = cell_headings(analysis);
    let names = headings.len();
    headings.push("pairs".into());
    headings.extend(metrics.iter().map(|(_, heading)| (*heading).to_owned()));
    let cell = |ratio: Option<crate::stats::ratio::Ratio>| match ratio {
        Some(ratio) => (ratio_text(&ratio), matches!(ratio.verdict(), Verdict::Above | Verdict::Below)),
        None => ("–".into(), false),
    };
    let others = cells(analysis).filter(|(_, series)| *series != reference);
    let mut rows: Vec<Vec<(String, bool)>> = others
        .map(|(block, series)| {
            let mut row = plain(cell_names(analysis, block, series));
            let pairs = analysis.ratio(block, series, reference, "rps").map_or(0, |ratio| ratio.n);
            row.push((pairs.to_string(), false));
            row.extend(
                metrics.iter().map(|(metric, _)| cell(analysis.ratio(block, series, reference, metric))),
            );
            row
        })
        .collect();
    if analysis.has_typical() {
        for (series, name) in analysis.series_names().into_iter().enumerate() {
            if series == reference || !analysis.measured(series) {
                continue;
            }
            let pooled = |metric| analysis.pooled_ratio(series, reference, metric);
            let mut row =
                plain((1..names).map(|index| if index == 1 { "all".into() } else { String::new() }));
            row.push((name, false));
            row.push((format!("{} cells", pooled("rps").map_or(0, |ratio| ratio.n)), false));
            row.extend(metrics.iter().map(|(metric, _)| cell(pooled(metric))));
            rows.push(row);
        }
    }
    Table { headings, names, rows }
}

/// Failed requests by cause, for the cells that have any.
pub fn errors(analysis: &Analysis<'_>) -> Table {
    let mut headings = cell_headings(analysis);
    let names = headings.len();
    headings.push("all errors".into());
    headings.extend(ERROR_CAUSES.iter().map(|(_, heading)| (*heading).to_owned()));
    let rows = cells(analysis).filter_map(|(block, series)| {
        let rounds = analysis.rounds(block, series);
        let sum = |metric: &str| rounds.iter().filter_map(|round| round.metric(metric)).sum::<f64>();
        let counts: Vec<f64> = std::iter::once("errors")
            .chain(ERROR_CAUSES.iter().map(|(metric, _)| *metric))
            .map(sum)
            .collect();
        counts.iter().any(|count| *count > 0.0).then(|| {
            let mut row = plain(cell_names(analysis, block, series));
            row.extend(counts.into_iter().map(|count| (words::thousands(count), count > 0.0)));
            row
        })
    });
    Table { headings, names, rows: rows.collect() }
}

/// Every round that is not valid, with the reasons.
pub fn invalid(analysis: &Analysis<'_>) -> Table {
    let mut headings = cell_headings(analysis);
    headings.extend(["round", "place in the run", "why it is not valid", "requests/s"].map(str::to_owned));
    let names = headings.len() - 1;
    let rows = cells(analysis).flat_map(|(block, series)| {
        let invalid = analysis.rounds(block, series).iter().filter(|round| !round.valid);
        invalid.map(move |round| {
            let mut row = plain(cell_names(analysis, block, series));
            let reasons =
                if round.reasons.is_empty() { "no reason recorded".into() } else { round.reasons.join("; ") };
            row.extend(plain([
                round.round.to_string(),
                round.order.map_or("–".into(), |order| order.to_string()),
                reasons,
                round.metric("rps").map_or("–".into(), words::number),
            ]));
            row
        })
    });
    Table { headings, names, rows: rows.collect() }
}

/// What every target was set to: a row per setting, a column per target.
pub fn settings(plan: &Plan) -> Table {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in plan.targets.iter().flat_map(|target| &target.settings) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let versions = plan.targets.iter().any(|target| !target.version.is_empty());
    let mut rows: Vec<Vec<(String, bool)>> = Vec::new();
    if versions {
        let version = plan.targets.iter().map(|target| target.version.clone());
        rows.push(plain(std::iter::once("version".to_owned()).chain(version)));
    }
    for name in names {
        let value = |settings: &[(String, String)]| {
            settings.iter().find(|(known, _)| known == name).map_or("–".into(), |(_, value)| value.clone())
        };
        let values = plan.targets.iter().map(|target| value(&target.settings));
        rows.push(plain(std::iter::once(name.to_owned()).chain(values)));
    }
    let targets = plan.targets.iter().map(|target| target.name.clone());
    let headings: Vec<String> = std::iter::once("setting".to_owned()).chain(targets).collect();
    Table { names: headings.len(), headings, rows }
}
