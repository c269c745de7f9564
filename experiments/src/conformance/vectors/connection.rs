//! Kept connections: when one is kept, what is said about it, who holds it meanwhile, how it ends (mpm-semantics 2, 3.3, 4.2).

use crate::conformance::bench::{self, span};
use crate::conformance::client::{Answer, Reply};
use crate::conformance::{Bench, EVERY, Seen, Trouble, Vector};
use std::time::{Duration, Instant};

/// A pool of four workers in one process, or of four processes.
pub(super) const FOUR: &[&str] = &[
    "MaxRequestWorkers 4",
    "prefork: StartServers 4",
    "prefork: MinSpareServers 1",
    "prefork: MaxSpareServers 4",
    "worker event: StartServers 1",
    "worker event: ThreadsPerChild 4",
    "worker event: MinSpareThreads 1",
];

pub(super) const VECTORS: &[Vector] = &[
    Vector {
        id: "keep-alive-requests-count-down",
        says: "MaxKeepAliveRequests N serves N + 1 requests, and Keep-Alive counts down",
        source: "mpm-semantics 2, V18b",
        setup: &["MaxKeepAliveRequests 5"],
        knobs: &[],
        expect: &[(EVERY, "200 max=5, 200 max=4, 200 max=3, 200 max=2, 200 max=1, 200 close, closed")],
        differs: None,
        run: keep_alive_counts_down,
    },
    Vector {
        id: "keep-alive-without-limit",
        says: "MaxKeepAliveRequests 0 is no limit, and Keep-Alive then has no count",
        source: "mpm-semantics 2; MaxKeepAliveRequests in the manual",
        setup: &["MaxKeepAliveRequests 0"],
        knobs: &[],
        expect: &[(EVERY, "150 answers on one connection; Keep-Alive: timeout=5")],
        differs: None,
        run: keep_alive_without_limit,
    },
    Vector {
        id: "keep-alive-off",
        says: "with KeepAlive Off every answer closes, whatever the client asks for",
        source: "mpm-semantics 2; KeepAlive in the manual",
        setup: &["KeepAlive Off"],
        knobs: &[],
        expect: &[(EVERY, "1.1: Connection close, closed; 1.1 keep-alive: Connection close, closed")],
        differs: None,
        run: keep_alive_off,
    },
    Vector {
        id: "keep-alive-fields-for-who-asks",
        says: "HTTP/1.1 is kept without a word, HTTP/1.0 only on request; only who says keep-alive is told of it",
        source: "mpm-semantics 2",
        setup: &[],
        knobs: &[],
        expect: &[(
            EVERY,
            "1.1: no Connection field, kept; \
             1.1 keep-alive: Connection Keep-Alive timeout=5, max=100, kept; \
             1.1 close: Connection close, closed; \
             1.0: Connection close, closed; \
             1.0 keep-alive: Connection Keep-Alive timeout=5, max=100, kept",
        )],
        differs: None,
        run: keep_alive_fields,
    },
    Vector {
        id: "keep-alive-timeout-closes",
        says: "a kept connection on which nothing comes is closed in an orderly way after KeepAliveTimeout",
        source: "mpm-semantics 2, 4.2",
        setup: &["KeepAliveTimeout 2"],
        knobs: &[],
        expect: &[(EVERY, "closed after 1-4 s")],
        differs: None,
        run: keep_alive_timeout,
    },
    Vector {
        id: "keep-alive-timeout-in-milliseconds",
        says: "KeepAliveTimeout may be below a second; Keep-Alive then says 0",
        source: "mpm-semantics 11; KeepAliveTimeout in the manual",
        setup: &["KeepAliveTimeout 300ms"],
        knobs: &[],
        expect: &[(EVERY, "Keep-Alive: timeout=0, max=100; closed after 0-2 s")],
        differs: None,
        run: keep_alive_milliseconds,
    },
    Vector {
        id: "keep-alive-starves-a-new-client",
        says: "an idle kept connection holds its worker for KeepAliveTimeout and 2 s of lingering; under event it holds none",
        source: "mpm-semantics 3.3, 7.1, V11",
        setup: FOUR,
        knobs: &[],
        expect: &[
            ("prefork worker", "KKKK; a fifth client is answered after 6-9 s"),
            ("event", "____; a fifth client is answered after 0-2 s"),
        ],
        differs: None,
        run: keep_alive_starves,
    },
    Vector {
        id: "idle-connection-on-the-scoreboard",
        says: "the worker of an idle connection shows K for KeepAliveTimeout, then C for 2 s; under event it is free all the time",
        source: "mpm-semantics 8 F, 9.2, V11",
        setup: &["MaxRequestWorkers 1", "worker event: ThreadsPerChild 1", "KeepAliveTimeout 2"],
        knobs: &[],
        expect: &[("prefork worker", "K for 1-5 s, C for 1-5 s, _; closed"), ("event", "_; closed")],
        differs: None,
        run: idle_on_the_scoreboard,
    },
    Vector {
        id: "idle-client-leaves",
        says: "a client that closes its idle connection frees the worker at once",
        source: "mpm-semantics 8 E",
        setup: &["MaxRequestWorkers 1", "worker event: ThreadsPerChild 1", "KeepAliveTimeout 20"],
        knobs: &[],
        expect: &[("prefork worker", "K, and _ after 0-2 s"), ("event", "_, and _ after 0-2 s")],
        differs: None,
        run: idle_client_leaves,
    },
    Vector {
        id: "half-closed-client-is-answered",
        says: "a client that says it will send nothing more still gets its answers",
        source: "mpm-semantics 2, 4.2",
        setup: &[],
        knobs: &[],
        expect: &[(EVERY, "200, 200, closed")],
        differs: None,
        run: half_closed,
    },
    Vector {
        id: "one-kept-connection-counts",
        says: "the slot counts the requests of its connection",
        source: "mpm-semantics 9.1",
        setup: &["MaxRequestWorkers 1"],
        knobs: &[],
        expect: &[("prefork", "3 on the connection, 4 by the child")],
        differs: None,
        run: slot_counts,
    },
];

