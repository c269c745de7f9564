//! Answers that do not fit into the socket, and clients that do not read them (mpm-semantics 4.5, 7.14).

use super::{pool::four, proc};
use crate::conformance::bench::span;
use crate::conformance::client::{Client, Reply};
use crate::conformance::{APACHES, Bench, EVERY, Seen, Trouble, Vector};
use std::time::{Duration, Instant};

pub(super) const VECTORS: &[Vector] = &[
    Vector {
        id: "stalled-readers-of-mapped-files",
        says: "a mapped file is memory: what the socket does not take of it holds the worker, under event too",
        source: "mpm-semantics 4.5, 7.14",
        setup: four![],
        knobs: &[],
        expect: &[(APACHES, "WWWW, a fifth client: silence")],
        differs: None,
        run: stalled,
    },
    Vector {
        id: "stalled-readers-without-mmap",
        says: "EnableMMAP Off: a file that is read is memory as well, and holds the worker",
        source: "mpm-semantics 4.5, 7.14",
        setup: four!["EnableMMAP Off"],
        knobs: &[],
        expect: &[(APACHES, "WWWW, a fifth client: silence")],
        differs: None,
        run: stalled,
    },
    Vector {
        id: "stalled-readers-with-sendfile",
        says: "EnableSendfile On: event parks what the socket does not take, and the worker is free; prefork and worker wait",
        source: "mpm-semantics 4.5, 7.14",
        setup: four!["EnableSendfile On"],
        knobs: &[],
        expect: &[
            ("prefork worker", "WWWW, a fifth client: silence"),
            ("event", "____, a fifth client: 200"),
        ],
        differs: None,
        run: stalled,
    },
    Vector {
        id: "an-answer-that-fits-holds-nobody",
        says: "an answer that fits into the socket is sent whether the client reads or not",
        source: "mpm-semantics 4.5",
        setup: four!["KeepAliveTimeout 60"],
        knobs: &[],
        expect: &[("prefork worker", "KKKK"), ("event", "____")],
        differs: None,
        run: fits,
    },
    Vector {
        id: "stalled-reader-times-out",
        says: "a client that has read nothing for Timeout loses its connection; what is there is less than was announced",
        source: "mpm-semantics 4.2, 4.5, manual TimeOut",
        setup: four!["Timeout 3"],
        knobs: &[],
        expect: &[(EVERY, "no W after 2-8 s; cut short")],
        differs: None,
        run: times_out,
    },
    Vector {
        id: "stalled-reader-times-out-while-parked",
        says: "a client that has read nothing for Timeout loses its connection, also where event has parked it",
        source: "mpm-semantics 4.2, 4.5, manual TimeOut",
        setup: four!["Timeout 3", "EnableSendfile On"],
        knobs: &[],
        expect: &[(EVERY, "cut short")],
        differs: None,
        run: times_out_parked,
    },
    Vector {
        id: "resumed-reader-gets-all",
        says: "a client that stops reading and goes on gets every byte in its place",
        source: "mpm-semantics 4.5",
        setup: four![],
        knobs: &[],
        expect: &[(EVERY, "all 8388608 bytes, as in the file, then 200")],
        differs: None,
        run: resumed,
    },
    Vector {
        id: "resumed-reader-gets-all-with-sendfile",
        says: "a client that stops reading and goes on gets every byte in its place, by sendfile and from event's parked writes too",
        source: "mpm-semantics 4.5",
        setup: four!["EnableSendfile On"],
        knobs: &[],
        expect: &[(EVERY, "all 8388608 bytes, as in the file, then 200")],
        differs: None,
        run: resumed,
    },
];

const BIG: usize = 8 << 20;
/// Long enough to see that nothing happens, on a server that would act within milliseconds.
const MOMENT: Duration = Duration::from_millis(700);

/// 8 MB in which every byte depends on its place.
fn big(bench: &Bench) -> Result<Vec<u8>, Trouble> {
    let bytes: Vec<u8> = (0..BIG).map(|place| (place ^ (place >> 8) ^ (place >> 16)) as u8).collect();
    std::fs::write(bench.root().join("big"), &bytes)?;
    Ok(bytes)
}

/// A client that asks and does not read.
fn asks(bench: &Bench, path: &str) -> Result<Client, Trouble> {
    let mut client = bench.dial()?;
    client.small_window(16 << 10)?;
    client.ask(path)?;
    Ok(client)
}

fn stalled(bench: &mut Bench) -> Seen {
    big(bench)?;
    let mut readers = Vec::new();
    for _ in 0..4 {
        let reader = asks(bench, "/big")?;
        bench.wait("its answer has begun", || reader.waiting().then_some(()))?;
        readers.push(reader);
    }
    let mut letters = String::new();
    let mut same = 0;
    bench.wait("the readers are stuck", || {
        let now = bench.board().ok()?.living();
        same = if now == letters { same + 1 } else { 0 };
        letters = now;
        (same > 20).then_some(())
    })?;
    let mut fifth = bench.dial()?;
    fifth.ask("/small")?;
    let limit = if letters.contains('_') { Duration::from_secs(10) } else { MOMENT };
    Ok(format!("{letters}, a fifth client: {}", fifth.reply(limit)))
}

fn fits(bench: &mut Bench) -> Seen {
    std::fs::write(bench.root().join("middling"), vec![b'm'; 60_000])?;
    let readers = (0..4).map(|_| asks(bench, "/middling")).collect::<Result<Vec<_>, _>>()?;
    for reader in &readers {
        bench.wait("its answer is there", || reader.waiting().then_some(()))?;
    }
    bench.wait("all are logged", || (bench.access_log().lines().count() == 4).then_some(()))?;
    bench.wait_until_quiet()?;
    bench.sorted_letters()
}

/// `cut short` if the connection ends before the whole answer.
fn rest(reader: &mut Client) -> String {
    match reader.end() {
        Reply::Closed | Reply::Reset => "cut short".to_owned(),
        other => other.to_string(),
    }
}

fn times_out(bench: &mut Bench) -> Seen {
    big(bench)?;
    let start = Instant::now();
    let mut reader = asks(bench, "/big")?;
    bench.wait("it is written to", || reader.waiting().then_some(()))?;
    bench.wait("nobody writes any more", || (bench.count('W') == 0).then_some(()))?;
    let after = span(start.elapsed(), 2..8);
    Ok(format!("no W after {after}; {}", rest(&mut reader)))
}

fn times_out_parked(bench: &mut Bench) -> Seen {
    big(bench)?;
    let sockets = proc::of_children(bench);
    let mut reader = asks(bench, "/big")?;
    bench.wait("it is written to", || reader.waiting().then_some(()))?;
    bench.wait("it is closed", || (proc::of_children(bench) == sockets).then_some(()))?;
    Ok(rest(&mut reader))
}

fn resumed(bench: &mut Bench) -> Seen {
    let bytes = big(bench)?;
    let mut reader = asks(bench, "/big")?;
    bench.wait("it is written to", || reader.waiting().then_some(()))?;
    bench.happens(MOMENT, || false);
    let answer = reader.answer()?;
    let same = if answer.body == bytes { "as in the file" } else { "not as in the file" };
    let next = reader.get("/small")?.status;
    Ok(format!("all {} bytes, {same}, then {next}", answer.body.len()))
}
