//! The calls of the thread that serves a request, in their order (mpm-semantics 8).

use super::pool::{four, one};
use super::proc;
use crate::conformance::client::Client;
use crate::conformance::trace::{ALL, names};
use crate::conformance::{Bench, Seen, Trouble, Vector};

pub(super) const VECTORS: &[Vector] = &[
    Vector {
        id: "calls-of-a-kept-request",
        says: "a request on a kept connection whose client thinks: the file is mapped, the log is written after the answer, and \
               one read looks for more before the wait",
        source: "mpm-semantics 8 A, V8",
        setup: one!["KeepAliveTimeout 60"],
        knobs: &[],
        expect: &[
            (
                "prefork worker",
                "read newfstatat openat mmap writev munmap write times close read=EAGAIN poll",
            ),
            ("event", "read newfstatat openat mmap writev munmap write times close read=EAGAIN epoll_ctl"),
        ],
        differs: None,
        run: |bench| kept(bench, "/small"),
    },
    Vector {
        id: "calls-of-a-pipelined-request",
        says: "a request that is in the socket already when the one before is over needs no wait: 9 calls under every model",
        source: "mpm-semantics 8 B, V10",
        setup: one![],
        knobs: &[],
        expect: &[("prefork worker event", "read newfstatat openat mmap writev munmap write times close")],
        differs: None,
        run: pipelined,
    },
    Vector {
        id: "calls-of-a-kept-connection",
        says: "a connection from accept to the client's end, with one request and a wait",
        source: "mpm-semantics 8 D, 8 E, 4.2",
        setup: one!["KeepAliveTimeout 60"],
        knobs: &[],
        expect: &[
            (
                "prefork",
                "accept4 fcntl x2 read newfstatat openat mmap writev munmap write times close read=EAGAIN poll read shutdown poll read close read=EAGAIN",
            ),
            (
                "worker",
                "accept4 -> fcntl x2 read newfstatat openat mmap writev munmap write times close read=EAGAIN poll read shutdown poll read close",
            ),
            (
                "event",
                "epoll_wait accept4 -> fcntl x2 read newfstatat openat mmap writev munmap write times close read=EAGAIN epoll_ctl read shutdown read close",
            ),
        ],
        differs: None,
        run: leaves,
    },
    Vector {
        id: "calls-of-a-close-request",
        says: "a connection that the answer closes is shut down for writing and drained; here the client's end is there already",
        source: "mpm-semantics 2.1, 8 C, V9",
        setup: one![],
        knobs: &[],
        expect: &[
            (
                "prefork",
                "accept4 fcntl x2 read newfstatat openat mmap writev munmap write times close shutdown poll read close read=EAGAIN",
            ),
            (
                "worker",
                "accept4 -> fcntl x2 read newfstatat openat mmap writev munmap write times close shutdown poll read close",
            ),
            (
                "event",
                "epoll_wait accept4 -> fcntl x2 read newfstatat openat mmap writev munmap write times close shutdown read close",
            ),
        ],
        differs: None,
        run: |bench| close(bench, true),
    },
    Vector {
        id: "calls-of-a-close-request-with-a-late-end",
        says: "a client that closes late costs event a second visit of a worker; prefork and worker wait",
        source: "mpm-semantics 2.1, 8 C, V9",
        setup: one![],
        knobs: &[],
        expect: &[
            (
                "prefork",
                "accept4 fcntl x2 read newfstatat openat mmap writev munmap write times close shutdown poll read close read=EAGAIN",
            ),
            (
                "worker",
                "accept4 -> fcntl x2 read newfstatat openat mmap writev munmap write times close shutdown poll read close",
            ),
            (
                "event",
                "epoll_wait accept4 -> fcntl x2 read newfstatat openat mmap writev munmap write times close shutdown read=EAGAIN epoll_ctl read close",
            ),
        ],
        differs: None,
        run: |bench| close(bench, false),
    },
    Vector {
        id: "calls-of-a-keep-alive-time-out",
        says: "a client that stays silent is shut down after KeepAliveTimeout, and closed after 2 s of lingering",
        source: "mpm-semantics 8 F",
        setup: one!["KeepAliveTimeout 1"],
        knobs: &[],
        expect: &[
            (
                "prefork",
                "accept4 fcntl x2 read newfstatat openat mmap writev munmap write times close read=EAGAIN poll shutdown poll close read=EAGAIN",
            ),
            (
                "worker",
                "accept4 -> fcntl x2 read newfstatat openat mmap writev munmap write times close read=EAGAIN poll shutdown poll close",
            ),
            (
                "event",
                "epoll_wait accept4 -> fcntl x2 read newfstatat openat mmap writev munmap write times close read=EAGAIN epoll_ctl shutdown read=EAGAIN epoll_ctl",
            ),
        ],
        differs: None,
        run: times_out,
    },
    Vector {
        id: "calls-of-a-404",
        says: "an answer from memory is sent after the look for more: read, writev, log",
        source: "mpm-semantics 8, modifiers",
        setup: one!["KeepAliveTimeout 60", "LogLevel notice"],
        knobs: &[],
        expect: &[
            ("prefork worker", "read stat lstat x(directories) read=EAGAIN writev write times poll"),
            ("event", "read stat lstat x(directories) read=EAGAIN writev write times epoll_ctl"),
        ],
        differs: None,
        run: not_found,
    },
    Vector {
        id: "calls-without-mmap",
        says: "EnableMMAP Off: the file is read into memory",
        source: "mpm-semantics 8, modifiers",
        setup: one!["KeepAliveTimeout 60", "EnableMMAP Off"],
        knobs: &[],
        expect: &[
            ("prefork worker", "read newfstatat openat lseek read writev write times close read=EAGAIN poll"),
            ("event", "read newfstatat openat lseek read writev write times close read=EAGAIN epoll_ctl"),
        ],
        differs: None,
        run: |bench| kept(bench, "/small"),
    },
    Vector {
        id: "calls-without-mmap-of-a-longer-file",
        says: "EnableMMAP Off: the file is read in steps of 8000 bytes and sent at once",
        source: "mpm-semantics 4.5, 8, modifiers",
        setup: one!["KeepAliveTimeout 60", "EnableMMAP Off"],
        knobs: &[],
        expect: &[
            (
                "prefork worker",
                "read newfstatat openat lseek read lseek read lseek read writev write times close read=EAGAIN poll",
            ),
            (
                "event",
                "read newfstatat openat lseek read lseek read lseek read writev write times close read=EAGAIN epoll_ctl",
            ),
        ],
        differs: None,
        run: |bench| kept(bench, "/longer"),
    },
    Vector {
        id: "calls-with-sendfile",
        says: "EnableSendfile On: header and file are two calls within a cork",
        source: "mpm-semantics 8, modifiers",
        setup: one!["KeepAliveTimeout 60", "EnableSendfile On"],
        knobs: &[],
        expect: &[
            (
                "prefork worker",
                "read newfstatat openat setsockopt writev sendfile setsockopt write times close read=EAGAIN poll",
            ),
            (
                "event",
                "read newfstatat openat setsockopt writev sendfile setsockopt write times close read=EAGAIN epoll_ctl",
            ),
        ],
        differs: None,
        run: |bench| kept(bench, "/small"),
    },
    Vector {
        id: "calls-with-sendfile-of-a-short-file",
        says: "EnableSendfile On: a file below 256 bytes is mapped all the same",
        source: "mpm-semantics 8, modifiers",
        setup: one!["KeepAliveTimeout 60", "EnableSendfile On"],
        knobs: &[],
        expect: &[
            (
                "prefork worker",
                "read newfstatat openat mmap writev munmap write times close read=EAGAIN poll",
            ),
            ("event", "read newfstatat openat mmap writev munmap write times close read=EAGAIN epoll_ctl"),
        ],
        differs: None,
        run: |bench| kept(bench, "/short"),
    },
    Vector {
        id: "calls-without-extended-status",
        says: "ExtendedStatus Off saves times",
        source: "mpm-semantics 8, modifiers, 9.3",
        setup: one!["KeepAliveTimeout 60", "ExtendedStatus Off"],
        knobs: &[],
        expect: &[
            ("prefork worker", "read newfstatat openat mmap writev munmap write close read=EAGAIN poll"),
            ("event", "read newfstatat openat mmap writev munmap write close read=EAGAIN epoll_ctl"),
        ],
        differs: None,
        run: |bench| kept(bench, "/small"),
    },
    Vector {
        id: "event-wakes-its-listener-for-the-first-time-out",
        says: "the first idle connection tells event's listener of its time-out by a byte in a pipe; later ones end later, and do not",
        source: "mpm-semantics 4.1",
        setup: four!["KeepAliveTimeout 60"],
        knobs: &[],
        expect: &[("event", "3 idle connections, 1 byte")],
        differs: None,
        run: wake_ups,
    },
    Vector {
        id: "pipelined-answers-are-coalesced",
        says: "answers from memory to pipelined requests wait for each other, 5 at most, under prefork and worker; event sends each",
        source: "mpm-semantics 8, manual FlushMaxPipelined",
        setup: one!["LogLevel notice"],
        knobs: &[],
        expect: &[
            ("prefork worker", "3 writev for 12 answers: 5 5 2"),
            ("event", "12 writev for 12 answers: 1 1 1 1 1 1 1 1 1 1 1 1"),
        ],
        differs: None,
        run: coalesced,
    },
];

