//! What a process of event accepts, and what it does with idle connections (mpm-semantics 4.2 to 4.4, 7.2, 7.3).

use super::pool::four;
use super::proc;
use crate::conformance::bench::PATIENCE;
use crate::conformance::client::{Client, Reply};
use crate::conformance::{Bench, Seen, Trouble, Vector};
use std::time::Duration;

pub(super) const VECTORS: &[Vector] = &[
    Vector {
        id: "event-limit-factor-0-5",
        says: "AsyncRequestWorkerFactor below 1 counts as 1: an idle process takes ThreadsPerChild x 2 connections, then no more",
        source: "mpm-semantics 4.4, V3, V6",
        setup: four!["KeepAliveTimeout 60", "AsyncRequestWorkerFactor 0.5"],
        knobs: &[],
        expect: &[("event", "8 idle connections, then silence; 200 when 2 have left")],
        differs: None,
        run: fill,
    },
    Vector {
        id: "event-limit-factor-1-5",
        says: "AsyncRequestWorkerFactor is truncated: 1.5 counts as 1",
        source: "mpm-semantics 4.4, V3, V6",
        setup: four!["KeepAliveTimeout 60", "AsyncRequestWorkerFactor 1.5"],
        knobs: &[],
        expect: &[("event", "8 idle connections, then silence; 200 when 2 have left")],
        differs: None,
        run: fill,
    },
    Vector {
        id: "event-limit-factor-2-9",
        says: "AsyncRequestWorkerFactor is truncated: 2.9 counts as 2; the room of one worker more must be free before it accepts again",
        source: "mpm-semantics 4.4, V3, V6",
        setup: four!["KeepAliveTimeout 60", "AsyncRequestWorkerFactor 2.9"],
        knobs: &[],
        expect: &[("event", "12 idle connections, then silence; 200 when 3 have left")],
        differs: None,
        run: fill,
    },
    Vector {
        id: "event-refuses-with-all-threads-idle",
        says: "a process at its limit of connections accepts nothing although all its threads are idle, and the log blames \
               MaxRequestWorkers",
        source: "mpm-semantics 7.2",
        setup: four!["KeepAliveTimeout 60"],
        knobs: &[],
        expect: &[(
            "event",
            "12 idle connections, silence; ____, not accepting; MaxRequestWorkers reached, says the log",
        )],
        differs: None,
        run: refuses_idle,
    },
    Vector {
        id: "event-limit-with-some-held",
        says: "6 idle connections and 2 requests in progress are the limit of 4 threads with 2 idle: idle ones are spared, and \
               one idle thread more does not suffice to accept again",
        source: "mpm-semantics 4.4, 7.3, V3, V5",
        setup: four!["KeepAliveTimeout 60"],
        knobs: &[],
        expect: &[(
            "event",
            "2 idle threads, silence, not accepting; idle connections 6 of 6 open; with 3 idle threads silence, with 4 200",
        )],
        differs: None,
        run: some_held,
    },
    Vector {
        id: "event-sheds-idle-connections-when-busy",
        says: "a new connection that finds every worker busy costs all idle connections; they are closed when a worker frees up",
        source: "mpm-semantics 7.5, V4",
        setup: four!["KeepAliveTimeout 60"],
        knobs: &[],
        expect: &[(
            "event",
            "WWWW, not accepting; idle ones silence silence; when a worker is free closed closed, new one 200",
        )],
        differs: None,
        run: sheds,
    },
    Vector {
        id: "kept-requests-when-saturated",
        says: "when every worker is busy event closes a kept connection that sends a request, unanswered; prefork and worker have \
               its worker at hand",
        source: "mpm-semantics 4.3, 7.4",
        setup: four!["KeepAliveTimeout 60"],
        knobs: &[],
        expect: &[("prefork worker", "KKWW; 200 200"), ("event", "WWWW; closed closed")],
        differs: None,
        run: saturated,
    },
    Vector {
        id: "idle-connections-and-busy-workers",
        says: "an idle connection holds its worker under prefork and worker; under event it holds nobody",
        source: "mpm-semantics 1.1, 4.2",
        setup: four!["KeepAliveTimeout 60"],
        knobs: &[],
        expect: &[("prefork worker", "KKK_"), ("event", "____")],
        differs: None,
        run: idle_and_busy,
    },
    Vector {
        id: "parked-connections-change-workers",
        says: "an idle connection's next request is served by whichever worker is first in the queue under event, by its own \
               under prefork and worker",
        source: "mpm-semantics 4.2, 3.1",
        setup: four!["KeepAliveTimeout 60"],
        knobs: &[],
        expect: &[("prefork worker", "40 requests by 1 of 4"), ("event", "40 requests by 4 of 4")],
        differs: None,
        run: workers_of_one_connection,
    },
    Vector {
        id: "event-counters-are-stale",
        says: "the counts of parked connections reach the scoreboard only when a time-out passes; then they stay as they were",
        source: "mpm-semantics 4.3, 7.12",
        setup: four!["KeepAliveTimeout 3"],
        knobs: &[],
        expect: &[(
            "event",
            "6 idle: 0 connections, 0 lingering; 6 closed: 6 connections, 6 lingering; none open: 6 connections, 6 lingering",
        )],
        differs: None,
        run: stale_counters,
    },
    Vector {
        id: "event-lingering-connection-without-an-idle-worker",
        says: "what a client still sends on a connection that lingers is drained by a worker; without an idle one it is closed at \
               once",
        source: "mpm-semantics 4.3",
        setup: four![],
        knobs: &[],
        expect: &[("event", "2 linger; one sends, 2 do; with all workers busy the other sends, 1 does")],
        differs: None,
        run: lingering,
    },
    Vector {
        id: "idle-connection-of-a-retiring-process",
        says: "a process that has had its MaxConnectionsPerChild closes idle connections at once under event; worker's live on",
        source: "mpm-semantics 4.6, V14, V16",
        setup: &[
            "StartServers 1",
            "MaxRequestWorkers 4",
            "ThreadsPerChild 4",
            "MinSpareThreads 1",
            "MaxConnectionsPerChild 3",
            "KeepAliveTimeout 10",
        ],
        knobs: &[],
        expect: &[
            ("worker", "retires; the idle one silence, its next request 200, then closed"),
            ("event", "retires; the idle one closed"),
        ],
        differs: None,
        run: retiring,
    },
];

