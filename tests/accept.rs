//! How connections come to processes: accept mutexes, buckets, deferred accept, what happens when accept fails, and what
//! the parent does to its children when it restarts or stops. Shown on the running binary, by counts and by order.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness;

use harness::client::Client;
use harness::{alive, get, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

/// Makes one test per model of a function that takes the model's name.
macro_rules! every_mpm {
    ($($test:ident),+ $(,)?) => {
        $(mod $test {
            #[test]
            fn prefork() {
                super::checks::$test("prefork");
            }
            #[test]
            fn worker() {
                super::checks::$test("worker");
            }
            #[test]
            fn event() {
                super::checks::$test("event");
            }
        })+
    };
}

every_mpm!(
    each_bucket_has_sockets_and_children_of_its_own,
    a_silent_client_is_not_accepted,
    a_child_without_descriptors_ends_and_is_replaced,
    a_graceful_stop_is_bounded,
    a_graceful_stop_is_cut_short_by_term,
    a_signal_during_a_restart_is_lost_or_kept,
    a_restart_with_a_broken_configuration_ends_the_server_or_does_not,
    buffer_sizes_and_stack_sizes_are_served_with,
    children_killed_in_a_row_are_replaced_at_the_tick,
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

fn folder() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("index.html"), "hello\n").unwrap();
    root
}

/// `mpmlab serve` with these directives, and as many free ports as `listens`.
fn command(mpm: &str, root: &Path, listens: usize, directives: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpmlab"));
    command.args(["serve", "--mpm", mpm, "--root"]).arg(root);
    for _ in 0..listens {
        command.args(["-c", "Listen 127.0.0.1:0"]);
    }
    // Tests may run as root, in a folder that only root can read.
    for directive in directives.iter().chain(&["User root"]) {
        command.args(["-c", directive]);
    }
    command
}

impl Server {
    fn start(mpm: &str, listens: usize, directives: &[&str]) -> Server {
        let root = folder();
        let server = harness::Server::spawn(command(mpm, root.path(), listens, directives));
        Server { server, root }
    }

    fn connect(&self) -> Client {
        Client::connect(self.addr)
    }

    fn says(&self, words: &str) {
        until(words, || self.log().contains(words).then_some(()));
    }
}

/// At most `processes` of one worker each, under every model, and `start` of them to begin with.
fn capacity(mpm: &str, processes: usize, start: usize) -> Vec<String> {
    let mut all = vec![
        format!("MaxRequestWorkers {processes}"),
        format!("ServerLimit {processes}"),
        format!("StartServers {start}"),
    ];
    if mpm == "prefork" {
        all.push("MinSpareServers 1".to_owned());
    } else {
        all.extend(["ThreadsPerChild 1".to_owned(), "MinSpareThreads 1".to_owned()]);
    }
    all
}

fn with<'a>(capacity: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    capacity.iter().map(String::as_str).chain(more.iter().copied()).collect()
}

/// The inodes of the sockets that a process has open.
fn sockets_of(pid: i32) -> BTreeSet<u64> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let targets = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.filter_map(|t| t.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()).collect()
}

/// The inodes of the sockets that listen on an address of the loopback interface.
fn listening(address: SocketAddr) -> BTreeSet<u64> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let place = format!("0100007F:{:04X}", address.port());
    let fields = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    // 0A is TCP_LISTEN; the tenth field is the inode.
    fields.filter(|f| f[1] == place && f[3] == "0A").map(|f| f[9].parse().unwrap()).collect()
}

fn online_cores() -> usize {
    let output = Command::new("getconf").arg("_NPROCESSORS_ONLN").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

fn send(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).unwrap();
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_err() {
        eprintln!("{program} is not installed: not compared");
    }
    found.is_ok()
}

mod checks {
    use super::*;

