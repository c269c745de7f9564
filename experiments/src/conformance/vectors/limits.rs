//! What bounds the number of processes and workers, and what the log says at the bound (mpm-semantics 5.2, 5.3).

use crate::conformance::bench::{Bench, span};
use crate::conformance::client::Reply;
use crate::conformance::lifespan::{glance, let_pass};
use crate::conformance::{APACHES, Seen, Trouble, Vector};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

const REACHED: &str =
    "server reached MaxRequestWorkers setting, consider raising the MaxRequestWorkers setting";
const WITHIN: &str =
    "server is within MinSpareThreads of MaxRequestWorkers, consider raising the MaxRequestWorkers setting";
const FULL: &str = "scoreboard is full, not at MaxRequestWorkers";

/// Four workers, which are all that may be.
const FOUR: &[&str] = &[
    "MaxRequestWorkers 4",
    "prefork: StartServers 4",
    "prefork: MinSpareServers 2",
    "prefork: MaxSpareServers 4",
    "worker event: StartServers 2",
    "worker event: ThreadsPerChild 2",
    "worker event: MinSpareThreads 2",
];

pub(super) const VECTORS: &[Vector] = &[
    Vector {
        id: "max-request-workers-is-reported-once",
        says: "all workers busy and no room for more: the log says so once, not at every tick",
        source: "mpm-semantics 5.2",
        setup: FOUR,
        knobs: &[],
        expect: &[(APACHES, "reached: once; within MinSpareThreads: never; full: never")],
        differs: None,
        run: |bench| at_the_limit(bench, 4),
    },
    Vector {
        id: "within-min-spare-threads-is-reported-once",
        says: "fewer spare workers than the minimum and no room for more: worker and event have a message of its own for it",
        source: "mpm-semantics 5.2",
        setup: FOUR,
        knobs: &[],
        expect: &[
            ("prefork", "reached: once; within MinSpareThreads: never; full: never"),
            ("worker event", "reached: never; within MinSpareThreads: once; full: never"),
        ],
        differs: None,
        run: |bench| at_the_limit(bench, 3),
    },
    Vector {
        id: "limit-above-server-limit-never-says-reached",
        says: "MaxRequestWorkers that ServerLimit does not allow: the message about MaxRequestWorkers never comes, \
               \"scoreboard is full\" comes at every tick",
        source: "mpm-semantics 5.3, V18",
        setup: &[
            "StartServers 2",
            "ServerLimit 2",
            "ThreadsPerChild 2",
            "MaxRequestWorkers 10",
            "MinSpareThreads 2",
        ],
        knobs: &[],
        expect: &[("worker event", "reached: never; within MinSpareThreads: never; full: again and again")],
        differs: None,
        run: |bench| at_the_limit(bench, 4),
    },
    Vector {
        id: "scoreboard-is-full-of-dying-processes",
        says: "slow clients keep processes alive that have had their MaxConnectionsPerChild: they fill the scoreboard although \
               MaxRequestWorkers is not reached, and the log says what to raise",
        source: "manual, event: MaxConnectionsPerChild; mpm-semantics 5.2",
        setup: &[
            "ThreadLimit 196",
            "ThreadsPerChild 96",
            "MaxRequestWorkers 192",
            "MaxConnectionsPerChild 96",
        ],
        knobs: &[],
        expect: &[(
            "event",
            "16 processes, 16 of them dying; full: again and again; Increase ServerLimit; reached: never",
        )],
        differs: None,
        run: full_of_the_dying,
    },
    Vector {
        id: "event-restart-without-spare-rows",
        says: "event, ServerLimit as high as the limit, a request in each process, USR1: nobody is there for new clients \
               until a request ends",
        source: "mpm-semantics 7.11",
        setup: &[
            "StartServers 2",
            "ServerLimit 2",
            "ThreadsPerChild 2",
            "MaxRequestWorkers 4",
            "MinSpareThreads 1",
        ],
        knobs: &[],
        expect: &[(
            "event",
            "2 old processes, 0 new; full: again and again; silence; answered 0-4 s after a hold ends",
        )],
        differs: None,
        run: restart_without_room,
    },
    Vector {
        id: "threads-per-child-is-bounded-by-thread-limit",
        says: "ThreadsPerChild above ThreadLimit is lowered to it, and MaxRequestWorkers to a multiple of that, with warnings",
        source: "mpm-semantics 5.3, V17",
        setup: &[
            "StartServers 4",
            "ThreadsPerChild 100",
            "MaxRequestWorkers 300",
            "MinSpareThreads 256",
            "MaxSpareThreads 400",
        ],
        knobs: &[],
        expect: &[(
            "worker event",
            "4 processes x 64 threads; ThreadsPerChild of 100 exceeds ThreadLimit of 64; \
             MaxRequestWorkers of 300 is not an integer multiple of ThreadsPerChild of 64",
        )],
        differs: None,
        run: |bench| {
            clamped(
                bench,
                &[
                    "ThreadsPerChild of 100 exceeds ThreadLimit of 64",
                    "MaxRequestWorkers of 300 is not an integer multiple of ThreadsPerChild of 64",
                ],
            )
        },
    },
    Vector {
        id: "max-request-workers-is-raised-to-one-process",
        says: "MaxRequestWorkers below ThreadsPerChild is raised to it",
        source: "mpm-semantics 5.3",
        setup: &["StartServers 3", "ThreadsPerChild 4", "MaxRequestWorkers 2"],
        knobs: &[],
        expect: &[(
            "worker event",
            "1 processes x 4 threads; MaxRequestWorkers of 2 is less than ThreadsPerChild of 4, increasing to 4",
        )],
        differs: None,
        run: |bench| {
            clamped(bench, &["MaxRequestWorkers of 2 is less than ThreadsPerChild of 4, increasing to 4"])
        },
    },
    Vector {
        id: "max-request-workers-is-bounded-by-server-limit",
        says: "MaxRequestWorkers that needs more processes than ServerLimit is lowered, with a warning",
        source: "mpm-semantics 5.3",
        setup: &[
            "StartServers 8",
            "ServerLimit 2",
            "worker event: ThreadsPerChild 4",
            "prefork: MaxRequestWorkers 3",
            "worker event: MaxRequestWorkers 12",
        ],
        knobs: &[],
        expect: &[
            ("prefork", "2 processes x 1 threads; MaxRequestWorkers of 3 exceeds ServerLimit value of 2"),
            (
                "worker event",
                "2 processes x 4 threads; MaxRequestWorkers of 12 would require 3 servers and would exceed ServerLimit of 2",
            ),
        ],
        differs: None,
        run: |bench| {
            clamped(
                bench,
                &[
                    "MaxRequestWorkers of 3 exceeds ServerLimit value of 2",
                    "MaxRequestWorkers of 12 would require 3 servers and would exceed ServerLimit of 2",
                ],
            )
        },
    },
    Vector {
        id: "buckets-need-a-process-each",
        says: "with more listener buckets than processes allowed, the limit is raised to a process per bucket",
        source: "mpm-semantics 5.3, V19",
        setup: &[
            "ListenCoresBucketsRatio 1",
            "StartServers 1",
            "prefork: MaxRequestWorkers 1",
            "worker event: ThreadsPerChild 4",
            "worker event: MaxRequestWorkers 4",
        ],
        knobs: &[],
        expect: &[
            ("prefork", "a process per core; 1 threads each"),
            ("worker event", "a process per core; 4 threads each"),
        ],
        differs: None,
        run: buckets,
    },
    Vector {
        id: "server-limit-stays-over-a-restart",
        says: "a new ServerLimit is refused on USR1 and on HUP alike: the scoreboard keeps its size until a full stop",
        source: "mpm-semantics 5.3",
        setup: &["ServerLimit 8", "prefork: MaxRequestWorkers 6"],
        knobs: &[],
        expect: &[(
            APACHES,
            "changing ServerLimit to 9 from original value of 8 not allowed during restart: 2 times; 8 rows",
        )],
        differs: None,
        run: server_limit_stays,
    },
];

