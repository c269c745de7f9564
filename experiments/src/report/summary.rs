//! The run in a few lines: every target at one cell, for the terminal and for the top of the page.

use super::analysis::Analysis;
use super::words;
use crate::stats::quantile::median;
use crate::stats::ratio::{Ratio, Verdict};

/// What a run says at its headline cell, and how much was measured.
#[derive(Debug, Clone)]
pub struct Summary {
    /// The study's title (its name where it has none).
    pub title: String,
    /// The headline cell in words.
    pub cell: String,
    /// What ratios are relative to; none when a single target was measured.
    pub reference: Option<String>,
    /// One line per target, in plan order.
    pub targets: Vec<TargetLine>,
    /// Rounds measured.
    pub measured: usize,
    /// Rounds that are valid.
    pub valid: usize,
    /// Rounds the plan asks for.
    pub planned: Option<u64>,
}

/// One target at the headline cell: medians of its valid rounds.
#[derive(Debug, Clone)]
pub struct TargetLine {
    /// Its name.
    pub target: String,
    /// Valid rounds at this cell.
    pub valid: usize,
    /// Rounds at this cell.
    pub rounds: usize,
    /// Requests per second.
    pub rps: Option<f64>,
    /// Requests per second relative to the reference, from paired rounds. None for the reference itself.
    pub ratio: Option<Ratio>,
    /// Median latency in microseconds.
    pub p50_us: Option<f64>,
    /// 99th percentile of latency in microseconds.
    pub p99_us: Option<f64>,
    /// Server CPU time per request in microseconds.
    pub cpu_us_per_request: Option<f64>,
    /// Summed proportional set size in bytes.
    pub pss_bytes: Option<f64>,
    /// Server processes.
    pub processes: Option<f64>,
    /// Server threads.
    pub threads: Option<f64>,
    /// Failed requests, all rounds of this cell, valid or not.
    pub errors: u64,
    /// Kept connections that the server closed when a request was on its way, likewise.
    pub cut_off: u64,
}

/// The metric of kept connections that were closed before an answer began. No error by HTTP, which lets a client ask again; but
/// somebody waited for that answer.
pub(super) const CUT_OFF: &str = "closed_idle";

/// Makes the summary of a run.
pub fn summarize(analysis: &Analysis<'_>) -> Summary {
    let run = analysis.run;
    let block = analysis.headline();
    let names = analysis.series_names();
    let reference = analysis.references().first().copied();
    let line = |(series, target): (usize, &String)| {
        let rounds = analysis.rounds(block, series);
        let middle = |metric: &str| median(&analysis.values(block, series, metric));
        TargetLine {
            target: target.clone(),
            valid: rounds.iter().filter(|round| round.valid).count(),
            rounds: rounds.len(),
            rps: middle("rps"),
            ratio: reference
                .filter(|reference| *reference != series)
                .and_then(|reference| analysis.ratio(block, series, reference, "rps")),
            p50_us: middle("p50_us"),
            p99_us: middle("p99_us"),
            cpu_us_per_request: middle("server_cpu_us_per_request"),
            pss_bytes: middle("pss_bytes"),
            processes: middle("processes"),
            threads: middle("threads"),
            errors: rounds.iter().filter_map(|round| round.metric("errors")).sum::<f64>() as u64,
            cut_off: rounds.iter().filter_map(|round| round.metric(CUT_OFF)).sum::<f64>() as u64,
        }
    };
    let plan = &run.plan;
    Summary {
        title: [&plan.title, &plan.name, &run.rounds[0].study]
            .into_iter()
            .find(|title| !title.is_empty())
            .cloned()
            .unwrap_or_else(|| "A study".into()),
        cell: analysis.phrase(block),
        reference: reference.map(|series| names[series].clone()),
        targets: names.iter().enumerate().map(line).collect(),
        measured: run.rounds.len(),
        valid: run.rounds.iter().filter(|round| round.valid).count(),
        planned: plan.runs,
    }
}