/// A request for a path with a mark, answered, logged, and its worker ready for another, or waiting for one.
fn think(bench: &Bench, client: &mut Client, path: &str, mark: &str) -> Result<(), Trouble> {
    client.get(&format!("{path}?{mark}"))?;
    wait_until_served(bench, mark)
}

fn wait_until_served(bench: &Bench, mark: &str) -> Result<(), Trouble> {
    bench
        .wait("the request is logged", || bench.access_log().contains(&format!("?{mark} ")).then_some(()))?;
    bench.wait_until_quiet()
}

/// What is done once only is done: time zone, memory, the first time-out. Returns how many sockets there are with no connection.
fn warm_up(bench: &Bench, path: &str) -> Result<usize, Trouble> {
    std::fs::write(bench.root().join("short"), vec![b's'; 200])?;
    std::fs::write(bench.root().join("longer"), vec![b'l'; 20_000])?;
    let sockets = proc::of_children(bench);
    for mark in ["warm1", "warm2", "warm3"] {
        let mut client = bench.dial()?;
        think(bench, &mut client, path, mark)?;
        think(bench, &mut client, path, &format!("{mark}-again"))?;
        drop(client);
        over(bench, sockets)?;
    }
    Ok(sockets)
}

/// Waits until no connection is left, and the workers are ready.
fn over(bench: &Bench, sockets: usize) -> Result<(), Trouble> {
    bench.wait("the connection is over", || (proc::of_children(bench) == sockets).then_some(()))?;
    bench.wait_until_quiet()
}

