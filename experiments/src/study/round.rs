//! One measured round: start a server afresh, warm it up, load it, read what it used, stop it.

use super::budget::Slice;
use super::factor::{self, Cell};
use super::{clock, docroot};
use crate::load;
use crate::probe::{cpu, memory};
use crate::reason::reason;
use crate::target::pin::Cores;
use crate::target::process::Server;
use crate::target::treatment::Start;
use crate::target::{Site, Target};
use serde_json::{Map, Value, json};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// How long a request may take. Far longer than any wait for a free worker; rounds stay bounded all the same, because
/// the load ends with its window, whatever is still in flight.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The metric that says which share of the server's core other processes took during the window.
pub const OTHERS_SHARE: &str = "others_cpu_share";

/// The fixed circumstances of all rounds of a run.
#[derive(Debug, Clone, Copy)]
pub struct Bench<'a> {
    /// Document root.
    pub root: &'a Path,
    /// Where rounds may make directories for their servers.
    pub scratch: &'a Path,
    /// Who runs where.
    pub cores: Cores,
    /// Cores the server may use.
    pub server_cores: usize,
    /// How much of their pools servers start with.
    pub pool: Start,
    /// Raised by Ctrl-C.
    pub stop: &'a AtomicBool,
}

/// What came of a round.
#[derive(Debug, Clone)]
pub struct Measured {
    /// When it started.
    pub started: String,
    /// Metrics; empty when the server could not be loaded at all.
    pub metrics: Map<String, Value>,
    /// Why it is no evidence; empty when it is.
    pub invalid_because: Vec<String>,
    /// Time it took besides the load itself.
    pub overhead: Duration,
}

impl Bench<'_> {
    fn interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Starts `target` in a fresh directory. Tried twice, since a port that was free may be taken a moment later.
    fn start(&self, target: &dyn Target, size: u64) -> Result<(Server, tempfile::TempDir), String> {
        let attempt = || -> Result<(Server, tempfile::TempDir), String> {
            let here = |error: io::Error| format!("{}: {}", self.scratch.display(), reason(&error));
            let scratch =
                tempfile::Builder::new().prefix("server-").tempdir_in(self.scratch).map_err(here)?;
            // Servers started by root write here as root but read as somebody else.
            std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o755)).map_err(here)?;
            let probe_path = docroot::url_path(size);
            let site = Site {
                root: self.root,
                scratch: scratch.path(),
                probe_path: &probe_path,
                cores: self.server_cores,
                start: self.pool,
            };
            let launch = target.launch(&site).map_err(here)?;
            let server = Server::start(&launch, self.cores.server, self.stop)?;
            Ok((server, scratch))
        };
        attempt().or_else(|first| if self.interrupted() { Err(first) } else { attempt() })
    }

    /// Starts a target, asks for every file once, and stops it: whether it can be measured at all, and the time that a
    /// round of it costs besides its load.
    pub fn try_out(&self, target: &dyn Target, sizes: &[u64]) -> Result<Duration, String> {
        let began = Instant::now();
        let (server, _scratch) = self.start(target, sizes.first().copied().unwrap_or(0))?;
        for &size in sizes {
            let path = docroot::url_path(size);
            let answer = crate::target::ready::fetch(server.address(), &path)
                .map_err(|error| format!("{path} was not answered: {}", reason(&error)))?;
            if answer.status != 200 || usize::try_from(size) != Ok(answer.body) {
                let (status, body) = (answer.status, answer.body);
                return Err(format!(
                    "{path} was answered with status {status} and {body} bytes, not 200 and {size}"
                ));
            }
        }
        // The dearest probe of a round.
        memory::sum(&server.processes());
        server.stop()?;
        Ok(began.elapsed())
    }

    /// Measures `cell` for `slice`. `None` when interrupted: half a round is no round.
    pub fn measure(&self, target: &dyn Target, cell: &Cell, slice: Slice) -> Option<Measured> {
        let began = Instant::now();
        let started = clock::rfc3339(SystemTime::now());
        let ended = |metrics, invalid_because| {
            let overhead = began.elapsed().saturating_sub(slice.total());
            Some(Measured { started: started.clone(), metrics, invalid_because, overhead })
        };
        let (mut server, _scratch) = match self.start(target, factor::number(cell, "size")) {
            Ok(started) => started,
            Err(_) if self.interrupted() => return None,
            Err(why) => return ended(Map::new(), vec![format!("the server did not start: {why}")]),
        };
        let (metrics, mut invalid_because) = match self.load(&server, cell, slice) {
            Ok(measured) => measured,
            Err(why) => (Map::new(), vec![format!("no load could be generated: {why}")]),
        };
        if let Some(status) = server.exited() {
            invalid_because.push(format!("the server ended during the round ({status})"));
        }
        if let Err(how) = server.stop() {
            invalid_because.push(format!("the server {how}"));
        }
        if self.interrupted() { None } else { ended(metrics, invalid_because) }
    }

    /// Loads a running server and reads its probes at both ends of the measured window.
    fn load(
        &self,
        server: &Server,
        cell: &Cell,
        slice: Slice,
    ) -> Result<(Map<String, Value>, Vec<String>), String> {
        let path = docroot::url_path(factor::number(cell, "size"));
        let connections =
            usize::try_from(factor::number(cell, "connections")).map_err(|error| error.to_string())?;
        let plan = load::Plan {
            url: format!("http://{}{path}", server.address()).parse()?,
            threads: 1,
            connections,
            warmup: slice.warmup,
            duration: slice.window,
            timeout: TIMEOUT,
            keepalive: factor::flag(cell, "keepalive"),
            headers: Vec::new(),
            cpus: self.cores.client.map(|cpu| vec![cpu]),
        };
        let processes = server.processes();
        thread::scope(|scope| {
            let began = Instant::now();
            let loading = scope.spawn(|| load::run(&plan, self.stop));
            // The warm-up is a known time: waiting for its end is a schedule, not luck.
            self.sleep_until(began + slice.warmup);
            let machine = cpu::MachineTime::read(None);
            let core = self.cores.server.and_then(|cpu| cpu::MachineTime::read(Some(cpu)));
            let window = Instant::now();
            let watch = cpu::Watch::start(&processes);
            self.sleep_until(began + slice.total());
            let mut after = Vec::new();
            let elapsed = window.elapsed();
            let (machine_after, core_after) = (
                cpu::MachineTime::read(None),
                self.cores.server.and_then(|cpu| cpu::MachineTime::read(Some(cpu))),
            );
            let used = watch.stop(|| {
                after = server.processes();
                after.clone()
            });
            let steal_share = machine.zip(machine_after).map(|(before, now)| now.steal_share_since(&before));
            let others_share =
                core.zip(core_after).map(|(before, now)| now.others_share_since(&before, used));
            let memory = memory::sum(&after);
            let outcome = loading
                .join()
                .map_err(|_| "the load generator failed; its message is above".to_owned())?
                .map_err(|error| error.to_string())?;
            let mut invalid_because = outcome.invalid_because.clone();
            if memory.unreadable > 0 {
                invalid_because
                    .push(format!("the memory of {} processes could not be read", memory.unreadable));
            }
            let usage = Usage {
                memory,
                processes: after.len(),
                threads: after.iter().map(|process| process.threads).sum(),
                cpu: used,
                elapsed,
                cores: self.server_cores,
                steal_share: steal_share.unwrap_or(0.0),
                others_share,
            };
            Ok((metrics(&outcome, &usage), invalid_because))
        })
    }

    /// Sleeps, but not through a Ctrl-C.
    fn sleep_until(&self, when: Instant) {
        const LOOK: Duration = Duration::from_millis(50);
        while !self.interrupted() {
            let left = when.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(LOOK));
        }
    }
}

