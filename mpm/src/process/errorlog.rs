//! The error log: one `write` per line, in Apache's form.
//!
//! ```text
//! [Tue Dec 01 02:03:04.567890 2026] [mpm_event:notice] [pid 1:tid 2] AH00489: mpmlab/0.1.0 configured -- resuming ...
//! ```

use mpmlab_core::config::LogLevel;
use nix::libc;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where the models say what happens to the server as a whole.
#[derive(Debug)]
pub struct ErrorLog {
    file: Option<File>,
    level: LogLevel,
    module: String,
}

impl ErrorLog {
    /// Opens the log for a model; without a path it is standard error.
    ///
    /// # Errors
    /// The file cannot be opened for appending.
    pub fn open(path: Option<&Path>, level: LogLevel, model: &str) -> std::io::Result<ErrorLog> {
        let file = path.map(|path| File::options().append(true).create(true).open(path)).transpose()?;
        Ok(ErrorLog { file, level, module: format!("mpm_{model}") })
    }

    /// Writes a line if its level is to be logged. In a file, notices always are, as in Apache.
    pub fn say(&self, level: LogLevel, text: &str) {
        let always = self.file.is_some() && level == LogLevel::Notice;
        if level > self.level && !always {
            return;
        }
        let line = format!(
            "[{}] [{}:{}] [pid {}:tid {}] {text}\n",
            timestamp(),
            self.module,
            name(level),
            std::process::id(),
            super::fork::thread_id(),
        );
        // A log that cannot be written has nowhere to complain.
        let _ = match &self.file {
            Some(file) => (&*file).write_all(line.as_bytes()),
            None => std::io::stderr().write_all(line.as_bytes()),
        };
    }
}

fn name(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Emerg => "emerg",
        LogLevel::Alert => "alert",
        LogLevel::Crit => "crit",
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Notice => "notice",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    }
}

/// Local time as ctime writes it, with microseconds.
fn timestamp() -> String {
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = now.as_secs() as libc::time_t;
    // SAFETY: tm is plain data for which zeroes are a valid value.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call; localtime_r writes only `tm`.
    unsafe { libc::localtime_r(&raw const seconds, &raw mut tm) };
    format!(
        "{} {} {:02} {:02}:{:02}:{:02}.{:06} {}",
        DAYS[tm.tm_wday.rem_euclid(7) as usize],
        MONTHS[tm.tm_mon.rem_euclid(12) as usize],
        tm.tm_mday,
        tm.tm_hour,
        tm.tm_min,
        tm.tm_sec,
        now.subsec_micros(),
        tm.tm_year + 1900,
    )
}