/// The calls of a request for a path, after others for the same, and of the wait for the next.
fn kept(bench: &mut Bench, path: &str) -> Seen {
    warm_up(bench, path)?;
    let mut client = bench.dial()?;
    let trace = bench.trace_children(ALL)?;
    for mark in ["before", "this", "after"] {
        think(bench, &mut client, path, mark)?;
    }
    Ok(names(&trace.stop()?.between("?this ", "?after ")?))
}

/// A file that is not there is looked for once, then in each directory of its path.
fn not_found(bench: &mut Bench) -> Seen {
    let directories = bench.root().components().count();
    let seen = kept(bench, "/none")?;
    Ok(seen.replacen(&format!("newfstatat x{}", 1 + directories), "stat lstat x(directories)", 1))
}

/// A request of exactly as many bytes as one read asks for: the next stays in the socket.
fn of_one_read(mark: &str) -> String {
    let head = format!("GET /small?{mark} HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\nX-Pad: ");
    format!("{head}{}\r\n\r\n", "p".repeat(8000 - head.len() - 4))
}

fn pipelined(bench: &mut Bench) -> Seen {
    warm_up(bench, "/small")?;
    let trace = bench.trace_children(ALL)?;
    let mut client = bench.dial()?;
    client.send(&["before", "this", "after"].map(of_one_read).concat())?;
    for _ in 0..3 {
        client.answer()?;
    }
    Ok(names(&trace.stop()?.between("?this ", "?after ")?))
}

