//! Restarts, graceful and hard: what survives, what is new (mpm-semantics 6).

use crate::conformance::bench::{Bench, span};
use crate::conformance::client::Reply;
use crate::conformance::lifespan::{glance, let_pass};
use crate::conformance::{APACHES, EVERY, Seen, Vector};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

/// What is waited for after USR1 when nobody was served.
pub(super) const NEW_GENERATION: &str = "the new generation has replaced the old one";

/// Two processes, and room for four. Enough idle threads in one process, so that the ticks start none.
const ROOMY: &[&str] = &[
    "StartServers 2",
    "prefork: MaxRequestWorkers 4",
    "prefork: MinSpareServers 1",
    "prefork: MaxSpareServers 4",
    "worker event: ThreadsPerChild 2",
    "worker event: MaxRequestWorkers 8",
    "worker event: MinSpareThreads 1",
    "worker event: MaxSpareThreads 8",
];

pub(super) const VECTORS: &[Vector] = &[
    Vector {
        id: "graceful-restart-and-an-idle-connection",
        says: "an idle kept connection outlives USR1 until its KeepAliveTimeout (and 2 s of lingering) under prefork and worker; \
               event closes it at once",
        source: "mpm-semantics 6, V16",
        setup: &["KeepAliveTimeout 4"],
        knobs: &[],
        expect: &[("prefork worker", "closed after 3-8 s"), ("event", "closed after 0-3 s")],
        differs: None,
        run: idle_over_restart,
    },
    Vector {
        id: "graceful-restart-answers-on-an-idle-connection",
        says: "a request on a connection that was idle at USR1 is still answered under prefork and worker, with Connection: close",
        source: "mpm-semantics 2, 6",
        setup: &[],
        knobs: &[],
        expect: &[("prefork worker", "200 close, closed"), ("event", "closed")],
        differs: None,
        run: ask_over_restart,
    },
    Vector {
        id: "graceful-restart-finishes-requests",
        says: "a request in progress at USR1 is finished, its answer says Connection: close, and then its old process ends; \
               new clients are served meanwhile by new processes",
        source: "mpm-semantics 6",
        setup: ROOMY,
        knobs: &[],
        expect: &[(
            EVERY,
            "a new client: 200; the old process is still there; the held one: 200 close, closed; the old process ends",
        )],
        differs: None,
        run: finishes_requests,
    },
    Vector {
        id: "graceful-restart-fills-free-slots",
        says: "USR1 with a request in progress: the parent fills only free slots; a busy child of prefork shows G, and so does event's busy thread",
        source: "mpm-semantics 6, 9.2",
        setup: ROOMY,
        knobs: &[],
        expect: &[("prefork", "G _ _"), ("worker", "W. __ __"), ("event", "G. __ __")],
        differs: None,
        run: fills_free_slots,
    },
    Vector {
        id: "graceful-restart-makes-no-dummy-connection",
        says: "idle children end at USR1 by the signal alone: the access log has no request of the server's own",
        source: "mpm-semantics 6, note",
        setup: ROOMY,
        knobs: &[],
        expect: &[(APACHES, "all children are new; 0 times OPTIONS")],
        differs: None,
        run: no_dummy,
    },
    Vector {
        id: "every-restart-is-a-generation",
        says: "the generation goes up by one with USR1 and with HUP alike, and new children belong to it",
        source: "mpm-semantics 6",
        setup: ROOMY,
        knobs: &[],
        expect: &[(EVERY, "0, after USR1 1, after HUP 2, after USR1 3; children of 3")],
        differs: None,
        run: generations,
    },
    Vector {
        id: "statistics-survive-usr1-and-not-hup",
        says: "the scoreboard's counts go on over USR1; HUP begins from nothing",
        source: "mpm-semantics 6, 9.4",
        setup: ROOMY,
        knobs: &[],
        expect: &[(EVERY, "5 accesses, after USR1 5, after HUP 0")],
        differs: None,
        run: statistics,
    },
    Vector {
        id: "graceful-restarts-refuse-nobody",
        says: "the listening socket stays open over restarts: clients that come meanwhile wait, and are all answered",
        source: "mpm-semantics 6",
        setup: ROOMY,
        knobs: &[],
        expect: &[(EVERY, "50 of 50 answered over 5 restarts")],
        differs: None,
        run: refuse_nobody,
    },
    Vector {
        id: "a-restart-reads-the-configuration",
        says: "a changed directive is in force after USR1, and another change after HUP",
        source: "mpm-semantics 6; manual, Stopping and Restarting",
        setup: &["KeepAliveTimeout 17"],
        knobs: &[],
        expect: &[(EVERY, "timeout=17, after USR1 timeout=18, after HUP timeout=19")],
        differs: None,
        run: new_configuration,
    },
    Vector {
        id: "a-restart-with-a-broken-configuration-ends-the-server",
        says: "a configuration that does not parse ends the parent at a restart",
        source: "manual, Stopping and Restarting",
        setup: &[],
        knobs: &[],
        expect: &[(APACHES, "ended, exit status 1; the broken line is named")],
        differs: None,
        run: broken_configuration,
    },
    Vector {
        id: "hard-restart-behind-a-hold",
        says: "HUP ends prefork's and worker's requests at once; event's worker that waits for its client is killed after 9 s, \
               and until then nobody is served",
        source: "mpm-semantics 6, 7.9",
        setup: &[],
        knobs: &[],
        expect: &[
            ("prefork worker", "the held one: closed; a new client is answered after 0-4 s"),
            ("event", "the held one: closed; a new client is answered after 8-14 s"),
        ],
        differs: None,
        run: hard_restart,
    },
    Vector {
        id: "a-signal-during-a-restart-is-lost",
        says: "TERM while a hard restart waits for a worker is forgotten: the server runs on",
        source: "mpm-semantics 6",
        setup: &[],
        knobs: &[],
        expect: &[("event", "runs on: 200")],
        differs: None,
        run: signal_is_lost,
    },
    Vector {
        id: "worker-restart-squats",
        says: "worker, a request in every process it may have, USR1: new processes take the free threads of the dying ones' slots, \
               one per tick",
        source: "mpm-semantics 5.2, 7.13",
        setup: &[
            "StartServers 2",
            "ServerLimit 2",
            "ThreadsPerChild 2",
            "MaxRequestWorkers 4",
            "MinSpareThreads 4",
        ],
        knobs: &[],
        expect: &[("worker", "2,3,4; W_ W_; 4 processes in 2 rows")],
        differs: None,
        run: squatting,
    },
];

