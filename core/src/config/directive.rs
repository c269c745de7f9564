//! The directive table: one row per directive, and what each does to the configuration.
//!
//! Knobs are directives too (`LabFileSend sendfile`); their rows stand in their own tables (see [`super::knobs`]).

use super::draft::Draft;
use super::syntax::words;
use super::{accept, value};
use std::time::Duration;

/// Where a directive may stand, as the manual names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// The main server.
    Server,
    /// `<VirtualHost>`.
    VirtualHost,
    /// `<Directory>`, `<Location>`, `<Files>`.
    Directory,
    /// `.htaccess`.
    Htaccess,
}

/// How many arguments a directive takes, as Apache checks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arity {
    /// `On` or `Off`; what follows is ignored, as in Apache.
    Flag,
    /// Exactly one.
    One,
    /// One or two.
    OneOrTwo,
    /// Exactly two.
    Two,
    /// Two or three.
    TwoOrThree,
    /// At least one.
    Many,
    /// Any number, none included.
    Any,
    /// One or two, with a message of its own.
    Listen,
}

impl Arity {
    /// Apache's complaint, if `count` is wrong.
    fn check(self, name: &str, doc: &str, words: &[String]) -> Result<(), String> {
        let takes = match (self, words.len()) {
            (Arity::Flag, 0) => return Err(format!("{name} must be On or Off")),
            (Arity::Flag, _) if value::on_off(&words[0]).is_some() => return Ok(()),
            (Arity::Flag, _) => return Err(format!("{name} must be On or Off, not '{}'", words[0])),
            (Arity::Listen, 1 | 2) | (Arity::Any, _) => return Ok(()),
            (Arity::Listen, _) => return Err(format!("{name} requires 1 or 2 arguments.")),
            (Arity::One, 1) | (Arity::Two, 2) | (Arity::OneOrTwo, 1 | 2) | (Arity::TwoOrThree, 2 | 3) => {
                return Ok(());
            }
            (Arity::Many, 1..) => return Ok(()),
            (Arity::One, _) => "takes one argument",
            (Arity::Two, _) => "takes two arguments",
            (Arity::OneOrTwo, _) => "takes 1-2 arguments",
            (Arity::TwoOrThree, _) => "takes two or three arguments",
            (Arity::Many, _) => "requires at least one argument",
        };
        Err(format!("{name} {takes}, {doc}"))
    }
}

/// One directive.
pub struct Row {
    /// The manual's name. Read in any letter case.
    pub name: &'static str,
    /// Where it may stand.
    pub contexts: &'static [Context],
    /// Number of arguments.
    pub arity: Arity,
    /// One sentence, Apache's own where it has one.
    pub doc: &'static str,
    /// What holds when it is not given, as it would be written; empty where nothing written says the same.
    pub default: &'static str,
    /// The module whose directive it is in Apache, by its name in `<IfModule>`.
    pub module: &'static str,
    /// Does it. The words are checked against `arity` before.
    apply: fn(&mut Draft, &[String]) -> Result<(), String>,
}

impl Row {
    /// Applies the directive with `arguments` as they stand on the line.
    ///
    /// # Errors
    /// One line without the place: number or value of the arguments.
    pub(super) fn apply(&self, draft: &mut Draft, arguments: &str) -> Result<(), String> {
        let words = words(arguments);
        self.arity.check(self.name, self.doc, &words)?;
        (self.apply)(draft, &words).map_err(|what| {
            match what.to_ascii_lowercase().contains(&self.name.to_ascii_lowercase()) {
                // Apache's own sentences name the directive already.
                true => what,
                false => format!("{}: {what}", self.name),
            }
        })
    }
}

/// The row of a directive, letter case aside.
pub fn find(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.name.eq_ignore_ascii_case(name))
}

/// Names in `<IfModule>` of what the core does itself, in both of Apache's forms, source name and identifier.
pub const BUILTIN_MODULES: &[&str] = &[
    "core.c",
    "core_module",
    "http_core.c",
    "http_module",
    "mod_dir.c",
    "dir_module",
    "mod_log_config.c",
    "log_config_module",
    "mod_mime.c",
    "mime_module",
    "mod_reqtimeout.c",
    "reqtimeout_module",
    "mod_authz_core.c",
    "authz_core_module",
    "mod_authz_host.c",
    "authz_host_module",
    "mod_status.c",
    "status_module",
    "mod_unixd.c",
    "unixd_module",
];

/// Names in `<IfModule>` of the model called `name`: `mpm_event_module` and `event.c`, as Apache's have them.
pub fn model_modules(name: &str) -> [String; 2] {
    [format!("mpm_{name}_module"), format!("{name}.c")]
}

