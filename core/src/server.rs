//! The resolved server: everything a request needs, opened and checked once at start-up, read-only afterwards.

use crate::config::Config;
use crate::config::knobs::{FileSend, LingerStyle};
use crate::http::mime::MimeTypes;
use crate::log::access::AccessLog;
use std::path::PathBuf;
use std::time::Duration;

/// What serving threads share. Built before the first fork and inherited by every child.
#[derive(Debug)]
pub struct Server {
    /// The configuration it was built from.
    pub config: Config,
    /// The document root, canonical: no request can name anything outside.
    pub root: PathBuf,
    /// Content types by file name extension.
    pub mime: MimeTypes,
    /// The access log, if one is configured.
    pub access_log: Option<AccessLog>,
    /// Value of the `Server` header.
    pub banner: String,
    host: Option<String>,
    /// When the program was built, as far as its file tells.
    pub built: String,
    /// The strategy that file bytes are sent by, resolved from knob and directives.
    pub file_send: FileStrategy,
    /// Bytes per read of a file that is read. See [`Config::read_size`].
    pub read_size: usize,
}

/// [`FileSend`] with `Auto` resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "described at FileSend")]
pub enum FileStrategy {
    Mmap,
    Sendfile,
    Read,
}

/// Why a configuration cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The document root cannot be used.
    #[error("DocumentRoot '{}': {why}; name a directory that exists and can be read", .path.display())]
    Root {
        /// As configured.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// A file named by a directive cannot be opened.
    #[error("{directive} '{}': {why}", .path.display())]
    File {
        /// The directive that names it.
        directive: &'static str,
        /// As configured.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
}

impl Server {
    /// Opens what the configuration names.
    ///
    /// # Errors
    /// The document root is missing, not a directory or unreadable; the mime types or a log cannot be opened.
    pub fn new(config: Config) -> Result<Server, ServerError> {
        let bad_root = |why: String| ServerError::Root { path: config.document_root.clone(), why };
        let root = config.document_root.canonicalize().map_err(|e| bad_root(describe(&e)))?;
        if !root.is_dir() {
            return Err(bad_root("it is not a directory".to_owned()));
        }
        // Reading it now is the honest test of permission; access(2) would answer for the real user only.
        std::fs::read_dir(&root).map_err(|e| bad_root(describe(&e)))?;
        let mime = match &config.types_config {
            None => MimeTypes::builtin(),
            Some(path) => MimeTypes::load(path).map_err(|e| ServerError::File {
                directive: "TypesConfig",
                path: path.clone(),
                why: describe(&e),
            })?,
        };
        let access_log = match &config.custom_log {
            None => None,
            Some(log) => Some(AccessLog::open(log).map_err(|e| ServerError::File {
                directive: "CustomLog",
                path: log.path.clone(),
                why: describe(&e),
            })?),
        };
        let file_send = match config.knobs.file_send {
            FileSend::Mmap => FileStrategy::Mmap,
            FileSend::Sendfile => FileStrategy::Sendfile,
            FileSend::Read => FileStrategy::Read,
            FileSend::Auto if config.enable_sendfile => FileStrategy::Sendfile,
            FileSend::Auto if config.enable_mmap => FileStrategy::Mmap,
            FileSend::Auto => FileStrategy::Read,
        };
        let host = config.server_name.as_deref().map(without_port).map(str::to_owned);
        Ok(Server {
            root,
            host,
            built: built(),
            mime,
            access_log,
            banner: concat!("mpmlab/", env!("CARGO_PKG_VERSION")).to_owned(),
            file_send,
            read_size: config.read_size(),
            config,
        })
    }

    /// `ServerName` without its port.
    pub fn host_name(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// How long a connection that is being closed may stay silent and stay at all.
    pub fn linger_limits(&self, short: bool) -> LingerLimits {
        let total = Duration::from_secs(if short { 2 } else { 30 });
        match self.config.knobs.linger {
            LingerStyle::WaitFirst => LingerLimits { silence: Duration::from_secs(2), total },
            LingerStyle::ReadFirst => LingerLimits { silence: total, total },
        }
    }
}

/// See [`Server::linger_limits`].
#[derive(Debug, Clone, Copy)]
pub struct LingerLimits {
    /// Longest wait for the next byte.
    pub silence: Duration,
    /// Longest stay in all.
    pub total: Duration,
}

/// The age of the program's file, `2026-11-12T08:58:41`.
fn built() -> String {
    let modified = std::env::current_exe().and_then(|path| path.metadata()).and_then(|data| data.modified());
    let since = modified.ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    crate::sys::format_local(since.map_or(0, |since| since.as_secs() as i64), c"%Y-%m-%dT%H:%M:%S")
}

/// `host` of `host:port`; an IPv6 address keeps its colons.
fn without_port(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') && (!host.contains(':') || host.ends_with(']')) => host,
        _ => name,
    }
}

/// The system's reason without Rust's "(os error N)".
fn describe(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}
