//! The numbers of the models, corrected as Apache corrects them, with its warnings.
//!
//! Two steps as in Apache (mpm-semantics 5.3): the check of the configuration, which warns, and the start of the run,
//! which makes the rest consistent silently. The order of the checks is Apache's: later ones use what earlier ones
//! corrected. Texts and numbers are those of the modules of 2.4.71; `tests/clamp_apache.rs` compares them live.

use super::{MpmDirectives, Warning};

/// What kind of model reads the numbers: the defaults, bounds and the warnings' numbers depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// One process per connection: prefork.
    Processes,
    /// Processes with threads: worker, event, and models of our own.
    Threads {
        /// Greatest ThreadLimit: worker 20,000, event 100,000.
        max_thread_limit: i64,
        /// Whose numbers the warnings carry.
        ids: Ids,
    },
    /// One process that accepts alone, with a process or a thread for every connection: `limit` counts the acceptors,
    /// those included that were told to finish, and `threads_per_child` the connections of one.
    Acceptor,
}

/// The numbers (AHnnnnn) of a threaded model's warnings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ids {
    /// Those of mod_mpm_worker.
    Worker,
    /// Those of mod_mpm_event.
    Event,
}

impl Shape {
    /// As prefork reads them.
    pub const PREFORK: Shape = Shape::Processes;
    /// As worker reads them.
    pub const WORKER: Shape = Shape::Threads { max_thread_limit: 20_000, ids: Ids::Worker };
    /// As event reads them.
    pub const EVENT: Shape = Shape::Threads { max_thread_limit: 100_000, ids: Ids::Event };

    /// One word for it, for programs that read lists of models.
    pub const fn name(self) -> &'static str {
        match self {
            Shape::Processes => "processes",
            Shape::Threads { .. } => "threads",
            Shape::Acceptor => "acceptor",
        }
    }
}

/// What a model runs with. `min_spare` and `max_spare` are processes for [`Shape::Processes`], threads otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effective {
    /// Children started at first.
    pub start_servers: i64,
    /// Fewest idle processes or threads.
    pub min_spare: i64,
    /// Most idle processes or threads.
    pub max_spare: i64,
    /// Workers per child; 1 for processes.
    pub threads_per_child: i64,
    /// Columns of the scoreboard; 1 for processes.
    pub thread_limit: i64,
    /// Rows of the scoreboard.
    pub server_limit: i64,
    /// `MaxRequestWorkers` as the model remembers it. Not lowered when `limit` is lowered to `server_limit`, which is why
    /// such a server says "scoreboard is full" and never "reached MaxRequestWorkers" (mpm-semantics V18).
    pub max_request_workers: i64,
    /// Most child processes at once.
    pub limit: i64,
    /// Connections after which a child ends; 0 never.
    pub max_connections_per_child: i64,
    /// `AsyncRequestWorkerFactor`, a whole number and at least 1.
    pub async_factor: i64,
    /// Sets of listeners (ListenCoresBucketsRatio); 1 until [`Effective::with_buckets`] says how many the run has.
    pub buckets: i64,
}

impl Effective {
    /// For a run with this many sets of listeners: each has a child at least, so the numbers may rise past what was asked
    /// for, without a word (mpm-semantics 5.3, V19).
    #[must_use]
    pub fn with_buckets(mut self, buckets: i64, shape: Shape) -> Effective {
        self.buckets = buckets;
        // Apache's limit may exceed ServerLimit here, and it then writes past its scoreboard.
        self.server_limit = self.server_limit.max(buckets);
        start_of_run(&mut self, shape);
        self
    }
}

/// The highest ServerLimit that prefork accepts, and the threaded models.
const MAX_SERVER_LIMIT: (i64, i64) = (200_000, 20_000);

