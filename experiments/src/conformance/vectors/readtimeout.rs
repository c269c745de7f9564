//! RequestReadTimeout: mod_reqtimeout's bounds on slow requests (mpm-semantics 7.7, 11).

use crate::conformance::bench::{self, span};
use crate::conformance::client::Reply;
use crate::conformance::{APACHES, Bench, EVERY, Seen, Vector};
use std::time::{Duration, Instant};

pub(super) const VECTORS: &[Vector] = &[
    Vector {
        id: "read-timeout-header",
        says: "RequestReadTimeout ends a header that does not come, long before Timeout",
        source: "mpm-semantics 7.7, 11",
        setup: &["RequestReadTimeout header=2-4,MinRate=500"],
        knobs: &[],
        expect: &[(EVERY, "408 Connection close after 1-5 s, closed")],
        differs: None,
        run: header,
    },
    Vector {
        id: "read-timeout-trickled-header",
        says: "bytes that come at MinRate extend the time for a header, but only to its maximum",
        source: "mpm-semantics 11",
        setup: &["RequestReadTimeout header=1-5,MinRate=20"],
        knobs: &[],
        expect: &[(EVERY, "silent: 408 after 1-4 s; trickling: 408 after 4-8 s")],
        differs: None,
        run: trickling,
    },
    Vector {
        id: "read-timeout-body",
        says: "and a body that does not come",
        source: "mpm-semantics 11",
        setup: &["RequestReadTimeout body=2"],
        knobs: &[],
        expect: &[(EVERY, "408 Connection close after 1-5 s, closed")],
        differs: None,
        run: body,
    },
    Vector {
        id: "read-timeout-lingers-shortly",
        says: "after such a 408 a client that goes on sending is lingered for 2 s, not 30",
        source: "mpm-semantics 2.1, 11",
        setup: &["RequestReadTimeout header=1"],
        knobs: &[],
        expect: &[(EVERY, "408, gone after 1-5 s")],
        differs: None,
        run: short_linger,
    },
    Vector {
        id: "read-timeout-spares-idle-connections",
        says: "the time between two requests is KeepAliveTimeout's, not RequestReadTimeout's",
        source: "mpm-semantics 11",
        setup: &["RequestReadTimeout header=1 body=1"],
        knobs: &[],
        expect: &[(EVERY, "200, 3 s of silence, 200")],
        differs: None,
        run: idle,
    },
    Vector {
        id: "read-timeout-on-the-scoreboard",
        says: "a worker whose client was told 408 shows L while it lingers, as the log is written when the answer is flushed",
        source: "mpm-semantics 9.2",
        setup: &["RequestReadTimeout header=2", "MaxRequestWorkers 1", "worker event: ThreadsPerChild 1"],
        knobs: &[],
        expect: &[("prefork worker", "R for 1-5 s, L for 1-5 s, _"), ("event", "R for 1-5 s, _")],
        differs: None,
        run: letters,
    },
    Vector {
        id: "read-timeout-frees-workers",
        says: "with it a slow header holds a worker for seconds only",
        source: "mpm-semantics 7.7",
        setup: &[
            "RequestReadTimeout header=2-4,MinRate=500",
            "MaxRequestWorkers 1",
            "worker event: ThreadsPerChild 1",
        ],
        knobs: &[],
        expect: &[(APACHES, "answered after 1-8 s")],
        differs: None,
        run: frees,
    },
];

const HALF: &str = "GET /small HTTP/1.1\r\nHost: loc";

/// Sends a text and says what comes, when, and what after that.
fn ends(bench: &Bench, text: &str) -> Seen {
    let mut client = bench.dial()?;
    client.send(text)?;
    let start = Instant::now();
    let answer = client.answer()?;
    let after = span(start.elapsed(), 1..5);
    let connection = answer.field("Connection").unwrap_or("missing");
    Ok(format!("{} Connection {connection} after {after}, {}", answer.status, client.end()))
}

fn header(bench: &mut Bench) -> Seen {
    ends(bench, HALF)
}

fn body(bench: &mut Bench) -> Seen {
    ends(bench, "POST /small HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n")
}

fn trickling(bench: &mut Bench) -> Seen {
    let (mut silent, mut trickling) = (bench.dial()?, bench.dial()?);
    silent.send(HALF)?;
    trickling.send(HALF)?;
    let start = Instant::now();
    let mut first = Reply::Silence;
    let mut told = String::new();
    loop {
        if first == Reply::Silence {
            first = silent.reply(Duration::from_millis(1));
            told = format!("silent: {first} after {}", span(start.elapsed(), 1..4));
        }
        match trickling.reply(Duration::from_millis(200)) {
            Reply::Silence => trickling.send("0123456789")?,
            reply => return Ok(format!("{told}; trickling: {reply} after {}", span(start.elapsed(), 4..8))),
        }
    }
}

fn short_linger(bench: &mut Bench) -> Seen {
    let mut client = bench.dial()?;
    client.send(HALF)?;
    let reply = client.reply(bench::PATIENCE);
    let gone = client.babble(Duration::from_millis(500), bench::PATIENCE);
    Ok(format!(
        "{reply}, {}",
        gone.map_or("not gone".to_owned(), |time| format!("gone after {}", span(time, 1..5)))
    ))
}

fn idle(bench: &mut Bench) -> Seen {
    let mut client = bench.dial()?;
    let first = client.get("/small")?.status;
    let meanwhile = match client.reply(Duration::from_secs(3)) {
        Reply::Silence => "3 s of silence".to_owned(),
        other => other.to_string(),
    };
    Ok(format!("{first}, {meanwhile}, {}", client.get("/small")?.status))
}

fn letters(bench: &mut Bench) -> Seen {
    let mut client = bench.dial()?;
    client.send(HALF)?;
    bench.wait_for_letters("R")?;
    let states = bench.letters_until(|letters| letters == "_")?;
    Ok(bench::story(&states, 1..5))
}

fn frees(bench: &mut Bench) -> Seen {
    let mut slow = bench.dial()?;
    slow.send(HALF)?;
    bench.wait_for_letters("R")?;
    let start = Instant::now();
    bench.get("/small")?;
    Ok(format!("answered after {}", span(start.elapsed(), 1..8)))
}
