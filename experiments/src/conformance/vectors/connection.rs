//! One connection from first byte to close: keep-alive, time-outs, lingering close (mpm-semantics 2, 3.3, 4.2).

use crate::conformance::bench::span;
use crate::conformance::client::Reply;
use crate::conformance::{EVERY, Seen, Vector, bench::Bench};
use std::time::{Duration, Instant};

/// A pool of four workers in one process, or of four processes.
const FOUR: &[&str] = &[
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

fn keep_alive_starves(bench: &mut Bench) -> Seen {
    let start = Instant::now();
    let _idle = (0..4).map(|_| bench.idle()).collect::<Result<Vec<_>, _>>()?;
    let board = bench.board()?.living();
    bench.get("/small")?;
    Ok(format!(
        "{board}; a fifth client is answered after {}",
        span(start.elapsed(), if board.contains('K') { 6..9 } else { 0..2 })
    ))
}
