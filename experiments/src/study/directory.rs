//! The run directory: found or made, never mixed with another run's, and not left behind when nothing came of it.

use super::engine::RunOptions;
use super::{StudyError, clock, environment, plan, results};
use crate::reason::reason;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The run directory; removed again if it is new and nothing has been measured into it.
#[derive(Debug)]
pub struct Directory {
    /// Where it is.
    pub path: PathBuf,
    created: bool,
}

impl Directory {
    /// Finds the directory that was asked for and creates it. An existing run is touched only to resume it.
    pub fn prepare(options: &RunOptions, study: &str) -> Result<Directory, StudyError> {
        let path = match (&options.out, options.resume) {
            (Some(out), _) => out.clone(),
            (None, true) => latest(Path::new("runs"), study).ok_or_else(|| {
                StudyError::Usage(format!(
                    "runs: no earlier run of `{study}` to resume; leave out --resume or name its --out"
                ))
            })?,
            (None, false) => Path::new("runs").join(format!("{study}-{}", clock::compact(SystemTime::now()))),
        };
        let refuse = |what: &str| Err(StudyError::Usage(format!("{}: {what}", path.display())));
        let holds_run = [plan::FILE_NAME, results::FILE_NAME].iter().any(|name| path.join(name).exists());
        if options.resume && !holds_run {
            return refuse("there is no run to resume; leave out --resume");
        }
        if !options.resume && holds_run {
            return refuse("holds a run already; go on with it by --resume, or choose another --out");
        }
        let created = !path.exists();
        fs::create_dir_all(&path).map_err(|error| {
            StudyError::Usage(format!(
                "{}: cannot be created: {}; choose another --out",
                path.display(),
                reason(&error)
            ))
        })?;
        Ok(Directory { path, created })
    }

    /// From now on it stays, whatever happens.
    pub fn keep(&mut self) {
        self.created = false;
    }

    /// Writes one of its JSON files.
    pub fn write(&self, name: &str, content: &impl serde::Serialize) -> Result<(), StudyError> {
        let path = self.path.join(name);
        let mut text =
            serde_json::to_string_pretty(content).expect("strings, numbers and maps with text keys");
        text.push('\n');
        fs::write(&path, text).map_err(|error| {
            StudyError::Failed(format!("{}: cannot be written: {}", path.display(), reason(&error)))
        })
    }

    /// A resumed run adds its circumstances to those of the first part instead of replacing them.
    pub fn write_environment(
        &self,
        environment: &serde_json::Value,
        resumed: bool,
    ) -> Result<(), StudyError> {
        let path = self.path.join(environment::FILE_NAME);
        let earlier = resumed.then(|| fs::read(&path).ok()).flatten();
        let earlier: Option<serde_json::Value> =
            earlier.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let content = match earlier {
            Some(mut earlier) => {
                if let Some(object) = earlier.as_object_mut() {
                    let next = 2 + object.keys().filter(|key| key.starts_with("resumed_")).count();
                    object.insert(format!("resumed_{next}"), environment.clone());
                }
                earlier
            }
            None => environment.clone(),
        };
        self.write(environment::FILE_NAME, &content)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.created {
            for name in [plan::FILE_NAME, environment::FILE_NAME, results::FILE_NAME] {
                let _ = fs::remove_file(self.path.join(name));
            }
            // Only if nothing else is in it.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// The newest run directory of a study; their names sort by time.
fn latest(runs: &Path, study: &str) -> Option<PathBuf> {
    let prefix = format!("{study}-");
    let is_run = |path: &PathBuf| {
        let name =
            path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(&prefix));
        name.is_some_and(|date| date.bytes().all(|b| b.is_ascii_digit() || b == b'-'))
            && path.join(plan::FILE_NAME).is_file()
    };
    fs::read_dir(runs).ok()?.filter_map(|entry| Some(entry.ok()?.path())).filter(is_run).max()
}
