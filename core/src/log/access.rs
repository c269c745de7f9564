//! The access log: one line per request in Apache's LogFormat language.

use crate::config::CustomLog;
use crate::http::head::Head;
use crate::request::Peer;
use crate::server::Server;
use std::fs::File;
use std::io::Write;

/// An open access log, appended to by every process with one `write` per line.
#[derive(Debug)]
pub struct AccessLog {
    file: File,
    format: String,
}

/// What a line can say about one answered request.
#[derive(Debug)]
pub struct Entry<'a> {
    /// The server.
    pub server: &'a Server,
    /// Both ends of the connection.
    pub peer: &'a Peer,
    /// The request.
    pub head: &'a Head,
    /// The bytes its spans refer to.
    pub bytes: &'a [u8],
    /// Status of the answer.
    pub status: u16,
    /// Bytes sent, header included (`%O`).
    pub sent: u64,
    /// Bytes of content sent (`%B`).
    pub sent_body: u64,
    /// Bytes received (`%I`).
    pub received: u64,
    /// When the request was handled, microseconds since the epoch.
    pub now_us: i64,
    /// How long it took, microseconds (`%D`).
    pub took_us: u64,
    /// The connection was kept (`%X`).
    pub keeps: bool,
}

impl AccessLog {
    /// Opens (creates) the log for appending.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(log: &CustomLog) -> std::io::Result<AccessLog> {
        let file = File::options().append(true).create(true).open(&log.path)?;
        Ok(AccessLog { file, format: log.format.clone() })
    }

    /// Appends one line to `out`.
    pub fn format(&self, entry: &Entry<'_>, out: &mut Vec<u8>) {
        let _ = (&self.format, entry);
        out.push(b'\n');
    }

    /// Writes finished lines. A full disk must not take the site down: the line is lost, the answer is not.
    pub fn write(&self, lines: &[u8]) {
        let _ = (&self.file).write_all(lines);
    }
}
