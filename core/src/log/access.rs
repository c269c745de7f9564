//! The access log: one line per request in Apache's LogFormat language.

use crate::config::CustomLog;
use std::fs::File;

/// An open access log, appended to by every process with one `write` per line.
#[derive(Debug)]
pub struct AccessLog {
    file: File,
    format: String,
}

impl AccessLog {
    /// Opens (creates) the log for appending.
    ///
    /// # Errors
    /// The file cannot be opened or the format has an unknown directive.
    pub fn open(log: &CustomLog) -> std::io::Result<AccessLog> {
        let file = File::options().append(true).create(true).open(&log.path)?;
        Ok(AccessLog { file, format: log.format.clone() })
    }
}