/// Corrects `written` for a model of this shape.
pub fn resolve(written: &MpmDirectives, shape: Shape) -> (Effective, Vec<Warning>) {
    let mut says = Says { warnings: Vec::new() };
    let mut effective = match shape {
        Shape::Processes => check_processes(written, &mut says),
        Shape::Threads { max_thread_limit, ids } => check_threads(written, max_thread_limit, ids, &mut says),
        Shape::Acceptor => check_acceptor(written, &mut says),
    };
    start_of_run(&mut effective, shape);
    (effective, says.warnings)
}

/// Corrects `written` for a restart: ServerLimit and ThreadLimit stay what the first run had, `first`, because the scoreboard
/// cannot grow (mpm-semantics 5.3). Says what was asked for in vain; the other corrections were warned of when the
/// configuration was read.
pub fn resolve_again(written: &MpmDirectives, shape: Shape, first: (i64, i64)) -> (Effective, Vec<Warning>) {
    let (asked, _) = resolve(written, shape);
    let (server_id, thread_id, columns) = match shape {
        Shape::Processes => (179, 0, "ThreadLimit"),
        Shape::Threads { ids: Ids::Worker, .. } => (304, 309, "ThreadLimit"),
        Shape::Threads { ids: Ids::Event, .. } => (501, 506, "ThreadLimit"),
        // Its columns are its connections; fewer are no trouble.
        Shape::Acceptor => (179, 181, "MaxRequestWorkers"),
    };
    let limits = [
        (server_id, "ServerLimit", asked.server_limit, first.0),
        (thread_id, columns, asked.thread_limit, first.1),
    ];
    let grows = |asked, first| if shape == Shape::Acceptor { asked > first } else { asked != first };
    let changed = limits.into_iter().filter(|(_, _, asked, first)| grows(*asked, *first));
    let said = changed.map(|(id, name, asked, first)| {
        Warning::general(format!(
            "AH{id:05}: changing {name} to {asked} from original value of {first} not allowed during restart"
        ))
    });
    let said = said.collect();
    let mut kept =
        MpmDirectives { server_limit: Some(first.0), thread_limit: Some(first.1), ..written.clone() };
    if shape == Shape::Acceptor {
        kept.max_request_workers = Some(asked.max_request_workers.min(first.1));
    }
    (resolve(&kept, shape).0, said)
}

/// Collects warnings in Apache's form.
struct Says {
    warnings: Vec<Warning>,
}

impl Says {
    fn warn(&mut self, id: u32, text: String) {
        self.warnings.push(Warning::general(format!("AH{id:05}: WARNING: {text}")));
    }

    /// `value`, raised to 1 if it is less. `advice` is the end of the sentence.
    fn at_least_one(&mut self, id: u32, name: &str, value: i64, advice: &str) -> i64 {
        if value < 1 {
            self.warn(id, format!("{name} of {value} not allowed, increasing to 1{advice}."));
        }
        value.max(1)
    }

    /// ServerLimit and ThreadLimit: from 1 to what was compiled in. The second warning's number is `id + 2`.
    fn within(&mut self, id: u32, name: &str, value: i64, greatest: i64, what: &str) -> i64 {
        if value > greatest {
            self.warn(
                id,
                format!("{name} of {value} exceeds compile-time limit of {greatest} {what}, decreasing to {greatest}."),
            );
            return greatest;
        }
        self.at_least_one(id + 2, name, value, "")
    }
}

const SPARE_ADVICE: &str = " to avoid almost certain server failure. Please read the documentation";

