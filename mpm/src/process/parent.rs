//! The parent: starts children, replaces those that end, and decides once a second whether there are too few or too many
//! (mpm-semantics 5.1, 6).
//!
//! Each iteration asks for one dead child without waiting. If there was one: bookkeeping, and again at once. If not: sleep a
//! second, then the decision. So a stream of dying children starves the decision, as in Apache.

mod restart;

use super::errorlog::ErrorLog;
use super::fork;
use super::listen::{ListenError, Listener, open_all};
use super::monitor;
use super::mutex::AcceptMutex;
use super::pod::{Order, Pod};
use super::privileges::{self, Account, AccountError};
use super::scoreboard::Scoreboard;
use super::signals;
use super::spare::{Note, Spawning};
use crate::knobs::ModelKnobs;
use crate::{Child, ExitReason, Mpm, View};
use mpmlab_core::config::clamp::{Effective, Shape};
use mpmlab_core::config::{Listen, LogLevel};
use mpmlab_core::server::Server;
use mpmlab_core::slot::Status;
use nix::errno::Errno;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What a configuration comes to: everything that a run, and each restart, begins with.
#[derive(Debug)]
pub struct Setup {
    /// The resolved configuration.
    pub server: Server,
    /// The models' numbers, corrected.
    pub limits: Effective,
    /// The models' mechanisms.
    pub knobs: ModelKnobs,
    /// Where to listen; not empty.
    pub listen: Vec<Listen>,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A `Listen` cannot be had.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Children cannot run as configured.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// A file cannot be written.
    #[error("{directive} '{}': {why}; name a file that can be written", .path.display())]
    File {
        /// The directive that names it.
        directive: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// The system lacks something.
    #[error("cannot {what}: {}", .why.desc())]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        why: Errno,
    },
}

/// Seconds without a decision after a graceful restart (mpm-semantics 5.2).
const HOLD_OFF: usize = 10;
/// The pace of the loop.
const TICK: Duration = Duration::from_secs(1);
/// How long the parent pauses when the system refuses a process (1.2).
const FORK_PAUSE: Duration = Duration::from_secs(10);
/// Children killed in a row that are replaced at once; more wait for the tick (5.1).
const REPLACED_AT_ONCE: u32 = 2;

/// How a server that was started came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was told to.
    Stopped,
    /// It could not go on; the error log says why.
    GaveUp,
}

/// Checks what can be checked without starting: accounts, logs, the place of the pid file.
///
/// # Errors
/// See [`StartError`].
pub fn check(mpm: &'static dyn Mpm, setup: &Setup) -> Result<(), StartError> {
    prepare(mpm, &setup.server).map(drop)
}

/// The error log and the account of children, for a configuration that can be run with.
fn prepare(mpm: &'static dyn Mpm, server: &Server) -> Result<(ErrorLog, Option<Account>), StartError> {
    let log = open_log(mpm, server)?;
    let account = privileges::choose(server)?;
    privileges::check(account.as_ref(), server)?;
    if let Some(path) = &server.config.pid_file {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if folder.is_some_and(|folder| !folder.is_dir()) {
            let why = "its directory does not exist".to_owned();
            return Err(StartError::File { directive: "PidFile", path: path.clone(), why });
        }
    }
    Ok((log, account))
}

