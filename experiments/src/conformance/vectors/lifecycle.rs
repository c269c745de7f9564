//! Ends of processes: stopped, retired, killed (mpm-semantics 5.1, 6).

use crate::conformance::bench::{Bench, span};
use crate::conformance::lifespan::glance;
use crate::conformance::{APACHES, EVERY, Seen, Trouble, Vector};
use crate::reason::reason;
use nix::sys::signal::Signal;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

/// Two processes.
const TWO: &[&str] = &[
    "StartServers 2",
    "prefork: MaxRequestWorkers 4",
    "prefork: MinSpareServers 2",
    "prefork: MaxSpareServers 4",
    "worker event: ThreadsPerChild 2",
    "worker event: MaxRequestWorkers 8",
    "worker event: MinSpareThreads 3",
    "worker event: MaxSpareThreads 8",
];

/// One process, which takes three connections.
const THREE_CONNECTIONS: &[&str] = &[
    "MaxConnectionsPerChild 3",
    "StartServers 1",
    "prefork: MaxRequestWorkers 1",
    "worker event: ThreadsPerChild 4",
    "worker event: MaxRequestWorkers 4",
];

pub(super) const VECTORS: &[Vector] = &[
    Vector {
        id: "stop-idle",
        says: "TERM ends idle children and their parent at once; the pid file goes, the log says so",
        source: "mpm-semantics 6",
        setup: TWO,
        knobs: &[],
        expect: &[(EVERY, "ended after 0-3 s; no pid file; refused; caught SIGTERM, shutting down: once")],
        differs: None,
        run: stop_idle,
    },
    Vector {
        id: "stop-behind-a-blocked-worker",
        says: "TERM ends prefork and worker at once; event's worker that waits for its client is killed after 9 s",
        source: "mpm-semantics 7.9, V15",
        setup: &[],
        knobs: &[],
        expect: &[
            ("prefork worker", "the held one: closed; ended after 0-3 s; 0 warnings, 0 kills"),
            ("event", "the held one: closed; ended after 9-13 s; 3 warnings, 1 kills"),
        ],
        differs: None,
        run: stop_behind_a_hold,
    },
    Vector {
        id: "graceful-stop-finishes-requests",
        says: "WINCH removes the pid file, closes the listeners and lets the request in progress finish; then the server ends",
        source: "mpm-semantics 6",
        setup: TWO,
        knobs: &[],
        expect: &[(EVERY, "no pid file; refused; the held one: silence, then 200 close; ended after 0-4 s")],
        differs: None,
        run: graceful_stop,
    },
    Vector {
        id: "graceful-stop-is-bounded",
        says: "GracefulShutdownTimeout ends the wait; worker and event then need 9 s more, because their main thread no longer reads \
               the pipe of death",
        source: "mpm-semantics 6",
        setup: &["GracefulShutdownTimeout 2"],
        knobs: &[],
        expect: &[("prefork", "ended after 1-5 s"), ("worker event", "ended after 10-16 s")],
        differs: None,
        run: graceful_stop_bounded,
    },
    Vector {
        id: "stop-during-a-graceful-stop",
        says: "TERM cuts a graceful stop short, with the same 9 s under worker and event",
        source: "mpm-semantics 6",
        setup: &[],
        knobs: &[],
        expect: &[("prefork", "ended after 0-4 s"), ("worker event", "ended after 9-14 s")],
        differs: None,
        run: stop_during_graceful_stop,
    },
    Vector {
        id: "a-killed-child-takes-only-its-own",
        says: "a killed child's connections end, its siblings' go on, another child comes; the log names the signal, except \
               those by which children are ended anyway, as SIGKILL",
        source: "mpm-semantics 5.1",
        setup: TWO,
        knobs: &[],
        expect: &[(
            APACHES,
            "SIGSEGV: its own: closed, the others: 200, replaced, child pid exit signal Segmentation fault (11); \
             SIGKILL: its own: closed, the others: 200, replaced",
        )],
        differs: None,
        run: killed_child,
    },
    Vector {
        id: "killed-children-are-replaced",
        says: "worker and event replace up to two killed children when they are found, the third waits for the tick; prefork always \
               waits for the tick",
        source: "mpm-semantics 5.1",
        setup: &[
            "StartServers 4",
            "prefork: MinSpareServers 4",
            "prefork: MaxSpareServers 8",
            "worker event: ThreadsPerChild 2",
            "worker event: MaxRequestWorkers 8",
            "worker event: MinSpareThreads 8",
        ],
        knobs: &[],
        expect: &[("prefork", "1,2,4"), ("worker event", "1,3,4")],
        differs: None,
        run: killed_children,
    },
    Vector {
        id: "connections-per-child-count-connections",
        says: "MaxConnectionsPerChild 3 counts connections, however many requests each has; worker notices with one more, because \
               its listener waits for it already",
        source: "mpm-semantics 5.2, 7.20, V14",
        setup: THREE_CONNECTIONS,
        knobs: &[],
        expect: &[
            ("prefork event", "8 requests on the first; ends with connection 3"),
            ("worker", "8 requests on the first; ends with connection 4"),
        ],
        differs: None,
        run: connections_per_child,
    },
    Vector {
        id: "retiring-process-and-an-idle-connection",
        says: "a process that has had its connections closes idle ones at once under event; under worker they live on, and a request \
               is answered with Connection: close",
        source: "mpm-semantics 4.6, 7.20, V14",
        setup: THREE_CONNECTIONS,
        knobs: &[],
        expect: &[("worker", "silence; 200 close; the process ends"), ("event", "closed; the process ends")],
        differs: None,
        run: retiring_and_idle,
    },
    Vector {
        id: "a-child-out-of-descriptors-is-replaced",
        says: "a child that cannot accept for want of descriptors ends, and its successor serves whoever is in the queue",
        source: "mpm-semantics 1.3",
        setup: &["StartServers 1", "MaxRequestWorkers 4", "worker event: ThreadsPerChild 4"],
        knobs: &[],
        expect: &[(APACHES, "Too many open files; the child ends; the next client: 200")],
        differs: None,
        run: out_of_descriptors,
    },
];

