//! Who accepts, with what calls, in which order (mpm-semantics 1.3, 3.2, 7.6, 7.21).

use super::pool::{four, one};
use super::proc;
use crate::conformance::trace::{Call, Calls};
use crate::conformance::{APACHES, Bench, Seen, Trouble, Vector};
use crate::probe::tree;
use std::time::Duration;

pub(super) const VECTORS: &[Vector] = &[
    Vector {
        id: "accept-of-a-single-listen",
        says: "with one Listen a child, or its listener, blocks in accept4 itself: no lock, no poll before it, no EAGAIN",
        source: "mpm-semantics 1.3, V13",
        setup: four![],
        knobs: &[],
        expect: &[("prefork worker", "8 accepts, 0 in vain, 0 locks, 0 waits before")],
        differs: None,
        run: single_listen,
    },
    Vector {
        id: "accept-of-two-listens",
        says: "with two Listens the descriptors are waited for by epoll before each accept4, and both addresses are served",
        source: "mpm-semantics 1.3, V13",
        setup: four!["Listen {second}"],
        knobs: &[],
        expect: &[(
            "prefork worker",
            "200 x8; 8 accepts, 0 in vain, 8 behind an epoll_wait that saw it coming",
        )],
        differs: None,
        run: two_listens,
    },
    Vector {
        id: "accept-mutex-of-a-single-listen",
        says: "one Listen needs no accept mutex",
        source: "mpm-semantics 1.3",
        setup: &["LogLevel debug"],
        knobs: &[],
        expect: &[("prefork worker", "none")],
        differs: None,
        run: mutex_named,
    },
    Vector {
        id: "accept-mutex-of-two-listens",
        says: "two Listens are serialized by a mutex in shared memory unless Mutex says otherwise; event never serializes",
        source: "mpm-semantics 1.3",
        setup: &["LogLevel debug", "Listen {second}"],
        knobs: &[],
        expect: &[("prefork worker", "pthread"), ("event", "not said")],
        differs: None,
        run: mutex_named,
    },
    Vector {
        id: "accept-mutex-in-a-file",
        says: "Mutex file: locks and unlocks by fcntl, twice per accepted connection",
        source: "mpm-semantics 1.3",
        setup: one!["Listen {second}", "Mutex file:{scratch} default"],
        knobs: &[],
        expect: &[("prefork worker", "accept4, F_SETLKW unlock, F_SETLKW lock, epoll_wait, accept4")],
        differs: None,
        run: mutex_in_a_file,
    },
    Vector {
        id: "accept-herd",
        says: "of P idle processes of event each may be woken by a connection: up to P - 1 accepts of it are in vain",
        source: "mpm-semantics 7.6, V12",
        setup: &[
            "StartServers 4",
            "MaxRequestWorkers 8",
            "ThreadsPerChild 2",
            "MinSpareThreads 1",
            "MaxSpareThreads 8",
        ],
        knobs: &[],
        expect: &[("event", "20 accepts; in vain more than 0 and at most 60")],
        differs: None,
        run: herd,
    },
    Vector {
        id: "accept-reserves-a-worker-first",
        says: "while every worker is busy a new connection stays in the kernel's queue; a worker that is free again gets it",
        source: "mpm-semantics 2, 3.2, 4.3",
        setup: four![],
        knobs: &[],
        expect: &[(APACHES, "WWWW, silence, 0 more sockets; 200 when one is free")],
        differs: None,
        run: reserves_first,
    },
    Vector {
        id: "accept-goes-to-the-process-with-idle-workers",
        says: "a process without an idle worker leaves new connections to the others",
        source: "mpm-semantics 3.2",
        setup: &[
            "StartServers 2",
            "MaxRequestWorkers 8",
            "ThreadsPerChild 4",
            "MinSpareThreads 1",
            "MaxSpareThreads 8",
        ],
        knobs: &[],
        expect: &[("worker event", "WWWW WWWW")],
        differs: None,
        run: both_processes_fill,
    },
    Vector {
        id: "accept-in-rotation",
        says: "the kernel wakes waiting children first in, first out: sequential connections use all of them",
        source: "mpm-semantics 1.3, 7.21",
        setup: &["StartServers 8", "MaxRequestWorkers 8", "MinSpareServers 1", "MaxSpareServers 8"],
        knobs: &[],
        expect: &[("prefork", "8 connections: 1 1 1 1 1 1 1 1")],
        differs: None,
        run: children_in_rotation,
    },
    Vector {
        id: "hand-off-in-rotation",
        says: "idle threads are handed connections roughly first in, first out: all of them are used",
        source: "mpm-semantics 3.1",
        setup: &[
            "StartServers 1",
            "MaxRequestWorkers 40",
            "ThreadsPerChild 40",
            "MinSpareThreads 1",
            "MaxSpareThreads 40",
        ],
        knobs: &[],
        expect: &[("worker event", "nearly all of 40 threads")],
        differs: None,
        run: threads_in_rotation,
    },
];