    // mpm-semantics 1.3.
    pub fn each_bucket_has_sockets_and_children_of_its_own(mpm: &str) {
        let buckets = online_cores();
        let start = format!("StartServers {}", 2 * buckets);
        let server = Server::start(mpm, 1, &["ListenCoresBucketsRatio 1", "LogLevel info", &start]);
        let sockets = listening(server.addr);
        assert_eq!(sockets.len(), buckets, "one per bucket");
        assert!(sockets_of(server.pid).is_superset(&sockets), "the parent has all");
        let own = |child: i32| {
            let own: Vec<u64> = sockets_of(child).intersection(&sockets).copied().collect();
            // A child that has just begun has not closed the others' yet.
            (own.len() == 1).then(|| own[0])
        };
        let children_by_socket = || {
            let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
            for child in server.children() {
                *counts.entry(until("a child has the sockets of its bucket", || own(child))).or_default() +=
                    1;
            }
            counts
        };
        let counts = children_by_socket();
        assert_eq!(counts.len(), buckets, "{counts:?}");
        assert!(counts.values().all(|&count| count == 2), "slot i belongs to bucket i mod B: {counts:?}");
        for _ in 0..40 {
            assert_eq!(get(server.addr, "/").0, 200);
        }
        let text =
            format!("AH02819: Using {buckets} listeners bucket(s) based on {buckets} online CPU cores");
        server.says(&text);
        // A graceful restart keeps the sockets, and a connection that waits in one of them is not lost.
        let before = server.children();
        server.signal(Signal::SIGUSR1);
        until("the old children have gone", || server.children().is_disjoint(&before).then_some(()));
        assert_eq!(listening(server.addr), sockets);
        until("every bucket has a child", || (children_by_socket().len() == buckets).then_some(()));
        assert_eq!(get(server.addr, "/").0, 200);
    }

    // mpm-semantics 1.4, V20: with one worker, accepting the silent client would leave nobody for the other.
    pub fn a_silent_client_is_not_accepted(mpm: &str) {
        let one = capacity(mpm, 1, 1);
        let server = Server::start(mpm, 1, &with(&one, &[]));
        let mut silent = server.connect();
        server.connect().get();
        server.connect().get();
        silent.get();
        // Without the filter it is.
        let server = Server::start(mpm, 1, &with(&one, &["AcceptFilter http none"]));
        let accepted = || -> usize {
            let listening = listening(server.addr);
            let children = server.children();
            children.iter().map(|&child| sockets_of(child).difference(&listening).count()).sum()
        };
        let _silent = server.connect();
        until("the silent client is accepted", || (accepted() == 1).then_some(()));
    }

    // mpm-semantics 1.3: accept fails with EMFILE, the child stops gracefully with status 7, the parent replaces it.
    pub fn a_child_without_descriptors_ends_and_is_replaced(mpm: &str) {
        let four = capacity(mpm, 4, 2);
        let server = Server::start(mpm, 1, &with(&four, &[]));
        let children = until("two children", || Some(server.children()).filter(|c| c.len() == 2));
        let victim = *children.first().unwrap();
        // The first number that is free: the next descriptor would get it, and it is over the limit.
        let free = || {
            let path = |fd: &usize| Path::new(&format!("/proc/{victim}/fd/{fd}")).symlink_metadata().is_ok();
            (0..).find(|fd| !path(fd)).unwrap()
        };
        // Until it waits for connections it opens files; then it has what it needs.
        until("the child is ready", || {
            let threads = std::fs::read_dir(format!("/proc/{victim}/task")).unwrap().count();
            (mpm == "prefork" || threads == 3).then_some(())
        });
        let enough = stable(free);
        let limit = format!("--nofile={enough}:{enough}");
        let done = Command::new("prlimit").args(["--pid", &victim.to_string(), &limit]).status();
        assert!(done.expect("prlimit is installed").success());
        // A parent that is stopped does not bury the child before its status was seen.
        server.signal(Signal::SIGSTOP);
        // Children take turns, so the victim's comes. (One that waits in accept has its descriptor already and serves once.)
        let message = "(24)Too many open files: AH02179: apr_socket_accept: (client socket)";
        until("the victim's turn", || {
            // The victim cannot open the file either: 403, as from Apache.
            assert!([200, 403].contains(&get(server.addr, "/").0));
            server.log().contains(message).then_some(())
        });
        let status = until("the child ends", || ended_with(victim));
        server.signal(Signal::SIGCONT);
        assert_eq!(status, 7 << 8);
        // The other child is held, so whoever serves the next client is new.
        let mut held = server.connect();
        held.hold();
        server.connect().get();
        held.release();
        assert!(held.answer().expect("an answer").starts_with("HTTP/1.1 200"));
        assert!(!alive(victim));
        assert!(!server.log().contains("mpmlab is exiting"), "{}", server.log());
    }

