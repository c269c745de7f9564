//! `results.jsonl`: one line per round, only ever appended to; and what is already there when a run goes on.

use super::StudyError;
use super::factor::Cell;
use crate::reason::reason;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Its name in the run directory.
pub const FILE_NAME: &str = "results.jsonl";

/// One line (design section 5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Name of the study.
    pub study: String,
    /// Settings.
    pub cell: Cell,
    /// Round, from 1.
    pub round: u32,
    /// Place in the planned order, from 1.
    pub order: u32,
    /// When it started, RFC 3339.
    pub started: String,
    /// What was measured. Empty when nothing could be.
    pub metrics: Map<String, Value>,
    /// Whether the metrics are evidence.
    pub valid: bool,
    /// Why not.
    pub invalid_because: Vec<String>,
}

/// The results of a run directory, open for more.
#[derive(Debug)]
pub struct Results {
    file: File,
    path: PathBuf,
    /// Rounds that were already there, in file order.
    pub earlier: Vec<Record>,
}

impl Results {
    /// Opens the results of `directory`, creating them if need be. A last line that was cut off by a kill is removed, so
    /// that what is appended starts on a line of its own.
    pub fn open(directory: &Path) -> Result<Results, StudyError> {
        let path = directory.join(FILE_NAME);
        let usage = |what: String| StudyError::Usage(format!("{}: {what}", path.display()));
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(usage(format!("cannot be read: {}", reason(&error)))),
        };
        let (earlier, whole) = read(&bytes).map_err(usage)?;
        let open = || -> io::Result<File> {
            let file = OpenOptions::new().append(true).create(true).open(&path)?;
            if whole < bytes.len() {
                file.set_len(whole as u64)?;
            }
            Ok(file)
        };
        let file = open()
            .map_err(|error| usage(format!("cannot be written: {}; choose another --out", reason(&error))))?;
        Ok(Results { file, path, earlier })
    }

    /// Appends one round in one write. On a full disk the error names the file; earlier rounds remain, and what was
    /// written of this one is taken back.
    pub fn append(&mut self, record: &Record) -> Result<(), StudyError> {
        let mut line = serde_json::to_string(record).expect("strings, numbers and maps with text keys");
        line.push('\n');
        let before = self.file.metadata().map(|metadata| metadata.len());
        self.file.write_all(line.as_bytes()).map_err(|error| {
            if let Ok(length) = before {
                // If even this fails, the torn line is ignored by whoever reads it.
                let _ = self.file.set_len(length);
            }
            StudyError::Failed(format!(
                "{}: cannot be written: {}; the rounds before are kept, make room and go on with --resume",
                self.path.display(),
                reason(&error)
            ))
        })
    }
}

/// The whole lines and how many bytes they take. A last line without its end was being written when the run was killed.
fn read(bytes: &[u8]) -> Result<(Vec<Record>, usize), String> {
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let mut records = Vec::new();
    for (number, line) in (1..).zip(bytes[..whole].split(|&byte| byte == b'\n')) {
        if !line.trim_ascii().is_empty() {
            records.push(serde_json::from_slice(line).map_err(|error| {
                format!("line {number} is not a round ({error}); restore the file or start anew with another --out")
            })?);
        }
    }
    Ok((records, whole))
}