/// Runs the server until it is told to stop. `reload` makes the set-up anew for a restart; `ready` is called once, when the
/// first children are there.
///
/// # Errors
/// See [`StartError`]: nothing was started. After that, what goes wrong is in the error log.
pub fn run(
    mpm: &'static dyn Mpm,
    setup: Setup,
    reload: &dyn Fn() -> Result<Setup, String>,
    ready: &dyn Fn(&[Listener]),
) -> Result<Ended, StartError> {
    let system = |what| move |why| StartError::System { what, why };
    // First, so that a signal during start-up is obeyed once the loop begins, and no earlier.
    signals::prepare_parent();
    let config = &setup.server.config;
    let listeners = open_all(&setup.listen, config.listen_backlog, &mut Vec::new())?;
    let (log, account) = prepare(mpm, &setup.server)?;
    let (rows, columns) = (setup.limits.server_limit as usize, setup.limits.thread_limit as usize);
    let file = config.scoreboard_file.as_deref();
    let board = Scoreboard::new(rows, columns, setup.knobs.scoreboard_layout, file)
        .map_err(system("make the scoreboard"))?;
    let pod = Pod::new().map_err(system("make the pipe of death"))?;
    let mutex = AcceptMutex::new().map_err(system("make the accept mutex"))?;
    let pid_file = config.pid_file.clone();
    if let Some(path) = &pid_file {
        if recorded_pid(path).is_some_and(|pid| pid != std::process::id()) {
            let text = format!(
                "AH00098: pid file {} overwritten -- Unclean shutdown of previous mpmlab run?",
                path.display()
            );
            log.say(LogLevel::Warn, &text);
        }
        std::fs::write(path, format!("{}\n", std::process::id())).map_err(|error| StartError::File {
            directive: "PidFile",
            path: path.clone(),
            why: describe(&error),
        })?;
    }
    let mut parent = Parent {
        mpm,
        setup,
        listeners,
        board,
        log,
        pod,
        mutex,
        account,
        pid_file,
        children: Vec::new(),
        spawning: Spawning::default(),
        generation: 0,
        remaining: 0,
        killed_in_row: 0,
        ever_healthy: false,
    };
    parent.configure_listeners();
    parent.start_first();
    parent.log_started();
    ready(&parent.listeners);
    let ended = parent.watch(reload);
    parent.remove_pid_file();
    Ok(ended)
}

/// The process that a pid file names.
fn recorded_pid(path: &Path) -> Option<u32> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn open_log(mpm: &'static dyn Mpm, server: &Server) -> Result<ErrorLog, StartError> {
    let path = server.config.error_log.as_deref();
    ErrorLog::open(path, server.config.log_level, mpm.card().name).map_err(|error| StartError::File {
        directive: "ErrorLog",
        path: path.map(PathBuf::from).unwrap_or_default(),
        why: describe(&error),
    })
}

/// The system's reason without Rust's "(os error N)".
fn describe(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

/// A child that was not reaped yet.
#[derive(Debug, Clone, Copy)]
struct Offspring {
    pid: Pid,
    row: usize,
    generation: u32,
}

struct Parent {
    mpm: &'static dyn Mpm,
    setup: Setup,
    listeners: Vec<Listener>,
    board: Scoreboard,
    log: ErrorLog,
    pod: Pod,
    mutex: AcceptMutex,
    account: Option<Account>,
    pid_file: Option<PathBuf>,
    children: Vec<Offspring>,
    spawning: Spawning,
    generation: u32,
    /// Children to replace one for one after a graceful restart.
    remaining: usize,
    killed_in_row: u32,
    ever_healthy: bool,
}

/// Does the loop go on?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    /// It was told to stop.
    Over,
    /// It cannot go on.
    GaveUp,
}

impl Parent {
    /// Removes the pid file if it is still ours: a graceful stop has removed it already, and another server may have put
    /// its own in its place.
    fn remove_pid_file(&self) {
        if let Some(path) = &self.pid_file
            && recorded_pid(path) == Some(std::process::id())
        {
            let _ = std::fs::remove_file(path);
        }
    }

    /// Do children hear orders through the pipe of death at any time? (prefork's do by signals, or between connections.)
    fn threaded(&self) -> bool {
        self.mpm.card().shape != Shape::Processes
    }

    /// Is there one child that accepts for all? Then nobody accepts from its end to the next one's start, and no tick is
    /// waited for. A pool has others meanwhile, and Apache's way is to wait.
    fn has_one_acceptor(&self) -> bool {
        self.mpm.card().shape == Shape::Acceptor
    }

    fn limit(&self) -> usize {
        (self.setup.limits.limit.max(1) as usize).min(self.board.rows())
    }

    fn say(&self, level: LogLevel, number: u32, text: &str) {
        self.log.say(level, &format!("AH{number:05}: {text}"));
    }

    /// prefork and worker: blocking when there is one, non-blocking when several (mpm-semantics 1.2). event's children set
    /// theirs non-blocking themselves.
    fn configure_listeners(&self) {
        let several = self.listeners.len() > 1;
        for listener in &self.listeners {
            listener.set_nonblocking(several);
        }
    }

    fn start_first(&mut self) {
        for row in 0..(self.setup.limits.start_servers.max(1) as usize).min(self.limit()) {
            self.start(row);
        }
    }