    pub fn a_graceful_stop_is_bounded(mpm: &str) {
        let mut server = Server::start(mpm, 1, &["GracefulShutdownTimeout 1", "LogLevel notice"]);
        let mut held = server.connect();
        held.hold();
        until("the request has begun", || {
            let listening = listening(server.addr);
            let begun = |child: &i32| sockets_of(*child).difference(&listening).count() == 1;
            server.children().iter().any(begun).then_some(())
        });
        server.signal(Signal::SIGWINCH);
        assert_eq!(server.server.wait().code(), Some(0));
        assert!(held.is_closed(), "the request was given up");
        assert!(server.log().contains("caught SIGWINCH, shutting down gracefully"), "{}", server.log());
    }

    pub fn a_graceful_stop_is_cut_short_by_term(mpm: &str) {
        let root = folder();
        let pid_file = root.path().join("pid");
        let directive = format!("PidFile {}", pid_file.display());
        let server = harness::Server::spawn(command(mpm, root.path(), 1, &[&directive]));
        let mut server = Server { server, root };
        let mut held = server.connect();
        held.hold();
        until("the request has begun", || {
            let listening = listening(server.addr);
            let begun = |child: &i32| sockets_of(*child).difference(&listening).count() == 1;
            server.children().iter().any(begun).then_some(())
        });
        server.signal(Signal::SIGWINCH);
        until("the stop has begun", || (!pid_file.exists()).then_some(()));
        until("the listener is closed", || listening(server.addr).is_empty().then_some(()));
        assert!(!held.is_closed());
        server.signal(Signal::SIGTERM);
        assert_eq!(server.server.wait().code(), Some(0));
        assert!(held.is_closed());
    }

    // mpm-semantics 6: a signal that arrives while a restart is carried out is lost.
    pub fn a_signal_during_a_restart_is_lost_or_kept(mpm: &str) {
        for knob in ["LabRestartSignals lost", "LabRestartSignals kept"] {
            let mut server = Server::start(mpm, 1, &["StartServers 1", "LogLevel notice", knob]);
            server.connect().get();
            // A stopped child does not end, so the restart waits for it.
            let child = *server.children().first().unwrap();
            send(child, Signal::SIGSTOP);
            server.signal(Signal::SIGHUP);
            server.says("SIGHUP received.  Attempting to restart");
            server.signal(Signal::SIGTERM);
            send(child, Signal::SIGCONT);
            if knob.ends_with("kept") {
                assert_eq!(server.server.wait().code(), Some(0));
                continue;
            }
            let resumed = || server.log().matches("resuming normal operations").count() == 2;
            until("the restart is done", || resumed().then_some(()));
            assert_eq!(get(server.addr, "/").0, 200);
            assert!(!server.log().contains("caught SIGTERM"), "{}", server.log());
        }
    }

    // Apache's parent ends with a message when a restart finds a configuration that it cannot use.
    pub fn a_restart_with_a_broken_configuration_ends_the_server_or_does_not(mpm: &str) {
        for (signal, knob) in [
            (Signal::SIGHUP, "LabBrokenRestart exit"),
            (Signal::SIGUSR1, "LabBrokenRestart exit"),
            (Signal::SIGHUP, "LabBrokenRestart keep"),
        ] {
            let root = folder();
            let file = root.path().join("a.conf");
            std::fs::write(&file, "LogLevel notice\n").unwrap();
            let mut command = command(mpm, root.path(), 1, &[knob]);
            command.arg("-f").arg(&file);
            let server = harness::Server::spawn(command);
            let mut server = Server { server, root };
            let mut held = server.connect();
            held.hold();
            until("the request has begun", || {
                let listening = listening(server.addr);
                let begun = |child: &i32| sockets_of(*child).difference(&listening).count() == 1;
                server.children().iter().any(begun).then_some(())
            });
            std::fs::write(server.root.path().join("a.conf"), "LogLevel notice\nBogus 1\n").unwrap();
            server.signal(signal);
            if knob.ends_with("keep") {
                server.says("a.conf:2: Invalid command 'Bogus'");
                server.says("the configuration stays as it was");
                assert_eq!(get(server.addr, "/").0, 200);
                continue;
            }
            if signal == Signal::SIGUSR1 {
                server.says("raceful restart");
                held.release();
                assert!(held.answer().expect("what was begun is finished").starts_with("HTTP/1.1 200"));
            }
            assert_eq!(server.server.wait().code(), Some(2));
            server.says("Invalid command 'Bogus'");
        }
    }