fn keep_alive_counts_down(bench: &mut Bench) -> Seen {
    let mut client = bench.dial()?;
    let mut seen = Vec::new();
    loop {
        client.ask("/small")?;
        match client.reply(Duration::from_secs(10)) {
            Reply::Answer(answer) => {
                let count = answer.field("Keep-Alive").and_then(|value| value.split_once("max="));
                let state = count.map_or("close".to_owned(), |(_, left)| format!("max={left}"));
                seen.push(format!("{} {state}", answer.status));
                if answer.closes() {
                    seen.push(client.end().to_string());
                    return Ok(seen.join(", "));
                }
            }
            other => {
                seen.push(other.to_string());
                return Ok(seen.join(", "));
            }
        }
    }
}

fn keep_alive_without_limit(bench: &mut Bench) -> Seen {
    let mut client = bench.dial()?;
    let mut field = String::new();
    for count in 0..150 {
        let answer = client.get("/small")?;
        if answer.closes() {
            return Ok(format!("closed after {}", count + 1));
        }
        field = answer.field("Keep-Alive").unwrap_or("missing").to_owned();
    }
    Ok(format!("150 answers on one connection; Keep-Alive: {field}"))
}

/// Makes a request of a version, with a Connection field if `token` is not empty; says what the answer states and what happens.
fn ask_as(bench: &Bench, version: &str, token: &str) -> Seen {
    let field = if token.is_empty() { String::new() } else { format!("Connection: {token}\r\n") };
    let request = format!("GET /small HTTP/{version}\r\nHost: localhost\r\n{field}\r\n");
    let mut client = bench.dial()?;
    client.send(&request)?;
    let stated = match client.answer()? {
        Answer { header, .. } if !header.contains("Connection: ") => "no Connection field".to_owned(),
        answer => {
            let (connection, keep) = (answer.field("Connection"), answer.field("Keep-Alive"));
            let words = ["Connection", connection.unwrap_or(""), keep.unwrap_or("")];
            words.join(" ").trim_end().to_owned()
        }
    };
    let happens = match client.reply(Duration::from_millis(500)) {
        Reply::Silence => {
            client.send(&request)?;
            client.answer().map(|_| "kept".to_owned())?
        }
        other => other.to_string(),
    };
    let name = [version, token].join(" ");
    Ok(format!("{}: {stated}, {happens}", name.trim_end()))
}

