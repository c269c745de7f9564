//! What a concurrency model owes its users, shown on the running binary by counts and by order, never by how long it took.
//!
//! Waits have a limit only so that a broken server fails the test instead of hanging it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness;

use harness::client::Client;
use harness::{alive, children_of, shape, until, zombies_of};
use mpmlab_experiments::conformance::board::{self, Board};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// Longer than a worker takes from sending an answer to being idle.
const SETTLES: Duration = Duration::from_millis(500);

/// Apache's own, for what only they promise.
const APACHES: [&str; 3] = ["prefork", "worker", "event"];

/// Makes one test of a function that takes a model's name; it runs under every model of the list.
macro_rules! under {
    ($mpms:expr; $($test:ident),+ $(,)?) => {
        $(#[test]
        fn $test() {
            harness::under_each(&$mpms, checks::$test);
        })+
    };
}

// Whatever the model: those that are registered.
under!(
    harness::MPMS;
    stopping_leaves_no_process_behind,
    a_killed_child_is_replaced_and_nobody_else_suffers,
    a_killed_parent_takes_its_children_along,
    connections_per_child_are_counted_by_connection,
    two_listens_are_both_served,
    a_slow_client_does_not_hold_others_up,
    a_graceful_restart_finishes_what_was_begun,
    a_restart_begins_anew_and_a_graceful_stop_ends,
    version_and_test_do_not_start_a_server,
);

// Apache's way to grow and shrink.
under!(
    APACHES;
    processes_double_every_second_under_load,
    spare_processes_are_retired,
);

// Models that hold somebody for every connection.
under!(
    ["prefork", "worker", "fork", "thread"];
    who_comes_when_all_are_busy_waits,
);

/// A running server with a folder of its own.
struct Server {
    server: harness::Server,
    root: tempfile::TempDir,
}

impl std::ops::Deref for Server {
    type Target = harness::Server;

    fn deref(&self) -> &harness::Server {
        &self.server
    }
}

fn command(mpm: &str, root: &Path, directives: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpmlab"));
    command.args(["serve", "--mpm", mpm, "--root"]).arg(root);
    // Tests may run as root, in a folder that only root can read.
    for directive in directives.iter().chain(&["User root"]) {
        command.args(["-c", directive]);
    }
    command
}

impl Server {
    fn start(mpm: &str, directives: &[&str]) -> Server {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("index.html"), "hello\n").unwrap();
        let listen: &[&str] = if directives.iter().any(|d| d.starts_with("Listen ")) {
            &[]
        } else {
            &["--listen", "127.0.0.1:0"]
        };
        let pid_file = format!("PidFile {}", root.path().join("pid").display());
        let mut command = command(mpm, root.path(), &[directives, &[&pid_file]].concat());
        command.args(listen);
        let server = harness::Server::spawn(command);
        let ready = format!("(mpm {mpm}, pid {})", server.pid);
        assert!(server.log().trim_end().ends_with(&ready), "{}", server.log());
        Server { server, root }
    }

    fn connect(&self) -> Client {
        Client::connect(self.addr)
    }

    fn wait(&mut self) -> ExitStatus {
        self.server.wait()
    }

    fn dash_k(&self, mpm: &str, signal: &str) {
        let pid_file = format!("PidFile {}", self.root.path().join("pid").display());
        let status = command(mpm, self.root.path(), &[&pid_file]).args(["-k", signal]).status().unwrap();
        assert!(status.success());
    }
}

/// The same capacity for every model: `processes` times `threads`, or as many processes with one.
fn capacity(mpm: &str, processes: usize, threads: usize) -> Vec<String> {
    let workers = processes * threads;
    match shape(mpm) {
        "processes" => vec![format!("MaxRequestWorkers {workers}"), format!("ServerLimit {workers}")],
        "threads" => vec![
            format!("ThreadsPerChild {threads}"),
            format!("MaxRequestWorkers {workers}"),
            format!("ServerLimit {processes}"),
        ],
        _ => vec![format!("MaxRequestWorkers {workers}")],
    }
}

