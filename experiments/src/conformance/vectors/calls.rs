//! The calls of the thread that serves a request, in their order (mpm-semantics 8).

use super::pool::one;
use crate::conformance::client::Client;
use crate::conformance::trace::{ALL, Calls, names};
use crate::conformance::{Bench, Seen, Trouble, Vector};

pub(super) const VECTORS: &[Vector] = &[
    Vector {
        id: "calls-of-a-kept-request",
        says: "a request on a kept connection whose client thinks: the file is mapped, the log is written after the answer, and \
               one read looks for more before the wait",
        source: "mpm-semantics 8 A, V8",
        setup: one![],
        knobs: &[],
        expect: &[("prefork worker", "?"), ("event", "?")],
        differs: None,
        run: |bench| kept(bench, "/small", "/small"),
    },
    Vector {
        id: "calls-of-a-pipelined-request",
        says: "a request that is there already needs no wait: 9 calls under every model",
        source: "mpm-semantics 8 B, V10",
        setup: one![],
        knobs: &[],
        expect: &[("prefork worker event", "?")],
        differs: None,
        run: pipelined,
    },
    Vector {
        id: "calls-of-a-first-request",
        says: "a fresh connection is made non-blocking and read at once",
        source: "mpm-semantics 2, 8 D",
        setup: one![],
        knobs: &[],
        expect: &[("prefork worker", "?"), ("event", "?")],
        differs: None,
        run: first,
    },
    Vector {
        id: "calls-of-a-close-request",
        says: "a connection that the answer closes is shut down for writing and drained",
        source: "mpm-semantics 2.1, 8 C, V9",
        setup: one![],
        knobs: &[],
        expect: &[("prefork", "?"), ("worker", "?"), ("event", "?")],
        differs: None,
        run: close,
    },
    Vector {
        id: "calls-of-a-client-that-leaves",
        says: "a client that closes its idle connection",
        source: "mpm-semantics 8 E",
        setup: one!["KeepAliveTimeout 60"],
        knobs: &[],
        expect: &[("prefork", "?"), ("worker", "?"), ("event", "?")],
        differs: None,
        run: leaves,
    },
    Vector {
        id: "calls-of-a-404",
        says: "an answer from memory is sent after the look for more: read, writev, log",
        source: "mpm-semantics 8, modifiers",
        setup: one![],
        knobs: &[],
        expect: &[("prefork worker", "?"), ("event", "?")],
        differs: None,
        run: |bench| kept(bench, "/none", "/small"),
    },
    Vector {
        id: "calls-without-mmap",
        says: "EnableMMAP Off: the file is read in steps of 8000 bytes",
        source: "mpm-semantics 8, modifiers",
        setup: one!["EnableMMAP Off"],
        knobs: &[],
        expect: &[("prefork worker", "?"), ("event", "?")],
        differs: None,
        run: |bench| kept(bench, "/small", "/small"),
    },
    Vector {
        id: "calls-with-sendfile",
        says: "EnableSendfile On: header and file are two calls within a cork",
        source: "mpm-semantics 8, modifiers",
        setup: one!["EnableSendfile On"],
        knobs: &[],
        expect: &[("prefork worker", "?"), ("event", "?")],
        differs: None,
        run: |bench| kept(bench, "/small", "/small"),
    },
    Vector {
        id: "calls-with-sendfile-of-a-short-file",
        says: "EnableSendfile On: files below 256 bytes are not worth it",
        source: "mpm-semantics 8, modifiers",
        setup: one!["EnableSendfile On"],
        knobs: &[],
        expect: &[("prefork worker", "?"), ("event", "?")],
        differs: None,
        run: |bench| kept(bench, "/short", "/short"),
    },
    Vector {
        id: "calls-without-extended-status",
        says: "ExtendedStatus Off: no times",
        source: "mpm-semantics 8, modifiers, 9.3",
        setup: one!["ExtendedStatus Off"],
        knobs: &[],
        expect: &[("prefork worker", "?"), ("event", "?")],
        differs: None,
        run: |bench| kept(bench, "/small", "/small"),
    },
    Vector {
        id: "pipelined-answers-are-coalesced",
        says: "answers from memory to pipelined requests wait for each other, 5 at most, under prefork and worker; event sends each",
        source: "mpm-semantics 8, manual FlushMaxPipelined",
        setup: one![],
        knobs: &[],
        expect: &[("prefork worker", "?"), ("event", "?")],
        differs: None,
        run: coalesced,
    },
];

