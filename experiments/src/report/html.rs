//! `report.html`: fills the page template. The template escapes every value; only drawings made by `svg` are let through.

use minijinja::value::Value;
use minijinja::{Environment, context};

use super::analysis::Analysis;
use super::answer;
use super::data::ReportError;
use super::forest;
use super::plots::{self, METRICS, MOST_PANELS};
use super::summary::{self, Summary};
use super::svg::SERIES;
use super::tables::{self, Table};
use super::words;

const TEMPLATE: &str = include_str!("template.html");
const STYLE: &str = include_str!("style.css");

/// The whole page.
pub fn page(analysis: &Analysis<'_>, summary: &Summary) -> Result<String, ReportError> {
    let run = analysis.run;
    let plan = &run.plan;
    let names = analysis.series_names();
    let (headings, rows) = summary::overview(summary);
    let references = analysis.references();
    let mut environment = Environment::new();
    environment.add_template("report.html", TEMPLATE).map_err(failed)?;
    let template = environment.get_template("report.html").map_err(failed)?;
    let page = template.render(context! {
        style => Value::from_safe_string(STYLE.to_owned()),
        title => summary.title.clone(),
        question => plan.question.clone(),
        sentences => answer::sentences(analysis, summary),
        headline => summary.cell.clone(),
        overview => context! { headings, rows },
        targets => targets(analysis, &names),
        factors => factors(analysis),
        has_keepalive => run.factors.iter().any(|factor| factor.name == "keepalive"),
        dropped => pairs(&plan.dropped),
        notes => notes(analysis),
        settings => table(&tables::settings(plan)),
        legend => legend(&names)?,
        plots => figures(analysis)?,
        too_many => plots::panel_count(analysis) > MOST_PANELS,
        forests => forests(analysis, &references)?,
        numbers => table(&tables::numbers(analysis)),
        errors => table(&tables::errors(analysis)),
        invalid => table(&tables::invalid(analysis)),
        validity => validity(analysis, summary),
        method => method(analysis, summary),
        environment => pairs(&run.environment),
        command => command(&run.environment),
        torn => run.torn,
    });
    page.map_err(failed)
}

fn failed(error: minijinja::Error) -> ReportError {
    ReportError::Render { reason: error.to_string() }
}

/// What a reader must know, less what the list of targets says already.
fn notes(analysis: &Analysis<'_>) -> Vec<String> {
    let plan = &analysis.run.plan;
    let said =
        |note: &str| plan.dropped.iter().any(|(name, _)| note.starts_with(&format!("{name} was left out")));
    plan.notes.iter().filter(|note| !said(note)).cloned().collect()
}

fn command(environment: &[(String, String)]) -> Option<String> {
    let named = |(name, _): &&(String, String)| name == "command" || name == "command_line";
    environment.iter().find(named).map(|(_, text)| text.clone())
}

fn pairs(pairs: &[(String, String)]) -> Vec<Value> {
    pairs.iter().map(|(name, text)| context! { name => name.clone(), text => text.clone() }).collect()
}

fn table(table: &Table) -> Value {
    let rows: Vec<Vec<Value>> = table
        .rows
        .iter()
        .map(|row| {
            row.iter().map(|(text, strong)| context! { text => text.clone(), strong => *strong }).collect()
        })
        .collect();
    context! { headings => table.headings.clone(), names => table.names, rows }
}

/// Every target compared, with a sentence about it.
fn targets(analysis: &Analysis<'_>, names: &[String]) -> Vec<Value> {
    let is_target = analysis.series.is_some_and(|factor| analysis.run.factors[factor].name == "target");
    let own = |name: &String| is_target && words::same_core(name);
    let about = |name: &String| analysis.run.plan.targets.iter().find(|about| about.name == *name);
    let sentence = |name: &String| -> String {
        if !is_target {
            return match analysis.series {
                Some(factor) => format!("{}.", words::level_phrase(&analysis.run.factors[factor].name, name)),
                None => "this run varies nothing that could be compared.".to_owned(),
            };
        }
        // Of other programs the plan knows the variant that was run; the models need a reader's introduction.
        match (words::target_sentence(name).filter(|_| words::same_core(name)), about(name)) {
            (Some(known), _) => known.to_owned(),
            (None, Some(about)) if !about.sentence.is_empty() => format!("{}.", about.sentence),
            _ => words::target_sentence(name).unwrap_or("a target of this study.").to_owned(),
        }
    };
    let describe = |(series, name): (usize, &String)| {
        let text = sentence(name);
        context! { name => name.clone(), text, own => own(name), measured => analysis.measured(series) }
    };
    names.iter().enumerate().map(describe).collect()
}

/// What was varied besides, with all levels.
fn factors(analysis: &Analysis<'_>) -> Vec<Value> {
    let factors = analysis.run.factors.iter().enumerate();
    factors
        .filter(|(index, factor)| Some(*index) != analysis.series && factor.name != "keepalive")
        .map(|(_, factor)| {
            let levels: Vec<String> =
                factor.levels.iter().map(|level| words::level(&factor.name, level)).collect();
            context! { name => words::factor_title(&factor.name), levels => words::listed(&levels) }
        })
        .collect()
}