/// One idle worker is enough.
fn least_spare(mpm: &str) -> &'static str {
    if shape(mpm) == "processes" { "MinSpareServers 1" } else { "MinSpareThreads 1" }
}

fn start(mpm: &str, capacity: &[String], more: &[&str]) -> Server {
    let all: Vec<&str> = capacity.iter().map(String::as_str).chain(more.iter().copied()).collect();
    Server::start(mpm, &all)
}

mod checks {
    use super::*;

    /// With one connection idle, one in the middle of a request, and more processes than the first few.
    pub fn stopping_leaves_no_process_behind(mpm: &str) {
        for signal in [Signal::SIGTERM, Signal::SIGINT] {
            let mut server = Server::start(mpm, &[]);
            let mut idle = server.connect();
            idle.get();
            let mut held = server.connect();
            held.hold();
            server.connect().get();
            let children = server.descendants();
            assert!(!children.is_empty());
            server.signal(signal);
            assert!(server.wait().success());
            assert_eq!(children.into_iter().filter(|pid| alive(*pid)).collect::<Vec<_>>(), Vec::<i32>::new());
            assert!(!server.root.path().join("pid").exists(), "the pid file is removed");
        }
    }

    pub fn a_killed_child_is_replaced_and_nobody_else_suffers(mpm: &str) {
        let server = start(mpm, &capacity(mpm, 2, 4), &["StartServers 2"]);
        let mut held: Vec<Client> = (0..4).map(|_| server.connect()).collect();
        held.iter_mut().for_each(Client::hold);
        // Served after those: they have been taken.
        server.connect().get();
        let before = server.children();
        let victim = *before.first().unwrap();
        let of_victim = harness::descendants_of(victim);
        kill(Pid::from_raw(victim), Signal::SIGKILL).unwrap();
        until("another child", || {
            let now = server.children();
            (!now.contains(&victim) && now.len() >= before.len()).then_some(())
        });
        until("what the victim had begun ends", || of_victim.iter().all(|pid| !alive(*pid)).then_some(()));
        server.connect().get();
        for client in &mut held {
            // Those of the victim are closed; whoever is not is served.
            if !client.is_closed() {
                client.release();
                assert!(client.answer().is_some());
            }
        }
    }

    // Not Apache's way: a laboratory must not leave processes behind.
    pub fn a_killed_parent_takes_its_children_along(mpm: &str) {
        let mut server = Server::start(mpm, &[]);
        let mut held = server.connect();
        held.hold();
        server.connect().get();
        let children = server.descendants();
        server.signal(Signal::SIGKILL);
        server.wait();
        until("the children end", || children.iter().all(|pid| !alive(*pid)).then_some(()));
    }

    // mpm-semantics V1: whoever serves is held, so that there is need at every tick.
    pub fn processes_double_every_second_under_load(mpm: &str) {
        let threads = if mpm == "prefork" { 1 } else { 2 };
        let server = start(mpm, &capacity(mpm, 8, threads), &["StartServers 1", least_spare(mpm)]);
        let mut clients: Vec<Client> = (0..8 * threads).map(|_| server.connect()).collect();
        clients.iter_mut().for_each(Client::hold);
        // A count that was seen in several looks in a row is not in the middle of a tick.
        let mut plateaus: Vec<usize> = Vec::new();
        let mut row = (0usize, 0usize);
        until("eight processes", || {
            let count = server.children().len();
            row = if count == row.0 { (count, row.1 + 1) } else { (count, 1) };
            if row.1 == 10 {
                plateaus.push(count);
            }
            (plateaus.last() == Some(&8)).then_some(())
        });
        assert_eq!(plateaus, [1, 2, 4, 8]);
        // Everybody who was held is served.
        for client in &mut clients {
            client.release();
            assert!(client.answer().is_some());
        }
    }