/// The calls of one connection: `accepts -> serves` where that is done by two threads.
fn connection(calls: &crate::conformance::trace::Calls) -> Seen {
    let (listener, server) = calls.connection("?this ")?;
    let arrow = if listener.is_empty() { "" } else { " -> " };
    Ok(format!("{}{arrow}{}", names(&listener), names(&server)))
}

fn leaves(bench: &mut Bench) -> Seen {
    let sockets = warm_up(bench, "/small")?;
    let trace = bench.trace_children(ALL)?;
    let mut client = bench.dial()?;
    think(bench, &mut client, "/small", "this")?;
    drop(client);
    over(bench, sockets)?;
    connection(&trace.stop()?)
}

fn close(bench: &mut Bench, early: bool) -> Seen {
    let sockets = warm_up(bench, "/small")?;
    let ask = |mark: &str| -> Result<(), Trouble> {
        let mut client = bench.dial()?;
        client
            .send(&format!("GET /small?{mark} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))?;
        if early {
            client.finish();
        }
        client.answer()?;
        client.end();
        if bench.model == "event" {
            // The worker has left the connection, or closed it.
            bench.wait_until_quiet()?;
        }
        drop(client);
        over(bench, sockets)
    };
    ask("before")?;
    let trace = bench.trace_children(ALL)?;
    ask("this")?;
    connection(&trace.stop()?)
}

fn times_out(bench: &mut Bench) -> Seen {
    let sockets = warm_up(bench, "/small")?;
    let trace = bench.trace_children(ALL)?;
    let mut client = bench.dial()?;
    client.get("/small?this")?;
    client.end();
    over(bench, sockets)?;
    connection(&trace.stop()?)
}

fn coalesced(bench: &mut Bench) -> Seen {
    warm_up(bench, "/none")?;
    let mut client = bench.dial()?;
    let trace = bench.trace_children("writev,write")?;
    client.send(&"GET /none HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n".repeat(12))?;
    for _ in 0..12 {
        client.answer()?;
    }
    bench.wait_until_quiet()?;
    // An answer is logged once it is sent.
    let mut logged = Vec::new();
    for call in trace.stop()?.0 {
        match call.name.as_str() {
            "writev" => logged.push(0),
            _ if call.arguments.contains("GET /none") => *logged.last_mut().unwrap_or(&mut 0) += 1,
            _ => {}
        }
    }
    let said = logged.iter().map(i32::to_string).collect::<Vec<_>>().join(" ");
    Ok(format!("{} writev for {} answers: {said}", logged.len(), logged.iter().sum::<i32>()))
}

fn wake_ups(bench: &mut Bench) -> Seen {
    let trace = bench.trace_children("write")?;
    let mut idle = Vec::new();
    for _ in 0..3 {
        idle.push(bench.idle()?);
        bench.wait_until_quiet()?;
    }
    // The other writes are lines of the log.
    let bytes = trace.stop()?.that(|call| call.result == "1").count();
    Ok(format!("{} idle connections, {bytes} byte", idle.len()))
}