/// Long enough to see that nothing happens, on a server that would act within milliseconds.
const MOMENT: Duration = Duration::from_millis(700);

/// `n` kept connections, each of which is idle and has left its worker before the next comes: a worker that is late counts as busy.
fn idle_one_by_one(bench: &Bench, n: usize) -> Result<Vec<Client>, Trouble> {
    let one = |_| {
        let client = bench.idle()?;
        bench.wait_until_quiet()?;
        Ok(client)
    };
    (0..n).map(one).collect()
}

/// Idle kept connections until the next one hangs: those, and the one that hangs.
fn idle_until_refused(bench: &Bench) -> Result<(Vec<Client>, Client), Trouble> {
    let mut idle = Vec::new();
    loop {
        let mut client = bench.dial()?;
        client.ask("/small")?;
        match client.reply(MOMENT) {
            Reply::Answer(_) => {
                // A worker that is late counts as busy, and lowers the limit.
                bench.wait_until_quiet()?;
                idle.push(client);
            }
            Reply::Silence => return Ok((idle, client)),
            other => return Err(Trouble::failed(format!("connection {}: {other}", idle.len() + 1))),
        }
    }
}

/// `not accepting`, when some process has switched its listeners off.
fn accepting(bench: &Bench) -> Result<&'static str, Trouble> {
    Ok(if bench.board()?.present().any(|process| process.not_accepting) {
        "not accepting"
    } else {
        "accepting"
    })
}

/// What each client gets next, in the time given.
fn replies(clients: &mut [Client], limit: Duration) -> String {
    clients.iter_mut().map(|client| client.reply(limit).to_string()).collect::<Vec<_>>().join(" ")
}

fn fill(bench: &mut Bench) -> Seen {
    let (mut idle, mut next) = idle_until_refused(bench)?;
    let count = idle.len();
    while idle.pop().is_some() {
        if let Reply::Answer(answer) = next.reply(MOMENT) {
            let left = count - idle.len();
            return Ok(format!(
                "{count} idle connections, then silence; {} when {left} have left",
                answer.status
            ));
        }
    }
    Ok(format!("{count} idle connections, then silence for good"))
}

fn refuses_idle(bench: &mut Bench) -> Seen {
    let (idle, mut next) = idle_until_refused(bench)?;
    bench.wait_for_log("server reached MaxRequestWorkers setting", 1)?;
    let silent = next.reply(MOMENT);
    let letters = bench.board()?.living();
    Ok(format!(
        "{} idle connections, {silent}; {letters}, {}; MaxRequestWorkers reached, says the log",
        idle.len(),
        accepting(bench)?
    ))
}

fn some_held(bench: &mut Bench) -> Seen {
    let mut idle = idle_one_by_one(bench, 6)?;
    let mut held = bench.hold_many(2)?;
    let mut next = bench.dial()?;
    next.ask("/small")?;
    let two = next.reply(MOMENT);
    let (idle_threads, state) = (bench.count('_'), accepting(bench)?);
    let open = idle.iter_mut().map(|client| client.reply(Duration::from_millis(1)));
    let open = open.filter(|reply| *reply == Reply::Silence).count();
    let mut release = |bench: &Bench| -> Result<(), Trouble> {
        let (before, mut client) = (bench.count('_'), held.remove(0));
        client.release()?;
        client.answer()?;
        held.push(client);
        bench.wait("the worker is idle", || (bench.count('_') == before + 1).then_some(()))
    };
    release(bench)?;
    let three = next.reply(MOMENT);
    release(bench)?;
    let four = next.reply(MOMENT);
    Ok(format!(
        "{idle_threads} idle threads, {two}, {state}; idle connections {open} of 6 open; with 3 idle threads {three}, with 4 {four}"
    ))
}