    pub fn spare_processes_are_retired(mpm: &str) {
        let (sizes, spare, left) = if mpm == "prefork" {
            (capacity(mpm, 8, 1), ["StartServers 5", "MinSpareServers 1", "MaxSpareServers 2"], 2)
        } else {
            // The maximum is raised to the minimum and one process more (mpm-semantics 5.3): 1 + (2 + 1) threads.
            (capacity(mpm, 8, 2), ["StartServers 5", "MinSpareThreads 1", "MaxSpareThreads 1"], 2)
        };
        let server = start(mpm, &sizes, &spare);
        assert_eq!(server.children().len(), 5);
        until("few are left", || (server.children().len() == left).then_some(()));
        server.connect().get();
        assert_eq!(server.children().len(), left);
    }

    // mpm-semantics V14 and 7.20: requests on one connection count once.
    pub fn connections_per_child_are_counted_by_connection(mpm: &str) {
        // With one thread, event would drop a request that comes before the thread is idle again (7.4).
        let threads = if shape(mpm) == "processes" { 1 } else { 2 };
        let server = start(mpm, &capacity(mpm, 1, threads), &["StartServers 1", "MaxConnectionsPerChild 3"]);
        let first = server.children();
        assert_eq!(first.len(), 1);
        let once = |requests: usize| {
            let mut client = server.connect();
            (0..requests).for_each(|_| drop(client.get()));
        };
        once(8);
        once(1);
        assert_eq!(server.children(), first, "8 requests on one connection are one connection");
        once(1);
        until("another child", || {
            // Worker counts a connection when it has ended, and is in accept by then: it takes one more, or some, if it is slow.
            if mpm == "worker" {
                once(1);
            }
            let now = server.children();
            (now.len() == 1 && now != first).then_some(())
        });
        once(1);
    }

    pub fn two_listens_are_both_served(mpm: &str) {
        let server =
            start(mpm, &capacity(mpm, 2, 2), &["Listen 127.0.0.1:0", "Listen 127.0.0.1:0", "StartServers 2"]);
        assert_eq!(server.addresses.len(), 2);
        assert_ne!(server.addresses[0], server.addresses[1]);
        for round in 0..40 {
            Client::connect(server.addresses[round % 2]).get();
        }
        // Both at once, and one held.
        let mut held = Client::connect(server.addresses[0]);
        held.hold();
        Client::connect(server.addresses[1]).get();
        Client::connect(server.addresses[0]).get();
        held.release();
        assert!(held.answer().is_some());
    }

    pub fn a_slow_client_does_not_hold_others_up(mpm: &str) {
        let server = start(mpm, &capacity(mpm, 1, 2), &["StartServers 1"]);
        let mut slow = server.connect();
        slow.hold();
        (0..5).for_each(|_| drop(server.connect().get()));
        slow.release();
        assert!(slow.answer().is_some());
    }

    pub fn who_comes_when_all_are_busy_waits(mpm: &str) {
        let server = start(mpm, &capacity(mpm, 1, 2), &["StartServers 2"]);
        let mut held = [server.connect(), server.connect()];
        held.iter_mut().for_each(Client::hold);
        let mut newcomer = server.connect();
        newcomer.ask();
        std::thread::sleep(SETTLES);
        assert!(!newcomer.has_answer());
        let [mut first, mut second] = held;
        first.release();
        assert!(first.answer().is_some());
        drop(first);
        assert!(newcomer.answer().is_some());
        second.release();
        assert!(second.answer().is_some());
    }

    // mpm-semantics 6: nobody is refused, and a request in progress is answered by the old generation.
    pub fn a_graceful_restart_finishes_what_was_begun(mpm: &str) {
        // Spare enough, so that no child is started before the restart.
        let server = start(mpm, &capacity(mpm, 4, 2), &["StartServers 3", least_spare(mpm)]);
        let mut held = server.connect();
        held.hold();
        // Connections are accepted in their order: now the held one is.
        server.connect().get();
        let old = server.children();
        server.dash_k(mpm, "graceful");
        until("a new generation", || {
            server.connect().get();
            (!server.children().is_subset(&old)).then_some(())
        });
        held.release();
        let answer = held.answer().expect("the old generation answers");
        assert!(answer.contains("Connection: close"), "{answer}");
        until("the old generation ends", || {
            held.is_closed();
            server.children().is_disjoint(&old).then_some(())
        });
        server.connect().get();
    }