const SERVER: &[Context] = &[Context::Server];
const HOST: &[Context] = &[Context::Server, Context::VirtualHost];
const DIRECTORY: &[Context] = &[Context::Server, Context::VirtualHost, Context::Directory, Context::Htaccess];

const CORE: &str = "core_module";
const HTTP: &str = "http_module";
const REQTIMEOUT: &str = "reqtimeout_module";
const UNIXD: &str = "unixd_module";
const LOG: &str = "log_config_module";
const PROXY: &str = "proxy_module";
/// Directives that all of Apache's models have.
const ANY_MPM: &str = "";
const PREFORK: &str = "mpm_prefork_module";
const EVENT: &str = "mpm_event_module";
/// Directives that worker and event have.
const THREADED: &str = "mpm_worker_module mpm_event_module";

impl Row {
    /// Whether the model that runs has this directive. Others are accepted, so that one file serves all models.
    pub fn is_of_a_present_module(&self, is_present: impl Fn(&str) -> bool) -> bool {
        // A model of our own need not be one of Apache's; then every model's directive may be meant for it.
        let of_apache = ["mpm_prefork_module", "mpm_worker_module", "mpm_event_module"];
        let other_model = !of_apache.iter().any(|name| is_present(name));
        !self.module.starts_with("mpm_") || other_model || self.module.split(' ').any(is_present)
    }
}

macro_rules! table {
    ($($name:literal $contexts:ident $arity:ident $module:ident $default:literal, $doc:literal, $apply:expr;)+) => {
        /// Every directive, by subject.
        pub static TABLE: &[Row] = &[$(Row {
            name: $name, contexts: $contexts, arity: Arity::$arity, module: $module, default: $default, doc: $doc,
            apply: $apply,
        }),+];
    };
}