    // mpm-semantics 5.1: worker and event replace the first two at once and say so at the third; prefork waits, silently.
    pub fn children_killed_in_a_row_are_replaced_at_the_tick(mpm: &str) {
        let four = capacity(mpm, 4, 4);
        let server = Server::start(mpm, 1, &with(&four, &[]));
        let before = until("four children", || Some(server.children()).filter(|c| c.len() == 4));
        // A parent that is stopped finds all three at once, with no tick between.
        server.signal(Signal::SIGSTOP);
        before.iter().take(3).for_each(|&child| send(child, Signal::SIGKILL));
        until("they have ended", || {
            before.iter().take(3).all(|&child| ended_with(child).is_some()).then_some(())
        });
        server.signal(Signal::SIGCONT);
        let mut held = server.connect();
        held.hold();
        server.connect().get();
        let says = server.log().contains("children are killed successively!");
        assert_eq!(says, mpm != "prefork", "{}", server.log());
    }

    pub fn buffer_sizes_and_stack_sizes_are_served_with(mpm: &str) {
        let directives =
            ["SendBufferSize 4096", "ReceiveBufferSize 4096", "ThreadStackSize 262144", "MaxMemFree 64"];
        let server = Server::start(mpm, 1, &directives);
        let (status, _, body) = get(server.addr, "/");
        assert_eq!((status, body.as_slice()), (200, b"hello\n".as_slice()));
    }
}

/// mpm-semantics 5.1: where no child ever worked, the parent gives up.
#[test]
fn a_server_whose_children_never_work_ends() {
    for mpm in ["worker", "event"] {
        // No thread can have such a stack.
        let mut server = Server::start(mpm, 1, &["StartServers 1", "ThreadStackSize 70368744177664"]);
        assert_eq!(server.server.wait().code(), Some(1));
        server.says("A resource shortage or other unrecoverable failure was encountered before any child");
    }
}

/// A count that two looks in a row agree on, and that many times.
fn stable(count: impl Fn() -> usize) -> usize {
    let mut seen = (count(), 0);
    until("a count settles", || {
        let now = count();
        seen = if now == seen.0 { (now, seen.1 + 1) } else { (now, 0) };
        (seen.1 == 40).then_some(now)
    })
}

/// The status of a process that has ended and that nobody has waited for.
fn ended_with(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after_name: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // The state is the third field of all, the exit status the 52nd.
    (after_name[0] == "Z").then(|| after_name[49].parse().unwrap())
}

/// Every mechanism that Apache recovers from a killed holder with, and its name in the log.
const RECOVERING: [(&str, &str); 5] = [
    ("default", "pthread"),
    ("pthread", "pthread"),
    ("file", "fcntl"),
    ("flock", "flock"),
    ("sysvsem", "sysvsem"),
];

/// With several addresses one child at a time waits for connections, holding the mutex. All are killed, so it is among them.
#[test]
fn a_killed_holder_of_the_accept_mutex_is_survived() {
    for mpm in ["prefork", "worker"] {
        for (word, name) in RECOVERING {
            let folder = tempfile::tempdir().unwrap();
            let mutex = match word {
                "file" | "flock" => format!("Mutex {word}:{} mpm-accept", folder.path().display()),
                word => format!("Mutex {word}"),
            };
            let three = capacity(mpm, 3, 3);
            let server = Server::start(mpm, 2, &with(&three, &[&mutex, "LogLevel debug"]));
            server.says(&format!("Accept mutex: {name} (default: pthread)"));
            for address in server.addresses.iter().cycle().take(6) {
                assert_eq!(get(*address, "/").0, 200, "{mutex}");
            }
            let before = server.children();
            before.iter().for_each(|&child| send(child, Signal::SIGKILL));
            until("all are replaced", || server.children().is_disjoint(&before).then_some(()));
            for address in server.addresses.iter().cycle().take(6) {
                assert_eq!(get(*address, "/").0, 200, "{mutex} after the kill");
            }
        }
    }
}

