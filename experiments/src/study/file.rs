//! A study file (TOML) to a [`Study`], or one line that says what is wrong, where, and what to write.

use super::StudyError;
use super::factor::{self, Level, TARGET};
use super::nearest::hint;
use crate::duration::parse_duration;
use crate::target::treatment::Start;
use std::ops::Range;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What a study file says.
#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    /// Name: lower-case letters, digits, hyphens.
    pub name: String,
    /// Title of the report.
    pub title: String,
    /// The question, in a sentence a newcomer understands.
    pub question: String,
    /// How often every cell is measured.
    pub rounds: u32,
    /// How long the whole run may take.
    pub budget: Duration,
    /// The target that the others are compared with in the report; none lets the report choose.
    pub reference: Option<String>,
    /// How much of its pool a server starts with.
    pub pool: Start,
    /// Factors with their levels, in the order of the file; `target` and all others are always there.
    pub factors: Vec<(String, Vec<Level>)>,
    /// The text itself, for the record.
    pub text: String,
}

/// Keys of a study file.
const KEYS: [&str; 8] = ["name", "title", "question", "rounds", "budget", "reference", "pool", "factors"];

/// Most levels and rounds together must stay plannable.
const MOST_RUNS: usize = 1_000_000;

/// Reads the text of a study; `source` names it in errors. `targets` are the names that its targets may have; `None` where
/// the study is only looked at.
pub fn parse(source: &str, text: &str, targets: Option<&[&str]>) -> Result<Study, StudyError> {
    read(text, targets).map_err(|(span, what)| {
        let line = span.map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
        let place = line.map_or_else(|| source.to_owned(), |line| format!("{source}:{line}"));
        StudyError::Usage(format!("{place}: {what}"))
    })
}

type Refused = (Option<Range<usize>>, String);

fn read(text: &str, targets: Option<&[&str]>) -> Result<Study, Refused> {
    let table = DeTable::parse(text).map_err(|error| (error.span(), error.message().replace('\n', ", ")))?;
    let table = table.get_ref();
    for (key, _) in table.iter() {
        let name = key.get_ref().as_ref();
        if !KEYS.contains(&name) {
            return Err((Some(key.span()), format!("unknown key `{name}`; {}", hint(name, &KEYS))));
        }
    }
    let name = sentence(table, "name", "name = \"my-study\"")?;
    let name_span = table.get("name").map(|value| value.span());
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        return Err((name_span, format!("name `{name}`: use lower-case letters, digits and hyphens")));
    }
    let rounds = required(table, "rounds", "rounds = 3")?;
    let rounds = whole(rounds)
        .and_then(|n| u32::try_from(n).ok())
        .filter(|n| (1..=10_000).contains(n))
        .ok_or_else(|| (Some(rounds.span()), "rounds: write a whole number from 1 to 10000".to_owned()))?;
    let budget = required(table, "budget", "budget = \"3m\"")?;
    let refuse_budget = |why: String| (Some(budget.span()), format!("budget: {why}"));
    let time = budget
        .get_ref()
        .as_str()
        .ok_or_else(|| refuse_budget("write a time in quotes, as in \"3m\"".into()))?;
    let time = parse_duration(time).map_err(refuse_budget)?;
    if time.is_zero() {
        return Err(refuse_budget("must be longer than 0".into()));
    }
    let example = "[factors] with target = [\"prefork\", \"event\"]";
    let factors = factors(required(table, "factors", example)?, targets)?;
    let runs = factors.iter().try_fold(rounds as usize, |runs, (_, levels)| runs.checked_mul(levels.len()));
    if runs.is_none_or(|runs| runs > MOST_RUNS) {
        let span = table.get("factors").map(Spanned::span);
        return Err((span, format!("more than {MOST_RUNS} runs; use fewer levels or rounds")));
    }
    let reference = match table.get("reference") {
        None => None,
        Some(value) => Some(reference(value, &factors)?),
    };
    let pool = match table.get("pool") {
        None => Start::default(),
        Some(value) => pool(value)?,
    };
    Ok(Study {
        name,
        title: sentence(table, "title", "title = \"What ...\"")?,
        question: sentence(table, "question", "question = \"Which ...?\"")?,
        rounds,
        budget: time,
        reference,
        pool,
        factors,
        text: text.to_owned(),
    })
}

