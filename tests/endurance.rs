//! What a server must survive: graceful restarts under load, and the death of its children, without losing a request,
//! a process, a descriptor or memory.
//!
//! How often is a matter of patience: MPMLAB_RESTARTS and MPMLAB_DEATHS say so (docs/results/ has the long runs).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness;

use harness::{PATIENCE, Server, alive, children_of, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// A number from the environment, for the long runs.
fn how_many(name: &str, otherwise: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// What clients saw, all together.
#[derive(Debug, Default)]
struct Tally {
    answered: AtomicU64,
    /// Closed by the server between two requests: HTTP permits it.
    closed_idle: AtomicU64,
    /// Closed without a byte of an answer after a request was sent.
    unanswered: AtomicU64,
    /// Anything else: refused, reset at connect, cut in the middle of an answer, an answer that is not 200.
    broken: AtomicU64,
}

/// What became of one request.
enum Fate {
    Kept,
    Closing,
    Unanswered,
    Broken,
}

/// What clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Habit {
    /// Ask again and again on one connection, and connect anew when the server has closed it.
    Keep,
    /// Open a connection for every request.
    Close,
}

/// One client.
fn client(addr: SocketAddr, habit: Habit, stop: &AtomicBool, tally: &Tally) {
    while !stop.load(SeqCst) {
        let Ok(mut stream) = TcpStream::connect(addr) else {
            tally.broken.fetch_add(1, SeqCst);
            continue;
        };
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        while !stop.load(SeqCst) {
            if closed_already(&stream) {
                tally.closed_idle.fetch_add(1, SeqCst);
                break;
            }
            let counter = match ask(&mut stream, habit) {
                Fate::Kept => {
                    tally.answered.fetch_add(1, SeqCst);
                    continue;
                }
                Fate::Closing => &tally.answered,
                Fate::Unanswered => &tally.unanswered,
                Fate::Broken => &tally.broken,
            };
            counter.fetch_add(1, SeqCst);
            break;
        }
    }
}

/// Has the server closed an idle connection? A client that looks before it asks loses nothing by such a close.
fn closed_already(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let end = matches!(stream.peek(&mut [0]), Ok(0)) || stream.take_error().unwrap().is_some();
    stream.set_nonblocking(false).unwrap();
    end
}

fn ask(stream: &mut TcpStream, habit: Habit) -> Fate {
    let connection = if habit == Habit::Close { "Connection: close\r\n" } else { "" };
    if stream
        .write_all(format!("GET /small HTTP/1.1\r\nHost: localhost\r\n{connection}\r\n").as_bytes())
        .is_err()
    {
        return Fate::Unanswered;
    }
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    loop {
        let whole =
            answer.windows(4).position(|w| w == b"\r\n\r\n").filter(|head| answer.len() == head + 4 + 1024);
        if let Some(head) = whole {
            let header = String::from_utf8_lossy(&answer[..head]);
            return match (header.starts_with("HTTP/1.1 200 "), header.contains("Connection: close")) {
                (false, _) => Fate::Broken,
                (true, true) => Fate::Closing,
                (true, false) => Fate::Kept,
            };
        }
        match stream.read(&mut part) {
            Ok(n) if n > 0 => answer.extend_from_slice(&part[..n]),
            // The end, or a reset, before a single byte.
            _ if answer.is_empty() => return Fate::Unanswered,
            _ => return Fate::Broken,
        }
    }
}

const CLIENTS: usize = 6;

/// Restarts gracefully again and again while clients ask. Each restart is over when a child of the new generation is there.
fn restarts_under_load(mpm: &str, habit: Habit, knobs: &[&str]) -> (Tally, String) {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("small"), vec![b'a'; 1024]).unwrap();
    let mut directives =
        vec!["LogLevel info", "KeepAliveTimeout 30", "MaxKeepAliveRequests 0", "StartServers 2"];
    if mpm != "prefork" {
        directives.extend(["ThreadsPerChild 8", "MinSpareThreads 8", "MaxRequestWorkers 64"]);
    }
    directives.extend(knobs);
    let mut server = Server::start(mpm, root.path(), &directives);
    let (stop, tally) = (AtomicBool::new(false), Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| client(server.addr, habit, &stop, &tally));
        }
        for _ in 0..how_many("MPMLAB_RESTARTS", 12) {
            let (before, answered) = (server.children(), tally.answered.load(SeqCst));
            server.signal(Signal::SIGUSR1);
            until("children of a new generation serve", || {
                let fresh = server.children().difference(&before).next().is_some();
                (fresh && tally.answered.load(SeqCst) > answered).then_some(())
            });
        }
        stop.store(true, SeqCst);
    });
    // Children say what they closed when they end; the last of them must have.
    server.signal(Signal::SIGWINCH);
    server.wait();
    let log = server.log();
    (tally, log)
}

fn nothing_is_lost(mpm: &str, habit: Habit, knobs: &[&str]) {
    let (tally, log) = restarts_under_load(mpm, habit, knobs);
    println!("{mpm} {habit:?} {knobs:?}: {tally:?}");
    assert_eq!((tally.unanswered.into_inner(), tally.broken.into_inner()), (0, 0), "{log}");
}

#[test]
fn graceful_restarts_lose_no_connection_under_prefork() {
    nothing_is_lost("prefork", Habit::Close, &[]);
}