#[test]
fn posixsem_serves_and_one_listen_needs_no_mutex() {
    for mpm in ["prefork", "worker"] {
        let server = Server::start(mpm, 2, &["Mutex posixsem default", "LogLevel debug"]);
        server.says("Accept mutex: posixsem (default: pthread)");
        for address in server.addresses.iter().cycle().take(6) {
            assert_eq!(get(*address, "/").0, 200);
        }
        let server = Server::start(mpm, 1, &["Mutex posixsem default", "LogLevel debug"]);
        server.says("Accept mutex: none (default: pthread)");
    }
}

/// A graceful restart makes new mutexes; children of both generations go on, and a full one leaves no lock file behind.
#[test]
fn restarts_make_new_mutexes() {
    for word in ["flock", "file", "sysvsem", "pthread"] {
        let folder = tempfile::tempdir().unwrap();
        let mutex = match word {
            "file" | "flock" => format!("Mutex {word}:{} OmitPID", folder.path().display()),
            word => format!("Mutex {word}"),
        };
        {
            let server = Server::start("prefork", 2, &["StartServers 3", "LogLevel notice", &mutex]);
            for (round, signal) in [Signal::SIGUSR1, Signal::SIGHUP, Signal::SIGUSR1].into_iter().enumerate()
            {
                let before = server.children();
                server.signal(signal);
                let times = || server.log().matches("resuming normal operations").count();
                until("it resumes", || (times() == round + 2).then_some(()));
                until("new children", || server.children().is_disjoint(&before).then_some(()));
                for address in server.addresses.iter().cycle().take(4) {
                    assert_eq!(get(*address, "/").0, 200, "{mutex} after {signal}");
                }
            }
            assert!(!server.log().contains("AH00273"), "{}", server.log());
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{mutex}");
    }
}

/// mpm-semantics 1.3: two calls per accept, the one that hands the mutex on and the one that takes it again.
#[test]
fn a_mutex_costs_the_calls_that_apaches_does() {
    if !has("strace") {
        return;
    }
    for (word, trace, call) in [
        ("file", "fcntl", "F_SETLKW"),
        ("flock", "flock", "flock("),
        ("sysvsem", "semop,semtimedop", "sem_op="),
    ] {
        let one = capacity("prefork", 1, 1);
        let mutex = format!("Mutex {word}");
        let server = Server::start("prefork", 2, &with(&one, &[&mutex]));
        let child = *server.children().first().unwrap();
        assert_eq!(get(server.addr, "/").0, 200);
        let listening: BTreeSet<u64> = server.addresses.iter().flat_map(|a| listening(*a)).collect();
        let connections = || sockets_of(child).difference(&listening).count();
        until("the child waits", || (connections() == 0).then_some(()));
        let output = server.root.path().join("trace");
        let mut strace = Command::new("strace")
            .args(["-p", &child.to_string(), "-e", &format!("trace=accept4,{trace}"), "-o"])
            .arg(&output)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until("strace is there", || {
            let status = std::fs::read_to_string(format!("/proc/{child}/status")).unwrap();
            let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
            (tracer.trim() != "0").then_some(())
        });
        for _ in 0..5 {
            assert_eq!(get(server.addr, "/").0, 200);
        }
        // Between the first accept and the sixth: strace itself ends the wait before the first.
        let mut held = server.connect();
        held.get();
        send(strace.id() as i32, Signal::SIGINT);
        strace.wait().unwrap();
        let text = std::fs::read_to_string(&output).unwrap();
        let accepts =
            text.lines().enumerate().filter(|(_, l)| l.starts_with("accept4(") && !l.contains("= -1"));
        let accepts: Vec<usize> = accepts.map(|(number, _)| number).collect();
        assert_eq!(accepts.len(), 6, "{text}");
        let lines = text.lines().take(accepts[5]).skip(accepts[0]);
        let calls = lines.filter(|line| line.contains(call)).count();
        assert_eq!(calls, 10, "{word}: five times two\n{text}");
    }
}

/// The calls that made each listening socket, as strace shows them.
fn socket_calls(trace: &str) -> Vec<Vec<String>> {
    let mut open: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut listening: Vec<(String, Vec<String>)> = Vec::new();
    for line in trace.lines() {
        let Some((call, rest)) = line.split_once('(') else { continue };
        if call == "socket" {
            let fd = rest.rsplit("= ").next().unwrap().trim().to_owned();
            open.insert(fd, vec![format!("socket({})", rest.split(')').next().unwrap())]);
            continue;
        }
        let (fd, rest) = rest.split_once(", ").unwrap();
        if let Some((_, calls)) = listening.iter_mut().find(|(other, _)| other == fd) {
            // Apache sets it once more in its second pass over the configuration.
            let again = format!("{call} {rest}");
            if calls.last() != Some(&again) {
                calls.push(again);
            }
        } else if let Some(calls) = open.get_mut(fd) {
            calls.push(if call == "bind" { "bind".to_owned() } else { format!("{call} {rest}") });
            if call == "listen" {
                listening.push((fd.to_owned(), open.remove(fd).unwrap()));
            }
        }
    }
    listening
        .into_iter()
        .map(|(_, calls)| {
            calls.into_iter().map(|c| c.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
        })
        .collect()
}

const TRACE: [&str; 5] = ["-D", "-e", "trace=socket,setsockopt,bind,listen", "-e", "signal=none"];

/// mpm-semantics 1.2, step 2: the options of listening sockets, in order and value.
#[test]
fn listening_sockets_are_made_with_apaches_calls() {
    if !has("strace") {
        return;
    }
    // Ports that were free a moment ago: Apache knows no port 0.
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let variants: [&[&str]; 4] = [
        &[],
        &["SendBufferSize 8192", "ReceiveBufferSize 8192", "ListenBacklog 64"],
        &["ListenCoresBucketsRatio 1000", "ListenTCPDeferAccept 7"],
        &["AcceptFilter http none"],
    ];
    for variant in variants {
        let root = folder();
        let ours = {
            let output = root.path().join("ours");
            let serve = command("event", root.path(), 0, &[]);
            let mut traced = Command::new("strace");
            traced.args(TRACE).arg("-o").arg(&output).arg(serve.get_program()).args(serve.get_args());
            for directive in variant.iter().chain(&["Listen 127.0.0.1:0", "Listen [::1]:0", "Listen 0"]) {
                traced.args(["-c", directive]);
            }
            drop(harness::Server::spawn(traced));
            socket_calls(&std::fs::read_to_string(output).unwrap())
        };
        assert_eq!(ours.len(), 3, "{ours:#?}");
        let options = |name: &str| ours.iter().flatten().filter(|call| call.contains(name)).count();
        assert_eq!(options("TCP_NODELAY, [1]"), 3, "{ours:#?}");
        assert_eq!(options("TCP_DEFER_ACCEPT"), if variant == ["AcceptFilter http none"] { 0 } else { 3 });
        let modules = "/usr/lib/apache2/modules";
        if !Path::new(modules).join("mod_mpm_event.so").exists() {
            eprintln!("apache2 is not installed: not compared");
            continue;
        }
        let conf = root.path().join("apache2.conf");
        let text = format!(
            "ServerName localhost\nListen 127.0.0.1:{}\nListen [::1]:{}\nListen {}\nPidFile {root}/pid\n\
             ErrorLog {root}/error.log\nLoadModule mpm_event_module {modules}/mod_mpm_event.so\n\
             LoadModule authz_core_module {modules}/mod_authz_core.so\nLogLevel notice\n{}\n",
            free(),
            free(),
            free(),
            variant.join("\n"),
            root = root.path().display(),
        );
        std::fs::write(&conf, text).unwrap();
        let output = root.path().join("theirs");
        let mut apache = Command::new("strace")
            .args(TRACE)
            .arg("-o")
            .arg(&output)
            .args(["/usr/sbin/apache2", "-DFOREGROUND", "-f"])
            .arg(&conf)
            .spawn()
            .unwrap();
        until("Apache is ready", || {
            let log = std::fs::read_to_string(root.path().join("error.log")).unwrap_or_default();
            assert!(apache.try_wait().unwrap().is_none(), "Apache ended: {log}");
            log.contains("resuming normal operations").then_some(())
        });
        send(apache.id() as i32, Signal::SIGTERM);
        apache.wait().unwrap();
        // The tracer writes its last lines when the server has gone.
        let theirs = until("strace is done", || {
            let calls = socket_calls(&std::fs::read_to_string(&output).unwrap());
            (calls.len() == 3).then_some(calls)
        });
        assert_eq!(ours, theirs, "{variant:?}");
    }
}