fn idle_over_restart(bench: &mut Bench) -> Seen {
    let mut client = bench.parked()?;
    let start = Instant::now();
    bench.restart(Signal::SIGUSR1)?;
    let reply = client.end();
    let range = if bench.model == "event" { 0..3 } else { 3..8 };
    Ok(format!("{reply} after {}", span(start.elapsed(), range)))
}

fn ask_over_restart(bench: &mut Bench) -> Seen {
    let mut client = bench.parked()?;
    bench.restart(Signal::SIGUSR1)?;
    if glance(&mut client) == Reply::Closed {
        return Ok("closed".to_owned());
    }
    let answer = client.get("/small")?;
    let closes = if answer.closes() { "close" } else { "keep-alive" };
    Ok(format!("{} {closes}, {}", answer.status, client.end()))
}

fn finishes_requests(bench: &mut Bench) -> Seen {
    let before = bench.children();
    let mut held = bench.hold()?;
    bench.restart(Signal::SIGUSR1)?;
    let old = bench.wait("all old processes but one end", || {
        match bench.children().intersection(&before).collect::<Vec<_>>()[..] {
            [pid] => Some(*pid),
            _ => None,
        }
    })?;
    let fresh = bench.get("/small")?.status;
    let there = if bench.children().contains(&old) { "still there" } else { "gone" };
    held.release()?;
    let answer = held.answer()?;
    let closes = if answer.closes() { "close" } else { "keep-alive" };
    let end = held.end();
    drop(held);
    bench.wait_for_death(old)?;
    Ok(format!(
        "a new client: {fresh}; the old process is {there}; the held one: {} {closes}, {end}; the old process ends",
        answer.status
    ))
}

fn fills_free_slots(bench: &mut Bench) -> Seen {
    let _held = bench.hold()?;
    bench.restart(Signal::SIGUSR1)?;
    let look = |bench: &Bench| {
        let mut rows: Vec<_> = bench.rows().ok()?.into_iter().map(|row| row.1).collect();
        let columns = if rows.iter().any(|row| row.len() > 1) { 2 } else { 1 };
        rows.iter_mut().for_each(|row| row.truncate(columns));
        rows.sort_by_key(|row| row.starts_with('_'));
        Some(rows.join(" "))
    };
    bench.wait("two new processes beside the old one", || {
        (bench.children().len() == 3 && bench.count('_') >= 2 && bench.count('S') == 0).then_some(())
    })?;
    let_pass(1);
    Ok(look(bench).unwrap_or_default())
}

fn no_dummy(bench: &mut Bench) -> Seen {
    let old = bench.children();
    bench.restart(Signal::SIGUSR1)?;
    bench.wait(NEW_GENERATION, || {
        let now = bench.children();
        (now.len() == old.len() && now.is_disjoint(&old)).then_some(())
    })?;
    Ok(format!("all children are new; {} times OPTIONS", bench.access_log().matches("OPTIONS").count()))
}

fn generations(bench: &mut Bench) -> Seen {
    let mut seen = bench.board()?.generation.to_string();
    for signal in [Signal::SIGUSR1, Signal::SIGHUP, Signal::SIGUSR1] {
        let old = bench.children();
        bench.restart(signal)?;
        bench.wait(NEW_GENERATION, || {
            let now = bench.children();
            (!now.is_empty() && now.is_disjoint(&old)).then_some(())
        })?;
        seen += &format!(", after {} {}", &signal.as_str()[3..], bench.board()?.generation);
    }
    bench.wait("the children are ready", || (bench.count('_') > 0).then_some(()))?;
    let mut of: Vec<_> = bench.board()?.present().map(|row| row.generation.to_string()).collect();
    of.dedup();
    Ok(format!("{seen}; children of {}", of.join(" and ")))
}

