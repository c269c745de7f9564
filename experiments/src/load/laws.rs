//! The laws that a run's figures must obey, whatever the server does. A broken one means that the client, not the
//! server, is wrong or at its limit, and that the figures are no evidence.
//!
//! | law | tolerance |
//! |---|---|
//! | some request was answered | none |
//! | every requested connection was open at some time | none |
//! | started = answered + failed + in flight | exact |
//! | the errors by cause add up to the failed | exact |
//! | the statuses add up to the answered | exact |
//! | the latency record has one sample per answered and per timed-out request | exact |
//! | Little: connections = (time in latencies + time of requests cut by the window's edges + time outside any latency) / window | 2 % |
//! | connections were not without a request because of failures: time from a failure that had to wait before the next attempt, or from the close before one that could not connect, to the next request / (connections x window) | 5 % |
//! | the client had processor time to spare, in all and in each thread | 95 %, from a tenth of a second on |
//! | the client's side had ports and descriptors to connect with | none |

/// What is judged.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) requested: usize,
    pub(super) opened: usize,
    pub(super) started: u64,
    pub(super) answered: u64,
    pub(super) failed: u64,
    pub(super) in_flight: u64,
    pub(super) errors_total: u64,
    pub(super) statuses_total: u64,
    pub(super) samples: u64,
    pub(super) timed_out: u64,
    pub(super) exhausted: u64,
    pub(super) interrupted: bool,
    /// Mean latency in seconds, from the latency record.
    pub(super) latency_mean_s: f64,
    /// Time of requests that lie partly in the window: those in progress at its end, less the part of those in
    /// progress at its beginning that lies before it.
    pub(super) edges_s: f64,
    /// Time connections spent in no recorded latency.
    pub(super) outside_s: f64,
    /// Of `outside_s`, the time because of failures: backing off and attempts to connect that failed. Reconnecting
    /// after a close that HTTP permits, or at once after a single lost request, is none of it.
    pub(super) down_s: f64,
    /// Sum over the threads of connections times window.
    pub(super) connection_s: f64,
    pub(super) duration_s: f64,
    pub(super) cpu_s: f64,
    /// The busiest thread's processor time over its window.
    pub(super) cpu_share_max: f64,
    /// Processors the threads can use at the same time.
    pub(super) processors: usize,
}

/// Little's law holds to this part of the connections.
const LITTLE_TOLERANCE: f64 = 0.02;
/// With connections down for more than this part of the window, the load was not the one asked for: the throughput is
/// that of a server which was away, and the latencies say nothing of the requests that could not be made. Below, it is
/// a stumble, visible in the errors. A server that lets every request run into the default time-out stays below, too:
/// the longest pause after one is 0.1 s.
const DOWN_SHARE_MAX: f64 = 0.05;
/// A client busier than this may be what limits the throughput.
const CPU_SHARE_MAX: f64 = 0.95;
/// Threads are not stopped at the window's end to the microsecond; in shorter windows that is a part of the share.
const CPU_WINDOW_MIN_S: f64 = 0.1;

