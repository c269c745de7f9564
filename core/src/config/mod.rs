//! The typed configuration of one server: plain, comparable, printable; nothing is opened here.
//!
//! Text becomes a tree with positions (`syntax`), the tree becomes this (`directive`), the numbers that the models use
//! are corrected the way Apache corrects them (`clamp`), and only then does [`crate::server::Server`] open files.

pub mod accept;
pub mod clamp;
pub mod directive;
mod draft;
pub mod knobs;
mod load;
pub mod location;
pub mod nearest;
mod place;
pub mod read_timeout;
pub mod syntax;
mod value;

pub use load::{Environment, Source, load, load_into};
pub use location::{Handler, Location, Require};
pub use place::{ConfigError, Place, Warning};

use knobs::CoreKnobs;
use read_timeout::ReadTimeout;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Everything the directives can say. `Default` is what Debian's packaged configuration says, and where that is
/// silent, Apache's compiled-in default (mpm-semantics 11).
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `Listen`: addresses in order. Empty: `127.0.0.1:8080` is for the command line to decide, not for this type.
    pub listen: Vec<Listen>,
    /// `ServerName`: host and optional port, for redirects when the client names no host.
    pub server_name: Option<String>,
    /// `ServerRoot`: relative paths start there. `None`: in the working directory.
    pub server_root: Option<PathBuf>,
    /// `DocumentRoot`.
    pub document_root: PathBuf,
    /// `DirectoryIndex`: names tried in order for a directory.
    pub directory_index: Vec<String>,
    /// `Timeout`: each wait for reading or writing. Debian: 300 s.
    pub timeout: Duration,
    /// `KeepAlive`.
    pub keep_alive: bool,
    /// `KeepAliveTimeout`: how long a kept connection may idle. Has a `ms` form.
    pub keep_alive_timeout: Duration,
    /// `MaxKeepAliveRequests`: N serves N + 1 requests on a connection; 0 means no limit.
    pub max_keep_alive_requests: u32,
    /// `RequestReadTimeout`.
    pub read_timeout: ReadTimeout,
    /// `LimitRequestLine`, bytes.
    pub limit_request_line: usize,
    /// `LimitRequestFields`, 0 = no limit.
    pub limit_request_fields: usize,
    /// `LimitRequestFieldSize`, bytes.
    pub limit_request_field_size: usize,
    /// `LimitRequestBody`, bytes, 0 = no limit.
    pub limit_request_body: u64,
    /// `EnableMMAP`.
    pub enable_mmap: bool,
    /// `EnableSendfile`.
    pub enable_sendfile: bool,
    /// `FlushMaxThreshold`: more bytes than this in memory are written before the handler may go on.
    pub flush_max_threshold: usize,
    /// `FlushMaxPipelined`: more answers than this do not wait for a common write; `None`: any number.
    pub flush_max_pipelined: Option<u32>,
    /// `ReadBufferSize`: bytes of the buffer that a file is read into; 0 is the default. See [`Config::read_size`].
    pub read_buffer_size: usize,
    /// `TraceEnable`.
    pub trace_enable: bool,
    /// `TypesConfig`: the mime.types file; `None` uses the one compiled in.
    pub types_config: Option<PathBuf>,
    /// `User` and `Group` to run children as, when started as root.
    pub user: Option<String>,
    /// See `user`.
    pub group: Option<String>,
    /// `PidFile`.
    pub pid_file: Option<PathBuf>,
    /// `ScoreBoardFile`: the scoreboard is shared memory whose name is made from this path. `None`: it has no name.
    pub scoreboard_file: Option<PathBuf>,
    /// `ExtendedStatus`: requests are timed and counted in the scoreboard. On as soon as Apache has mod_status.
    pub extended_status: bool,
    /// `SeeRequestTail`: of a long request line the scoreboard shows the end, not the beginning.
    pub see_request_tail: bool,
    /// `<Location>` sections, in order.
    pub locations: Vec<Location>,
    /// `ErrorLog`: `None` is standard error.
    pub error_log: Option<PathBuf>,
    /// `LogLevel`.
    pub log_level: LogLevel,
    /// `CustomLog`: where to, and the format string with nicknames resolved. `None`: no access log.
    pub custom_log: Option<CustomLog>,
    /// `ListenBacklog`.
    pub listen_backlog: u32,
    /// Listening sockets and accept serialisation.
    pub accepting: accept::Accepting,
    /// `GracefulShutdownTimeout`: bound of a graceful stop; zero is none (mpm-semantics 6).
    pub graceful_shutdown_timeout: Duration,
    /// `ThreadStackSize`, bytes; 0 is the system's default.
    pub thread_stack_size: usize,
    /// `MaxMemFree`, KiB. Read and checked, and without effect: there are no memory pools here whose free list it could
    /// bound; buffers belong to threads and are kept.
    pub max_mem_free: usize,
    /// What the models read. Numbers as written; `clamp` makes them consistent.
    pub mpm: MpmDirectives,
    /// The core's own mechanisms.
    pub knobs: CoreKnobs,
}

