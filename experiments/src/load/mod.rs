//! The load generator: drives one URL and reports what happened, no more and no less.
//!
//! A run in a page: [`plan`] says what to do. [`run`] resolves the address once, starts the plan's threads together
//! and gives each its share of the connections. In each thread `closed` waits on epoll and carries every connection
//! (`client`) from one request to the next; `response` reads the answers, `record` counts. At the end the records
//! are merged, `laws` judges them, and [`outcome`] is what anybody sees; [`text`] prints it as wrk would.
//!
//! Nothing here knows which server it drives.
mod client;
mod closed;
mod laws;
pub mod outcome;
pub mod plan;
mod record;
pub mod response;
pub mod text;

use std::io;
use std::net::SocketAddr;
use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::epoll::{Epoll, EpollCreateFlags};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::Pid;

use crate::reason::reason;
use closed::{Closed, Report};
use laws::Facts;
pub use outcome::{Errors, Latency, Mode, Outcome};
pub use plan::{Plan, Url};
use record::Record;

/// Why a run could not be made. What goes wrong *in* a run is counted in its [`Outcome`] instead.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The plan contradicts itself, or this machine.
    #[error("{0}")]
    Plan(String),
    /// The host has no address.
    #[error("cannot resolve `{host}`: {}", reason(error))]
    Resolve {
        /// As written in the URL.
        host: String,
        /// What the resolver said.
        error: io::Error,
    },
    /// The operating system refused something the client itself needs.
    #[error("{what}: {}", reason(error))]
    System {
        /// What was being done.
        what: &'static str,
        /// What it said.
        error: io::Error,
    },
}

/// Refuses what [`run`] would refuse on this machine, without running it.
pub fn check(plan: &Plan) -> Result<(), LoadError> {
    plan.check()?;
    usable_cpus(plan)?;
    Ok(())
}

/// Runs the plan; blocks until it is over. Raising `stop` ends it early, and the outcome covers what was measured.
pub fn run(plan: &Plan, stop: &AtomicBool) -> Result<Outcome, LoadError> {
    plan.check()?;
    let usable = usable_cpus(plan)?;
    allow_descriptors(plan)?;
    let address = plan.url.resolve(plan.timeout)?;
    let request = plan.request();
    let reports = drive(plan, address, &request, stop)?;
    Ok(conclude(plan, &reports, usable.min(plan.threads)))
}

