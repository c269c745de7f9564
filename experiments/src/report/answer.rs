//! The answer in plain sentences. A sentence claims a difference only where an interval excludes "none".

use std::collections::BTreeMap;

use super::analysis::Analysis;
use super::summary::{CUT_OFF, Summary, TargetLine, ratio_text};
use super::words::{self, listed};
use crate::stats::ratio::{Ratio, Verdict};

/// Failed requests by cause: metric, and what happened.
pub const ERROR_CAUSES: [(&str, &str); 7] = [
    ("errors_connect", "connecting failed"),
    ("errors_refused", "connection refused"),
    ("errors_reset", "connection reset"),
    ("errors_closed_early", "closed before the whole answer"),
    ("errors_timeout", "no answer in time"),
    ("errors_bad_response", "answer not understood"),
    ("non_2xx", "status other than 2xx"),
];

/// Three to five sentences: who is how fast, how sure, at what price, and what went wrong.
pub fn sentences(analysis: &Analysis<'_>, summary: &Summary) -> Vec<String> {
    let mut sentences = vec![speed(summary)];
    sentences.extend(compared(summary));
    sentences.extend(price(summary));
    sentences.extend(typical(analysis));
    sentences.push(trouble(analysis, summary));
    sentences
}

fn speed(summary: &Summary) -> String {
    let reference = summary.reference.as_deref();
    let line = summary
        .targets
        .iter()
        .find(|line| Some(line.target.as_str()) == reference && line.rps.is_some())
        .or_else(|| summary.targets.iter().find(|line| line.rps.is_some()));
    match line {
        Some(TargetLine { target, rps: Some(rps), valid, .. }) => format!(
            "On this machine, with {}, {target} answered {} requests per second ({}).",
            summary.cell,
            words::number(*rps),
            if *valid == 1 { "a single round".into() } else { format!("median of {valid} rounds") },
        ),
        _ => {
            format!("With {}, no valid round was measured, so nothing can be said about speed.", summary.cell)
        }
    }
}

/// The others against the reference, in the same cell.
fn compared(summary: &Summary) -> Option<String> {
    let reference = summary.reference.as_deref()?;
    let ratios = summary.targets.iter().filter_map(|line| Some((line.target.as_str(), line.ratio?)));
    let mut parts = claims(&ratios.collect::<Vec<_>>());
    let unpaired: Vec<String> = summary
        .targets
        .iter()
        .filter(|line| line.ratio.is_none() && line.target != reference)
        .map(|line| line.target.clone())
        .collect();
    if !unpaired.is_empty() {
        parts.push(format!("no valid pair of rounds for {}", listed(&unpaired)));
    }
    (!parts.is_empty())
        .then(|| format!("Relative to {reference}'s rate in the same rounds, {}.", parts.join("; ")))
}

/// The others against the reference, over all cells.
fn typical(analysis: &Analysis<'_>) -> Option<String> {
    let reference = *analysis.references().first()?;
    if !analysis.has_typical() {
        return None;
    }
    let names = analysis.series_names();
    let others = (0..names.len()).filter(|series| *series != reference);
    let pooled: Vec<(usize, Ratio)> =
        others.clone().filter_map(|s| Some((s, analysis.pooled_ratio(s, reference, "rps")?))).collect();
    let most = pooled.iter().map(|(_, ratio)| ratio.n).max()?;
    // A target that lacks some settings is typical of fewer, and says so.
    let labels: Vec<(String, Ratio)> = pooled
        .into_iter()
        .map(|(series, ratio)| match ratio.n {
            n if n < most => (format!("{} (in {n} of them)", names[series]), ratio),
            _ => (names[series].clone(), ratio),
        })
        .collect();
    let labels: Vec<(&str, Ratio)> = labels.iter().map(|(label, ratio)| (label.as_str(), *ratio)).collect();
    let (low, high) = others
        .flat_map(|s| {
            analysis.blocks.iter().filter_map(move |block| analysis.ratio(block, s, reference, "rps"))
        })
        .fold((f64::INFINITY, 0f64), |(low, high), ratio| {
            (low.min(ratio.estimate), high.max(ratio.estimate))
        });
    Some(format!(
        "Typically, over {}, {}. Single settings range from {} to {} times, so look at yours below.",
        if most == 1 { "the one setting measured".into() } else { format!("all {most} settings measured") },
        claims(&labels).join("; "),
        words::ratio(low),
        words::ratio(high),
    ))
}

