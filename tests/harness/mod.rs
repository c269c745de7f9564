//! What end-to-end tests share: a running `mpmlab serve`, and a client that sends bytes and reads until the end.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod client;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Group, Pid, User};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// A model that is registered.
pub struct Model {
    /// For `--mpm`.
    pub name: String,
    /// What gives it its size: `processes`, `threads` or an `acceptor` that grows by itself.
    pub shape: String,
}

/// All of them, as the executable lists them: a new one is tested as soon as it is registered.
pub static MODELS: LazyLock<Vec<Model>> = LazyLock::new(|| {
    let output = Command::new(env!("CARGO_BIN_EXE_mpmlab")).args(["mechanisms", "--json"]).output().unwrap();
    let listed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let word = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let models = listed["models"].as_array().unwrap().iter();
    models.map(|model| Model { name: word(&model["name"]), shape: word(&model["shape"]) }).collect()
});

/// Their names: what must hold, holds under each.
pub static MPMS: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| MODELS.iter().map(|model| model.name.as_str()).collect());

/// The shape of a model.
pub fn shape(mpm: &str) -> &'static str {
    &MODELS.iter().find(|model| model.name == mpm).expect("a registered model").shape
}

/// Checks something under several models, each in a thread that bears its name, all at the same time.
pub fn under_each(mpms: &[&'static str], check: fn(&str)) {
    std::thread::scope(|scope| {
        let begin = |mpm: &'static str| {
            let thread = Builder::new().name(format!("under {mpm}"));
            (mpm, thread.spawn_scoped(scope, move || check(mpm)).unwrap())
        };
        let running: Vec<_> = mpms.iter().copied().map(begin).collect();
        let failed: Vec<&str> =
            running.into_iter().filter_map(|(mpm, thread)| thread.join().is_err().then_some(mpm)).collect();
        assert!(failed.is_empty(), "failed under {}", failed.join(", "));
    });
}

/// Longest wait for anything that is certain to happen. Reached only by a failing test.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A server under test. Dropping it stops it with SIGTERM and checks that it left no process behind.
pub struct Server {
    /// Where it listens: the first address.
    pub addr: SocketAddr,
    /// All of them.
    pub addresses: Vec<SocketAddr>,
    /// The parent process.
    pub pid: i32,
    child: Child,
    log: Arc<Mutex<String>>,
}

impl Server {
    /// Starts `mpmlab serve` on a free port of the loopback interface and waits until it says that it listens.
    pub fn start(mpm: &str, root: &Path, directives: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mpmlab"));
        command.args(["serve", "--mpm", mpm, "--listen", "127.0.0.1:0", "--root"]).arg(root);
        for directive in directives {
            command.args(["-c", directive]);
        }
        Server::spawn(command)
    }

    /// Starts a prepared command line that serves. Unless it says something about the knobs itself, children end at once
    /// when they are told to stop: Apache's event lets a held connection delay that for 9 s (mpm-semantics 7.9).
    pub fn spawn(mut command: Command) -> Server {
        let said = command.get_args().any(|arg| arg.to_string_lossy().contains("LabStop"));
        if !said {
            command.args(["-c", "LabStopSignal on", "-c", "LabStopRetiring on"]);
        }
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = child.id() as i32;
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let log = Arc::new(Mutex::new(String::new()));
        let addresses: Vec<SocketAddr> = loop {
            let mut line = String::new();
            if stderr.read_line(&mut line).unwrap() == 0 {
                let status = child.wait().unwrap();
                panic!("the server ended ({status}) before it listened:\n{}", log.lock().unwrap());
            }
            log.lock().unwrap().push_str(&line);
            if let Some(rest) = line.strip_prefix("listening on ") {
                let urls = rest.split_whitespace();
                break urls.filter_map(|word| word.strip_prefix("http://")?.parse().ok()).collect();
            }
        };
        // Somebody must go on reading, or a talkative server would block.
        let sink = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                sink.lock().unwrap().push_str(&format!("{line}\n"));
            }
        });
        Server { addr: addresses[0], addresses, pid, child, log }
    }

    /// Everything the server has said on standard error.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// The server's child processes.
    pub fn children(&self) -> BTreeSet<i32> {
        children_of(self.pid)
    }

    /// Its children, theirs, and so on.
    pub fn descendants(&self) -> BTreeSet<i32> {
        descendants_of(self.pid)
    }

    /// Sends a signal to the parent.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid), signal).unwrap();
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        until("the server ends", || self.child.try_wait().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let children = self.descendants();
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.signal(Signal::SIGTERM);
        }
        let ended = within(PATIENCE, || self.child.try_wait().unwrap());
        if ended.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            eprintln!("--- the server said:\n{}", self.log());
            return;
        }
        assert!(ended.is_some(), "SIGTERM did not end the server:\n{}", self.log());
        let left: Vec<_> = children.into_iter().filter(|&pid| alive(pid)).collect();
        assert!(left.is_empty(), "processes {left:?} outlived the server:\n{}", self.log());
    }
}

