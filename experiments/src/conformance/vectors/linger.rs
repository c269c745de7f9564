//! Lingering close: who waits for a client to let go of a connection that the server has closed, and for how long
//! (mpm-semantics 2.1, 4.2).

use crate::conformance::bench::{self, span};
use crate::conformance::client::Reply;
use crate::conformance::{APACHES, Bench, Seen, Vector};
use std::time::{Duration, Instant};

/// One worker.
const ONE: &[&str] = &["MaxRequestWorkers 1", "worker event: ThreadsPerChild 1", "KeepAliveTimeout 1"];

pub(super) const VECTORS: &[Vector] = &[
    Vector {
        id: "linger-holds-the-worker",
        says: "after a close by the server the worker waits 2 s for a silent client; under event nobody waits",
        source: "mpm-semantics 2.1, 4.2",
        setup: ONE,
        knobs: &[],
        expect: &[
            ("prefork worker", "200, closed after 0-2 s; C for 1-5 s, _"),
            ("event", "200, closed after 0-2 s; _"),
        ],
        differs: None,
        run: linger_holds,
    },
    Vector {
        id: "linger-ends-with-the-client",
        says: "a client that closes after the answer frees the worker at once",
        source: "mpm-semantics 2.1",
        setup: ONE,
        knobs: &[],
        expect: &[(APACHES, "five clients in a row are served in 0-5 s")],
        differs: None,
        run: linger_ends,
    },
    Vector {
        id: "linger-and-junk",
        says: "a client that goes on sending after the close holds prefork's and worker's thread for 30 s; event bounds the connection likewise, without a thread",
        source: "mpm-semantics 2.1, 4.2",
        setup: ONE,
        knobs: &[],
        expect: &[
            ("prefork worker", "C meanwhile; gone after 29-36 s"),
            ("event", "_ meanwhile; gone after 29-36 s"),
        ],
        differs: None,
        run: linger_and_junk,
    },
    Vector {
        id: "linger-after-an-idle-connection",
        says: "when an idle connection expires event lingers 2 s at most; prefork and worker as long as after any close",
        source: "mpm-semantics 2.1, 4.2",
        setup: ONE,
        knobs: &[],
        expect: &[("prefork worker", "lingers after 6 s"), ("event", "gone after 1-5 s")],
        differs: None,
        run: linger_after_idle,
    },
];

/// An answer that closes, to a client that does not.
fn close_me(
    bench: &Bench,
) -> Result<(crate::conformance::client::Client, Reply), crate::conformance::Trouble> {
    let mut client = bench.dial()?;
    client.send("GET /small HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let reply = client.reply(bench::PATIENCE);
    Ok((client, reply))
}

fn linger_holds(bench: &mut Bench) -> Seen {
    let (mut client, reply) = close_me(bench)?;
    let start = Instant::now();
    let end = client.end();
    let closed = span(start.elapsed(), 0..2);
    let states = bench.letters_until(|letters| letters == "_")?;
    Ok(format!("{reply}, {end} after {closed}; {}", bench::story(&states, 1..5)))
}

fn linger_ends(bench: &mut Bench) -> Seen {
    let start = Instant::now();
    for _ in 0..5 {
        drop(close_me(bench)?);
    }
    bench.wait_for_letters("_")?;
    Ok(format!("five clients in a row are served in {}", span(start.elapsed(), 0..5)))
}

fn linger_and_junk(bench: &mut Bench) -> Seen {
    let (mut client, _) = close_me(bench)?;
    std::thread::scope(|scope| {
        let junk = scope.spawn(move || client.babble(Duration::from_secs(1), bench::PATIENCE));
        let meanwhile = bench.settled();
        let gone = junk.join().expect("sending does not panic");
        let gone = gone.map_or("not gone".to_owned(), |time| format!("gone after {}", span(time, 29..36)));
        Ok(format!("{} meanwhile; {gone}", meanwhile?))
    })
}

fn linger_after_idle(bench: &mut Bench) -> Seen {
    let mut client = bench.idle()?;
    client.end();
    Ok(match client.babble(Duration::from_millis(500), Duration::from_secs(6)) {
        Some(time) => format!("gone after {}", span(time, 1..5)),
        None => "lingers after 6 s".to_owned(),
    })
}