fn ask_in_ways(bench: &Bench, ways: &[(&str, &str)]) -> Seen {
    let seen: Vec<_> =
        ways.iter().map(|(version, token)| ask_as(bench, version, token)).collect::<Result<_, _>>()?;
    Ok(seen.join("; "))
}

fn keep_alive_off(bench: &mut Bench) -> Seen {
    ask_in_ways(bench, &[("1.1", ""), ("1.1", "keep-alive")])
}

fn keep_alive_fields(bench: &mut Bench) -> Seen {
    ask_in_ways(
        bench,
        &[("1.1", ""), ("1.1", "keep-alive"), ("1.1", "close"), ("1.0", ""), ("1.0", "keep-alive")],
    )
}

fn keep_alive_timeout(bench: &mut Bench) -> Seen {
    let mut client = bench.idle()?;
    let start = Instant::now();
    let end = client.end();
    Ok(format!("{end} after {}", span(start.elapsed(), 1..4)))
}

fn keep_alive_milliseconds(bench: &mut Bench) -> Seen {
    let mut client = bench.dial()?;
    let answer = client.get("/small")?;
    let start = Instant::now();
    let end = client.end();
    let field = answer.field("Keep-Alive").unwrap_or("missing");
    Ok(format!("Keep-Alive: {field}; {end} after {}", span(start.elapsed(), 0..2)))
}

fn keep_alive_starves(bench: &mut Bench) -> Seen {
    let start = Instant::now();
    let _idle = (0..4).map(|_| bench.idle()).collect::<Result<Vec<_>, _>>()?;
    let board = bench.settled()?;
    bench.get("/small")?;
    Ok(format!(
        "{board}; a fifth client is answered after {}",
        span(start.elapsed(), if board.contains('K') { 6..9 } else { 0..2 })
    ))
}

fn idle_on_the_scoreboard(bench: &mut Bench) -> Seen {
    let mut client = bench.idle()?;
    let mut end = Reply::Silence;
    let states = bench.letters_until(|letters| {
        if end == Reply::Silence {
            end = client.reply(Duration::from_millis(1));
        }
        end != Reply::Silence && letters == "_"
    })?;
    Ok(format!("{}; {end}", bench::story(&states, 1..5)))
}

fn idle_client_leaves(bench: &mut Bench) -> Seen {
    let client = bench.idle()?;
    let while_idle = bench.settled()?;
    drop(client);
    let start = Instant::now();
    bench.wait_for_letters("_")?;
    Ok(format!("{while_idle}, and _ after {}", span(start.elapsed(), 0..2)))
}

fn half_closed(bench: &mut Bench) -> Seen {
    let mut client = bench.dial()?;
    client.ask("/small")?;
    client.ask("/small")?;
    client.finish();
    let replies = [client.reply(bench::PATIENCE), client.reply(bench::PATIENCE), client.end()];
    Ok(replies.map(|reply| reply.to_string()).join(", "))
}

fn slot_counts(bench: &mut Bench) -> Seen {
    bench.get("/small")?;
    let mut client = bench.dial()?;
    for _ in 0..3 {
        client.get("/small")?;
    }
    bench.wait_for_letters("K")?;
    let board = bench.board()?;
    let slot = board.workers().find(|worker| worker.letter == 'K').ok_or(Trouble::failed("no slot"))?;
    Ok(format!("{} on the connection, {} by the child", slot.on_connection, slot.by_child))
}
