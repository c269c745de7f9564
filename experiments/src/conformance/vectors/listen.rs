//! The listening sockets: what the kernel does with a connection before anybody accepts it, and buckets (mpm-semantics 1.2 to 1.4).

use super::pool::four;
use super::proc;
use crate::conformance::bench::span;
use crate::conformance::{APACHES, Bench, EVERY, Seen, Trouble, Vector};
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Instant;

pub(super) const VECTORS: &[Vector] = &[
    Vector {
        id: "silent-connect-stays-in-the-kernel",
        says: "AcceptFilter's data is TCP_DEFER_ACCEPT 30: a connection that says nothing is not accepted before about 31 s",
        source: "mpm-semantics 1.4, 7.8, V20",
        setup: four![],
        knobs: &[],
        expect: &[(EVERY, "accepted after 29-38 s")],
        differs: None,
        run: |bench| accepted(bench, "", 29..38),
    },
    Vector {
        id: "one-byte-ends-the-deferral",
        says: "one byte makes a deferred connection visible, and it takes a worker",
        source: "mpm-semantics 1.4",
        setup: four![],
        knobs: &[],
        expect: &[(EVERY, "accepted after 0-5 s")],
        differs: None,
        run: |bench| accepted(bench, "G", 0..5),
    },
    Vector {
        id: "silent-connect-without-accept-filter",
        says: "AcceptFilter http none: a connection that says nothing is accepted at once, and takes a worker",
        source: "mpm-semantics 1.2, manual AcceptFilter",
        setup: four!["AcceptFilter http none"],
        knobs: &[],
        expect: &[(EVERY, "accepted after 0-5 s")],
        differs: None,
        run: |bench| accepted(bench, "", 0..5),
    },
    Vector {
        id: "deferral-as-told",
        says: "ListenTCPDeferAccept says for how many seconds: 3 of them are over with the second resend, after 3 s",
        source: "manual ListenTCPDeferAccept, mpm-semantics 1.4",
        setup: four!["ListenTCPDeferAccept 3"],
        knobs: &[],
        expect: &[(EVERY, "accepted after 2-6 s")],
        differs: None,
        run: |bench| accepted(bench, "", 2..6),
    },
    Vector {
        id: "buckets-have-sockets-of-their-own",
        says: "ListenCoresBucketsRatio 1: per core a socket for each address (SO_REUSEPORT); slot i has that of bucket i mod B",
        source: "mpm-semantics 1.3, manual ListenCoresBucketsRatio",
        setup: &[
            "ListenCoresBucketsRatio 1",
            "StartServers 4",
            "prefork: MaxRequestWorkers 4",
            "prefork: MinSpareServers 4",
            "worker event: ThreadsPerChild 1",
            "worker event: MaxRequestWorkers 4",
            "worker event: MinSpareThreads 4",
        ],
        knobs: &[],
        expect: &[(APACHES, "a socket per core; each child has one, in turn; after a death the same")],
        differs: None,
        run: buckets,
    },
];

/// Connects, says something or nothing, and says when a worker has the connection: then it shows as reading.
fn accepted(bench: &Bench, says: &str, expected: Range<u32>) -> Seen {
    let start = Instant::now();
    let mut client = bench.dial()?;
    client.send(says)?;
    bench.wait("a worker reads", || (bench.count('R') == 1).then_some(()))?;
    Ok(format!("accepted after {}", span(start.elapsed(), expected)))
}

fn buckets(bench: &mut Bench) -> Seen {
    let cores = std::thread::available_parallelism()?.get();
    if cores < 2 {
        return Err(Trouble::Skip("buckets need two cores".to_owned()));
    }
    let sockets: BTreeSet<u64> = proc::listening(bench.address()).into_iter().collect();
    if sockets.len() != cores {
        return Ok(format!("{} sockets for {cores} cores", sockets.len()));
    }
    let before = by_slot(bench, &sockets)?;
    let first = bench.board()?.processes[0].pid;
    bench.signal_to(first, Signal::SIGKILL);
    bench.wait("the dead child is replaced", || {
        let board = bench.board().ok()?;
        let replaced = board.processes[0].pid != first && board.processes[0].pid != 0;
        (replaced && board.living().chars().all(|letter| letter == '_')).then_some(())
    })?;
    let after = by_slot(bench, &sockets)?;
    let in_turn = |slots: &[u64]| {
        let distinct: BTreeSet<_> = slots[..cores].iter().collect();
        distinct.len() == cores && (cores..slots.len()).all(|slot| slots[slot] == slots[slot - cores])
    };
    Ok(format!(
        "a socket per core; each child has one, {}; after a death {}",
        if in_turn(&before) { "in turn".to_owned() } else { format!("{before:?}") },
        if before == after { "the same".to_owned() } else { format!("{after:?}") }
    ))
}

/// For each slot the one listening socket its child has.
fn by_slot(bench: &Bench, listening: &BTreeSet<u64>) -> Result<Vec<u64>, Trouble> {
    let of = |process: &crate::conformance::board::Process| {
        let own: Vec<u64> =
            proc::sockets(process.pid).into_iter().filter(|inode| listening.contains(inode)).collect();
        match own[..] {
            [one] => Ok(one),
            _ => Err(Trouble::failed(format!("a child has {} listening sockets", own.len()))),
        }
    };
    bench.board()?.present().map(of).collect()
}
