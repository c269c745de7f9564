//! How many processes there are, tick by tick: growth and shrinking (mpm-semantics 5).

use super::restart::NEW_GENERATION;
use crate::conformance::bench::Bench;
use crate::conformance::lifespan::let_pass;
use crate::conformance::{APACHES, Seen, Vector};
use nix::sys::signal::Signal;

const HOLD: &str = "POST /small HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n";

/// Processes of two threads, one of them at first, and room for forty.
const GROWING: &[&str] = &[
    "StartServers 1",
    "ServerLimit 40",
    "prefork: MaxRequestWorkers 40",
    "prefork: MinSpareServers 5",
    "prefork: MaxSpareServers 40",
    "worker event: ThreadsPerChild 2",
    "worker event: MaxRequestWorkers 80",
    "worker event: MinSpareThreads 5",
    "worker event: MaxSpareThreads 80",
];

/// Six processes (of two threads) of which two are too many once nobody is served: see [`shrink`].
const SHRINKING: &[&str] = &[
    "StartServers 6",
    "prefork: MaxRequestWorkers 6",
    "prefork: MinSpareServers 1",
    "prefork: MaxSpareServers 2",
    "worker event: ThreadsPerChild 2",
    "worker event: MaxRequestWorkers 12",
    "worker event: MinSpareThreads 1",
    "worker event: MaxSpareThreads 4",
];

/// [`SHRINKING`] without spare rows of the scoreboard.
const SHRINKING_FULL: &[&str] = &[
    "StartServers 6",
    "ServerLimit 6",
    "ThreadsPerChild 2",
    "MaxRequestWorkers 12",
    "MinSpareThreads 1",
    "MaxSpareThreads 4",
];

pub(super) const VECTORS: &[Vector] = &[
    Vector {
        id: "growth-doubles",
        says: "the spawn rate doubles with each tick that needs it, up to 32",
        source: "mpm-semantics 5.2, V1",
        setup: &[
            "StartServers 1",
            "ServerLimit 200",
            "MaxRequestWorkers 200",
            "MinSpareServers 5",
            "MaxSpareServers 100",
        ],
        knobs: &[],
        expect: &[("prefork", "1,2,4,8,16,32,64,96")],
        differs: None,
        run: |bench| grow(bench, 60, 96),
    },
    Vector {
        id: "growth-doubles-processes-of-threads",
        says: "the spawn rate counts processes, not threads, and doubles too",
        source: "mpm-semantics 5.2, V1",
        setup: &[
            "StartServers 1",
            "ServerLimit 40",
            "ThreadsPerChild 2",
            "MaxRequestWorkers 80",
            "MinSpareThreads 3",
            "MaxSpareThreads 80",
        ],
        knobs: &[],
        expect: &[("worker event", "1,2,4,8,16,32")],
        differs: None,
        run: |bench| grow(bench, 60, 32),
    },
    Vector {
        id: "growth-overshoots",
        says: "a tick that lacks one spare worker starts the whole doubled number; from eight on the log says that the server \
               seems busy",
        source: "mpm-semantics 5.2, 7.10",
        setup: GROWING,
        knobs: &[],
        expect: &[
            ("prefork", "1,2,4,8,16,32; 20 idle; \"server seems busy\" 2 times"),
            ("worker event", "1,2,4,8,16,32; 36 idle; \"server seems busy\" 2 times"),
        ],
        differs: None,
        run: growth_overshoots,
    },
    Vector {
        id: "growth-rate-is-frozen-after-a-graceful-restart",
        says: "after USR1 the rate stays what it was, here 1, for ten ticks that spawn; the eleventh doubles it again",
        source: "mpm-semantics 5.2, V2",
        setup: &[
            "StartServers 2",
            "ServerLimit 40",
            "prefork: MaxRequestWorkers 40",
            "prefork: MinSpareServers 1",
            "prefork: MaxSpareServers 40",
            "worker event: ThreadsPerChild 2",
            "worker event: MaxRequestWorkers 80",
            "worker event: MinSpareThreads 1",
            "worker event: MaxSpareThreads 80",
        ],
        knobs: &[],
        expect: &[(APACHES, "2,3,4,5,6,7,8,9,10,11,12,13,15,19,27")],
        differs: None,
        run: rate_is_frozen,
    },
    Vector {
        id: "shrink-is-one-process-per-tick",
        says: "more spare workers than the maximum: one process is retired per tick, however many are too many",
        source: "mpm-semantics 5.2, V7",
        setup: SHRINKING,
        knobs: &[],
        expect: &[(APACHES, "6,5,4,3,2")],
        differs: None,
        run: shrink,
    },
    Vector {
        id: "shrink-waits-for-the-dying-without-spare-rows",
        says: "event with ServerLimit as high as its limit retires the next process only when the last one is gone: every other tick",
        source: "mpm-semantics 5.2, 7.18, V7",
        setup: SHRINKING_FULL,
        knobs: &[],
        expect: &[("worker", "6,5,4,3,2"), ("event", "6,5,5,4,4,3,3,2")],
        differs: None,
        run: shrink,
    },
    Vector {
        id: "shrink-makes-dummy-connections",
        says: "prefork wakes the child it retires by a request of its own, which the access log shows; the others do not",
        source: "mpm-semantics 5.2, 6",
        setup: SHRINKING,
        knobs: &[],
        expect: &[
            ("prefork", "6,5,4,3,2; 4 times \"OPTIONS * HTTP/1.0 200\""),
            ("worker event", "6,5,4,3,2; 0 times \"OPTIONS * HTTP/1.0 200\""),
        ],
        differs: None,
        run: dummy_connections,
    },
    Vector {
        id: "between-the-spare-limits-nothing-happens",
        says: "with as many idle workers as the minimum asks for and no more than the maximum, no process is started or retired",
        source: "mpm-semantics 5.2",
        setup: &[
            "StartServers 3",
            "prefork: MinSpareServers 2",
            "prefork: MaxSpareServers 4",
            "worker event: ThreadsPerChild 2",
            "worker event: MinSpareThreads 4",
            "worker event: MaxSpareThreads 8",
        ],
        knobs: &[],
        expect: &[(APACHES, "the same 3 processes three ticks later")],
        differs: None,
        run: nothing_happens,
    },
    Vector {
        id: "max-spare-is-raised-silently",
        says: "a maximum of spare workers below the minimum becomes minimum + 1 (prefork) or minimum + ThreadsPerChild + 1, \
               without a word",
        source: "mpm-semantics 5.3",
        setup: &[
            "StartServers 6",
            "prefork: MaxRequestWorkers 6",
            "prefork: MinSpareServers 2",
            "prefork: MaxSpareServers 1",
            "worker event: ThreadsPerChild 2",
            "worker event: MaxRequestWorkers 12",
            "worker event: MinSpareThreads 4",
            "worker event: MaxSpareThreads 1",
        ],
        knobs: &[],
        expect: &[(APACHES, "6,5,4,3; nothing said of MaxSpare")],
        differs: None,
        run: max_spare_is_raised,
    },
];