/// Runs the threads, and fails if one of them did.
fn drive(
    plan: &Plan,
    address: SocketAddr,
    request: &[u8],
    stop: &AtomicBool,
) -> Result<Vec<Report>, LoadError> {
    let system = |what| move |errno: nix::Error| LoadError::System { what, error: errno.into() };
    let mut epolls = vec![];
    for _ in 0..plan.threads {
        epolls
            .push(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(system("cannot create an epoll set"))?);
    }
    let together = &Barrier::new(plan.threads);
    thread::scope(|scope| {
        let mut threads = vec![];
        for (index, epoll) in epolls.into_iter().enumerate() {
            threads.push(scope.spawn(move || {
                let pinned = pin(plan, index);
                let work = Closed::new(plan, address, request, plan.share(index), epoll, stop);
                // All threads begin together, and none is left waiting for one that failed.
                together.wait();
                pinned.map_err(system("cannot pin a client thread to its core"))?;
                work.run().map_err(system("the client cannot go on"))
            }));
        }
        // Collected first, so that every thread is joined before an error returns.
        let results: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        results
            .into_iter()
            .map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// Puts thread `index` on its core.
fn pin(plan: &Plan, index: usize) -> nix::Result<()> {
    let Some(cpus) = &plan.cpus else { return Ok(()) };
    let mut set = CpuSet::new();
    set.set(cpus[index % cpus.len()])?;
    sched_setaffinity(Pid::from_raw(0), &set)
}

/// How many processors the client's threads can use at the same time.
fn usable_cpus(plan: &Plan) -> Result<usize, LoadError> {
    let Some(cpus) = &plan.cpus else { return Ok(thread::available_parallelism().map_or(1, usize::from)) };
    let allowed = sched_getaffinity(Pid::from_raw(0)).map_err(|errno| LoadError::System {
        what: "cannot ask which cores may be used",
        error: errno.into(),
    })?;
    if let Some(cpu) = cpus.iter().find(|cpu| !allowed.is_set(**cpu).unwrap_or(false)) {
        let usable: Vec<String> = (0..CpuSet::count())
            .filter(|cpu| allowed.is_set(*cpu) == Ok(true))
            .map(|cpu| cpu.to_string())
            .collect();
        return Err(LoadError::Plan(format!(
            "cpus: core {cpu} cannot be used; these can: {}",
            usable.join(",")
        )));
    }
    let mut distinct = cpus.clone();
    distinct.sort_unstable();
    distinct.dedup();
    Ok(distinct.len())
}

/// Raises the soft limit on descriptors to what the plan needs: a connection each, up to two more that wait for the
/// server to close (they are closed early before they would be missed), and what the process has open anyway.
fn allow_descriptors(plan: &Plan) -> Result<(), LoadError> {
    let system = |errno: nix::Error| LoadError::System {
        what: "cannot ask for the descriptor limit",
        error: errno.into(),
    };
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(system)?;
    let spare = 64 + plan.threads as u64;
    let least = plan.connections as u64 + spare;
    if least > hard {
        return Err(LoadError::Plan(format!(
            "connections: {} need {least} file descriptors, but the limit is {hard}; raise it with ulimit -Hn, or ask for fewer",
            plan.connections
        )));
    }
    let wanted = (3 * plan.connections as u64 + spare).min(hard);
    if wanted > soft {
        setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).map_err(system)?;
    }
    Ok(())
}

/// From the threads' reports to the run's outcome.
fn conclude(plan: &Plan, reports: &[Report], processors: usize) -> Outcome {
    let mut record = Record::new();
    for report in reports {
        record.merge(&report.record);
    }
    let sum = |of: fn(&Report) -> f64| reports.iter().map(of).sum::<f64>();
    // The threads' windows differ by scheduling only; their mean is the run's.
    let duration_s = sum(|r| r.window.as_secs_f64()) / reports.len() as f64;
    let client_cpu_s = sum(|r| r.cpu.as_secs_f64());
    let interrupted = reports.iter().any(|r| r.interrupted);
    let (latency_us, latency_stdev_us) = record.latency_us();
    let status = record.statuses();
    let facts = Facts {
        requested: plan.connections,
        opened: reports.iter().map(|r| r.opened).sum(),
        started: record.started,
        answered: record.answered,
        failed: record.failed,
        in_flight: reports.iter().map(|r| r.in_flight).sum(),
        errors_total: record.errors.total(),
        statuses_total: status.values().sum(),
        samples: record.samples(),
        timed_out: record.timed_out,
        exhausted: record.exhausted,
        interrupted,
        latency_mean_s: latency_us.mean / 1e6,
        edges_s: sum(|r| r.edges_ns as f64 / 1e9),
        outside_s: record.outside_ns as f64 / 1e9,
        down_s: record.down_ns as f64 / 1e9,
        connection_s: sum(|r| r.connections as f64 * r.window.as_secs_f64()),
        duration_s,
        cpu_s: client_cpu_s,
        cpu_share_max: reports.iter().map(|r| share(r.cpu, r.window)).fold(0.0, f64::max),
        processors,
    };
    let invalid_because = laws::broken(&facts);
    Outcome {
        url: plan.url.to_string(),
        threads: plan.threads,
        connections_requested: facts.requested,
        connections_opened: facts.opened,
        duration_s,
        requests: record.answered,
        rps: if duration_s > 0.0 { record.answered as f64 / duration_s } else { 0.0 },
        errors: record.errors,
        status,
        bytes_header: record.bytes_header,
        bytes_body: record.bytes_body,
        latency_us,
        client_cpu_s,
        mode: Mode { keepalive: plan.keepalive, open_loop: false, rate: None },
        valid: invalid_because.is_empty(),
        invalid_because,
        closed_idle: record.closed_idle,
        closed_idle_reset: record.closed_idle_reset,
        connections_reconnected: record.reconnected,
        started: facts.started,
        failed: facts.failed,
        in_flight: facts.in_flight,
        latency_samples: facts.samples,
        latency_stdev_us,
        interrupted,
    }
}

fn share(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() { 0.0 } else { part.as_secs_f64() / whole.as_secs_f64() }
}
