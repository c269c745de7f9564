//! The one configuration that every server gets, in Apache's words; each target translates it into its own.
//!
//! Unless a study asks for Debian's own values, the pool of processes and threads exists in full from the start and is never
//! shrunk: how fast a model grows its pool is a question of its own (mpm-semantics 5), and a round that measured it by
//! accident would answer neither.

use super::unprivileged;

/// Seconds a kept connection may idle, Debian's default.
pub const KEEP_ALIVE_TIMEOUT_S: u32 = 5;
/// `MaxKeepAliveRequests`, Debian's default. Apache's N serves N + 1 requests on a connection (mpm-semantics 2).
pub const MAX_KEEP_ALIVE_REQUESTS: u32 = 100;
/// `MaxRequestWorkers`, Debian's default.
pub const MAX_REQUEST_WORKERS: u32 = 150;
/// `ThreadsPerChild`, Debian's default.
pub const THREADS_PER_CHILD: u32 = 25;
/// `ListenBacklog`, the default of Apache and of nginx.
pub const BACKLOG: u32 = 511;

/// What gives a model its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pool {
    /// Processes, each for one connection at a time: prefork.
    Processes,
    /// Processes of threads: worker, event.
    Threads,
    /// None: one process accepts and starts somebody for every connection.
    Acceptor,
}

/// How much of its pool a server starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// All of it, and none is ever retired.
    #[default]
    Full,
    /// What Debian's configuration says: it grows and shrinks with the load.
    Debian,
}

impl Start {
    /// The names in study files.
    pub const NAMES: [&str; 2] = ["full", "debian"];

    /// The start of that name.
    pub fn named(name: &str) -> Option<Start> {
        match name {
            "full" => Some(Start::Full),
            "debian" => Some(Start::Debian),
            _ => None,
        }
    }
}

impl Pool {
    /// The pool that `mpmlab mechanisms --json` calls so: a model's `shape`.
    pub fn named(shape: &str) -> Option<Pool> {
        match shape {
            "processes" => Some(Pool::Processes),
            "threads" => Some(Pool::Threads),
            "acceptor" => Some(Pool::Acceptor),
            _ => None,
        }
    }

    /// Processes that there are at the start, the parent included.
    pub fn processes(self, start: Start) -> usize {
        let children = match (self, start) {
            (Pool::Processes, Start::Full) => MAX_REQUEST_WORKERS,
            (Pool::Threads, Start::Full) => MAX_REQUEST_WORKERS / THREADS_PER_CHILD,
            (Pool::Processes, Start::Debian) => 5,
            (Pool::Threads, Start::Debian) => 2,
            (Pool::Acceptor, _) => 1,
        };
        1 + children as usize
    }