/// `n` connections one after another, to both addresses in turn where there are two; the status codes.
fn connections(bench: &Bench, n: usize, both: bool) -> Seen {
    let mut statuses = Vec::new();
    for i in 0..n {
        let mut client = if both && i % 2 == 1 { bench.dial_second()? } else { bench.dial()? };
        client.send("GET /small HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        statuses.push(client.answer()?.status.to_string());
    }
    statuses.dedup();
    Ok(format!("{} x{n}", statuses.join(" ")))
}

/// `8 accepts, 0 in vain`.
fn accepts(calls: &Calls) -> String {
    let returned = calls.named("accept4").that(|call| call.result.parse::<u32>().is_ok()).count();
    let in_vain = calls.named("accept4").that(|call| call.failed_with("EAGAIN")).count();
    format!("{returned} accepts, {in_vain} in vain")
}

/// For each accept that returned a connection: what its thread did just before.
fn before_accepts(calls: &Calls) -> Vec<Option<Call>> {
    let of_thread = |calls: Vec<&Call>| {
        let accepted = |call: &Call| call.name == "accept4" && call.result.parse::<u32>().is_ok();
        let places = (0..calls.len()).filter(|place| accepted(calls[*place])).collect::<Vec<_>>();
        places.into_iter().map(|place| place.checked_sub(1).map(|before| calls[before].clone())).collect()
    };
    calls.by_thread().into_values().flat_map::<Vec<_>, _>(of_thread).collect()
}

fn is_lock(call: &Call) -> bool {
    call.arguments.contains("F_SETLK")
        || call.arguments.contains("FUTEX_LOCK_PI")
        || call.name.starts_with("sem")
        || call.name == "flock"
}

const ACCEPTING: &str = "accept4,poll,ppoll,select,pselect6,epoll_wait,epoll_pwait,fcntl,flock,futex,semop,semtimedop,\
                         read,shutdown";

fn single_listen(bench: &mut Bench) -> Seen {
    let trace = bench.trace_children(ACCEPTING)?;
    connections(bench, 8, false)?;
    let calls = trace.stop()?;
    let waits = before_accepts(&calls).into_iter().flatten().filter(|before| {
        // The wait of the connection before is over when its end was read.
        before.name.contains("poll") || before.name.contains("select")
    });
    Ok(format!("{}, {} locks, {} waits before", accepts(&calls), calls.that(is_lock).count(), waits.count()))
}

fn two_listens(bench: &mut Bench) -> Seen {
    let trace = bench.trace_children("accept4,epoll_wait,epoll_pwait,poll,read")?;
    let statuses = connections(bench, 8, true)?;
    let calls = trace.stop()?;
    let ready = |call: &Call| call.name.starts_with("epoll_") && call.result == "1";
    let behind = before_accepts(&calls).into_iter().flatten().filter(ready).count();
    Ok(format!("{statuses}; {}, {behind} behind an epoll_wait that saw it coming", accepts(&calls)))
}

fn mutex_named(bench: &mut Bench) -> Seen {
    let log = bench.log();
    // `Accept mutex: pthread (default: pthread)`; what the default is depends on the build.
    let named = log.lines().find_map(|line| line.split_once("Accept mutex: "));
    Ok(named.and_then(|(_, name)| name.split(' ').next()).unwrap_or("not said").to_owned())
}

fn mutex_in_a_file(bench: &mut Bench) -> Seen {
    let trace = bench.trace_children("accept4,epoll_wait,epoll_pwait,fcntl")?;
    connections(bench, 3, true)?;
    let calls = trace.stop()?;
    // The listener's, or the only process's own.
    let accepting = |calls: &&Vec<&Call>| calls.iter().any(|call| call.name == "accept4");
    let threads = calls.by_thread();
    let calls = threads.values().find(accepting).ok_or_else(|| Trouble::failed("nobody accepts"))?;
    let mut steps = calls.iter().filter_map(|call| match call.arguments.split(", ").nth(1)? {
        _ if call.name != "fcntl" => Some(call.name.clone()),
        "F_SETLKW" if call.arguments.contains("F_UNLCK") => Some("F_SETLKW unlock".to_owned()),
        "F_SETLKW" => Some("F_SETLKW lock".to_owned()),
        _ => None,
    });
    // From the first accept to the second.
    let mut seen = vec![steps.find(|step| step == "accept4").unwrap_or_default()];
    for step in steps {
        seen.push(step);
        if seen.last().is_some_and(|step| step == "accept4") {
            break;
        }
    }
    Ok(seen.join(", "))
}

fn herd(bench: &mut Bench) -> Seen {
    let trace = bench.trace_children("accept4")?;
    connections(bench, 20, false)?;
    let calls = trace.stop()?;
    let in_vain = calls.that(|call| call.failed_with("EAGAIN")).count();
    let returned = calls.that(|call| call.result.parse::<u32>().is_ok()).count();
    let bound = if (1..=60).contains(&in_vain) { "more than 0 and at most 60" } else { &in_vain.to_string() };
    Ok(format!("{returned} accepts; in vain {bound}"))
}

fn reserves_first(bench: &mut Bench) -> Seen {
    let mut held = bench.hold_many(4)?;
    let (letters, before) = (bench.board()?.living(), proc::of_children(bench));
    let mut new = bench.dial()?;
    new.ask("/small")?;
    let silent = new.reply(Duration::from_millis(700));
    let more = proc::of_children(bench) - before;
    held[0].release()?;
    let answered = new.answer()?.status;
    Ok(format!("{letters}, {silent}, {more} more sockets; {answered} when one is free"))
}

fn both_processes_fill(bench: &mut Bench) -> Seen {
    let _held = bench.hold_many(8)?;
    let board = bench.board()?;
    let letters = |process: &crate::conformance::board::Process| {
        process.workers.iter().map(|worker| worker.letter).collect::<String>().replace('.', "")
    };
    Ok(board.present().map(letters).collect::<Vec<_>>().join(" "))
}

fn children_in_rotation(bench: &mut Bench) -> Seen {
    for served in 1..=8 {
        connections(bench, 1, false)?;
        bench.wait("it is over, and every child waits again", || {
            let over = bench.board().ok()?.accesses() == served && bench.sorted_letters().ok()? == "________";
            let children = tree::descendants(bench.parent()).ok()?;
            (over && children.iter().all(|process| process.state == 'S')).then_some(())
        })?;
    }
    let board = bench.board()?;
    let children = board.workers().filter(|worker| worker.letter != '.');
    let served = children.map(|worker| worker.accesses.to_string()).collect::<Vec<_>>();
    Ok(format!("8 connections: {}", served.join(" ")))
}

fn threads_in_rotation(bench: &mut Bench) -> Seen {
    connections(bench, 120, false)?;
    let used = bench.wait("all are counted", || {
        let board = bench.board().ok()?;
        (board.accesses() == 120).then(|| board.workers().filter(|worker| worker.accesses > 0).count())
    })?;
    // Which of two threads that wait is woken is the kernel's affair; one that would prefer the last would use a few.
    Ok(if used >= 32 { "nearly all of 40 threads".to_owned() } else { format!("{used} of 40 threads") })
}