fn statistics(bench: &mut Bench) -> Seen {
    let accesses = |bench: &Bench| bench.board().map(|board| board.accesses());
    for _ in 0..5 {
        bench.get("/small")?;
    }
    bench.wait_for_calm()?;
    let mut seen = format!("{} accesses", accesses(bench)?);
    for signal in [Signal::SIGUSR1, Signal::SIGHUP] {
        bench.restart(signal)?;
        bench.wait("somebody is ready", || (bench.count('_') > 0).then_some(()))?;
        seen += &format!(", after {} {}", &signal.as_str()[3..], accesses(bench)?);
    }
    Ok(seen)
}

fn refuse_nobody(bench: &mut Bench) -> Seen {
    let mut answered = 0;
    for number in 0..50 {
        if number % 10 == 5 {
            // Not waited for: the clients come while it happens.
            bench.signal(Signal::SIGUSR1);
        }
        answered += usize::from(bench.get("/small").is_ok_and(|answer| answer.status == 200));
        if number % 10 == 9 {
            bench.wait_for_log("resuming normal operations", number / 10 + 2)?;
        }
    }
    Ok(format!("{answered} of 50 answered over {} restarts", bench.logged("resuming normal operations") - 1))
}

fn new_configuration(bench: &mut Bench) -> Seen {
    let timeout = |bench: &Bench| -> Seen {
        let answer = bench.dial()?.get("/small")?;
        let value = answer.field("Keep-Alive").unwrap_or_default().to_owned();
        Ok(value.split(',').next().unwrap_or_default().to_owned())
    };
    let mut seen = timeout(bench)?;
    for (number, signal) in [(17, Signal::SIGUSR1), (18, Signal::SIGHUP)] {
        bench.reconfigure(
            &format!("KeepAliveTimeout {number}"),
            &format!("KeepAliveTimeout {}", number + 1),
        )?;
        let old = bench.children();
        bench.restart(signal)?;
        bench.wait("the old processes end", || bench.children().is_disjoint(&old).then_some(()))?;
        seen += &format!(", after {} {}", &signal.as_str()[3..], timeout(bench)?);
    }
    Ok(seen)
}

fn broken_configuration(bench: &mut Bench) -> Seen {
    bench.reconfigure("MaxKeepAliveRequests 100", "MaxKeepAliveReqests 100")?;
    bench.signal(Signal::SIGUSR1);
    bench.wait_for_end()?;
    let named = if bench.said().contains("MaxKeepAliveReqests") { "named" } else { "not named" };
    Ok(format!("ended, {}; the broken line is {named}", bench.running_status()))
}

fn hard_restart(bench: &mut Bench) -> Seen {
    let mut held = bench.hold()?;
    let range = if bench.model == "event" { 8..14 } else { 0..4 };
    let start = Instant::now();
    bench.signal(Signal::SIGHUP);
    bench.wait_for_log("SIGHUP received", 1)?;
    // The old processes' listeners are closed by now or never taken from again.
    bench.wait("the held one's fate", || (glance_end(&mut held)).then_some(()))?;
    bench.get("/small")?;
    Ok(format!("the held one: closed; a new client is answered after {}", span(start.elapsed(), range)))
}

fn glance_end(client: &mut crate::conformance::client::Client) -> bool {
    matches!(client.reply(Duration::from_millis(10)), Reply::Closed | Reply::Reset)
}

fn signal_is_lost(bench: &mut Bench) -> Seen {
    let _held = bench.hold()?;
    bench.signal(Signal::SIGHUP);
    bench.wait_for_log("SIGHUP received", 1)?;
    let_pass(2);
    bench.signal(Signal::SIGTERM);
    bench.wait_for_log("resuming normal operations", 2)?;
    let_pass(3);
    if bench.ended() {
        return Ok("ended".to_owned());
    }
    Ok(format!("runs on: {}", bench.get("/small")?.status))
}

fn squatting(bench: &mut Bench) -> Seen {
    let _held = bench.hold_in_each()?;
    bench.restart(Signal::SIGUSR1)?;
    let curve = bench.children_per_tick(4)?;
    bench.wait("the new threads are ready", || (bench.count('_') >= 2).then_some(()))?;
    let rows: Vec<_> = bench
        .rows()?
        .into_iter()
        .map(|row| {
            let mut letters: Vec<_> = row.1.chars().take(2).collect();
            letters.sort_by_key(|c| *c == '_');
            letters.into_iter().collect::<String>()
        })
        .collect();
    Ok(format!("{curve}; {}; {} processes in {} rows", rows.join(" "), bench.children().len(), rows.len()))
}