fn stop_idle(bench: &mut Bench) -> Seen {
    let took = bench.end_by(Signal::SIGTERM)?;
    let pid_file = if bench.has_pid_file() { "a pid file" } else { "no pid file" };
    let door = if bench.refuses() { "refused" } else { "not refused" };
    let text = "caught SIGTERM, shutting down";
    let said = if bench.logged(text) == 1 { "once" } else { "not once" };
    Ok(format!("ended after {}; {pid_file}; {door}; {text}: {said}", span(took, 0..3)))
}

fn stop_behind_a_hold(bench: &mut Bench) -> Seen {
    let mut held = bench.hold()?;
    let took = bench.end_by(Signal::SIGTERM)?;
    let range = if bench.model == "event" { 9..13 } else { 0..3 };
    Ok(format!(
        "the held one: {}; ended after {}; {} warnings, {} kills",
        glance(&mut held),
        span(took, range),
        bench.logged("still did not exit, sending a SIGTERM"),
        bench.logged("still did not exit, sending a SIGKILL"),
    ))
}

fn graceful_stop(bench: &mut Bench) -> Seen {
    let mut held = bench.hold()?;
    bench.signal(Signal::SIGWINCH);
    bench.wait("the pid file is removed", || (!bench.has_pid_file()).then_some(()))?;
    bench.wait("nobody listens", || bench.refuses().then_some(()))?;
    let before = glance(&mut held);
    held.release()?;
    let (answer, released) = (held.answer()?, Instant::now());
    drop(held);
    bench.wait_for_end()?;
    let closes = if answer.closes() { "close" } else { "keep-alive" };
    Ok(format!(
        "no pid file; refused; the held one: {before}, then {} {closes}; ended after {}",
        answer.status,
        span(released.elapsed(), 0..4)
    ))
}

fn graceful_stop_bounded(bench: &mut Bench) -> Seen {
    let _held = bench.hold()?;
    let threaded = bench.is_threaded();
    let took = bench.end_by(Signal::SIGWINCH)?;
    Ok(format!("ended after {}", span(took, if threaded { 10..16 } else { 1..5 })))
}

fn stop_during_graceful_stop(bench: &mut Bench) -> Seen {
    let _held = bench.hold()?;
    let threaded = bench.is_threaded();
    bench.signal(Signal::SIGWINCH);
    bench.wait("the pid file is removed", || (!bench.has_pid_file()).then_some(()))?;
    bench.wait("nobody listens", || bench.refuses().then_some(()))?;
    let took = bench.end_by(Signal::SIGTERM)?;
    Ok(format!("ended after {}", span(took, if threaded { 9..14 } else { 0..4 })))
}