/// prefork's check of the configuration: AH00175 to AH00187.
fn check_processes(written: &MpmDirectives, says: &mut Says) -> Effective {
    let server_limit =
        says.within(175, "ServerLimit", written.server_limit.unwrap_or(256), MAX_SERVER_LIMIT.0, "servers");
    let mut limit = written.max_request_workers.unwrap_or(150);
    if limit > server_limit {
        says.warn(
            180,
            format!(
                "MaxRequestWorkers of {limit} exceeds ServerLimit value of {server_limit} servers, decreasing \
                 MaxRequestWorkers to {server_limit}. To increase, please see the ServerLimit directive."
            ),
        );
        limit = server_limit;
    } else {
        limit = says.at_least_one(182, "MaxRequestWorkers", limit, "");
    }
    let start_servers = says.at_least_one(184, "StartServers", written.start_servers.unwrap_or(5), "");
    let min_spare =
        says.at_least_one(186, "MinSpareServers", written.min_spare_servers.unwrap_or(5), SPARE_ADVICE);
    Effective {
        start_servers,
        min_spare,
        max_spare: written.max_spare_servers.unwrap_or(10),
        threads_per_child: 1,
        thread_limit: 1,
        server_limit,
        max_request_workers: limit,
        limit,
        max_connections_per_child: written.max_connections_per_child.unwrap_or(0).max(0),
        async_factor: async_factor(written),
        buckets: 1,
    }
}

/// worker's check (AH00300 to AH00322) and event's (AH00497 to AH00519): the same but for numbers and ThreadLimit.
fn check_threads(written: &MpmDirectives, max_thread_limit: i64, ids: Ids, says: &mut Says) -> Effective {
    let base = match ids {
        Ids::Worker => 300,
        Ids::Event => 497,
    };
    let server_limit =
        says.within(base, "ServerLimit", written.server_limit.unwrap_or(16), MAX_SERVER_LIMIT.1, "servers");
    let thread_limit =
        says.within(base + 5, "ThreadLimit", written.thread_limit.unwrap_or(64), max_thread_limit, "threads");
    let mut threads = written.threads_per_child.unwrap_or(25);
    if threads > thread_limit {
        says.warn(
            base + 10,
            format!(
                "ThreadsPerChild of {threads} exceeds ThreadLimit of {thread_limit} threads, decreasing to \
                 {thread_limit}. To increase, please see the ThreadLimit directive."
            ),
        );
        threads = thread_limit;
    } else {
        threads = says.at_least_one(base + 12, "ThreadsPerChild", threads, "");
    }
    let mut workers = written.max_request_workers.unwrap_or(150);
    if workers < threads {
        says.warn(
            base + 14,
            format!(
                "MaxRequestWorkers of {workers} is less than ThreadsPerChild of {threads}, increasing to {threads}. \
                 MaxRequestWorkers must be at least as large as the number of threads in a single server."
            ),
        );
        workers = threads;
    }
    let mut limit = workers / threads;
    if workers % threads != 0 {
        let multiple = limit * threads;
        says.warn(
            base + 16,
            format!(
                "MaxRequestWorkers of {workers} is not an integer multiple of ThreadsPerChild of {threads}, decreasing \
                 to nearest multiple {multiple}, for a maximum of {limit} servers."
            ),
        );
        workers = multiple;
    }
    if limit > server_limit {
        let possible = server_limit * threads;
        says.warn(
            base + 18,
            format!(
                "MaxRequestWorkers of {workers} would require {limit} servers and would exceed ServerLimit of \
                 {server_limit}, decreasing to {possible}. To increase, please see the ServerLimit directive."
            ),
        );
        // Only the limit: the variable keeps its value, as in Apache. See `Effective::max_request_workers`.
        limit = server_limit;
    }
    let start_servers = says.at_least_one(base + 20, "StartServers", written.start_servers.unwrap_or(2), "");
    let min_spare = says.at_least_one(
        base + 22,
        "MinSpareThreads",
        written.min_spare_threads.unwrap_or(25),
        SPARE_ADVICE,
    );
    Effective {
        start_servers,
        min_spare,
        max_spare: written.max_spare_threads.unwrap_or(75),
        threads_per_child: threads,
        thread_limit,
        server_limit,
        max_request_workers: workers,
        limit,
        max_connections_per_child: written.max_connections_per_child.unwrap_or(0).max(0),
        async_factor: async_factor(written),
        buckets: 1,
    }
}

/// Most connections of one acceptor: as many as worker may have threads in a process.
const MAX_OF_ACCEPTOR: i64 = 20_000;