/// A ratio with its interval: "0.93 (0.90–0.97)".
pub fn ratio_text(ratio: &Ratio) -> String {
    let estimate = words::ratio(ratio.estimate);
    match ratio.interval {
        Some((low, high)) => format!("{estimate} ({}–{})", words::bound(low), words::bound(high)),
        None => format!("{estimate} (no interval)"),
    }
}

/// What the interval of a ratio of speeds supports, in a word or two.
fn verdict_text(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Above => "faster",
        Verdict::Below => "slower",
        Verdict::NotShown => "not shown",
        Verdict::Unknown => "measured once",
    }
}

/// The columns of the overview: headings, and a row of texts for each target.
pub fn overview(summary: &Summary) -> (Vec<String>, Vec<Vec<String>>) {
    let ratio_heading = summary.reference.as_ref().map(|reference| format!("ratio to {reference} (95 %)"));
    let mut headings = vec!["target".to_owned(), "requests/s".to_owned()];
    if let Some(heading) = ratio_heading {
        headings.extend([heading, "difference".to_owned()]);
    }
    headings
        .extend(["p50 ms", "p99 ms", "CPU µs/req", "PSS MiB", "procs/threads", "errors"].map(str::to_owned));
    // Rare enough not to take a column from those who have none.
    let any_cut_off = summary.targets.iter().any(|line| line.cut_off > 0);
    headings.extend(any_cut_off.then(|| "cut off".to_owned()));
    headings.push("rounds".to_owned());
    let scaled =
        |value: Option<f64>, scale: f64| value.map_or("–".into(), |value| words::number(value * scale));
    let whole = |value: Option<f64>| value.map_or("–".into(), words::thousands);
    let rows = summary.targets.iter().map(|line| {
        let mut row = vec![line.target.clone(), scaled(line.rps, 1.0)];
        if let Some(reference) = &summary.reference {
            row.extend(match &line.ratio {
                Some(ratio) => [ratio_text(ratio), verdict_text(ratio.verdict()).into()],
                None if line.target == *reference => ["1".into(), "reference".into()],
                None => ["–".into(), "no pair".into()],
            });
        }
        row.extend([
            scaled(line.p50_us, 1e-3),
            scaled(line.p99_us, 1e-3),
            scaled(line.cpu_us_per_request, 1.0),
            scaled(line.pss_bytes, 1.0 / 1048576.0),
            match (line.processes, line.threads) {
                (None, None) => "–".into(),
                (processes, threads) => format!("{}/{}", whole(processes), whole(threads)),
            },
            words::thousands(line.errors as f64),
        ]);
        row.extend(any_cut_off.then(|| words::thousands(line.cut_off as f64)));
        row.push(if line.valid == line.rounds {
            line.rounds.to_string()
        } else {
            format!("{} of {} valid", line.valid, line.rounds)
        });
        row
    });
    (headings, rows.collect())
}

/// The overview as text for a terminal, first column to the left, the others to the right.
pub fn terminal_table(summary: &Summary) -> String {
    let (headings, mut rows) = overview(summary);
    rows.insert(0, headings);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    // The names come from a file: a control character in one must not reach the terminal.
    let plain = |text: &str| text.replace(char::is_control, "?");
    let mut out = format!("{}: {}\n", plain(&summary.title), plain(&summary.cell));
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (text, width))| {
            let text = plain(text);
            if column == 0 { format!("{text:<width$}") } else { format!("{text:>width$}") }
        });
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    let planned = summary.planned.filter(|planned| *planned > summary.measured as u64);
    let planned = planned.map(|planned| format!(" of {planned} planned")).unwrap_or_default();
    out.push_str(&format!(
        "{}{planned} measured, {} valid\n",
        words::count(summary.measured, "round"),
        summary.valid
    ));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_say_when_they_have_no_interval() {
        let mut ratio = Ratio { estimate: 0.931, interval: Some((0.902, 0.968)), n: 3 };
        assert_eq!(ratio_text(&ratio), "0.93 (0.90–0.97)");
        ratio.interval = None;
        assert_eq!(ratio_text(&ratio), "0.93 (no interval)");
        assert_eq!(verdict_text(ratio.verdict()), "measured once");
    }
}