    fn log_started(&self) {
        let text = format!("{} configured -- resuming normal operations", self.setup.server.banner);
        self.say(LogLevel::Notice, self.mpm.card().messages.resuming, &text);
    }

    /// Starts a child in a row. If the system refuses, this round is over after a pause.
    fn start(&mut self, row: usize) -> bool {
        if !self.threaded() {
            self.board.slot(row, 0).set(Status::Starting);
        }
        let parent = Pid::this();
        match fork::spawn(|| self.be_child(row, parent)) {
            Ok(pid) => {
                self.board.process(row).claim(pid.as_raw(), self.generation);
                self.children.push(Offspring { pid, row, generation: self.generation });
                true
            }
            Err(errno) => {
                let text = format!("fork: Unable to fork new process: {}", fork::describe(errno));
                self.say(LogLevel::Error, self.mpm.card().messages.fork_failed, &text);
                if !self.threaded() {
                    self.board.slot(row, 0).set(Status::Dead);
                }
                signals::sleep(FORK_PAUSE);
                false
            }
        }
    }

    /// The child's side of [`Parent::start`]: everything here is its own copy.
    fn be_child(&self, row: usize, parent: Pid) -> ExitReason {
        if let Some(account) = &self.account
            && let Err(errno) = privileges::become_account(account)
        {
            self.log.say(LogLevel::Alert, &format!("cannot become user {}: {}", account.name, errno.desc()));
            return ExitReason::Fatal;
        }
        fork::die_with(parent);
        let monitor = monitor::View {
            board: &self.board,
            card: self.mpm.card(),
            limits: &self.setup.limits,
            generation: self.generation,
        };
        let reason = self.mpm.child(&Child {
            monitor: &monitor,
            server: &self.setup.server,
            limits: &self.setup.limits,
            board: &self.board,
            row,
            generation: self.generation,
            listeners: &self.listeners,
            pod: &self.pod,
            mutex: (self.listeners.len() > 1).then_some(&self.mutex),
            leaving: signals::leaving(),
            knobs: &self.setup.knobs,
            log: &self.log,
        });
        if let ExitReason::Sick(errno) = reason {
            let text = format!("child ends early: {}", errno.desc());
            self.log.say(LogLevel::Emerg, &text);
        }
        reason
    }

    fn watch(&mut self, reload: &dyn Fn() -> Result<Setup, String>) -> Ended {
        loop {
            if let Some(request) = signals::take_request() {
                match self.obey(request, reload) {
                    Next::GoOn => continue,
                    Next::Over => return Ended::Stopped,
                    Next::GaveUp => return Ended::GaveUp,
                }
            }
            let ended = waitpid(None, Some(WaitPidFlag::WNOHANG));
            self.board.note_parent_times();
            match ended {
                Ok(WaitStatus::StillAlive) | Err(_) => {}
                Ok(status) => {
                    if self.reap(status) == Next::GaveUp {
                        return Ended::GaveUp;
                    }
                    continue;
                }
            }
            let began = Instant::now();
            signals::sleep(TICK);
            // A sleep that a signal cut short is no tick.
            if began.elapsed() >= TICK {
                self.tick();
            }
        }
    }

    /// Once a second: too few, too many?
    fn tick(&mut self) {
        self.killed_in_row = 0;
        if self.remaining > 0 {
            let free: Vec<usize> = (0..self.limit()).filter(|row| self.is_free(*row)).collect();
            for row in free.into_iter().take(self.remaining) {
                if !self.start(row) {
                    break;
                }
            }
            self.remaining = 0;
            return;
        }
        let view = View { board: &self.board, limits: &self.setup.limits };
        if self.threaded() && !self.ever_healthy {
            let threads = match self.mpm.card().shape {
                Shape::Acceptor => 0,
                _ => self.setup.limits.threads_per_child as usize,
            };
            self.ever_healthy = view.rows().iter().filter(|row| row.present && !row.quiescing).any(|row| {
                row.threads.iter().filter(|s| **s >= Status::Ready && **s != Status::Graceful).count()
                    >= threads
            });
        }
        self.decide();
    }