/// Waits until the request with a mark is over: it is logged, and its worker is ready for another or waits for one.
fn wait_until_served(bench: &Bench, mark: &str) -> Result<(), Trouble> {
    bench.wait("the request is logged", || bench.access_log().contains(mark).then_some(()))?;
    bench.wait_until_quiet()
}

/// A kept connection with requests that think, each marked: `?warm`, so that what only happens once is over, and those of `paths`.
fn think(bench: &Bench, client: &mut Client, path: &str, mark: &str) -> Result<(), Trouble> {
    client.get(&format!("{path}?{mark}"))?;
    wait_until_served(bench, &format!("?{mark} "))
}

/// The calls of a request for a path, after others for the same, and of the wait for the next.
fn kept(bench: &mut Bench, path: &str, after: &str) -> Seen {
    std::fs::write(bench.root().join("short"), vec![b's'; 200])?;
    let mut client = bench.dial()?;
    for mark in ["warm1", "warm2", "warm3"] {
        think(bench, &mut client, path, mark)?;
    }
    let trace = bench.trace_children(ALL)?;
    think(bench, &mut client, path, "before")?;
    think(bench, &mut client, path, "this")?;
    think(bench, &mut client, after, "after")?;
    Ok(names(&trace.stop()?.between("?this ", "?after ")?))
}

fn pipelined(bench: &mut Bench) -> Seen {
    let mut client = bench.dial()?;
    for mark in ["warm1", "warm2", "warm3"] {
        think(bench, &mut client, "/small", mark)?;
    }
    let trace = bench.trace_children(ALL)?;
    todo()
}

fn todo() -> Seen {
    Ok(String::new())
}

fn first(bench: &mut Bench) -> Seen {
    for mark in ["warm1", "warm2", "warm3"] {
        think(bench, &mut bench.dial()?, "/small", mark)?;
    }
    let trace = bench.trace_children(ALL)?;
    let mut client = bench.dial()?;
    think(bench, &mut client, "/small", "this")?;
    all(&trace.stop()?)
}

fn close(bench: &mut Bench) -> Seen {
    for mark in ["warm1", "warm2", "warm3"] {
        think(bench, &mut bench.dial()?, "/small", mark)?;
    }
    let trace = bench.trace_children(ALL)?;
    for mark in ["this", "after"] {
        let mut client = bench.dial()?;
        client
            .send(&format!("GET /small?{mark} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))?;
        client.answer()?;
        drop(client);
        wait_until_served(bench, mark)?;
    }
    all(&trace.stop()?)
}

fn leaves(bench: &mut Bench) -> Seen {
    for mark in ["warm1", "warm2", "warm3"] {
        think(bench, &mut bench.dial()?, "/small", mark)?;
    }
    let mut client = bench.dial()?;
    think(bench, &mut client, "/small", "kept")?;
    let trace = bench.trace_children(ALL)?;
    drop(client);
    bench.happens(std::time::Duration::from_secs(1), || false);
    all(&trace.stop()?)
}

fn all(calls: &Calls) -> Seen {
    let of =
        |calls: Vec<&crate::conformance::trace::Call>| names(&calls.into_iter().cloned().collect::<Vec<_>>());
    Ok(calls.by_thread().into_values().map(of).collect::<Vec<_>>().join(" | "))
}

fn coalesced(bench: &mut Bench) -> Seen {
    let mut client = bench.dial()?;
    think(bench, &mut client, "/none", "warm")?;
    let trace = bench.trace_children(ALL)?;
    let request = "GET /none HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n";
    client.send(&request.repeat(12))?;
    for _ in 0..12 {
        client.answer()?;
    }
    bench.wait_until_quiet()?;
    all(&trace.stop()?)
}