/// Asks `clients` long requests at once and follows the processes.
fn grow(bench: &mut Bench, clients: usize, last: usize) -> Seen {
    let mut held = bench.dial_many(clients)?;
    for client in &mut held {
        client.send(HOLD)?;
    }
    bench.children_per_tick(last)
}

fn growth_overshoots(bench: &mut Bench) -> Seen {
    // With one more spare worker, 16 processes would do.
    let clients = if !bench.is_threaded() { 12 } else { 28 };
    let mut held = bench.dial_many(clients)?;
    for client in &mut held {
        client.send(HOLD)?;
    }
    let curve = bench.children_per_tick(32)?;
    bench.wait("everybody is served", || (bench.count('W') == clients).then_some(()))?;
    bench.wait("no thread is being started", || (bench.count('S') == 0).then_some(()))?;
    let_pass(1);
    let busy = bench.logged("server seems busy");
    Ok(format!("{curve}; {} idle; \"server seems busy\" {busy} times", bench.count('_')))
}

fn rate_is_frozen(bench: &mut Bench) -> Seen {
    // The old generation is idle and goes at once, so that the new one's two processes are all there is.
    let old = bench.children();
    bench.restart(Signal::SIGUSR1)?;
    bench.wait(NEW_GENERATION, || {
        let now = bench.children();
        (now.len() == 2 && now.is_disjoint(&old)).then_some(())
    })?;
    let clients = if !bench.is_threaded() { 22 } else { 44 };
    grow(bench, clients, 27)
}

/// Keeps as many workers busy as keeps all six processes, then lets go.
fn shrink(bench: &mut Bench) -> Seen {
    let clients = if !bench.is_threaded() { 4 } else { 8 };
    drop(bench.hold_many(clients)?);
    bench.children_per_tick(2)
}

fn dummy_connections(bench: &mut Bench) -> Seen {
    let curve = shrink(bench)?;
    let dummies = bench.access_log().matches("OPTIONS * HTTP/1.0 200").count();
    Ok(format!("{curve}; {dummies} times \"OPTIONS * HTTP/1.0 200\""))
}

fn nothing_happens(bench: &mut Bench) -> Seen {
    let before = bench.children();
    let_pass(3);
    let same = if bench.children() == before { "the same" } else { "not the same" };
    Ok(format!("{same} {} processes three ticks later", before.len()))
}

fn max_spare_is_raised(bench: &mut Bench) -> Seen {
    let clients = if !bench.is_threaded() { 4 } else { 8 };
    drop(bench.hold_many(clients)?);
    let curve = bench.children_until_quiet(3)?;
    let said = if bench.said().contains("MaxSpare") { "something" } else { "nothing" };
    Ok(format!("{curve}; {said} said of MaxSpare"))
}
