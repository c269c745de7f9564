//! `plan.json`: what was to be done, complete enough to do it again or to go on with it.

use super::StudyError;
use super::engine::Chosen;
use super::file::{self, Study};
use super::order::{Planned, schedule};
use crate::reason::reason;
use crate::target::{Site, treatment};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Its name in the run directory.
pub const FILE_NAME: &str = "plan.json";

/// What the study was and asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// Name.
    pub name: String,
    /// Title.
    pub title: String,
    /// Question.
    pub question: String,
    /// The target the others are compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The study file, word for word.
    pub file: String,
}

/// A target that was left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dropped {
    /// Its name.
    pub target: String,
    /// Why.
    pub why: String,
}

/// The plan of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The study.
    pub study: About,
    /// What varies, without the targets that were left out.
    pub factors: Map<String, Value>,
    /// Targets left out.
    pub dropped_targets: Vec<Dropped>,
    /// Times every cell is measured.
    pub rounds: u32,
    /// Number of all runs.
    pub runs: usize,
    /// Seed of the order.
    pub seed: u64,
    /// Time for the whole run, seconds.
    pub budget_s: f64,
    /// Measured window of each run as foreseen, seconds; each result has its own `duration_s`.
    pub window_s: f64,
    /// Warm-up before it as foreseen, seconds.
    pub warmup_s: f64,
    /// What a run costs besides as foreseen, seconds.
    pub overhead_s: f64,
    /// Every target's version, sentence and settings.
    pub targets: BTreeMap<String, Value>,
    /// What a reader must know.
    pub notes: Vec<String>,
    /// Every run in its order.
    pub order: Vec<Planned>,
}

impl Plan {
    /// The plan of `study`, whose targets have been narrowed down to `targets` (with their versions).
    pub fn new(
        study: &Study,
        seed: u64,
        targets: &[Chosen<'_>],
        dropped: Vec<Dropped>,
        site: &Site<'_>,
    ) -> Plan {
        let order = schedule(&study.factors, study.rounds, seed);
        let mut notes = treatment::notes(study.pool);
        notes.extend(
            dropped.iter().map(|dropped| format!("{} was left out: {}.", dropped.target, dropped.why)),
        );
        Plan {
            study: About {
                name: study.name.clone(),
                title: study.title.clone(),
                question: study.question.clone(),
                reference: study.reference.clone(),
                file: study.text.clone(),
            },
            factors: study.factors.iter().map(|(name, levels)| (name.clone(), json!(levels))).collect(),
            dropped_targets: dropped,
            rounds: study.rounds,
            runs: order.len(),
            seed,
            budget_s: study.budget.as_secs_f64(),
            window_s: 0.0,
            warmup_s: 0.0,
            overhead_s: 0.0,
            targets: targets
                .iter()
                .map(|(target, version)| {
                    let settings: Map<String, Value> =
                        target.settings(site).into_iter().map(|(name, value)| (name, value.into())).collect();
                    let about =
                        json!({ "sentence": target.sentence(), "version": version, "settings": settings });
                    (target.name().to_owned(), about)
                })
                .collect(),
            notes,
            order,
        }
    }

    /// Reads the plan of a run directory and refuses one that is not of `study`.
    pub fn of_earlier_run(directory: &Path, study: &Study) -> Result<Plan, StudyError> {
        let path = directory.join(FILE_NAME);
        let usage = |what: String| StudyError::Usage(format!("{}: {what}", path.display()));
        let text = std::fs::read_to_string(&path).map_err(|error| {
            usage(format!("{}; there is no run to resume, leave out --resume", reason(&error)))
        })?;
        let plan: Plan = serde_json::from_str(&text)
            .map_err(|error| usage(format!("is not a plan of this version: {error}")))?;
        if plan.study.name != study.name {
            let name = &plan.study.name;
            return Err(usage(format!(
                "is of the study `{name}`, not of `{}`; choose another --out",
                study.name
            )));
        }
        let same = file::parse(FILE_NAME, &plan.study.file, None).is_ok_and(|earlier| {
            (&earlier.factors, earlier.rounds, earlier.pool) == (&study.factors, study.rounds, study.pool)
        });
        if !same {
            return Err(usage(
                "the study file has other factors or rounds than then; start anew with another --out".into(),
            ));
        }
        Ok(plan)
    }
}