/// The check for models of our own that have one acceptor, in prefork's words and with its numbers: only ServerLimit,
/// MaxRequestWorkers and MaxConnectionsPerChild are read. MaxRequestWorkers is the width of the scoreboard.
fn check_acceptor(written: &MpmDirectives, says: &mut Says) -> Effective {
    let server_limit =
        says.within(175, "ServerLimit", written.server_limit.unwrap_or(16), MAX_SERVER_LIMIT.1, "servers");
    let asked = written.max_request_workers.unwrap_or(150);
    if asked > MAX_OF_ACCEPTOR {
        says.warn(
            180,
            format!("MaxRequestWorkers of {asked} exceeds the limit of {MAX_OF_ACCEPTOR} connections, decreasing to it."),
        );
    }
    let connections = says.at_least_one(182, "MaxRequestWorkers", asked.min(MAX_OF_ACCEPTOR), "");
    Effective {
        start_servers: 1,
        min_spare: 0,
        max_spare: 0,
        threads_per_child: connections,
        thread_limit: connections,
        server_limit,
        max_request_workers: connections,
        limit: server_limit,
        max_connections_per_child: written.max_connections_per_child.unwrap_or(0).max(0),
        async_factor: async_factor(written),
        buckets: 1,
    }
}

/// What is made consistent silently when the run starts, in this order (mpm-semantics 5.3).
fn start_of_run(e: &mut Effective, shape: Shape) {
    let buckets = e.buckets;
    e.limit = e.limit.max(buckets);
    e.start_servers = e.start_servers.max(buckets);
    match shape {
        Shape::Processes => {
            e.min_spare = e.min_spare.max(buckets);
            e.max_spare = e.max_spare.max(e.min_spare + buckets);
        }
        Shape::Threads { .. } => {
            e.min_spare = e.min_spare.max(e.threads_per_child * (buckets - 1) + buckets);
            e.max_spare = e.max_spare.max(e.min_spare + (e.threads_per_child + 1) * buckets);
        }
        Shape::Acceptor => {}
    }
    e.start_servers = e.start_servers.min(e.limit);
}

