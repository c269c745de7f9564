//! The study engine: from a study file to rounds in random order, one line per round, and a report.
//!
//! Reading order: [`file`] (what is asked), [`factor`] (what may vary), [`order`] (in which order), [`budget`] (how long
//! each round may take), [`round`] (one round), [`engine`] (all of them), [`results`] (what is kept and continued).
//!
//! A run directory holds `plan.json` (what was to be done), `environment.json` (where), `results.jsonl` (what happened,
//! one line per round, append-only: the only truth) and what is derived from these, `tidy.csv` and `report.html`.

pub mod budget;
pub mod clock;
pub mod directory;
pub mod docroot;
pub mod engine;
pub mod environment;
pub mod factor;
pub mod file;
pub mod nearest;
pub mod order;
pub mod plan;
pub mod progress;
pub mod results;
pub mod round;
pub(crate) mod scratch;
pub mod shipped;
pub mod show;

pub use engine::{RunOptions, RunSummary, run};
pub use show::{list, show};

use std::path::{Path, PathBuf};

/// Why a study was not run to its end. One line: what, where, what to do.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The command, the study file or the output directory was wrong; nothing was started.
    #[error("{0}")]
    Usage(String),
    /// It went wrong on the way. Rounds already written remain.
    #[error("{0}")]
    Failed(String),
}

impl StudyError {
    /// The exit status of design section 5: 2 for wrong usage, 1 for what failed.
    pub fn exit_status(&self) -> u8 {
        match self {
            StudyError::Usage(_) => 2,
            StudyError::Failed(_) => 1,
        }
    }
}

/// Writes `report.html` and `tidy.csv` of a run directory anew from its raw rounds; returns the report's path.
pub fn report(directory: &Path) -> Result<PathBuf, StudyError> {
    for name in [plan::FILE_NAME, results::FILE_NAME] {
        if !directory.join(name).is_file() {
            return Err(StudyError::Usage(format!(
                "{}: no {name} there; name a directory written by `mpmlab study run`",
                directory.display()
            )));
        }
    }
    crate::report::write(directory).map_err(|error| StudyError::Failed(error.to_string()))?;
    Ok(directory.join("report.html"))
}