    pub fn a_restart_begins_anew_and_a_graceful_stop_ends(mpm: &str) {
        let mut server = start(mpm, &capacity(mpm, 2, 2), &["StartServers 2"]);
        let mut held = server.connect();
        held.hold();
        // Connections are accepted in their order: now the held one is.
        server.connect().get();
        let old = server.children();
        server.dash_k(mpm, "restart");
        until("a new generation", || {
            let now = server.children();
            (now.is_disjoint(&old) && !now.is_empty()).then_some(())
        });
        assert_eq!(held.answer(), None, "HUP does not wait for anybody");
        let mut held = server.connect();
        held.hold();
        server.connect().get();
        server.dash_k(mpm, "graceful-stop");
        until("the pid file is removed", || (!server.root.path().join("pid").exists()).then_some(()));
        held.release();
        assert!(held.answer().is_some(), "what was begun is finished");
        drop(held);
        assert!(server.wait().success());
    }

    pub fn version_and_test_do_not_start_a_server(mpm: &str) {
        let root = tempfile::tempdir().unwrap();
        let output = command(mpm, root.path(), &["MaxRequestWorkers 150"]).arg("-V").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success());
        assert!(
            text.contains(&format!("MPM: {mpm} ")) && text.contains("MaxRequestWorkers: 150\n"),
            "{text}"
        );
        let output = command(mpm, root.path(), &[]).arg("-t").output().unwrap();
        assert!(output.status.success());
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "Syntax OK\n");
        // mpm-semantics 5.3, with Apache's own words.
        let output = command(mpm, root.path(), &["MaxRequestWorkers 0"]).arg("-t").output().unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8(output.stderr).unwrap().contains("WARNING: MaxRequestWorkers of 0"));
    }
}

#[test]
fn fork_has_a_process_for_every_connection_and_collects_it() {
    let server = start("fork", &capacity("fork", 1, 8), &[]);
    let acceptor = *server.children().first().unwrap();
    assert!(children_of(acceptor).is_empty(), "nothing is kept ready");
    let mut held: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    held.iter_mut().for_each(Client::hold);
    let serving = until("four processes", || {
        let serving = children_of(acceptor);
        (serving.len() == 4).then_some(serving)
    });
    kill(Pid::from_raw(*serving.first().unwrap()), Signal::SIGKILL).unwrap();
    until("one is gone", || (children_of(acceptor).len() == 3).then_some(()));
    let closed = held.iter_mut().filter_map(|client| client.is_closed().then_some(())).count();
    assert_eq!(closed, 1, "who dies takes one connection along");
    drop(held);
    until("all are gone", || (children_of(acceptor).is_empty() && zombies_of(acceptor) == 0).then_some(()));
    assert_eq!(server.children(), [acceptor].into());
}

#[test]
fn thread_has_a_thread_for_every_connection() {
    let server = start("thread", &capacity("thread", 1, 8), &[]);
    let process = *server.children().first().unwrap();
    let threads = || std::fs::read_dir(format!("/proc/{process}/task")).unwrap().count();
    assert_eq!(threads(), 1, "nothing is kept ready");
    let mut held: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    held.iter_mut().for_each(Client::hold);
    until("four threads more", || (threads() == 5).then_some(()));
    drop(held);
    until("all are gone", || (threads() == 1).then_some(()));
}

// mpm-semantics 7.7, and what the knob `park` makes of it: half a request holds a worker, unless that is parked, too.
#[test]
fn event_can_park_half_requests() {
    let parks = "LabPark read-request,write-completion,keep-alive,linger";
    let server = start("event", &capacity("event", 1, 2), &[parks]);
    let mut half: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    half.iter_mut().for_each(Client::hold);
    server.connect().get();
    for client in &mut half {
        client.release();
        assert!(client.answer().is_some());
    }
}