/// Asks again and again until there is an answer or the time is up.
pub fn within<T>(limit: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if start.elapsed() > limit {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// As [`within`] the longest time, and there must be an answer.
pub fn until<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, ask).unwrap_or_else(|| panic!("waited in vain: {what}"))
}

/// Is there such a process, and has it not ended?
pub fn alive(pid: i32) -> bool {
    parent_of(pid).is_some()
}

/// The processes whose parent is this one.
pub fn children_of(pid: i32) -> BTreeSet<i32> {
    let entries = std::fs::read_dir("/proc").unwrap();
    let pids = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
    pids.filter(|&p| parent_of(p) == Some(pid)).collect()
}

/// As [`children_of`], and theirs, and so on.
pub fn descendants_of(pid: i32) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    let mut todo = vec![pid];
    while let Some(pid) = todo.pop() {
        let children = children_of(pid);
        todo.extend(children.iter().copied());
        found.extend(children);
    }
    found
}

/// Processes that have ended and that this parent has not waited for.
pub fn zombies_of(parent: i32) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap();
    let pids = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
    pids.filter_map(stat).filter(|stat| *stat == ('Z', parent)).count()
}

/// A process's parent; `None` if there is no such process, or only what is left of it until somebody waits for it.
fn parent_of(pid: i32) -> Option<i32> {
    stat(pid).filter(|(state, _)| *state != 'Z').map(|(_, parent)| parent)
}

/// A process's state and parent.
fn stat(pid: i32) -> Option<(char, i32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; state and parent follow it.
    let mut after_name = stat.rsplit_once(')')?.1.split_whitespace();
    Some((after_name.next()?.chars().next()?, after_name.next()?.parse().ok()?))
}

/// `User` and `Group` for servers that are started as root, so that file permissions mean something to them; nothing when
/// the tests run as somebody else.
pub fn identity() -> Vec<String> {
    if !nix::unistd::geteuid().is_root() {
        return Vec::new();
    }
    let user = ["www-data", "nobody"].into_iter().find(|u| matches!(User::from_name(u), Ok(Some(_))));
    let group =
        ["www-data", "nogroup", "nobody"].into_iter().find(|g| matches!(Group::from_name(g), Ok(Some(_))));
    vec![
        format!("User {}", user.expect("a user without rights")),
        format!("Group {}", group.expect("its group")),
    ]
}

/// How a connection came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The server closed it.
    Closed,
    /// The server reset it.
    Reset,
    /// The server neither sent anything nor closed it for [`PATIENCE`].
    Open,
}

/// Sends bytes, in pieces of `piece` bytes, and reads until the server closes. `half_close` ends the sending side first.
pub fn talk(addr: SocketAddr, bytes: &[u8], piece: usize, half_close: bool) -> (Vec<u8>, End) {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    for part in bytes.chunks(piece.max(1)) {
        // A server that has refused the request may have closed already; what it said still counts.
        if stream.write_all(part).is_err() {
            break;
        }
    }
    if half_close {
        let _ = stream.shutdown(Shutdown::Write);
    }
    let mut answer = Vec::new();
    let end = match stream.read_to_end(&mut answer) {
        Ok(_) => End::Closed,
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => End::Open,
        Err(_) => End::Reset,
    };
    (answer, end)
}

/// One request with `Connection: close`, answered: status, header text, body.
pub fn get(addr: SocketAddr, path: &str) -> (u16, String, Vec<u8>) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let (answer, end) = talk(addr, request.as_bytes(), usize::MAX, false);
    assert_eq!(end, End::Closed, "GET {path}");
    let split = answer.windows(4).position(|w| w == b"\r\n\r\n").expect("a header");
    let header = String::from_utf8(answer[..split].to_vec()).unwrap();
    let status = header.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
    (status, header, answer[split + 4..].to_vec())
}