fn sheds(bench: &mut Bench) -> Seen {
    let mut idle = idle_one_by_one(bench, 2)?;
    let mut held = bench.hold_many(4)?;
    let mut new = bench.dial()?;
    new.ask("/small")?;
    bench.wait("the process accepts no more", || {
        bench.board().ok()?.present().any(|process| process.not_accepting).then_some(())
    })?;
    let letters = bench.board()?.living();
    let before = replies(&mut idle, MOMENT);
    let mut free = held.remove(0);
    free.release()?;
    let after = format!("{} {}", idle[0].end(), idle[1].end());
    drop(free);
    let answered = new.answer()?.status;
    Ok(format!(
        "{letters}, not accepting; idle ones {before}; when a worker is free {after}, new one {answered}"
    ))
}

fn saturated(bench: &mut Bench) -> Seen {
    let mut idle = idle_one_by_one(bench, 2)?;
    let mut held = bench.hold_many(bench.count('_'))?;
    let letters = bench.sorted_letters()?;
    for client in &mut idle {
        client.ask("/small")?;
    }
    // Under event a worker has to close them, so one must be free.
    let mut seen = replies(&mut idle, MOMENT);
    if seen == "silence silence" {
        held[0].release()?;
        seen = replies(&mut idle, PATIENCE);
    }
    Ok(format!("{letters}; {seen}"))
}

fn idle_and_busy(bench: &mut Bench) -> Seen {
    let _idle = idle_one_by_one(bench, 3)?;
    bench.sorted_letters()
}

fn workers_of_one_connection(bench: &mut Bench) -> Seen {
    let mut client = bench.dial()?;
    for served in 1..=40 {
        client.get("/small")?;
        bench.wait("it is counted", || (bench.board().ok()?.accesses() == served).then_some(()))?;
        bench.wait_until_quiet()?;
    }
    let board = bench.board()?;
    let used = board.workers().filter(|worker| worker.accesses > 0).count();
    Ok(format!("{} requests by {used} of {}", board.accesses(), board.living().len()))
}

fn stale_counters(bench: &mut Bench) -> Seen {
    let counts = |bench: &Bench| -> Result<String, Trouble> {
        let board = bench.board()?;
        let process = board.present().next().ok_or_else(|| Trouble::failed("no process"))?;
        Ok(format!("{} connections, {} lingering", process.connections, process.lingering_close))
    };
    let sockets = proc::of_children(bench);
    let mut idle = idle_one_by_one(bench, 6)?;
    let before = counts(bench)?;
    let ends = idle.iter_mut().map(Client::end).filter(|end| *end == Reply::Closed).count();
    bench.wait("the counts are brought up to date", || {
        bench.board().ok()?.present().any(|process| process.lingering_close == 6).then_some(())
    })?;
    let expired = counts(bench)?;
    drop(idle);
    bench.wait("none is open", || (proc::of_children(bench) == sockets).then_some(()))?;
    Ok(format!("6 idle: {before}; {ends} closed: {expired}; none open: {}", counts(bench)?))
}

fn lingering(bench: &mut Bench) -> Seen {
    let sockets = proc::of_children(bench);
    let open = |bench: &Bench| proc::of_children(bench) - sockets;
    let linger = || -> Result<Client, Trouble> {
        let mut client = bench.dial()?;
        client.send("GET /small HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        client.answer()?;
        client.end();
        Ok(client)
    };
    let (mut one, mut other) = (linger()?, linger()?);
    let lingering = open(bench);
    one.send("junk")?;
    bench.happens(MOMENT, || open(bench) < 2);
    let drained = open(bench);
    let _held = bench.hold_many(4)?;
    other.send("junk")?;
    bench.wait("it is closed", || (open(bench) < 6).then_some(()))?;
    Ok(format!(
        "{lingering} linger; one sends, {drained} do; with all workers busy the other sends, {} does",
        open(bench) - 4
    ))
}

fn retiring(bench: &mut Bench) -> Seen {
    let mut idle = bench.idle()?;
    let retires =
        |bench: &Bench| bench.board().is_ok_and(|board| board.present().any(|process| process.quiescing));
    for _ in 0..3 {
        bench.get("/small")?;
        if bench.happens(MOMENT, || retires(bench)) {
            break;
        }
    }
    let next = idle.reply(MOMENT);
    if next != Reply::Silence {
        return Ok(format!("retires; the idle one {next}"));
    }
    let answer = idle.get("/small")?;
    Ok(format!("retires; the idle one {next}, its next request {}, then {}", answer.status, idle.end()))
}