// mpm-semantics 7.4: a kept client's request that meets busy workers is dropped; with the knob `shed` off it waits.
#[test]
fn event_sheds_kept_clients_unless_it_is_told_not_to() {
    let attempt = |server: &Server, pause: Duration| {
        let mut kept = idlers(server, 1);
        // A connection that comes before the worker is idle again switches accepts off, and with one worker the rule's
        // hysteresis keeps them off as long as anybody is kept.
        std::thread::sleep(SETTLES);
        let mut held = server.connect();
        held.hold();
        std::thread::sleep(pause);
        kept[0].ask();
        std::thread::sleep(pause);
        held.release();
        let answered = kept[0].answer().is_some();
        // If the newcomer met the worker before it was idle again, accepts are off until no connection is left: with one
        // thread that is the rule (4.4).
        drop(kept);
        assert!(held.answer().is_some());
        answered
    };
    let one_worker = capacity("event", 1, 1);
    let server = start("event", &one_worker, &["KeepAliveTimeout 300"]);
    let mut pause = Duration::from_millis(1);
    // Whether the listener meets the request while the worker is held is a race: again, with more time, until it does.
    until("a request is dropped", || {
        pause *= 2;
        (!attempt(&server, pause)).then_some(())
    });
    let server = start("event", &one_worker, &["KeepAliveTimeout 300", "LabShed off"]);
    // The pause that was long enough above.
    assert!((0..3).all(|_| attempt(&server, pause)));
}

#[test]
fn event_serves_whatever_the_worker_factor() {
    for factor in ["1000000000", "0.001"] {
        let server =
            start("event", &capacity("event", 1, 2), &[&format!("AsyncRequestWorkerFactor {factor}")]);
        server.connect().get();
    }
}

#[test]
fn a_pid_file_taken_over_is_said_and_left_to_its_new_owner() {
    let shared = tempfile::tempdir().unwrap();
    let (pid, log) = (shared.path().join("pid"), shared.path().join("log"));
    let run = |more: &[&str]| {
        let mut command =
            command("event", shared.path(), &[&[&*format!("PidFile {}", pid.display())], more].concat());
        harness::Server::spawn({
            command.args(["--listen", "127.0.0.1:0"]);
            command
        })
    };
    let first = run(&[]);
    let second = run(&[&format!("ErrorLog {}", log.display())]);
    assert!(std::fs::read_to_string(&log).unwrap().contains("overwritten"));
    drop(first);
    assert_eq!(std::fs::read_to_string(&pid).unwrap().trim(), second.pid.to_string());
    drop(second);
    assert!(!pid.exists());
}

/// Stops a server with one connection held, after `first`; says how many TERM and KILL warnings it logged meanwhile.
fn warnings_at_stop(mpm: &str, knobs: &[&str], first: Option<Signal>) -> (usize, usize) {
    let log = tempfile::NamedTempFile::new().unwrap();
    let to_log = format!("ErrorLog {}", log.path().display());
    let mut server = start(mpm, &capacity(mpm, 1, 2), &[knobs, &[&to_log]].concat());
    let mut held = server.connect();
    held.hold();
    // The other worker answers, so the first one has been handed its connection.
    server.connect().get();
    if let Some(first) = first {
        server.signal(first);
        // The pid file goes when the parent begins, the child's sockets when it has been told.
        until("nobody listens", || std::net::TcpStream::connect(server.addr).is_err().then_some(()));
    }
    server.signal(Signal::SIGTERM);
    assert!(server.wait().success());
    let said = std::fs::read_to_string(log.path()).unwrap();
    (said.matches("sending a SIGTERM").count(), said.matches("sending a SIGKILL").count())
}

// mpm-semantics 7.9, V15: that is how the apache profile, the default, behaves.
#[test]
fn event_with_a_held_connection_is_killed_after_nine_seconds() {
    assert_eq!(warnings_at_stop("event", &["LabStopSignal off"], None), (3, 1));
}