table! {
    // Addresses, names and the file tree.
    "Listen" SERVER Listen ANY_MPM "",
        "A port number or a numeric IP address and a port number, and an optional protocol", Draft::listen;
    "ListenBacklog" SERVER One ANY_MPM "511",
        "Maximum length of the queue of pending connections, as used by listen(2)",
        |d, w| { d.config.listen_backlog = accept::positive("ListenBacklog", w)?; Ok(()) };
    "ListenCoresBucketsRatio" SERVER One ANY_MPM "",
        "Ratio between the number of CPU cores (online) and the number of listeners buckets",
        |d, w| { d.config.accepting.cores_per_bucket = accept::positive("ListenCoresBucketsRatio", w)?; Ok(()) };
    "ListenTCPDeferAccept" SERVER One ANY_MPM "30",
        "Value set for the socket option TCP_DEFER_ACCEPT if it is set",
        |d, w| { d.config.accepting.defer_accept = accept::positive("ListenTCPDeferAccept", w)?; Ok(()) };
    "AcceptFilter" SERVER Two CORE "", "Set the Accept Filter to use for a protocol", accept::filter;
    "SendBufferSize" SERVER One ANY_MPM "0", "Send buffer size in bytes",
        |d, w| { d.config.accepting.send_buffer = accept::buffer("SendBufferSize", w)?; Ok(()) };
    "ReceiveBufferSize" SERVER One ANY_MPM "0", "Receive buffer size in bytes",
        |d, w| { d.config.accepting.receive_buffer = accept::buffer("ReceiveBufferSize", w)?; Ok(()) };
    "Mutex" SERVER Any CORE "", "mutex (or \"default\") and mechanism", accept::mutex;
    "ServerName" HOST One CORE "", "The hostname and port of the server", Draft::server_name;
    "ServerRoot" SERVER One CORE "", "Common directory of server-related files (logs, confs, etc.)",
        |d, w| { d.config.server_root = Some(d.absolute(&w[0])); Ok(()) };
    "DocumentRoot" HOST One CORE "/var/www/html", "Root directory of the document tree",
        |d, w| { d.config.document_root = d.absolute(&w[0]); Ok(()) };
    "DirectoryIndex" DIRECTORY Any CORE "index.html", "a list of file names", Draft::directory_index;
    "TypesConfig" SERVER One CORE "", "the MIME types config file",
        |d, w| { d.config.types_config = Some(d.absolute(&w[0])); Ok(()) };

    // Connections and their limits.
    "Timeout" HOST One CORE "300", "Timeout duration (sec)", Draft::timeout;
    "KeepAlive" HOST Flag HTTP "On", "Whether persistent connections should be On or Off",
        |d, w| { d.config.keep_alive = flag(w)?; Ok(()) };
    "KeepAliveTimeout" HOST One HTTP "5", "Keep-Alive timeout duration (sec)",
        |d, w| { d.config.keep_alive_timeout = value::duration(&w[0])?; Ok(()) };
    "MaxKeepAliveRequests" HOST One HTTP "100",
        "Maximum number of Keep-Alive requests per connection, or 0 for infinite",
        |d, w| { d.config.max_keep_alive_requests = number(w, 0, i32::MAX.into())?; Ok(()) };
    "RequestReadTimeout" HOST Any REQTIMEOUT "header=20-40,MinRate=500 body=10,MinRate=500",
        "Set various timeout parameters for TLS handshake and/or reading request headers and body",
        |d, w| d.config.read_timeout.set(w);
    "LimitRequestLine" HOST One CORE "8190", "Limit on maximum size of an HTTP request line",
        |d, w| { d.config.limit_request_line = number(w, 0, i32::MAX.into())?; Ok(()) };
    "LimitRequestFields" HOST One CORE "100",
        "Limit (0 = unlimited) on max number of header fields in a request message",
        |d, w| { d.config.limit_request_fields = number(w, 0, i32::MAX.into())?; Ok(()) };
    "LimitRequestFieldSize" HOST One CORE "8190", "Limit on maximum size of an HTTP request header field",
        |d, w| { d.config.limit_request_field_size = number(w, 0, i32::MAX.into())?; Ok(()) };
    "LimitRequestBody" DIRECTORY One CORE "1073741824", "Limit (in bytes) on maximum size of request message body",
        |d, w| { d.config.limit_request_body = number(w, 0, i64::MAX)?; Ok(()) };
    "TraceEnable" HOST One HTTP "Off", "'on' (default), 'off' or 'extended' to trace request body content",
        Draft::trace_enable;

    // How files are sent.
    "EnableMMAP" DIRECTORY One CORE "On", "Controls whether memory-mapping may be used to read files",
        |d, w| { d.config.enable_mmap = flag(w)?; Ok(()) };
    "EnableSendfile" DIRECTORY One CORE "Off", "Controls whether sendfile may be used to transmit files",
        |d, w| { d.config.enable_sendfile = flag(w)?; Ok(()) };

    "ReadBufferSize" DIRECTORY One CORE "", "Size (in bytes) of the memory buffers used to read data",
        |d, w| { d.config.read_buffer_size = bounded(w, 0, u32::MAX.into(), "4294967295U)")?; Ok(()) };
    "FlushMaxThreshold" HOST One CORE "65535",
        "Maximum threshold above which pending data are flushed to the network",
        |d, w| { d.config.flush_max_threshold = bounded(w, 0, u32::MAX.into(), "4294967295U)")?; Ok(()) };
    "FlushMaxPipelined" HOST One CORE "4",
        "Maximum number of pipelined responses (pending) above which they are flushed to the network",
        |d, w| {
            let most: i64 = bounded(w, -1, i32::MAX.into(), "2147483647")?;
            d.config.flush_max_pipelined = u32::try_from(most).ok();
            Ok(())
        };

    // The process: identity, files, logs.
    "User" SERVER One UNIXD "", "Effective user id for this server",
        |d, w| { d.config.user = Some(w[0].clone()); Ok(()) };
    "Group" SERVER One UNIXD "", "Effective group id for this server",
        |d, w| { d.config.group = Some(w[0].clone()); Ok(()) };
    "PidFile" SERVER One ANY_MPM "", "A file for logging the server process ID",
        |d, w| { d.config.pid_file = Some(d.absolute(&w[0])); Ok(()) };
    "GracefulShutdownTimeout" SERVER One ANY_MPM "0",
        "Maximum time in seconds to wait for child processes to complete transactions during shutdown",
        |d, w| {
            d.config.graceful_shutdown_timeout = Duration::from_secs(number(w, 0, i32::MAX.into())?);
            Ok(())
        };
    "MaxMemFree" SERVER One CORE "2048",
        "Maximum number of 1k blocks a particular child's allocator may hold.",
        |d, w| { d.config.max_mem_free = accept::unsigned("MaxMemFree", w)?; Ok(()) };
    "ThreadStackSize" SERVER One CORE "0",
        "Size in bytes of stack used by threads handling client connections",
        |d, w| { d.config.thread_stack_size = accept::unsigned("ThreadStackSize", w)?; Ok(()) };
    "ScoreBoardFile" SERVER One ANY_MPM "", "A file for Apache to maintain runtime process management information",
        |d, w| { d.config.scoreboard_file = Some(d.absolute(&w[0])); Ok(()) };
    "ExtendedStatus" SERVER Flag CORE "On", "\"On\" to track extended status information, \"Off\" to disable",
        |d, w| { d.config.extended_status = flag(w)?; Ok(()) };
    "SeeRequestTail" SERVER Flag CORE "Off",
        "For extended status, \"On\" to see the last 63 chars of the request line, \"Off\" (default) to see the first 63",
        |d, w| { d.config.see_request_tail = flag(w)?; Ok(()) };
    "ProxyStatus" SERVER One PROXY "Off", "Configure Status: proxy status to one of: on | off | full",
        |_, w| match w[0].to_ascii_lowercase().as_str() {
            "on" | "off" | "full" => Ok(()),
            _ => Err("must be one of: off | on | full".to_owned()),
        };
    "ErrorLog" HOST One CORE "", "The filename of the error log",
        |d, w| { d.config.error_log = Some(d.log_file(&w[0])?); Ok(()) };
    "LogLevel" DIRECTORY Many CORE "warn", "Level of verbosity in error logging", Draft::log_level;
    "LogFormat" HOST OneOrTwo LOG "", "a log format string (see docs) and an optional format name", Draft::log_format;
    "CustomLog" HOST TwoOrThree LOG "",
        "a file name, a custom log format string or format name, and an optional \"env=\" or \"expr=\" clause (see docs)",
        Draft::custom_log;

    // The models (mpm-semantics 11). Numbers as written: `clamp` corrects them.
    "StartServers" SERVER One ANY_MPM "", "Number of child processes launched at server startup",
        |d, w| { d.config.mpm.start_servers = int(w)?; Ok(()) };
    "MinSpareServers" SERVER One PREFORK "", "Minimum number of idle children, to handle request spikes",
        |d, w| { d.config.mpm.min_spare_servers = int(w)?; Ok(()) };
    "MaxSpareServers" SERVER One PREFORK "", "Maximum number of idle children",
        |d, w| { d.config.mpm.max_spare_servers = int(w)?; Ok(()) };
    "MinSpareThreads" SERVER One THREADED "", "Minimum number of idle threads, to handle request spikes",
        |d, w| { d.config.mpm.min_spare_threads = int(w)?; Ok(()) };
    "MaxSpareThreads" SERVER One THREADED "", "Maximum number of idle threads",
        |d, w| { d.config.mpm.max_spare_threads = int(w)?; Ok(()) };
    "ThreadsPerChild" SERVER One THREADED "", "Number of threads each child creates",
        |d, w| { d.config.mpm.threads_per_child = int(w)?; Ok(()) };
    "ThreadLimit" SERVER One THREADED "",
        "Maximum number of worker threads per child process for this run of Apache - Upper limit for ThreadsPerChild",
        |d, w| { d.config.mpm.thread_limit = int(w)?; Ok(()) };
    "ServerLimit" SERVER One ANY_MPM "", "Maximum number of child processes for this run of Apache",
        |d, w| { d.config.mpm.server_limit = int(w)?; Ok(()) };
    "MaxRequestWorkers" SERVER One ANY_MPM "", "Maximum number of threads alive at the same time",
        |d, w| { d.config.mpm.max_request_workers = int(w)?; Ok(()) };
    "MaxClients" SERVER One ANY_MPM "", "Deprecated name of MaxRequestWorkers",
        |d, w| { d.config.mpm.max_request_workers = int(w)?; Ok(()) };
    "MaxConnectionsPerChild" SERVER One ANY_MPM "",
        "Maximum number of connections a particular child serves before dying.",
        |d, w| { d.config.mpm.max_connections_per_child = int(w)?; Ok(()) };
    "MaxRequestsPerChild" SERVER One ANY_MPM "",
        "Maximum number of connections a particular child serves before dying. (DEPRECATED, use MaxConnectionsPerChild)",
        |d, w| { d.config.mpm.max_connections_per_child = int(w)?; Ok(()) };
    "AsyncRequestWorkerFactor" SERVER One EVENT "",
        "How many additional connects will be accepted per idle worker thread", Draft::async_factor;
}

fn flag(words: &[String]) -> Result<bool, String> {
    value::on_off(&words[0])
        .ok_or_else(|| format!("'{}' is neither; parameter must be 'on' or 'off'", words[0]))
}

fn int(words: &[String]) -> Result<Option<i64>, String> {
    value::int(&words[0]).map(Some)
}

/// A number with Apache's complaint, in which the greatest value stands as its source spells it.
fn bounded<T: TryFrom<i64>>(words: &[String], least: i64, greatest: i64, spelt: &str) -> Result<T, String> {
    let number = value::integer(&words[0], least, greatest).ok().and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| format!("parameter must be a number between {least} and ({spelt}): {}", words[0]))
}

fn number<T: TryFrom<i64>>(words: &[String], least: i64, greatest: i64) -> Result<T, String> {
    let number = value::integer(&words[0], least, greatest)?;
    T::try_from(number).map_err(|_| format!("{number} is out of range; must be at most {greatest}"))
}
