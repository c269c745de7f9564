//! Timeout: clients that are slow, and the workers they hold (mpm-semantics 2, 4.2, 7.7, 7.8).

use crate::conformance::bench::{self, span};
use crate::conformance::client::Reply;
use crate::conformance::{APACHES, Bench, EVERY, Seen, Vector};
use std::ops::Range;
use std::time::{Duration, Instant};

pub(super) const VECTORS: &[Vector] = &[
    Vector {
        id: "slow-header-holds-a-worker",
        says: "half a header holds a worker until Timeout, under event too; prefork and worker linger 2 s more",
        source: "mpm-semantics 4.2, 7.7",
        setup: &["Timeout 4", "MaxRequestWorkers 1", "worker event: ThreadsPerChild 1"],
        knobs: &[],
        expect: &[
            ("prefork worker", "R; another client is answered after 6-9 s"),
            ("event", "R; another client is answered after 4-6 s"),
        ],
        differs: None,
        run: slow_header_holds,
    },
    Vector {
        id: "slow-header-is-told",
        says: "a client whose header does not come in Timeout gets a whole answer, and the connection is closed",
        source: "mpm-semantics 7.7",
        setup: &["Timeout 2"],
        knobs: &[],
        expect: &[(
            EVERY,
            "408 Connection close with a page after 1-4 s, closed; logged GET /small HTTP/1.1 408",
        )],
        differs: None,
        run: slow_header_is_told,
    },
    Vector {
        id: "slow-request-line-is-not-told",
        says: "one whose request line does not come whole gets nothing; the log has a bare 408",
        source: "mpm-semantics 7.7",
        setup: &["Timeout 2"],
        knobs: &[],
        expect: &[(EVERY, "closed after 1-4 s; logged - 408")],
        differs: None,
        run: slow_line_is_not_told,
    },
    Vector {
        id: "silent-client-is-not-told",
        says: "a client that sends nothing at all holds a worker until Timeout and gets nothing; the log has a bare 408",
        source: "mpm-semantics 1.4, 7.8",
        setup: &[
            "AcceptFilter http none",
            "Timeout 2",
            "MaxRequestWorkers 1",
            "worker event: ThreadsPerChild 1",
        ],
        knobs: &[],
        expect: &[(APACHES, "R, closed after 1-4 s; logged - 408")],
        differs: None,
        run: silent,
    },
    Vector {
        id: "slow-body-ends-after-timeout",
        says: "a body that does not come holds a worker in W until Timeout",
        source: "mpm-semantics 7, 9.2",
        setup: &["Timeout 2", "MaxRequestWorkers 1", "worker event: ThreadsPerChild 1"],
        knobs: &[],
        expect: &[(APACHES, "W; 408 after 1-4 s")],
        differs: None,
        run: slow_body,
    },
    Vector {
        id: "trickled-header-lives-on",
        says: "Timeout is per read: a header that comes byte by byte may take longer",
        source: "mpm-semantics 2, 11",
        setup: &["Timeout 2"],
        knobs: &[],
        expect: &[(EVERY, "200 after 4-8 s")],
        differs: None,
        run: trickled,
    },
    Vector {
        id: "second-request-line",
        says: "the rest of a kept connection's next request line runs under KeepAliveTimeout; under event under Timeout",
        source: "mpm-semantics 2",
        setup: &["KeepAliveTimeout 2", "Timeout 6"],
        knobs: &[],
        expect: &[("prefork worker", "closed after 1-5 s"), ("event", "closed after 5-9 s")],
        differs: None,
        run: second_line,
    },
    Vector {
        id: "second-header",
        says: "the next request's header fields run under Timeout",
        source: "mpm-semantics 2",
        setup: &["KeepAliveTimeout 2", "Timeout 5"],
        knobs: &[],
        expect: &[(EVERY, "408 after 4-8 s")],
        differs: None,
        run: second_header,
    },
];

fn slow_header_holds(bench: &mut Bench) -> Seen {
    let start = Instant::now();
    let mut slow = bench.dial()?;
    slow.send("GET /small HTTP/1.1\r\nHost: loc")?;
    let board = bench.settled()?;
    bench.get("/small")?;
    let range = if bench.model == "event" { 4..6 } else { 6..9 };
    Ok(format!("{board}; another client is answered after {}", span(start.elapsed(), range)))
}

/// The first line of the access log, once it is there.
fn logged(bench: &Bench) -> Seen {
    bench.wait("a line in the access log", || bench.access_log().lines().next().map(str::to_owned))
}

fn slow_header_is_told(bench: &mut Bench) -> Seen {
    let mut client = bench.dial()?;
    client.send("GET /small HTTP/1.1\r\nHost: loc")?;
    let start = Instant::now();
    let answer = client.answer()?;
    let page = if answer.body.is_empty() { "without" } else { "with" };
    let connection = answer.field("Connection").unwrap_or("missing");
    let after = span(start.elapsed(), 1..4);
    let line = logged(bench)?;
    Ok(format!(
        "{} Connection {connection} {page} a page after {after}, {}; logged {line}",
        answer.status,
        client.end()
    ))
}

fn slow_line_is_not_told(bench: &mut Bench) -> Seen {
    let mut client = bench.dial()?;
    client.send("GET /sm")?;
    let start = Instant::now();
    let end = client.end();
    Ok(format!("{end} after {}; logged {}", span(start.elapsed(), 1..4), logged(bench)?))
}

fn silent(bench: &mut Bench) -> Seen {
    let start = Instant::now();
    let mut client = bench.dial()?;
    let board = bench.settled()?;
    let end = client.end();
    Ok(format!("{board}, {end} after {}; logged {}", span(start.elapsed(), 1..4), logged(bench)?))
}

fn slow_body(bench: &mut Bench) -> Seen {
    let start = Instant::now();
    let mut client = bench.hold()?;
    let board = bench.settled()?;
    let reply = client.reply(bench::PATIENCE);
    Ok(format!("{board}; {reply} after {}", span(start.elapsed(), 1..4)))
}

fn trickled(bench: &mut Bench) -> Seen {
    let mut client = bench.dial()?;
    let start = Instant::now();
    client.send("GET /small HTTP/1.1\r\nHost: localhost\r\nX: ")?;
    let pause = Duration::from_millis(500);
    for _ in 0..8 {
        client.send("x")?;
        if client.reply(pause) != Reply::Silence {
            return Ok(format!("ended after {:.1} s", start.elapsed().as_secs_f64()));
        }
    }
    client.send("\r\n\r\n")?;
    Ok(format!("{} after {}", client.answer()?.status, span(start.elapsed(), 4..8)))
}

/// Sends part of a second request and says how the server ends the wait for the rest.
fn second(bench: &Bench, text: &str, range: Range<u32>) -> Seen {
    let mut client = bench.idle()?;
    client.send(text)?;
    let start = Instant::now();
    let reply = client.reply(bench::PATIENCE);
    Ok(format!("{reply} after {}", span(start.elapsed(), range)))
}

fn second_line(bench: &mut Bench) -> Seen {
    second(bench, "GET /sm", if bench.model == "event" { 5..9 } else { 1..5 })
}

fn second_header(bench: &mut Bench) -> Seen {
    second(bench, "GET /small HTTP/1.1\r\nHost: loc", 4..8)
}