#[test]
fn worker_with_a_held_connection_stops_at_once() {
    assert_eq!(warnings_at_stop("worker", &["LabStopSignal off", "LabStopRetiring off"], None), (0, 0));
}

// mpm-semantics 6: who retires is deaf to the order to stop.
#[test]
fn a_retiring_child_that_is_told_to_stop_is_killed_unless_the_knob_says_otherwise() {
    for mpm in ["worker", "event"] {
        let graceful = Some(Signal::SIGWINCH);
        assert_eq!(
            warnings_at_stop(mpm, &["LabStopRetiring off", "LabStopSignal on"], graceful),
            (3, 1),
            "{mpm}"
        );
        assert_eq!(
            warnings_at_stop(mpm, &["LabStopRetiring on", "LabStopSignal on"], graceful),
            (0, 0),
            "{mpm}"
        );
    }
}

/// Clients that each made a request and now idle on a kept connection.
fn idlers(server: &Server, count: usize) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..count).map(|_| server.connect()).collect();
    for client in &mut clients {
        let answer = client.get();
        assert!(!answer.contains("Connection: close"), "{answer}");
    }
    clients
}

/// Waits for the newcomer's answer; says how many of the kept connections the server had closed by then.
fn closed_before_answer(newcomer: &mut Client, kept: &mut [Client]) -> usize {
    let mut closed = vec![false; kept.len()];
    until("the newcomer's answer", || {
        let answered = newcomer.has_answer();
        // Looked at after the newcomer: what was closed before its answer is seen.
        for (client, closed) in kept.iter_mut().zip(&mut closed) {
            *closed = *closed || client.is_closed();
        }
        answered.then_some(())
    });
    closed.into_iter().filter(|closed| *closed).count()
}

// mpm-semantics 7.1. Twelve kept connections are more than the eight workers, and few enough for the accept rule (4.4) to
// let one more in. Eight workers, because one that has answered is not idle at once: with all of them in that moment
// event would shed a kept connection's request, as Apache does (7.4).
#[test]
fn event_answers_new_clients_while_kept_ones_idle() {
    let server = start("event", &capacity("event", 1, 8), &["KeepAliveTimeout 300"]);
    let mut kept = idlers(&server, 12);
    let mut newcomer = server.connect();
    newcomer.ask();
    assert_eq!(closed_before_answer(&mut newcomer, &mut kept), 0);
    // And those that idled are still there.
    for client in &mut kept {
        client.get();
    }
}

// mpm-semantics 7.1.
#[test]
fn prefork_and_worker_answer_new_clients_only_after_a_keep_alive_time_out() {
    for mpm in ["prefork", "worker"] {
        let server = start(mpm, &capacity(mpm, 1, 2), &["KeepAliveTimeout 2"]);
        let mut kept = idlers(&server, 2);
        let mut newcomer = server.connect();
        newcomer.ask();
        assert!(closed_before_answer(&mut newcomer, &mut kept) >= 1, "{mpm}");
    }
}

// mpm-semantics 7.2, V6: the process takes at most 4 x (1 + 2) connections, then no more, although every thread idles. It
// stops a little earlier if a worker was not idle again when the next client came (the rule's hysteresis, 7.3).
#[test]
fn event_refuses_beyond_its_connection_limit_with_all_threads_idle() {
    let server = start("event", &capacity("event", 1, 4), &["KeepAliveTimeout 4"]);
    let mut kept: Vec<Client> = Vec::new();
    let refused_with = (0..=12).find(|_| {
        let mut newcomer = server.connect();
        newcomer.ask();
        let closed = closed_before_answer(&mut newcomer, &mut kept);
        assert!(newcomer.answer().is_some());
        kept.push(newcomer);
        closed > 0
    });
    let refused_with = refused_with.expect("the thirteenth has to wait for another to leave");
    assert!((8..=12).contains(&refused_with), "refused with {refused_with} connections");
}

