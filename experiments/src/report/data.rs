//! Reads a run directory: plan, environment and rounds, tolerant of what is absent, clear about what is broken.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::reason::reason;

/// Why no report could be written: one line that says what, where and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A file of the run directory cannot be read.
    #[error("{}: {}; a run directory holds plan.json, environment.json and results.jsonl", path.display(), reason(source))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file of the run directory is not what it should be.
    #[error("{}{}: {reason}; restore the file or run the study again", path.display(), line.map(|n| format!(":{n}")).unwrap_or_default())]
    Garbled {
        /// The file.
        path: PathBuf,
        /// The line, in a file of lines.
        line: Option<usize>,
        /// What is wrong with it.
        reason: String,
    },
    /// No round was measured yet.
    #[error("{}: holds no measured round, so there is nothing to report; let the study run longer", path.display())]
    Empty {
        /// The results file.
        path: PathBuf,
    },
    /// An output file cannot be written.
    #[error("{}: cannot write: {}; nothing was left half-written", path.display(), reason(source))]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The page could not be made: a defect of the report itself.
    #[error("report.html: {reason}; this is a defect in the report, please file it with the run directory")]
    Render {
        /// What the template or plotting library said.
        reason: String,
    },
}

/// One run, as read from its directory.
#[derive(Debug, Clone)]
pub struct Run {
    /// What was to be done.
    pub plan: Plan,
    /// Where it was done: name and value, nested names joined by dots, in file order.
    pub environment: Vec<(String, String)>,
    /// What was varied, with levels in plan order and then as they appear.
    pub factors: Vec<Factor>,
    /// Every measured round, in file order.
    pub rounds: Vec<Round>,
    /// Names of all metrics, in order of first appearance.
    pub metrics: Vec<String>,
    /// Whether the last line of the results was cut off (a killed run) and ignored.
    pub torn: bool,
}

/// What `plan.json` says; everything optional.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// The study's name, as given to `study run`.
    pub name: String,
    /// Its title for readers.
    pub title: String,
    /// The question it asks.
    pub question: String,
    /// Rounds planned, all cells together.
    pub runs: Option<u64>,
    /// The seed of the random order.
    pub seed: Option<u64>,
    /// Length of a measured window in seconds.
    pub window_s: Option<f64>,
    /// Length of the warm-up before it in seconds.
    pub warmup_s: Option<f64>,
    /// Target every other is compared with, where the plan names one.
    pub reference: Option<String>,
    /// Targets left out, each with the reason.
    pub dropped: Vec<(String, String)>,
    /// What the study's author wants the reader to know.
    pub notes: Vec<String>,
    /// What the plan knows about each target.
    pub targets: Vec<AboutTarget>,
}

/// A target as the plan describes it.
#[derive(Debug, Clone, Default)]
pub struct AboutTarget {
    /// Its name.
    pub name: String,
    /// One sentence about it.
    pub sentence: String,
    /// What it says its version is.
    pub version: String,
    /// Every setting it was given, by the names of its own manual.
    pub settings: Vec<(String, String)>,
}

/// Something varied, and the values it took.
#[derive(Debug, Clone)]
pub struct Factor {
    /// Its name in the study file.
    pub name: String,
    /// Its values as text, in plan order.
    pub levels: Vec<String>,
}

impl Factor {
    /// Levels as numbers, when every one is a number.
    pub fn numeric(&self) -> Option<Vec<f64>> {
        self.levels.iter().map(|level| level.parse().ok()).collect()
    }
}

/// One measured round.
#[derive(Debug, Clone)]
pub struct Round {
    /// Name of the study as the round recorded it.
    pub study: String,
    /// Index of the level of each factor.
    pub cell: Vec<usize>,
    /// Which repetition of the block this is.
    pub round: u64,
    /// Position in the random order of the whole run.
    pub order: Option<u64>,
    /// When it started, as recorded.
    pub started: String,
    /// Its measurements by name.
    pub metrics: Map<String, Value>,
    /// Whether the measurement may be used.
    pub valid: bool,
    /// Why not.
    pub reasons: Vec<String>,
}

impl Round {
    /// A measurement as a finite number.
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.get(name)?.as_f64().filter(|value| value.is_finite())
    }
}

impl Run {
    /// Reads the run directory `dir`.
    pub fn read(dir: &Path) -> Result<Self, ReportError> {
        let plan_path = dir.join("plan.json");
        let plan_json = object(&plan_path)?;
        let mut run = Self {
            plan: plan(&plan_json),
            environment: flatten(&object(&dir.join("environment.json"))?),
            factors: planned_factors(&plan_json),
            rounds: Vec::new(),
            metrics: Vec::new(),
            torn: false,
        };
        run.read_rounds(&dir.join("results.jsonl"))?;
        Ok(run)
    }