/// One `Listen` address. Without an IP it is every address, IPv4 and IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    /// The address; `None` for a bare port.
    pub ip: Option<IpAddr>,
    /// The port; 0 lets the kernel choose.
    pub port: u16,
}

/// `CustomLog target format`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomLog {
    /// File appended to.
    pub path: PathBuf,
    /// Format string, never a nickname.
    pub format: String,
}

/// Directives of the multi-processing models, as written. `None` means not set: defaults differ between models.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MpmDirectives {
    /// `StartServers`.
    pub start_servers: Option<i64>,
    /// `MinSpareServers` (prefork).
    pub min_spare_servers: Option<i64>,
    /// `MaxSpareServers` (prefork).
    pub max_spare_servers: Option<i64>,
    /// `MinSpareThreads` (worker, event).
    pub min_spare_threads: Option<i64>,
    /// `MaxSpareThreads` (worker, event).
    pub max_spare_threads: Option<i64>,
    /// `ThreadsPerChild`.
    pub threads_per_child: Option<i64>,
    /// `ThreadLimit`.
    pub thread_limit: Option<i64>,
    /// `ServerLimit`.
    pub server_limit: Option<i64>,
    /// `MaxRequestWorkers` (`MaxClients`).
    pub max_request_workers: Option<i64>,
    /// `MaxConnectionsPerChild` (`MaxRequestsPerChild`), 0 = unlimited.
    pub max_connections_per_child: Option<i64>,
    /// `AsyncRequestWorkerFactor` (event), truncated to an integer when used (mpm-semantics 4.4).
    pub async_request_worker_factor: Option<String>,
}

/// `LogLevel`, Apache's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are syslog's")]
pub enum LogLevel {
    Emerg,
    Alert,
    Crit,
    Error,
    Warn,
    Notice,
    Info,
    Debug,
    Trace,
}

impl Config {
    /// How much of a file one read asks for: what APR leaves of `ReadBufferSize` when the buffer's pages and its
    /// book-keeping (72 bytes) are taken off, and never less than the 8,000 bytes of its smallest buffer.
    pub fn read_size(&self) -> usize {
        const LEAST: usize = 8000;
        const PAGE: usize = 4096;
        const KEPT: usize = 72;
        let size = self.read_buffer_size;
        if size <= LEAST {
            return LEAST;
        }
        size.min(size.next_multiple_of(PAGE) - KEPT)
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: Vec::new(),
            server_name: None,
            server_root: None,
            document_root: PathBuf::from("/var/www/html"),
            directory_index: vec!["index.html".to_owned()],
            timeout: Duration::from_secs(300),
            keep_alive: true,
            keep_alive_timeout: Duration::from_secs(5),
            max_keep_alive_requests: 100,
            read_timeout: ReadTimeout::default(),
            limit_request_line: 8190,
            limit_request_fields: 100,
            limit_request_field_size: 8190,
            limit_request_body: 1 << 30,
            enable_mmap: true,
            enable_sendfile: false,
            flush_max_threshold: 65_535,
            flush_max_pipelined: Some(4),
            read_buffer_size: 0,
            trace_enable: false,
            types_config: None,
            user: None,
            group: None,
            pid_file: None,
            scoreboard_file: None,
            extended_status: true,
            see_request_tail: false,
            locations: Vec::new(),
            error_log: None,
            log_level: LogLevel::Warn,
            custom_log: None,
            listen_backlog: 511,
            accepting: accept::Accepting::default(),
            graceful_shutdown_timeout: Duration::ZERO,
            thread_stack_size: 0,
            max_mem_free: 2048,
            mpm: MpmDirectives::default(),
            knobs: CoreKnobs::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_in_apaches_steps() {
        // Recorded from Apache 2.4.71.
        for (directive, read) in [
            (0, 8000),
            (100, 8000),
            (8192, 8120),
            (8193, 8193),
            (10_000, 10_000),
            (16_384, 16_312),
            (65_536, 65_464),
            (100_000, 100_000),
        ] {
            let config = Config { read_buffer_size: directive, ..Config::default() };
            assert_eq!(config.read_size(), read, "ReadBufferSize {directive}");
        }
    }
}