/// Ratios grouped by what their intervals support.
fn claims(ratios: &[(&str, Ratio)]) -> Vec<String> {
    let of = |verdict: Verdict| -> Vec<String> {
        let some = ratios.iter().filter(|(_, ratio)| ratio.verdict() == verdict);
        some.map(|(target, ratio)| format!("{target} at {}", ratio_text(ratio))).collect()
    };
    let phrase = |verdict: Verdict, words: &dyn Fn(String, bool) -> String| {
        let some = of(verdict);
        (!some.is_empty()).then(|| words(listed(&some), some.len() > 1))
    };
    let were = |plural| if plural { "were" } else { "was" };
    [
        phrase(Verdict::Above, &|list, plural| format!("faster {} {list}", were(plural))),
        phrase(Verdict::Below, &|list, plural| format!("slower {} {list}", were(plural))),
        phrase(Verdict::NotShown, &|list, _| format!("no difference is shown for {list}")),
        phrase(Verdict::Unknown, &|list, _| {
            format!("measured once, so that no difference can be claimed: {list}")
        }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What the speed costs, in the same cell: latency at the tail, and memory.
fn price(summary: &Summary) -> Option<String> {
    let each = |value: fn(&TargetLine) -> Option<f64>, scale: f64, unit: &str| -> Option<String> {
        let known =
            summary.targets.iter().filter_map(|line| Some((line, words::number(value(line)? * scale))));
        let some: Vec<String> =
            known.map(|(line, text)| format!("{text} {unit} ({})", line.target)).collect();
        (!some.is_empty()).then(|| listed(&some))
    };
    let latency = each(|line| line.p99_us, 1e-3, "ms")
        .map(|list| format!("99 of 100 requests were answered within {list}"));
    let memory = each(|line| line.pss_bytes, 1.0 / 1048576.0, "MiB")
        .map(|list| format!("the server's memory was {list}"));
    let parts: Vec<String> = [latency, memory].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("In that setting, {}.", parts.join("; ")))
}

/// A round is called disturbed when other processes took more of the server's core than this.
const DISTURBED: f64 = 0.1;

fn trouble(analysis: &Analysis<'_>, summary: &Summary) -> String {
    let rounds = &analysis.run.rounds;
    let mut text = match summary.planned {
        Some(planned) if planned > summary.measured as u64 => format!(
            "The run is not complete: {} of {} planned rounds were measured. ",
            words::thousands(summary.measured as f64),
            words::thousands(planned as f64)
        ),
        _ => String::new(),
    };
    let invalid = summary.measured - summary.valid;
    text.push_str(&match invalid {
        0 if summary.measured == 1 => "The one round is valid".into(),
        0 => format!("All {} are valid", words::count(summary.measured, "round")),
        _ => format!(
            "{} of {} {} not valid (reasons below), shown as crosses and left out of every median and interval",
            invalid,
            words::count(summary.measured, "round"),
            if invalid == 1 { "is" } else { "are" }
        ),
    });
    let disturbed = rounds.iter().filter(|round| round.metric("others_cpu_share") > Some(DISTURBED)).count();
    if disturbed > 0 {
        text.push_str(&format!(
            "; in {} other processes took more than {:.0} % of the server's core, so that their times are noisy (repeat the \
             run on a quiet machine)",
            words::count(disturbed, "round"),
            DISTURBED * 100.0
        ));
    }
    let errors: f64 = rounds.iter().filter_map(|round| round.metric("errors")).sum();
    let requests: f64 = rounds.iter().filter_map(|round| round.metric("requests")).sum();
    let mut causes: BTreeMap<&str, f64> = BTreeMap::new();
    for (metric, words) in ERROR_CAUSES {
        let sum: f64 = rounds.iter().filter_map(|round| round.metric(metric)).sum();
        if sum > 0.0 {
            causes.insert(words, sum);
        }
    }
    let recorded = analysis.run.metrics.iter().any(|metric| metric == "errors");
    if errors == 0.0 && causes.is_empty() {
        text.push_str(if recorded { "; no request failed." } else { "; failed requests were not recorded." });
    } else {
        let causes: Vec<String> =
            causes.iter().map(|(what, n)| format!("{what}: {}", words::thousands(*n))).collect();
        let of = if requests > 0.0 {
            format!(" beside {} answered", words::thousands(requests))
        } else {
            String::new()
        };
        text.push_str(&format!(
            "; {} requests failed{of} ({}).",
            words::thousands(errors),
            causes.join(", ")
        ));
    }
    let cut_off: f64 = rounds.iter().filter_map(|round| round.metric(CUT_OFF)).sum();
    if cut_off > 0.0 {
        text.push_str(&format!(
            " {} times a server closed a kept connection when a request was on its way (cut off): HTTP permits that, and lets the \
             client ask again.",
            words::thousands(cut_off)
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(estimate: f64, interval: Option<(f64, f64)>) -> Ratio {
        Ratio { estimate, interval, n: 3 }
    }

    #[test]
    fn a_claim_never_goes_beyond_its_interval() {
        let text = claims(&[
            ("a", ratio(1.10, Some((1.02, 1.19)))),
            ("b", ratio(0.80, Some((0.50, 1.28)))),
            ("c", ratio(0.90, Some((0.85, 0.95)))),
            ("d", ratio(0.10, None)),
        ]);
        assert_eq!(
            text,
            [
                "faster was a at 1.10 (1.02–1.19)",
                "slower was c at 0.90 (0.85–0.95)",
                "no difference is shown for b at 0.80 (0.50–1.28)",
                "measured once, so that no difference can be claimed: d at 0.10 (no interval)",
            ]
        );
        assert!(claims(&[]).is_empty());
    }
}