    /// The directives that mpmlab and Apache both get, word for word.
    pub fn directives(self, start: Start) -> Vec<(String, String)> {
        let mut directives = vec![
            ("ServerName", "localhost".to_owned()),
            ("Timeout", "300".to_owned()),
            ("KeepAlive", "On".to_owned()),
            ("KeepAliveTimeout", KEEP_ALIVE_TIMEOUT_S.to_string()),
            ("MaxKeepAliveRequests", MAX_KEEP_ALIVE_REQUESTS.to_string()),
            ("ListenBacklog", BACKLOG.to_string()),
            ("EnableMMAP", "On".to_owned()),
            ("EnableSendfile", "Off".to_owned()),
            ("LogLevel", "warn".to_owned()),
            ("MaxConnectionsPerChild", "0".to_owned()),
        ];
        match (self, start) {
            // mpm_prefork.conf and mpm_event.conf, mpm_worker.conf as packaged.
            (Pool::Processes, Start::Debian) => directives.extend([
                ("StartServers", "5".to_owned()),
                ("MinSpareServers", "5".to_owned()),
                ("MaxSpareServers", "10".to_owned()),
                ("MaxRequestWorkers", MAX_REQUEST_WORKERS.to_string()),
            ]),
            (Pool::Threads, Start::Debian) => directives.extend([
                ("StartServers", "2".to_owned()),
                ("MinSpareThreads", "25".to_owned()),
                ("MaxSpareThreads", "75".to_owned()),
                ("ThreadLimit", "64".to_owned()),
                ("ThreadsPerChild", THREADS_PER_CHILD.to_string()),
                ("MaxRequestWorkers", MAX_REQUEST_WORKERS.to_string()),
            ]),
            (Pool::Processes, Start::Full) => directives.extend([
                ("ServerLimit", MAX_REQUEST_WORKERS.to_string()),
                ("MaxRequestWorkers", MAX_REQUEST_WORKERS.to_string()),
                ("StartServers", MAX_REQUEST_WORKERS.to_string()),
                ("MinSpareServers", "5".to_owned()),
                // As many as there are: no idle child is ever retired.
                ("MaxSpareServers", MAX_REQUEST_WORKERS.to_string()),
            ]),
            (Pool::Threads, Start::Full) => directives.extend([
                ("ThreadsPerChild", THREADS_PER_CHILD.to_string()),
                ("MaxRequestWorkers", MAX_REQUEST_WORKERS.to_string()),
                ("StartServers", (MAX_REQUEST_WORKERS / THREADS_PER_CHILD).to_string()),
                ("MinSpareThreads", THREADS_PER_CHILD.to_string()),
                // More than there are: no idle child is ever retired.
                ("MaxSpareThreads", "250".to_owned()),
            ]),
            (Pool::Acceptor, _) => {
                directives.push(("MaxRequestWorkers", MAX_REQUEST_WORKERS.to_string()));
            }
        }
        let mut directives: Vec<(String, String)> =
            directives.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        if let Some((user, group)) = unprivileged() {
            directives.extend([("User".to_owned(), user), ("Group".to_owned(), group)]);
        }
        directives
    }
}

/// What every reader of a result must know about the servers' settings.
pub fn notes(start: Start) -> Vec<String> {
    let pool = match start {
        Start::Full => {
            "The whole pool of processes and threads exists before load starts and is never shrunk, so how fast a model \
             grows its pool is not part of these numbers. A model that starts a process or a thread for every connection has no \
             pool, and that start is."
        }
        Start::Debian => {
            "The pool starts as small as Debian's configuration says (5 processes of prefork, 2 of worker and event) and grows \
             with the load, once a second, during warm-up and measurement."
        }
    };
    vec![
        format!(
            "mpmlab and Apache get the same directives: {MAX_REQUEST_WORKERS} request workers \
             (threads by {THREADS_PER_CHILD} per process), files mapped and written. nginx has one loop per core and sends \
             files with sendfile, as Debian ships it. All have the same document root, KeepAliveTimeout {KEEP_ALIVE_TIMEOUT_S} s, \
             {} requests per kept connection, no access log, no .htaccess files.",
            MAX_KEEP_ALIVE_REQUESTS + 1
        ),
        pool.to_owned(),
        format!(
            "More connections than the {MAX_REQUEST_WORKERS} request workers are no error: prefork and worker let the \
             excess wait for a free worker, and that wait is part of what is compared."
        ),
        "Each round starts the server afresh, warms it up, measures, reads its memory and CPU time, and stops it."
            .to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_is_complete_from_the_start_and_is_not_shrunk() {
        for model in [Pool::Processes, Pool::Threads] {
            let directives = model.directives(Start::Full);
            let value = |name: &str| -> Option<u32> {
                directives.iter().find(|(directive, _)| directive == name)?.1.parse().ok()
            };
            let per_child = value("ThreadsPerChild").unwrap_or(1);
            assert_eq!(
                value("StartServers").unwrap() * per_child,
                value("MaxRequestWorkers").unwrap(),
                "{model:?}"
            );
            let spare = value("MaxSpareServers").or(value("MaxSpareThreads")).unwrap();
            assert!(spare >= value("MaxRequestWorkers").unwrap(), "{model:?} would retire idle children");
        }
    }
}