fn times(count: usize) -> &'static str {
    match count {
        0 => "never",
        1 => "once",
        _ => "again and again",
    }
}

/// `busy` requests in progress for three ticks.
fn at_the_limit(bench: &mut Bench, busy: usize) -> Seen {
    let _held = bench.hold_many(busy)?;
    let any = |bench: &Bench| bench.logged(REACHED) + bench.logged(WITHIN) + bench.logged(FULL);
    bench.wait("the log says something of a limit", || (any(bench) > 0).then_some(()))?;
    let_pass(3);
    Ok(format!(
        "reached: {}; within MinSpareThreads: {}; full: {}",
        times(bench.logged(REACHED)),
        times(bench.logged(WITHIN)),
        times(bench.logged(FULL))
    ))
}

/// Churn, and a slow client in each process before it has had its connections.
fn full_of_the_dying(bench: &mut Bench) -> Seen {
    let start = Instant::now();
    let mut held = Vec::new();
    while bench.logged(FULL) < 2 && start.elapsed() < Duration::from_secs(40) {
        let unheld = |bench: &Bench| {
            bench.rows().is_ok_and(|rows| {
                rows.iter()
                    .any(|(row, letters)| !row.quiescing && letters.contains('_') && !letters.contains('W'))
            })
        };
        if unheld(bench) {
            held.push(bench.hold()?);
            continue;
        }
        let mut client = bench.dial()?;
        client.send("GET /small HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        // While there is no process left, nobody answers.
        client.reply(Duration::from_millis(500));
    }
    let board = bench.board()?;
    let dying = board.present().filter(|row| row.quiescing).count();
    Ok(format!(
        "{} processes, {dying} of them dying; full: {}; {}; reached: {}",
        bench.children().len(),
        times(bench.logged(FULL)),
        if bench.log().contains("Increase ServerLimit") { "Increase ServerLimit" } else { "no advice" },
        times(bench.logged(REACHED)),
    ))
}

fn restart_without_room(bench: &mut Bench) -> Seen {
    let mut held = bench.hold_in_each()?;
    let old = bench.children();
    bench.restart(Signal::SIGUSR1)?;
    bench.wait_for_log(FULL, 2)?;
    let mut client = bench.dial()?;
    client.ask("/small")?;
    let reply = glance(&mut client);
    let now = bench.children();
    let (kept, new) = (now.intersection(&old).count(), now.difference(&old).count());
    let full = times(bench.logged(FULL));
    let released = Instant::now();
    held.pop();
    let answer = match client.reply(Duration::from_secs(20)) {
        Reply::Answer(_) => "answered".to_owned(),
        other => other.to_string(),
    };
    let after = span(released.elapsed(), 0..4);
    Ok(format!("{kept} old processes, {new} new; full: {full}; {reply}; {answer} {after} after a hold ends"))
}

/// How many processes and threads there are, and which of the warnings were given.
fn clamped(bench: &mut Bench, warnings: &[&str]) -> Seen {
    let said = bench.said();
    let given: Vec<_> = warnings.iter().filter(|text| said.contains(**text)).copied().collect();
    let rows = bench.rows()?;
    let threads = rows.first().map_or(0, |row| row.1.matches('_').count());
    Ok(format!("{} processes x {threads} threads; {}", rows.len(), given.join("; ")))
}

/// The processors that are online, which is what buckets are counted by.
fn cores() -> Result<usize, Trouble> {
    let text = std::fs::read_to_string("/proc/stat")?;
    let core = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    Ok(text.lines().filter(core).count())
}

fn buckets(bench: &mut Bench) -> Seen {
    let cores = cores()?;
    if cores < 2 {
        return Err(Trouble::Skip("needs two processors".to_owned()));
    }
    let rows = bench.rows()?;
    let threads = rows.first().map_or(0, |row| row.1.matches('_').count());
    let processes = match rows.len() {
        n if n == cores => "a process per core".to_owned(),
        n => format!("{n} processes on {cores} cores"),
    };
    Ok(format!("{processes}; {threads} threads each"))
}

fn server_limit_stays(bench: &mut Bench) -> Seen {
    bench.reconfigure("ServerLimit 8", "ServerLimit 9")?;
    let text = "changing ServerLimit to 9 from original value of 8 not allowed during restart";
    for (signal, times) in [(Signal::SIGUSR1, 1), (Signal::SIGHUP, 2)] {
        bench.restart(signal)?;
        bench.wait_for_log(text, times)?;
    }
    Ok(format!("{text}: {} times; {} rows", bench.logged(text), bench.board()?.server_limit))
}
