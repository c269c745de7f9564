//! One server as a tree of processes: started on its core, watched, and stopped so that nothing stays behind.
//!
//! The leader gets a process group of its own: prefork's `killpg` on stop must not reach the study, a Ctrl-C in the
//! terminal must not reach the server before the study has decided, and one signal to the group reaches all that is left.

use super::pin;
use super::ready;
use super::watchdog;
use crate::probe::tree;
use crate::reason::reason;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How a server is started; what a target produces.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The executable.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// How its address becomes known.
    pub announces: Announces,
    /// Processes there are once the whole pool exists.
    pub processes: usize,
    /// Where its standard error goes: a file the study may read.
    pub log: PathBuf,
    /// More files to look into when it does not start.
    pub more_logs: Vec<PathBuf>,
    /// A path that answers 200, asked until it does.
    pub probe_path: String,
}

/// How the address of a started server becomes known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announces {
    /// A line `listening on http://ADDR (` on its standard error (the contract of `mpmlab serve`).
    OnStderr,
    /// It was told where to listen.
    Knows(SocketAddr),
    /// It was told where to listen, and one of its other logs says when it is up: no connection is spent on asking.
    InLog(SocketAddr),
}

/// What Apache's and mpmlab's error logs say of a server that is up.
const UP: &str = "resuming normal operations";

/// How long a server may take until it answers.
const START_LIMIT: Duration = Duration::from_secs(10);
/// How long a server may take until its whole pool exists, once it answers.
const POOL_LIMIT: Duration = Duration::from_secs(3);
/// How long a stopped server may take before it is killed and its round counts as spoiled.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(2);

/// A running server. Dropping it kills whatever is left of it.
#[derive(Debug)]
pub struct Server {
    leader: Child,
    group: Pid,
    address: SocketAddr,
    gone: bool,
}

impl Server {
    /// Starts the server on `cpu` and waits until it answers and its pool is complete. The error is one line.
    pub fn start(launch: &Launch, cpu: Option<usize>, interrupted: &AtomicBool) -> Result<Server, String> {
        let program = launch.program.display();
        let cannot = |error| format!("cannot run {program}: {}", reason(&error));
        let mut leader = spawn(launch, cpu).map_err(cannot)?;
        let gate = leader.stdin.take();
        let group = Pid::from_raw(i32::try_from(leader.id()).expect("Linux process ids fit in i32"));
        watchdog::guard(group);
        let mut server =
            Server { leader, group, address: SocketAddr::from(([127, 0, 0, 1], 0)), gone: false };
        gate.expect("it was spawned with a pipe").write_all(b"go\n").map_err(cannot)?;
        let deadline = Instant::now() + START_LIMIT;
        let mut known = match launch.announces {
            Announces::Knows(address) => Some(address),
            Announces::OnStderr | Announces::InLog(_) => None,
        };
        loop {
            if let Some(status) = server.exited() {
                return Err(format!("{program} ended while starting ({status}){}", last_words(launch)));
            }
            if let Announces::InLog(address) = launch.announces {
                let says_so = |log| fs::read_to_string(log).is_ok_and(|text| text.contains(UP));
                if launch.more_logs.iter().any(says_so) {
                    server.address = address;
                    break;
                }
            }
            known = known.or_else(|| announced(&fs::read_to_string(&launch.log).unwrap_or_default()));
            if let Some(address) = known
                && ready::fetch(address, &launch.probe_path).is_ok_and(|answer| answer.status == 200)
            {
                server.address = address;
                break;
            }
            if interrupted.load(Ordering::Relaxed) {
                return Err("interrupted".to_owned());
            }
            if Instant::now() > deadline {
                let limit = START_LIMIT.as_secs();
                return Err(format!("{program} did not answer within {limit} s{}", last_words(launch)));
            }
            std::thread::sleep(POLL);
        }
        server.wait_for_pool(launch, interrupted)?;
        Ok(server)
    }