/// Truncated to a whole number, and at least 1 (mpm-semantics 4.4, V6). The directive's parser has checked the text.
fn async_factor(written: &MpmDirectives) -> i64 {
    let factor = written.async_request_worker_factor.as_deref().and_then(|text| text.parse::<f64>().ok());
    // `as` saturates, so even 1e300 gives a number.
    factor.map_or(2, |factor| (factor as i64).clamp(1, i64::from(i32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(warnings: &[Warning]) -> Vec<String> {
        warnings.iter().map(ToString::to_string).collect()
    }

    fn debian(shape: Shape) -> Effective {
        let (effective, warnings) = resolve(&MpmDirectives::default(), shape);
        assert_eq!(warnings, [], "Debian's values need no correction");
        effective
    }

    #[test]
    fn unset_directives_are_debians() {
        // mpm-semantics 11: "Effective Debian event: limit 6 processes, 150 threads, ... 10 spare scoreboard rows".
        let e = debian(Shape::EVENT);
        assert_eq!(
            e,
            Effective {
                start_servers: 2,
                min_spare: 25,
                max_spare: 75,
                threads_per_child: 25,
                thread_limit: 64,
                server_limit: 16,
                max_request_workers: 150,
                limit: 6,
                max_connections_per_child: 0,
                async_factor: 2,
                buckets: 1,
            }
        );
        assert_eq!(e.server_limit - e.limit, 10);
        assert_eq!(debian(Shape::WORKER), e);
        let p = debian(Shape::PREFORK);
        assert_eq!(
            (p.start_servers, p.min_spare, p.max_spare, p.server_limit, p.limit, p.max_request_workers),
            (5, 5, 10, 256, 150, 150)
        );
    }

    #[test]
    fn an_acceptor_has_room_for_every_connection() {
        let e = debian(Shape::Acceptor);
        assert_eq!((e.start_servers, e.limit, e.server_limit), (1, 16, 16));
        assert_eq!((e.threads_per_child, e.thread_limit, e.max_request_workers), (150, 150, 150));
        for (asked, given) in [(0, 1), (20_001, 20_000)] {
            let written = MpmDirectives { max_request_workers: Some(asked), ..MpmDirectives::default() };
            let (e, warnings) = resolve(&written, Shape::Acceptor);
            assert_eq!((e.max_request_workers, e.thread_limit, warnings.len()), (given, given, 1));
            let start = format!("WARNING: MaxRequestWorkers of {asked}");
            assert!(texts(&warnings)[0].contains(&start), "{warnings:?}");
        }
    }

    #[test]
    fn v17_threads_per_child_is_cut_first_and_the_workers_follow() {
        let written = MpmDirectives {
            threads_per_child: Some(100),
            max_request_workers: Some(300),
            ..MpmDirectives::default()
        };
        let (e, warnings) = resolve(&written, Shape::EVENT);
        assert_eq!((e.threads_per_child, e.max_request_workers, e.limit), (64, 256, 4));
        assert_eq!(
            texts(&warnings),
            [
                "AH00507: WARNING: ThreadsPerChild of 100 exceeds ThreadLimit of 64 threads, decreasing to 64. To increase, \
             please see the ThreadLimit directive.",
                "AH00513: WARNING: MaxRequestWorkers of 300 is not an integer multiple of ThreadsPerChild of 64, decreasing \
             to nearest multiple 256, for a maximum of 4 servers.",
            ]
        );
    }

    #[test]
    fn v18_the_limit_is_lowered_but_the_variable_keeps_its_value() {
        for (workers, servers, limit) in [(1000, 16, 16), (10, 2, 2)] {
            let written = MpmDirectives {
                threads_per_child: Some(if servers == 16 { 25 } else { 2 }),
                max_request_workers: Some(workers),
                server_limit: Some(servers),
                ..MpmDirectives::default()
            };
            let (e, warnings) = resolve(&written, Shape::EVENT);
            assert_eq!((e.limit, e.max_request_workers), (limit, workers));
            assert_eq!(warnings.len(), 1);
            assert!(texts(&warnings)[0].starts_with("AH00515: WARNING: MaxRequestWorkers of"));
        }
    }

    #[test]
    fn prefork_lowers_the_variable_too() {
        let written = MpmDirectives { max_request_workers: Some(500), ..MpmDirectives::default() };
        let (e, warnings) = resolve(&written, Shape::PREFORK);
        assert_eq!((e.limit, e.max_request_workers), (256, 256));
        assert_eq!(texts(&warnings).len(), 1);
    }

    #[test]
    fn v19_buckets_raise_the_limit_past_max_request_workers() {
        let written = MpmDirectives {
            threads_per_child: Some(4),
            max_request_workers: Some(4),
            start_servers: Some(1),
            min_spare_threads: Some(1),
            max_spare_threads: Some(1),
            ..MpmDirectives::default()
        };
        let (e, _) = resolve(&written, Shape::EVENT);
        assert_eq!((e.limit, e.min_spare, e.max_spare), (1, 1, 6));
        let e = e.with_buckets(2, Shape::EVENT);
        // 2 processes of 4 threads; MinSpareThreads 4 x 1 + 2, MaxSpareThreads 6 + 5 x 2.
        assert_eq!((e.limit, e.limit * e.threads_per_child), (2, 8));
        assert_eq!((e.start_servers, e.min_spare, e.max_spare), (2, 6, 16));
    }

    #[test]
    fn buckets_of_prefork_and_a_scoreboard_too_small_for_them() {
        let written = MpmDirectives {
            server_limit: Some(2),
            max_request_workers: Some(2),
            min_spare_servers: Some(1),
            max_spare_servers: Some(1),
            start_servers: Some(1),
            ..MpmDirectives::default()
        };
        let e = resolve(&written, Shape::PREFORK).0.with_buckets(4, Shape::PREFORK);
        assert_eq!((e.limit, e.start_servers, e.min_spare, e.max_spare), (4, 4, 4, 8));
        assert_eq!(e.server_limit, 4);
        let one = debian(Shape::WORKER);
        assert_eq!(one.with_buckets(1, Shape::WORKER), one);
    }

    #[test]
    fn a_restart_keeps_the_scoreboard_and_corrects_the_rest_to_it() {
        let written = MpmDirectives {
            server_limit: Some(40),
            thread_limit: Some(200),
            threads_per_child: Some(100),
            max_request_workers: Some(2000),
            ..MpmDirectives::default()
        };
        let (e, said) = resolve_again(&written, Shape::EVENT, (16, 64));
        assert_eq!((e.server_limit, e.thread_limit, e.threads_per_child, e.limit), (16, 64, 64, 16));
        assert_eq!(
            texts(&said),
            [
                "AH00501: changing ServerLimit to 40 from original value of 16 not allowed during restart",
                "AH00506: changing ThreadLimit to 200 from original value of 64 not allowed during restart",
            ]
        );
        let (e, said) = resolve_again(&written, Shape::Acceptor, (40, 150));
        assert_eq!((e.thread_limit, e.threads_per_child, said.len()), (150, 150, 1));
        let (e, said) = resolve_again(&MpmDirectives::default(), Shape::PREFORK, (256, 1));
        assert_eq!((e, said), resolve(&MpmDirectives::default(), Shape::PREFORK));
    }

    #[test]
    fn the_run_starts_consistent_without_a_word() {
        let written = MpmDirectives {
            start_servers: Some(50),
            min_spare_servers: Some(20),
            max_spare_servers: Some(3),
            max_request_workers: Some(10),
            ..MpmDirectives::default()
        };
        let (e, warnings) = resolve(&written, Shape::PREFORK);
        assert_eq!((e.start_servers, e.min_spare, e.max_spare), (10, 20, 21));
        assert_eq!(warnings, []);
    }

    #[test]
    fn the_async_factor_is_truncated_and_at_least_one() {
        // mpm-semantics V6: 0.5 / 1.5 / 2.9 behave as 1 / 1 / 2.
        for (text, factor) in [("0.5", 1), ("1.5", 1), ("2.9", 2), ("3", 3), ("1e300", i64::from(i32::MAX))] {
            let written = MpmDirectives {
                async_request_worker_factor: Some(text.to_owned()),
                ..MpmDirectives::default()
            };
            assert_eq!(resolve(&written, Shape::EVENT).0.async_factor, factor, "{text}");
        }
    }

    #[test]
    fn no_numbers_break_it() {
        let extremes =
            [None, Some(i64::from(i32::MIN)), Some(-1), Some(0), Some(1), Some(i64::from(i32::MAX))];
        for shape in [Shape::PREFORK, Shape::WORKER, Shape::EVENT, Shape::Acceptor] {
            for a in extremes {
                for b in extremes {
                    for c in extremes {
                        let written = MpmDirectives {
                            start_servers: c,
                            min_spare_servers: a,
                            max_spare_servers: b,
                            min_spare_threads: b,
                            max_spare_threads: c,
                            threads_per_child: a,
                            thread_limit: b,
                            server_limit: c,
                            max_request_workers: b,
                            max_connections_per_child: a,
                            async_request_worker_factor: None,
                        };
                        let (e, _) = resolve(&written, shape);
                        assert!(e.limit >= 1 && e.limit <= e.server_limit, "{written:?} {e:?}");
                        assert!(e.threads_per_child >= 1 && e.threads_per_child <= e.thread_limit);
                        assert!(e.start_servers >= 1 && e.start_servers <= e.limit);
                        assert!(shape == Shape::Acceptor || e.min_spare >= 1 && e.max_spare > e.min_spare);
                    }
                }
            }
        }
    }
}