fn required<'t, 'i>(
    table: &'t DeTable<'i>,
    key: &str,
    example: &str,
) -> Result<&'t Spanned<DeValue<'i>>, Refused> {
    table.get(key).ok_or_else(|| (None, format!("`{key}` is missing; write {example}")))
}

fn sentence(table: &DeTable<'_>, key: &str, example: &str) -> Result<String, Refused> {
    let value = required(table, key, example)?;
    let text = value.get_ref().as_str().map(str::trim).filter(|text| !text.is_empty());
    text.map(str::to_owned)
        .ok_or_else(|| (Some(value.span()), format!("{key}: write text in quotes, as in {example}")))
}

fn pool(value: &Spanned<DeValue<'_>>) -> Result<Start, Refused> {
    let name = value.get_ref().as_str().unwrap_or_default();
    Start::named(name).ok_or_else(|| (Some(value.span()), format!("pool: {}", hint(name, &Start::NAMES))))
}

/// The reference must be one of the targets that are measured.
fn reference(value: &Spanned<DeValue<'_>>, factors: &[(String, Vec<Level>)]) -> Result<String, Refused> {
    let targets: Vec<String> = factors
        .iter()
        .filter(|(name, _)| name == TARGET)
        .flat_map(|(_, levels)| levels.iter().map(Level::to_string))
        .collect();
    let name = value.get_ref().as_str().unwrap_or_default();
    if targets.iter().any(|target| target == name) {
        return Ok(name.to_owned());
    }
    Err((Some(value.span()), format!("reference: name one of the targets: {}", targets.join(", "))))
}

fn factors(
    value: &Spanned<DeValue<'_>>,
    targets: Option<&[&str]>,
) -> Result<Vec<(String, Vec<Level>)>, Refused> {
    let table = value.get_ref().as_table().ok_or_else(|| {
        (Some(value.span()), "factors: write a table: [factors], then one line per factor".to_owned())
    })?;
    let mut found: Vec<(usize, String, Vec<Level>)> = Vec::new();
    for (key, value) in table.iter() {
        let factor = factor::find(key.get_ref().as_ref()).map_err(|what| (Some(key.span()), what))?;
        let at = |value: &Spanned<DeValue<'_>>, what: String| {
            (Some(value.span()), format!("{}: {what}", factor.name))
        };
        // A single level may stand without brackets.
        let single = std::slice::from_ref(value);
        let values = value.get_ref().as_array().map_or(single, |array| array.as_ref());
        let mut levels: Vec<Level> = Vec::new();
        for value in values {
            let level = level(value).ok_or_else(|| {
                at(
                    value,
                    format!(
                        "{} cannot be a level; use text, whole numbers, true, false",
                        value.get_ref().type_str()
                    ),
                )
            })?;
            factor.check(&level, targets).map_err(|what| at(value, what))?;
            if levels.contains(&level) {
                return Err(at(value, format!("`{level}` is there twice; leave one out")));
            }
            levels.push(level);
        }
        if levels.is_empty() {
            return Err(at(value, "has no levels; name at least one".to_owned()));
        }
        found.push((key.span().start, factor.name.to_owned(), levels));
    }
    // The parser sorts keys; a reader expects the order of the file.
    found.sort();
    let mut factors: Vec<(String, Vec<Level>)> =
        found.into_iter().map(|(_, name, levels)| (name, levels)).collect();
    if !factors.iter().any(|(name, _)| name == TARGET) {
        return Err((
            Some(value.span()),
            "factors: `target` is missing; write target = [\"prefork\", \"event\"]".into(),
        ));
    }
    for factor in factor::FACTORS {
        if !factors.iter().any(|(name, _)| name == factor.name) {
            factors.push((factor.name.to_owned(), vec![factor::default_level(factor.name)]));
        }
    }
    Ok(factors)
}

fn level(value: &Spanned<DeValue<'_>>) -> Option<Level> {
    let inner = value.get_ref();
    inner
        .as_bool()
        .map(Level::Flag)
        .or_else(|| inner.as_str().map(|text| Level::Text(text.to_owned())))
        .or_else(|| whole(value).map(Level::Number))
}

fn whole(value: &Spanned<DeValue<'_>>) -> Option<u64> {
    let integer = value.get_ref().as_integer()?;
    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
}