fn killed_child(bench: &mut Bench) -> Seen {
    let mut seen = Vec::new();
    for signal in [Signal::SIGSEGV, Signal::SIGKILL] {
        let before = bench.children();
        let mut held = bench.hold_in_each()?;
        let (victim, mut own) = held.remove(0);
        bench.signal_to(victim, signal);
        let end = own.end();
        bench.wait("another child comes", || (!bench.children().is_subset(&before)).then_some(()))?;
        let mut others = Vec::new();
        for (_, other) in &mut held {
            other.release()?;
            others.push(other.answer()?.status.to_string());
        }
        others.dedup();
        let mut text =
            format!("{}: its own: {end}, the others: {}, replaced", signal.as_str(), others.join(", "));
        if let Some((_, how)) = bench.log().split_once(&format!("child pid {victim} exit signal ")) {
            let name = how.split_inclusive(')').next().unwrap_or_default();
            text += &format!(", child pid exit signal {name}");
        }
        seen.push(text);
        drop(held);
        bench.wait_for_calm()?;
    }
    Ok(seen.join("; "))
}

fn killed_children(bench: &mut Bench) -> Seen {
    for pid in bench.children().into_iter().take(3) {
        bench.signal_to(pid, Signal::SIGKILL);
    }
    bench.wait("three are dead", || (bench.children().len() == 1).then_some(()))?;
    bench.children_per_tick(4)
}

fn connections_per_child(bench: &mut Bench) -> Seen {
    let pid = bench.only_child()?;
    let mut client = bench.dial()?;
    let requests = (0..8).map(|_| client.get("/small")).collect::<Result<Vec<_>, _>>()?.len();
    drop(client);
    for number in 2..10 {
        // Its own connection must be over before the next, because worker counts at the end.
        bench.wait("the last connection is over", || {
            (bench.count('W') + bench.count('K') + bench.count('C') == 0).then_some(())
        })?;
        bench.get("/small")?;
        let ends = || {
            bench.board().is_ok_and(|board| board.present().all(|row| row.pid != pid || row.quiescing))
                || !bench.children().contains(&pid)
        };
        if bench.happens(Duration::from_millis(700), ends) {
            return Ok(format!("{requests} requests on the first; ends with connection {number}"));
        }
    }
    Ok("does not end".to_owned())
}

fn retiring_and_idle(bench: &mut Bench) -> Seen {
    let pid = bench.only_child()?;
    let mut idle = bench.parked()?;
    for _ in 0..5 {
        bench.get("/small")?;
        if bench.happens(Duration::from_millis(500), || {
            bench.board().is_ok_and(|board| board.present().any(|row| row.quiescing))
        }) {
            break;
        }
    }
    let mut seen = glance(&mut idle).to_string();
    if seen == "silence" {
        let answer = idle.get("/small")?;
        seen += &format!("; {} {}", answer.status, if answer.closes() { "close" } else { "keep-alive" });
    }
    drop(idle);
    bench.wait_for_death(pid)?;
    Ok(format!("{seen}; the process ends"))
}

fn out_of_descriptors(bench: &mut Bench) -> Seen {
    let pid = bench.only_child()?;
    let open: Vec<u32> = fs::read_dir(format!("/proc/{pid}/fd"))?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    let free = (0..).find(|fd| !open.contains(fd)).expect("a process has finitely many");
    limit_descriptors(pid, free)?;
    // Whoever waits in accept already has a descriptor for the next connection (accept(2) takes it first), so the first
    // client may still come in, and perhaps find that files cannot be opened.
    bench.get("/small")?;
    let status = bench.get("/small")?.status;
    bench.wait_for_death(pid)?;
    let said = if bench.log().contains("Too many open files") { "Too many open files" } else { "nothing" };
    Ok(format!("{said}; the child ends; the next client: {status}"))
}

/// Lets a process have no descriptor from `free` on. Done under the process's own account, which needs no privilege for it.
fn limit_descriptors(pid: i32, free: u32) -> Result<(), Trouble> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let id = |name: &str| -> Option<u32> {
        status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
    };
    let mut command = Command::new("prlimit");
    command.args([format!("--pid={pid}"), format!("--nofile={free}:")]);
    if let (true, Some(uid), Some(gid)) = (nix::unistd::geteuid().is_root(), id("Uid:"), id("Gid:")) {
        command.uid(uid).gid(gid);
    }
    let output = command.output().map_err(|error| Trouble::Skip(format!("prlimit: {}", reason(&error))))?;
    if !output.status.success() {
        return Err(Trouble::Skip(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(())
}
