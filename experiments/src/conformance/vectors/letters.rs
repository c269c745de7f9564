//! The letters of the scoreboard, each in the state that it stands for (mpm-semantics 9.2).

use super::pool::{four, one};
use crate::conformance::{Bench, Seen, Trouble, Vector};
use nix::sys::signal::Signal;

pub(super) const VECTORS: &[Vector] = &[
    Vector {
        id: "letters-of-a-connection",
        says: "R while a first header is read, K until a later one is there, W while a handler runs, C while lingering; event's idle and lingering connections have no worker",
        source: "mpm-semantics 4.2, 9.2",
        setup: one![],
        knobs: &[],
        expect: &[
            (
                "prefork worker",
                "ready _, half a header R, between requests K, second header K, body awaited W, closing C",
            ),
            (
                "event",
                "ready _, half a header R, between requests _, second header R, body awaited W, closing _",
            ),
        ],
        differs: None,
        run: of_a_connection,
    },
    Vector {
        id: "letters-of-dead-slots",
        says: "slots that never had a worker are dead",
        source: "mpm-semantics 9.2",
        setup: &[
            "prefork: ServerLimit 3",
            "MaxRequestWorkers 2",
            "worker event: ServerLimit 2",
            "worker event: ThreadLimit 3",
            "worker event: ThreadsPerChild 2",
        ],
        knobs: &[],
        expect: &[("prefork", "__."), ("worker event", "__....")],
        differs: None,
        run: of_dead_slots,
    },
    Vector {
        id: "letters-of-a-graceful-restart",
        says: "who still works for the old generation is G in prefork and event, and keeps W in worker, whose new threads share the row",
        source: "mpm-semantics 6, 9.2",
        setup: four![],
        knobs: &[],
        expect: &[("prefork", "G, new ones _"), ("worker", "W, new ones _"), ("event", "G, new ones _")],
        differs: None,
        run: of_a_graceful_restart,
    },
];

fn of_a_connection(bench: &mut Bench) -> Seen {
    let ready = bench.settled()?;
    let mut client = bench.dial()?;
    client.send("GET /small HTTP/1.1\r\nHost: loc")?;
    let header = bench.settled()?;
    client.send("alhost\r\n\r\n")?;
    client.answer()?;
    let between = bench.settled()?;
    client.send("POST /small HTTP/1.1\r\nHost: localhost\r\nContent-")?;
    let second = bench.settled()?;
    client.send("Length: 100\r\nConnection: close\r\n\r\n")?;
    let body = bench.settled()?;
    client.release()?;
    client.answer()?;
    let closing = bench.settled()?;
    Ok(format!(
        "ready {ready}, half a header {header}, between requests {between}, second header {second}, \
         body awaited {body}, closing {closing}"
    ))
}

fn of_dead_slots(bench: &mut Bench) -> Seen {
    Ok(bench.board()?.letters())
}

fn of_a_graceful_restart(bench: &mut Bench) -> Seen {
    let _held = bench.hold()?;
    let old = bench.children();
    bench.restart(Signal::SIGUSR1)?;
    bench.wait("there is a new child", || bench.children().difference(&old).next().copied())?;
    // How many new ones there are depends on which old ones the parent has seen to be gone.
    let states = bench.letters_until(|letters| letters.contains('_') && !letters.contains('S'))?;
    let (last, _) = states.last().ok_or(Trouble::failed("no letters"))?;
    Ok(format!("{}, new ones _", last.replace('_', "")))
}