    fn read_rounds(&mut self, path: &Path) -> Result<(), ReportError> {
        let bytes = read(path)?;
        // A kill may cut the last line inside a character, so only whole lines have to be text.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let tail = bytes[whole..].to_vec();
        let garbled = |line, reason: String| ReportError::Garbled { path: path.into(), line, reason };
        let text =
            std::str::from_utf8(&bytes[..whole]).map_err(|_| garbled(None, "is not UTF-8 text".into()))?;
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let value = serde_json::from_str(line)
                .map_err(|error| garbled(Some(index + 1), format!("is not JSON ({error})")))?;
            self.add(&value).map_err(|reason| garbled(Some(index + 1), reason))?;
        }
        match serde_json::from_slice::<Value>(&tail) {
            Ok(value) => self.torn = self.add(&value).is_err(),
            Err(_) => self.torn = !tail.trim_ascii().is_empty(),
        }
        // A cell recorded before a factor was first seen has no level for it yet.
        let width = self.factors.len();
        for index in 0..width {
            if self.rounds.iter().any(|round| round.cell.len() <= index) {
                let none = level_index(&mut self.factors[index], NO_LEVEL);
                for round in self.rounds.iter_mut().filter(|round| round.cell.len() <= index) {
                    round.cell.push(none);
                }
            }
        }
        if self.rounds.is_empty() {
            return Err(ReportError::Empty { path: path.into() });
        }
        Ok(())
    }

    fn add(&mut self, value: &Value) -> Result<(), String> {
        let cell = value.get("cell").and_then(Value::as_object).ok_or("has no object `cell`")?;
        let metrics = value.get("metrics").and_then(Value::as_object).ok_or("has no object `metrics`")?;
        for name in cell.keys() {
            if !self.factors.iter().any(|factor| factor.name == *name) {
                self.factors.push(Factor { name: name.clone(), levels: Vec::new() });
            }
        }
        for name in metrics.keys() {
            if !self.metrics.contains(name) {
                self.metrics.push(name.clone());
            }
        }
        let levels = self
            .factors
            .iter_mut()
            .map(|factor| {
                let level = cell.get(&factor.name).map_or_else(|| NO_LEVEL.to_owned(), text);
                level_index(factor, &level)
            })
            .collect();
        self.rounds.push(Round {
            study: value.get("study").map(text).unwrap_or_default(),
            cell: levels,
            round: value.get("round").and_then(Value::as_u64).unwrap_or(0),
            order: value.get("order").and_then(Value::as_u64),
            started: value.get("started").map(text).unwrap_or_default(),
            metrics: metrics.clone(),
            valid: value.get("valid").and_then(Value::as_bool).unwrap_or(true),
            reasons: strings(value.get("invalid_because")),
        });
        Ok(())
    }
}

/// The level of a factor a round says nothing about.
const NO_LEVEL: &str = "(none)";

fn level_index(factor: &mut Factor, level: &str) -> usize {
    factor.levels.iter().position(|known| known == level).unwrap_or_else(|| {
        factor.levels.push(level.to_owned());
        factor.levels.len() - 1
    })
}

/// A value as a reader writes it: text without quotes, whole numbers without a fraction.
pub fn text(value: &Value) -> String {
    match value {
        Value::String(string) => string.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => float.to_string(),
            _ => number.to_string(),
        },
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn strings(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Array(items)) => items.iter().map(text).collect(),
        Some(Value::String(string)) if !string.is_empty() => vec![string.clone()],
        _ => Vec::new(),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ReportError> {
    std::fs::read(path).map_err(|source| ReportError::Unreadable { path: path.into(), source })
}

fn object(path: &Path) -> Result<Map<String, Value>, ReportError> {
    let garbled = |reason| ReportError::Garbled { path: path.into(), line: None, reason };
    match serde_json::from_slice(&read(path)?) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(garbled("is not a JSON object".into())),
        Err(error) => Err(garbled(format!("is not JSON ({error})"))),
    }
}

fn plan(json: &Map<String, Value>) -> Plan {
    let study = json.get("study");
    // The study is an object; a bare name is accepted too.
    let of_study = |key: &str| study.and_then(|study| study.get(key)).map(text).unwrap_or_default();
    let name = study.and_then(Value::as_str).map_or_else(|| of_study("name"), str::to_owned);
    let mut notes = strings(study.and_then(|study| study.get("notes")));
    for note in strings(json.get("notes")) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    let dropped = json.get("dropped_targets").and_then(Value::as_array).map(|targets| {
        let pair = |entry: &Value| match entry.get("target") {
            Some(target) => (text(target), entry.get("why").map(text).unwrap_or_default()),
            None => (text(entry), String::new()),
        };
        targets.iter().map(pair).collect()
    });
    Plan {
        title: of_study("title"),
        question: of_study("question"),
        runs: json.get("runs").and_then(Value::as_u64),
        seed: json.get("seed").and_then(Value::as_u64),
        window_s: json.get("window_s").and_then(Value::as_f64),
        warmup_s: json.get("warmup_s").and_then(Value::as_f64),
        reference: json
            .get("reference")
            .or_else(|| study.and_then(|study| study.get("reference")))
            .and_then(Value::as_str)
            .map(str::to_owned),
        dropped: dropped.unwrap_or_default(),
        targets: json.get("targets").and_then(Value::as_object).map(about_targets).unwrap_or_default(),
        name,
        notes,
    }
}