#[test]
fn graceful_restarts_lose_no_connection_under_worker() {
    nothing_is_lost("worker", Habit::Close, &[]);
}

#[test]
fn graceful_restarts_lose_no_connection_under_event() {
    nothing_is_lost("event", Habit::Close, &[]);
}

#[test]
fn graceful_restarts_lose_no_request_under_prefork_if_promises_are_kept() {
    nothing_is_lost("prefork", Habit::Keep, &["LabKeepPromise on"]);
}

#[test]
fn graceful_restarts_lose_no_request_under_worker_if_promises_are_kept() {
    nothing_is_lost("worker", Habit::Keep, &["LabKeepPromise on"]);
}

/// By default the models do as Apache's: a process that is told to end closes a kept connection after the answer in hand, and event
/// all idle ones as well (mpm-semantics 2 step 4d, 4.6). A request may just be on its way on one; the log says how many connections
/// that could have hit.
fn losses_are_said(mpm: &str) {
    let (tally, log) = restarts_under_load(mpm, Habit::Keep, &[]);
    println!("{mpm}: {tally:?}");
    let said: u64 = log
        .lines()
        .filter_map(|line| {
            line.split_once("kept connections closed: ")?.1.split_whitespace().next()?.parse::<u64>().ok()
        })
        .sum();
    let (unanswered, broken) = (tally.unanswered.into_inner(), tally.broken.into_inner());
    assert_eq!(broken, 0, "{log}");
    assert!(unanswered <= said, "{unanswered} requests were not answered, but the log admits {said}:\n{log}");
}

#[test]
fn what_graceful_restarts_lose_under_prefork_is_said() {
    losses_are_said("prefork");
}

#[test]
fn what_graceful_restarts_lose_under_worker_is_said() {
    losses_are_said("worker");
}

#[test]
fn what_graceful_restarts_lose_under_event_is_said() {
    losses_are_said("event");
}

/// What a process holds: descriptors and mappings.
fn holdings(pid: i32) -> (usize, usize) {
    let count = |what: &str| std::fs::read_dir(format!("/proc/{pid}/{what}")).map_or(0, Iterator::count);
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    (count("fd"), maps.lines().filter(|line| line.contains("rw-s")).count())
}

/// Children that have ended and that nobody has waited for.
fn zombies(parent: i32) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let stat = pids.filter_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok());
    stat.filter(|stat| {
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        let mut fields = after.split_whitespace();
        fields.next() == Some("Z") && fields.next() == Some(&parent.to_string())
    })
    .count()
}

/// Children die by the hundred, by their own count of connections and by SIGKILL, while clients ask: every one is replaced, and
/// nothing is left of any.
fn deaths_leave_nothing(mpm: &str) {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("small"), vec![b'a'; 1024]).unwrap();
    let mut directives = vec![
        "StartServers 8",
        "MaxConnectionsPerChild 3",
        "KeepAlive Off",
        "MaxRequestWorkers 64",
        "LogLevel warn",
    ];
    if mpm != "prefork" {
        directives.extend([
            "ThreadsPerChild 2",
            "MinSpareThreads 16",
            "MaxSpareThreads 64",
            "ServerLimit 64",
        ]);
    } else {
        directives.extend(["MinSpareServers 8", "MaxSpareServers 32"]);
    }
    let server = Server::start(mpm, root.path(), &directives);
    let before = holdings(server.pid);
    let (stop, tally) = (AtomicBool::new(false), Tally::default());
    let mut seen: BTreeSet<i32> = server.children();
    let goal = how_many("MPMLAB_DEATHS", 60);
    let mut killed = 0;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| client(server.addr, Habit::Close, &stop, &tally));
        }
        until_long("enough children have died", || {
            seen.extend(server.children());
            let dead: Vec<i32> = seen.iter().copied().filter(|pid| !alive(*pid)).collect();
            // Every fourth by force; which one is as good as chance.
            let children: Vec<i32> = children_of(server.pid).into_iter().collect();
            if dead.len() >= killed * 4
                && let Some(victim) = children.get(dead.len() % children.len().max(1))
            {
                let _ = kill(Pid::from_raw(*victim), Signal::SIGKILL);
                killed += 1;
            }
            (dead.len() >= goal && killed >= goal / 8).then_some(())
        });
        stop.store(true, SeqCst);
    });
    println!("{mpm}: {} children, {killed} of them killed; {tally:?}", seen.len());
    until("no zombie is left", || (zombies(server.pid) == 0).then_some(()));
    // What is shared with the children that are there is not a leak; what dead ones had would be.
    assert_eq!(holdings(server.pid), before, "descriptors and shared mappings of the parent");
    assert!(tally.answered.into_inner() > 0);
}

/// As [`until`], but for things that take as long as they are told to.
fn until_long(what: &str, mut ask: impl FnMut() -> Option<()>) {
    let limit = PATIENCE * 10;
    harness::within(limit, &mut ask).unwrap_or_else(|| panic!("waited in vain: {what}"));
}

#[test]
fn dead_children_leave_nothing_under_prefork() {
    deaths_leave_nothing("prefork");
}

#[test]
fn dead_children_leave_nothing_under_worker() {
    deaths_leave_nothing("worker");
}

#[test]
fn dead_children_leave_nothing_under_event() {
    deaths_leave_nothing("event");
}