    /// Does what the model decides.
    fn decide(&mut self) {
        let view = View { board: &self.board, limits: &self.setup.limits };
        let plan = self.mpm.maintain(&view, &mut self.spawning);
        if let Some(note) = plan.note {
            self.report(note);
        }
        for row in plan.start {
            if !self.start(row) {
                break;
            }
        }
        if plan.retire {
            self.pod.order(Order::Graceful, 1);
            if !self.threaded() {
                super::dummy::connect(&self.listeners, &self.setup.server.banner);
            }
        }
    }

    fn is_free(&self, row: usize) -> bool {
        self.board.process(row).pid() == 0
    }

    fn report(&self, note: Note) {
        let numbers = self.mpm.card().messages;
        match note {
            Note::ReachedMaxRequestWorkers => self.say(
                LogLevel::Error,
                numbers.reached,
                "server reached MaxRequestWorkers setting, consider raising the MaxRequestWorkers setting",
            ),
            Note::WithinMinSpareThreads => self.say(
                LogLevel::Error,
                numbers.near,
                "server is within MinSpareThreads of MaxRequestWorkers, consider raising the MaxRequestWorkers setting",
            ),
            Note::ScoreboardFull => self.say(
                LogLevel::Error,
                numbers.full,
                "scoreboard is full, not at MaxRequestWorkers. Increase ServerLimit.",
            ),
            Note::Busy { spawning, idle, total, leaving } => {
                let need =
                    if self.threaded() { "ThreadsPerChild or Min/MaxSpareThreads" } else { "or Min/MaxSpareServers" };
                let text = format!(
                    "server seems busy, (you may need to increase StartServers, {need}), spawning {spawning} children, \
                     there are around {idle} idle, {total} active children, and {leaving} that are shutting down"
                );
                self.say(LogLevel::Info, numbers.busy, &text);
            }
        }
    }

    /// Forgets a child that has ended, and gives its row free unless a younger one squats in it.
    fn bury(&mut self, pid: Pid) -> Option<Offspring> {
        let index = self.children.iter().position(|child| child.pid == pid)?;
        let child = self.children.swap_remove(index);
        if self.board.process(child.row).pid() == pid.as_raw() {
            self.board.bury(child.row);
        }
        Some(child)
    }

    /// Bookkeeping for one child that has ended (mpm-semantics 5.1).
    fn reap(&mut self, status: WaitStatus) -> Next {
        let Some(child) = status.pid().and_then(|pid| self.bury(pid)) else { return Next::GoOn };
        let current = child.generation == self.generation;
        let numbers = self.mpm.card().messages;
        let mut killed = false;
        match status {
            WaitStatus::Exited(pid, code) if code == ExitReason::Fatal.status() && current => {
                let text = format!("Child {pid} returned a Fatal error... mpmlab is exiting!");
                self.say(LogLevel::Alert, 50, &text);
                self.end_all();
                return Next::GaveUp;
            }
            WaitStatus::Exited(_, code) if code == ExitReason::Sick(Errno::UnknownErrno).status() => {
                self.spawning.rate = 1;
                // A tick may not have seen it, but who has answered a request has worked.
                self.ever_healthy |= (0..self.board.rows())
                    .any(|row| self.board.slots(row).any(|slot| slot.counters().requests[2] > 0));
                if self.threaded() && !self.ever_healthy {
                    self.say(
                        LogLevel::Alert,
                        numbers.never_healthy,
                        "A resource shortage or other unrecoverable failure was encountered before any child process \
                         initialized successfully... mpmlab is exiting!",
                    );
                    self.end_all();
                    return Next::GaveUp;
                }
            }
            WaitStatus::Signaled(pid, signal, _) => {
                killed = true;
                let text = format!("child pid {pid} exit signal {} ({})", signal.as_str(), signal as i32);
                self.say(LogLevel::Notice, 52, &text);
            }
            _ => {}
        }
        if self.remaining > 0 {
            self.remaining -= 1;
            self.start(child.row);
        } else if killed && current && self.threaded() && self.is_free(child.row) {
            self.killed_in_row += 1;
            if self.killed_in_row <= REPLACED_AT_ONCE {
                self.start(child.row);
            } else {
                self.say(LogLevel::Warn, numbers.killed_successively, "children are killed successively!");
            }
        } else if self.has_one_acceptor() && matches!(status, WaitStatus::Exited(_, 0)) {
            self.decide();
        }
        Next::GoOn
    }
}