fn about_targets(targets: &Map<String, Value>) -> Vec<AboutTarget> {
    let about = |(name, about): (&String, &Value)| AboutTarget {
        name: name.clone(),
        sentence: about.get("sentence").map(text).unwrap_or_default(),
        version: about.get("version").map(text).unwrap_or_default(),
        settings: about.get("settings").and_then(Value::as_object).map(flatten).unwrap_or_default(),
    };
    targets.iter().map(about).collect()
}

/// The plan's factors: from the top level (as run) before the study's own (as asked for).
fn planned_factors(json: &Map<String, Value>) -> Vec<Factor> {
    let as_run = json.get("factors").and_then(Value::as_object);
    let asked = json.get("study").and_then(|study| study.get("factors")).and_then(Value::as_object);
    let levels = |value: &Value| match value {
        Value::Array(items) => items.iter().map(text).collect(),
        other => vec![text(other)],
    };
    as_run
        .or(asked)
        .map(|factors| {
            factors.iter().map(|(name, value)| Factor { name: name.clone(), levels: levels(value) }).collect()
        })
        .unwrap_or_default()
}

/// An object's leaves as name and text, nested names joined by dots.
fn flatten(object: &Map<String, Value>) -> Vec<(String, String)> {
    fn walk(prefix: &str, value: &Value, leaves: &mut Vec<(String, String)>) {
        match value {
            Value::Object(object) => {
                for (name, value) in object {
                    let name = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                    walk(&name, value, leaves);
                }
            }
            Value::Array(items) if items.iter().all(|item| !item.is_object() && !item.is_array()) => {
                let joined = items.iter().map(text).collect::<Vec<_>>().join(", ");
                leaves.push((prefix.to_owned(), joined));
            }
            other => leaves.push((prefix.to_owned(), text(other))),
        }
    }
    let mut leaves = Vec::new();
    walk("", &Value::Object(object.clone()), &mut leaves);
    leaves
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(plan: &str, environment: &str, results: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in
            [("plan.json", plan), ("environment.json", environment), ("results.jsonl", results)]
        {
            std::fs::write(dir.path().join(name), content).unwrap();
        }
        dir
    }

    const ROUND: &str = r#"{"cell":{"target":"event","n":2},"round":1,"metrics":{"rps":5.5}}"#;

    #[test]
    fn a_torn_last_line_is_ignored_and_said() {
        let dir = directory("{}", "{}", &format!("{ROUND}\n{{\"cell\":{{\"targ"));
        let run = Run::read(dir.path()).unwrap();
        assert_eq!((run.rounds.len(), run.torn), (1, true));
        assert_eq!(run.rounds[0].metric("rps"), Some(5.5));
    }

    #[test]
    fn a_whole_last_line_counts_without_its_newline() {
        let run = Run::read(directory("{}", "{}", &format!("{ROUND}\n{ROUND}")).path()).unwrap();
        assert_eq!((run.rounds.len(), run.torn), (2, false));
    }

    #[test]
    fn a_broken_line_before_the_last_is_an_error_with_its_number() {
        let dir = directory("{}", "{}", &format!("{ROUND}\n{{\"cell\"\n{ROUND}\n"));
        let error = Run::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("results.jsonl:2: is not JSON") && !error.contains('\n'), "{error}");
    }

    #[test]
    fn missing_and_garbled_files_are_named_in_one_line() {
        let dir = directory("[]", "{}", ROUND);
        let error = Run::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("plan.json: is not a JSON object") && !error.contains('\n'), "{error}");
        std::fs::remove_file(dir.path().join("plan.json")).unwrap();
        let error = Run::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("plan.json: no such file or directory;") && !error.contains('\n'), "{error}");
        let error = Run::read(directory("{}", "{}", "\n").path()).unwrap_err().to_string();
        assert!(error.contains("results.jsonl: holds no measured round") && !error.contains('\n'), "{error}");
    }

    #[test]
    fn levels_keep_plan_order_and_take_in_what_the_plan_does_not_know() {
        let plan = r#"{"factors":{"target":["prefork","event"],"n":[1,2.0]}}"#;
        let late = r#"{"cell":{"target":"odd","n":2,"extra":true},"metrics":{"rps":null}}"#;
        let run = Run::read(directory(plan, "{}", &format!("{ROUND}\n{late}\n")).path()).unwrap();
        assert_eq!(run.factors[0].levels, ["prefork", "event", "odd"]);
        assert_eq!(run.factors[1].levels, ["1", "2"]);
        assert_eq!(run.factors[2].levels, ["true", NO_LEVEL]);
        assert_eq!(run.rounds[0].cell, [1, 1, 1]);
        assert_eq!(run.rounds[1].cell, [2, 1, 0]);
        assert_eq!(run.rounds[1].metric("rps"), None);
    }

    #[test]
    fn environment_is_flattened_in_order() {
        let run = Run::read(
            directory("{}", r#"{"kernel":"6","versions":{"nginx":"1"},"cpus":[0,1]}"#, ROUND).path(),
        );
        let expected = [("kernel", "6"), ("versions.nginx", "1"), ("cpus", "0, 1")];
        assert_eq!(run.unwrap().environment, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    }
}