// mpm-semantics 7.5: all workers busy and one client more: idle connections are closed long before their time.
#[test]
fn event_closes_idle_connections_when_all_workers_are_busy() {
    let server = start("event", &capacity("event", 1, 2), &["KeepAliveTimeout 300"]);
    let mut kept = idlers(&server, 1);
    let mut pause = Duration::from_millis(1);
    // Whether the listener meets the newcomer before or after a worker is free is a race: again, with more time, until it
    // has met it before.
    until("the idle connection is closed", || {
        let mut held = [server.connect(), server.connect()];
        held.iter_mut().for_each(Client::hold);
        let mut newcomer = server.connect();
        newcomer.ask();
        std::thread::sleep(pause);
        pause *= 2;
        held.iter_mut().for_each(Client::release);
        assert!(held.iter_mut().chain([&mut newcomer]).all(|client| client.answer().is_some()));
        kept[0].is_closed().then_some(())
    });
}

/// How many threads of the only child did something while one client after the other was served.
fn threads_that_took_part(server: &Server) -> usize {
    let child = *server.children().first().unwrap();
    let switches = || -> std::collections::BTreeMap<String, String> {
        let tasks = std::fs::read_dir(format!("/proc/{child}/task")).unwrap().flatten();
        let of = |task: std::fs::DirEntry| {
            let status = std::fs::read_to_string(task.path().join("status")).ok()?;
            let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"))?;
            Some((task.file_name().into_string().unwrap(), line.to_owned()))
        };
        tasks.filter_map(of).collect()
    };
    let before = switches();
    for _ in 0..16 {
        server.connect().get();
        // The worker is idle again before the next client comes.
        std::thread::sleep(Duration::from_millis(10));
    }
    let after = switches();
    after.iter().filter(|(thread, count)| before.get(*thread) != Some(*count)).count()
}

// mpm-semantics 3.1 and 7.21: all eight workers take turns (and the listener takes part), unless the last to become idle is
// the next to work.
#[test]
fn idle_workers_take_turns_unless_told_otherwise() {
    for mpm in ["worker", "event"] {
        for hand_off in ["pthread", "parking-lot"] {
            let hand_off = format!("LabHandOff {hand_off}");
            let one = capacity(mpm, 1, 8);
            let server = start(mpm, &one, &[&hand_off]);
            until("all take part", || (threads_that_took_part(&server) == 9).then_some(()));
            let server = start(mpm, &one, &[&hand_off, "LabIdleOrder lifo"]);
            until("few take part", || (threads_that_took_part(&server) <= 4).then_some(()));
        }
    }
}

#[test]
fn event_wakes_its_listener_with_an_eventfd_if_told_to() {
    let server = start("event", &capacity("event", 1, 2), &["LabWakeUp eventfd", "KeepAliveTimeout 1"]);
    let mut kept = idlers(&server, 2);
    // Without a wake-up nobody would know when they expire.
    until("both are closed", || kept.iter_mut().all(Client::is_closed).then_some(()));
}

// mpm-semantics 7.12: the counts of parked connections are those of the last time-out, unless they are always kept.
#[test]
fn event_counts_what_is_parked_when_something_expires_unless_it_is_told_to_count_always() {
    let memory = tempfile::tempdir().unwrap();
    let file = format!("ScoreBoardFile {}", memory.path().join("board").display());
    let settings = [file.as_str(), "KeepAliveTimeout 300"];
    let parked = |server: &Server| {
        let board = board::find(server.pid).expect("a scoreboard with a name");
        let board = Board::read(&board).expect("as Apache's");
        board.present().map(|process| process.keep_alive).sum::<u32>()
    };
    let one = capacity("event", 1, 4);
    let server = start("event", &one, &settings);
    let _kept = idlers(&server, 3);
    // Nothing expires within this test, so there is nothing to wait for.
    assert_eq!(parked(&server), 0);
    let server = start("event", &one, &[&settings[..], &["LabAsyncCounters always"]].concat());
    let _kept = idlers(&server, 3);
    until("three are counted", || (parked(&server) == 3).then_some(()));
}