/// One sentence per broken law.
pub(super) fn broken(f: &Facts) -> Vec<String> {
    let mut broken = vec![];
    if f.answered == 0 {
        broken.push(if f.interrupted && f.failed == 0 {
            "nothing was measured: the run was stopped before a request was answered".to_owned()
        } else {
            format!("no request was answered: {} failed, {} were still waiting", f.failed, f.in_flight)
        });
    }
    if f.opened != f.requested {
        broken.push(format!("only {} of {} connections could be opened", f.opened, f.requested));
    }
    if f.started != f.answered + f.failed + f.in_flight {
        broken.push(format!(
            "requests are not conserved: {} started, but {} answered + {} failed + {} in flight = {}",
            f.started,
            f.answered,
            f.failed,
            f.in_flight,
            f.answered + f.failed + f.in_flight
        ));
    }
    if f.errors_total != f.failed {
        broken.push(format!(
            "errors are not conserved: the causes add up to {}, but {} requests failed",
            f.errors_total, f.failed
        ));
    }
    if f.statuses_total != f.answered {
        broken.push(format!(
            "statuses are not conserved: they add up to {}, but {} requests were answered",
            f.statuses_total, f.answered
        ));
    }
    if f.samples != f.answered + f.timed_out {
        broken.push(format!(
            "the latency record is incomplete: {} samples for {} answered and {} timed-out requests",
            f.samples, f.answered, f.timed_out
        ));
    }
    if f.connection_s > 0.0 && f.duration_s > 0.0 {
        let seen = (f.latency_mean_s * f.samples as f64 + f.edges_s + f.outside_s) / f.connection_s;
        if (seen - 1.0).abs() > LITTLE_TOLERANCE {
            broken.push(format!(
                "Little's law: mean latency {:.1} us x {:.1} requests/s, with the window's edges and {:.3} s outside any \
                 request, accounts for {:.2} connections, but there were {} (tolerance {:.0} %)",
                f.latency_mean_s * 1e6,
                f.samples as f64 / f.duration_s,
                f.outside_s,
                seen * f.requested as f64,
                f.requested,
                LITTLE_TOLERANCE * 100.0
            ));
        }
    }
    if f.down_s > DOWN_SHARE_MAX * f.connection_s {
        broken.push(format!(
            "connections were down for {:.0} % of the window: of {:.3} s ({} connections x {:.3} s) they spent {:.3} s \
             without a request, failing to connect or waiting after failures (tolerance {:.0} %); the server was away \
             or refused work",
            f.down_s / f.connection_s * 100.0,
            f.connection_s,
            f.requested,
            f.duration_s,
            f.down_s,
            DOWN_SHARE_MAX * 100.0
        ));
    }
    if f.duration_s >= CPU_WINDOW_MIN_S {
        let share = f.cpu_s / (f.processors as f64 * f.duration_s);
        if share > CPU_SHARE_MAX || f.cpu_share_max > CPU_SHARE_MAX {
            broken.push(format!(
                "client saturated: its threads used {:.0} % of {} processor(s), the busiest {:.0} % of one, so the figures \
                 may be the client's limit; give it more threads or cores",
                share * 100.0,
                f.processors,
                f.cpu_share_max * 100.0
            ));
        }
    }
    if f.exhausted > 0 {
        broken.push(format!(
            "the client ran out of ports, descriptors or memory {} times while connecting (see ip_local_port_range, \
             ulimit -n)",
            f.exhausted
        ));
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> Facts {
        Facts {
            requested: 50,
            opened: 50,
            started: 10_060,
            answered: 10_000,
            failed: 10,
            in_flight: 50,
            errors_total: 10,
            statuses_total: 10_000,
            samples: 10_004,
            timed_out: 4,
            exhausted: 0,
            interrupted: false,
            latency_mean_s: 0.00999,
            edges_s: 0.01,
            outside_s: 0.05,
            down_s: 0.02,
            connection_s: 100.0,
            duration_s: 2.0,
            cpu_s: 2.0,
            cpu_share_max: 0.6,
            processors: 2,
        }
    }

    #[test]
    fn each_law_is_broken_by_its_fault_and_only_by_it() {
        assert_eq!(broken(&sound()), Vec::<String>::new());
        let check = |sentence: &str, fault: &dyn Fn(&mut Facts)| {
            let mut facts = sound();
            fault(&mut facts);
            let broken = broken(&facts);
            assert_eq!(broken.len(), 1, "{sentence}: {broken:?}");
            assert!(broken[0].contains(sentence), "{broken:?}");
        };
        check("only 48 of 50", &|f| f.opened = 48);
        check("requests are not conserved: 10061 started", &|f| f.started += 1);
        check("errors are not conserved", &|f| f.errors_total += 1);
        check("statuses are not conserved", &|f| f.statuses_total -= 1);
        check("latency record is incomplete", &|f| f.samples -= 1);
        check("Little's law", &|f| f.outside_s += 2.5);
        check(
            "connections were down for 80 % of the window: of 100.000 s (50 connections x 2.000 s) they spent 80.",
            &|f| {
                f.down_s = 80.0;
            },
        );
        check("client saturated: its threads used 96 %", &|f| f.cpu_s = 3.84);
        check("the busiest 99 % of one", &|f| f.cpu_share_max = 0.99);
        check("ran out of ports", &|f| f.exhausted = 3);
    }

    #[test]
    fn a_clock_in_the_wrong_unit_breaks_littles_law() {
        for wrong in [1e-3, 0.96, 1.04, 4.98] {
            let mut facts = sound();
            facts.latency_mean_s *= wrong;
            assert!(broken(&facts)[0].contains("Little's law"), "{wrong}");
        }
    }

    #[test]
    fn connections_that_were_down_for_a_moment_are_tolerated() {
        let stumble = Facts { down_s: 5.0, ..sound() };
        assert_eq!(broken(&stumble), Vec::<String>::new());
        assert_eq!(broken(&Facts { down_s: 5.1, ..stumble }).len(), 1);
    }

    #[test]
    fn a_run_without_answers_says_why() {
        let empty = Facts {
            answered: 0,
            statuses_total: 0,
            failed: 10,
            started: 60,
            samples: 4,
            latency_mean_s: 0.0,
            outside_s: 100.0,
            edges_s: 0.0,
            ..sound()
        };
        assert_eq!(broken(&empty), ["no request was answered: 10 failed, 50 were still waiting"]);
        let stopped = Facts {
            failed: 0,
            errors_total: 0,
            started: 50,
            timed_out: 0,
            samples: 0,
            interrupted: true,
            ..empty
        };
        assert!(broken(&stopped)[0].contains("stopped before"));
    }

    #[test]
    fn very_short_windows_are_not_judged_by_processor_time() {
        let short = Facts { duration_s: 0.09, cpu_s: 0.18, cpu_share_max: 1.0, ..sound() };
        assert_eq!(broken(&short), Vec::<String>::new());
    }
}