fn legend(names: &[String]) -> Result<Vec<Value>, ReportError> {
    let styles = plots::styles(names);
    let entries = names.iter().zip(styles);
    entries
        .map(|(name, style)| {
            let key = Value::from_safe_string(plots::key(style % SERIES.len())?);
            Ok(context! { name => name.clone(), key })
        })
        .collect()
}

fn safe(drawings: Vec<String>) -> Vec<Value> {
    drawings.into_iter().map(Value::from_safe_string).collect()
}

fn figures(analysis: &Analysis<'_>) -> Result<Vec<Value>, ReportError> {
    if plots::panel_count(analysis) > MOST_PANELS {
        return Ok(Vec::new());
    }
    let recorded =
        |metric: &&plots::Metric| analysis.run.rounds.iter().any(|round| round.metric(metric.name).is_some());
    METRICS
        .iter()
        .filter(recorded)
        .map(|metric| {
            let groups: Vec<Value> = plots::panels(analysis, metric)?
                .into_iter()
                .map(|group| context! { heading => group.heading, panels => safe(group.panels) })
                .collect();
            Ok(context! {
                id => metric.id,
                title => metric.title,
                axis => metric.axis,
                log => metric.log,
                caption => metric.caption,
                grouped => analysis.group.is_some(),
                groups,
            })
        })
        .collect()
}

/// A forest plot and a table of ratios for each reference.
fn forests(analysis: &Analysis<'_>, references: &[usize]) -> Result<Vec<Value>, ReportError> {
    let names = analysis.series_names();
    references
        .iter()
        .enumerate()
        .map(|(index, reference)| {
            let name = &names[*reference];
            let id = if index == 0 { "ratio".to_owned() } else { format!("ratio-{index}") };
            let why = match name.as_str() {
                "prefork" if index == 0 => {
                    "prefork is the reference: it shares its core with this server's other models, so their ratios show \
                     what the concurrency model alone is worth."
                }
                "apache2" => {
                    "Against the installed Apache, ratios also contain every other difference between the two programs."
                }
                _ => "The reference is the first target measured, or the one the plan names.",
            };
            let panels = forest::panels(analysis, *reference, "rps")?;
            let intervals = tables::ratios(analysis, *reference);
            let count = intervals.rows.len();
            Ok(context! {
                id,
                reference => name.clone(),
                why,
                panels => safe(panels),
                table => table(&intervals),
                by_luck => (count as f64 * 0.05).round() as u64,
                count,
                typical => analysis.has_typical(),
                cut => analysis.blocks.len() > forest::MOST_ROWS,
                most => forest::MOST_ROWS,
            })
        })
        .collect()
}

/// How many rounds were left out, and of which targets.
fn validity(analysis: &Analysis<'_>, summary: &Summary) -> Vec<Value> {
    let names = analysis.series_names();
    let line = |(series, name): (usize, &String)| {
        let rounds = analysis.blocks.iter().flat_map(|block| analysis.rounds(block, series));
        let (valid, all) =
            rounds.fold((0, 0), |(valid, all), round| (valid + usize::from(round.valid), all + 1));
        context! { name => name.clone(), valid, all, left_out => all - valid }
    };
    let mut lines: Vec<Value> = names.iter().enumerate().map(line).collect();
    let left_out = summary.measured - summary.valid;
    lines.push(context! { name => "all", valid => summary.valid, all => summary.measured, left_out });
    lines
}

/// Sentences on how it was measured, from what the plan says.
fn method(analysis: &Analysis<'_>, summary: &Summary) -> Vec<String> {
    let plan = &analysis.run.plan;
    let repeats =
        analysis.run.rounds.iter().map(|round| round.round).collect::<std::collections::BTreeSet<_>>().len();
    let mut sentences = vec![format!(
        "{} in {}; {} measured{}.",
        words::count(analysis.blocks.len(), "setting"),
        words::count(repeats, "repetition"),
        words::count(summary.measured, "round"),
        summary
            .planned
            .map(|planned| format!(" of {} planned", words::thousands(planned as f64)))
            .unwrap_or_default(),
    )];
    match (plan.warmup_s, plan.window_s) {
        (Some(warmup), Some(window)) => sentences.push(format!(
            "Each round: the server is warmed up for about {} s, which is not counted, then measured for about {} s.",
            words::number(warmup),
            words::number(window)
        )),
        (None, Some(window)) => {
            sentences.push(format!("Each round is measured for about {} s.", words::number(window)));
        }
        _ => {}
    }
    sentences.push(
        "Within one repetition all targets run a setting back to back, in random order, and settings come in random \
         order, so that what the machine does meanwhile hits all targets alike. Ratios are made within such a block, \
         averaged as logarithms (geometric mean), with a 95 % t interval over the repetitions. The typical ratio over \
         all settings takes one value per setting, with a bootstrap interval over settings (BCa) from six settings on."
            .to_owned(),
    );
    if let Some(seed) = plan.seed {
        sentences.push(format!("Seed of the random order: {seed}."));
    }
    sentences
}