/// What the probes read over the measured window.
struct Usage {
    memory: memory::Memory,
    processes: usize,
    threads: u64,
    cpu: Duration,
    elapsed: Duration,
    cores: usize,
    steal_share: f64,
    /// Known only where the server has a core of its own.
    others_share: Option<f64>,
}

/// The metrics of `results.jsonl`. Fields are only ever added.
fn metrics(outcome: &load::Outcome, usage: &Usage) -> Map<String, Value> {
    let errors = &outcome.errors;
    let non_2xx: u64 =
        outcome.status.iter().filter(|(status, _)| !status.starts_with('2')).map(|(_, count)| count).sum();
    let per_request = (outcome.requests > 0).then(|| usage.cpu.as_secs_f64() * 1e6 / outcome.requests as f64);
    let share = |seconds: f64, of: f64| if of > 0.0 { seconds / of } else { 0.0 };
    let values = [
        ("rps", json!(outcome.rps)),
        ("requests", json!(outcome.requests)),
        ("p50_us", json!(outcome.latency_us.p50)),
        ("p99_us", json!(outcome.latency_us.p99)),
        ("mean_us", json!(outcome.latency_us.mean)),
        ("max_us", json!(outcome.latency_us.max)),
        ("errors", json!(errors.total())),
        ("errors_connect", json!(errors.connect)),
        ("errors_refused", json!(errors.refused)),
        ("errors_reset", json!(errors.reset)),
        ("errors_closed_early", json!(errors.closed_early)),
        ("errors_timeout", json!(errors.timeout)),
        ("errors_bad_response", json!(errors.bad_response)),
        ("non_2xx", json!(non_2xx)),
        ("bytes_body", json!(outcome.bytes_body)),
        ("bytes_header", json!(outcome.bytes_header)),
        ("connections_opened", json!(outcome.connections_opened)),
        ("closed_idle", json!(outcome.closed_idle)),
        ("in_flight", json!(outcome.in_flight)),
        ("pss_bytes", json!(usage.memory.pss_bytes)),
        ("rss_bytes", json!(usage.memory.rss_bytes)),
        ("processes", json!(usage.processes)),
        ("threads", json!(usage.threads)),
        ("server_cpu_us_per_request", json!(per_request)),
        (
            "server_cpu_share",
            json!(share(usage.cpu.as_secs_f64(), usage.elapsed.as_secs_f64() * usage.cores as f64)),
        ),
        ("client_cpu_share", json!(share(outcome.client_cpu_s, outcome.duration_s))),
        ("duration_s", json!(outcome.duration_s)),
        ("steal_share", json!(usage.steal_share)),
        (OTHERS_SHARE, json!(usage.others_share)),
    ];
    values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