    /// Waits until all processes of the pool exist, so that a round never measures the spawning of children.
    fn wait_for_pool(&self, launch: &Launch, interrupted: &AtomicBool) -> Result<(), String> {
        let deadline = Instant::now() + POOL_LIMIT;
        loop {
            let have = self.processes().len();
            if have >= launch.processes || interrupted.load(Ordering::Relaxed) {
                return Ok(());
            }
            if Instant::now() > deadline {
                let (want, limit) = (launch.processes, POOL_LIMIT.as_secs());
                return Err(format!(
                    "only {have} of {want} processes exist after {limit} s{}",
                    last_words(launch)
                ));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process that was started: the parent of the others.
    pub fn leader(&self) -> i32 {
        self.group.as_raw()
    }

    /// Its living processes, the leader first.
    pub fn processes(&self) -> Vec<tree::Process> {
        tree::descendants(self.group.as_raw()).unwrap_or_default()
    }

    /// How it ended, if it has.
    pub fn exited(&mut self) -> Option<String> {
        self.leader.try_wait().ok().flatten().map(|status| status.to_string())
    }

    /// Stops it with SIGTERM and waits for every process of the group. The error says what had to be done by force.
    pub fn stop(mut self) -> Result<(), String> {
        let deadline = Instant::now() + STOP_LIMIT;
        // The leader is unwaited-for while `exited` is None, so its id cannot belong to anyone else.
        if self.exited().is_none() {
            let _ = kill(self.group, Signal::SIGTERM);
        }
        while self.exited().is_none() {
            if Instant::now() > deadline {
                self.kill_group();
                return Err(format!(
                    "did not stop within {} s of SIGTERM and was killed",
                    STOP_LIMIT.as_secs()
                ));
            }
            std::thread::sleep(POLL);
        }
        // What the leader left becomes this process's own (`adopt_orphans`) or init's; both end up not in the group.
        while group_exists(self.group) {
            if Instant::now() > deadline {
                self.kill_group();
                return Err("left processes behind, which were killed".to_owned());
            }
            std::thread::sleep(POLL);
        }
        self.gone();
        Ok(())
    }

    /// Ends whatever is left of it with SIGKILL, and waits until it is gone.
    pub fn kill(&mut self) {
        if !self.gone {
            self.kill_group();
        }
    }

    /// Nothing of it is left.
    fn gone(&mut self) {
        self.gone = true;
        watchdog::release(self.group);
    }

    /// SIGKILL to everything in the group, and waits until it is gone.
    fn kill_group(&mut self) {
        let _ = killpg(self.group, Signal::SIGKILL);
        let _ = self.leader.wait();
        let deadline = Instant::now() + STOP_LIMIT;
        while group_exists(self.group) && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
        self.gone();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Makes orphans of stopped servers children of this process, so that they can be waited for wherever init does not
/// (containers without one). Call once per study; where the kernel refuses, init collects them as always.
pub fn adopt_orphans() {
    let _ = nix::sys::prctl::set_child_subreaper(true);
}

/// Whether any process of the group exists, after collecting those that have ended and are ours.
fn group_exists(group: Pid) -> bool {
    while let Ok(status) = waitpid(Pid::from_raw(-group.as_raw()), Some(WaitPidFlag::WNOHANG)) {
        if status == WaitStatus::StillAlive {
            break;
        }
    }
    killpg(group, None) != Err(Errno::ESRCH)
}

/// Becomes the server as soon as a line says so, and ends if none comes.
const GATE: &str = r#"read -r go && exec "$0" "$@" </dev/null"#;

/// Starts the process, which waits for a line on its standard input before it becomes the server: were the study killed
/// before the watchdog knows of the server, the server would stay. From a thread that is on `cpu`: affinity is inherited across fork and exec, and the caller's own
/// stays as it is, without any code between fork and exec.
fn spawn(launch: &Launch, cpu: Option<usize>) -> std::io::Result<Child> {
    let log = File::create(&launch.log)?;
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", GATE])
        .arg(&launch.program)
        .args(&launch.arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::from(log.try_clone()?))
        .stderr(Stdio::from(log))
        .process_group(0)
        .env("LC_ALL", "C");
    std::thread::scope(|scope| {
        let starter = scope.spawn(move || {
            if let Some(cpu) = cpu {
                pin::this_thread_to(&[cpu])?;
            }
            command.spawn()
        });
        starter.join().expect("starting a process does not panic")
    })
}

/// The address in the ready line of `mpmlab serve`. Whole lines only: the file may end in the middle of one.
fn announced(stderr: &str) -> Option<SocketAddr> {
    let whole = &stderr[..stderr.rfind('\n')?];
    whole
        .lines()
        .find_map(|line| line.split_once("listening on http://"))
        .and_then(|(_, rest)| rest.split([' ', '/']).next()?.parse().ok())
}

/// The last line a server wrote, for the error that says it did not start.
fn last_words(launch: &Launch) -> String {
    std::iter::once(&launch.log)
        .chain(&launch.more_logs)
        .filter_map(|path| fs::read(path).ok())
        .filter_map(|bytes| {
            String::from_utf8_lossy(&bytes)
                .lines()
                .rev()
                .find(|line| !line.trim().is_empty())
                .map(str::to_owned)
        })
        .next_back()
        .map_or_else(|| "; it said nothing".to_owned(), |line| format!("; its last words: {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_whose_study_is_killed_before_it_is_guarded_never_runs() {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let launch = Launch {
            program: "echo".into(),
            arguments: vec!["it".into(), "runs".into()],
            announces: Announces::OnStderr,
            processes: 1,
            log: directory.path().join("log"),
            more_logs: Vec::new(),
            probe_path: "/".to_owned(),
        };
        for (line, expected) in [("", ""), ("go\n", "it runs\n")] {
            let mut child = spawn(&launch, None).expect("a shell can be run");
            // Dropped at the end of the statement, as by the death of the study.
            child.stdin.take().expect("it has a pipe").write_all(line.as_bytes()).expect("it is read");
            assert_eq!(child.wait().expect("it ends").success(), !line.is_empty());
            assert_eq!(fs::read_to_string(&launch.log).expect("it was made"), expected);
        }
    }

    #[test]
    fn the_ready_line_is_read_only_once_it_is_whole() {
        let line = "listening on http://127.0.0.1:40123 (mpm event, pid 7)\n";
        assert_eq!(announced(line), "127.0.0.1:40123".parse().ok());
        assert_eq!(announced(&format!("warning: clamp\n{line}more")), "127.0.0.1:40123".parse().ok());
        assert_eq!(announced("listening on http://127.0.0.1:4"), None);
        assert_eq!(announced(""), None);
    }
}
