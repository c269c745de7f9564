//! The parent: starts children, replaces those that end, and decides once a second whether there are too few or too many
//! (mpm-semantics 5.1, 6).
//!
//! Each iteration asks for one dead child without waiting. If there was one: bookkeeping, and again at once. If not: sleep a
//! second, then the decision. So a stream of dying children starves the decision, as in Apache.

mod restart;

use super::errorlog::ErrorLog;
use super::fork;
use super::listen::{Buckets, ListenError, Listener, open_all};
use super::monitor;
use super::mutex::AcceptMutex;
use super::pod::{Order, Pod};
use super::privileges::{self, Account, AccountError};
use super::scoreboard::Scoreboard;
use super::signals;
use super::spare::{Note, Spawning};
use crate::knobs::ModelKnobs;
use crate::{Child, ExitReason, Mpm, View};
use mpmlab_core::config::clamp::{self, Effective, Shape};
use mpmlab_core::config::{Config, Listen, LogLevel};
use mpmlab_core::server::Server;
use mpmlab_core::slot::Status;
use nix::errno::Errno;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    /// A restart found a configuration that cannot be used, and the server has ended (knob broken-restart).
    #[error("{0}")]
    Restart(String),
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
/// From this many children killed in a row on, replacing them waits for the tick (5.1).
const TOO_MANY_KILLED: u32 = 3;

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
    let buckets = config.accepting.buckets(online_cores());
    let limits = setup.limits.with_buckets(buckets, mpm.card().shape);
    let listeners = open_all(&setup.listen, config, buckets as usize, &mut Buckets::new())?;
    let (log, account) = prepare(mpm, &setup.server)?;
    let (rows, columns) = (limits.server_limit as usize, limits.thread_limit as usize);
    let file = config.scoreboard_file.as_deref();
    let board = Scoreboard::new(rows, columns, setup.knobs.scoreboard_layout, file)
        .map_err(system("make the scoreboard"))?;
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
    let (first, _) = clamp::resolve(&setup.server.config.mpm, mpm.card().shape);
    let first_limits = (first.server_limit, first.thread_limit);
    let mut parent = Parent {
        mpm,
        setup: Setup { limits, ..setup },
        listeners,
        board,
        log,
        pods: Vec::new(),
        mutexes: Vec::new(),
        account,
        first_limits,
        pid_file,
        children: Vec::new(),
        spawning: Spawning::default(),
        generation: 0,
        remaining: 0,
        killed_in_row: 0,
        sick: false,
        ever_healthy: false,
        unusable: None,
    };
    if let Err(error) = parent.equip() {
        parent.remove_pid_file();
        return Err(error);
    }
    parent.start_first();
    parent.log_started();
    ready(&parent.listeners[0]);
    let ended = parent.watch(reload);
    if let Some(why) = parent.unusable {
        // The pid file stays, as Apache's does.
        return Err(StartError::Restart(why));
    }
    parent.remove_pid_file();
    Ok(ended)
}

/// Processor cores that run now, as Apache counts them for ListenCoresBucketsRatio.
pub fn online_cores() -> i64 {
    let cores = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN);
    cores.ok().flatten().unwrap_or(1)
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
    /// What each bucket listens with.
    listeners: Buckets,
    board: Scoreboard,
    log: ErrorLog,
    /// Each bucket's pipe of death.
    pods: Vec<Pod>,
    /// Each bucket's accept mutex, where one is needed.
    mutexes: Vec<AcceptMutex>,
    account: Option<Account>,
    pid_file: Option<PathBuf>,
    /// ServerLimit and ThreadLimit of the first run, which no restart changes.
    first_limits: (i64, i64),
    children: Vec<Offspring>,
    spawning: Spawning,
    generation: u32,
    /// Children to replace one for one after a graceful restart.
    remaining: usize,
    killed_in_row: u32,
    /// A child lacked a resource; the next tick looks whether any child ever worked.
    sick: bool,
    ever_healthy: bool,
    /// Why the server ends: the configuration that a restart found.
    unusable: Option<String>,
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

    fn buckets(&self) -> usize {
        self.listeners.len()
    }

    /// Makes what each run has of its own, and sets up what it has inherited: pipes of death, accept mutexes, listeners.
    fn equip(&mut self) -> Result<(), StartError> {
        let system = |what| move |why| StartError::System { what, why };
        // prefork and worker: blocking when there is one Listen, non-blocking when several (mpm-semantics 1.2). event's
        // children set theirs non-blocking themselves. Buckets do not count: each child has its own listeners only.
        let several = self.listeners[0].len() > 1;
        for listener in self.listeners.iter().flatten() {
            listener.set_nonblocking(several);
        }
        let pods: nix::Result<_> = (0..self.buckets()).map(|_| Pod::new()).collect();
        self.pods = pods.map_err(system("make the pipe of death"))?;
        // The old ones go first: a lock file without the process id has the same name.
        self.mutexes.clear();
        if several && self.mpm.card().messages.accept_mutex != 0 {
            let config = &self.setup.server.config;
            let setting = config.accepting.mutex();
            let make =
                |bucket| AcceptMutex::new(&setting, bucket, &lock_folder(config), self.account.as_ref());
            let made: nix::Result<_> = (0..self.buckets()).map(make).collect();
            self.mutexes = made.map_err(system("make the accept mutex; choose another with Mutex"))?;
        }
        Ok(())
    }

    fn start_first(&mut self) {
        for row in 0..(self.setup.limits.start_servers.max(1) as usize).min(self.limit()) {
            if !self.start(row) {
                break;
            }
        }
    }

    fn log_started(&self) {
        let ratio = self.setup.server.config.accepting.cores_per_bucket;
        if ratio > 0 {
            let text = format!(
                "Using {} listeners bucket(s) based on {} online CPU cores and a ratio of {ratio}",
                self.buckets(),
                online_cores()
            );
            self.say(LogLevel::Info, 2819, &text);
        }
        let text = format!("{} configured -- resuming normal operations", self.setup.server.banner);
        self.say(LogLevel::Notice, self.mpm.card().messages.resuming, &text);
        let number = self.mpm.card().messages.accept_mutex;
        if number != 0 {
            let name = self.mutexes.first().map_or("none", |mutex| mutex.mechanism().name());
            self.say(LogLevel::Debug, number, &format!("Accept mutex: {name} (default: pthread)"));
        }
    }

    /// Starts a child in a row. If the system refuses, this round is over after a pause.
    fn start(&mut self, row: usize) -> bool {
        if !self.threaded() {
            self.board.slot(row, 0).set(Status::Starting);
        }
        let parent = Pid::this();
        match fork::spawn(|| self.be_child(row, parent)) {
            Ok(pid) => {
                let old = self.board.process(row).pid();
                if old != 0 {
                    let ending = if self.board.process(row).quiescing() { " (quiescing)" } else { "" };
                    let text = format!("pid {pid} taking over scoreboard slot from {old}{ending}");
                    self.say(LogLevel::Info, 263, &text);
                }
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
        let bucket = row % self.buckets();
        for other in (0..self.buckets()).filter(|other| *other != bucket) {
            self.listeners[other].iter().for_each(Listener::close);
            self.pods[other].close();
        }
        let mutex = self.mutexes.get(bucket);
        if let Some(Err(errno)) = mutex.map(AcceptMutex::enter_child) {
            let text = format!("cannot open the accept mutex: {}", errno.desc());
            self.log.say(LogLevel::Emerg, &text);
            return ExitReason::Fatal;
        }
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
            listeners: &self.listeners[bucket],
            pod: &self.pods[bucket],
            mutex,
            leaving: signals::leaving(),
            knobs: &self.setup.knobs,
            log: &self.log,
        });
        let closed = signals::leaving().closed_kept();
        if closed > 0 {
            let text = format!(
                "child ends, kept connections closed: {closed} (a request that was on its way on one was not answered)"
            );
            self.log.say(LogLevel::Info, &text);
        }
        if let ExitReason::Sick(errno) = reason {
            self.log.say(LogLevel::Emerg, &format!("child ends early: {}", errno.desc()));
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
            // A signal cuts the sleep short, and the tick comes early, before the signal is obeyed: as in Apache.
            signals::sleep(TICK);
            self.killed_in_row = 0;
            if self.tick() == Next::GaveUp {
                return Ended::GaveUp;
            }
        }
    }

    /// Starts what is left of a graceful restart, or of a killed child, in free rows.
    fn start_remaining(&mut self) {
        let rows = (self.mpm.rows_to_fill(&self.setup.limits).max(1) as usize).min(self.board.rows());
        let free: Vec<usize> = (0..rows).filter(|row| self.is_free(*row)).take(self.remaining).collect();
        self.remaining = 0;
        for row in free {
            if !self.start(row) {
                break;
            }
        }
    }

    /// Once a second: too few, too many?
    fn tick(&mut self) -> Next {
        if self.remaining > 0 {
            // Those that start now are not idle yet: a decision would start too many.
            self.start_remaining();
            return Next::GoOn;
        }
        let view = View { board: &self.board, limits: &self.setup.limits };
        if self.threaded() {
            let threads = match self.mpm.card().shape {
                Shape::Acceptor => 0,
                _ => self.setup.limits.threads_per_child as usize,
            };
            self.ever_healthy = self.ever_healthy || view.rows().iter().any(|row| row.healthy(threads));
            if std::mem::take(&mut self.sick) && !self.ever_healthy {
                self.say(
                    LogLevel::Alert,
                    self.mpm.card().messages.never_healthy,
                    "A resource shortage or other unrecoverable failure was encountered before any child process \
                     initialized successfully... mpmlab is exiting!",
                );
                self.end_all();
                return Next::GaveUp;
            }
        }
        self.decide();
        Next::GoOn
    }

    /// Does what the model decides.
    fn decide(&mut self) {
        let view = View { board: &self.board, limits: &self.setup.limits };
        let plan = self.mpm.maintain(&view, &mut self.spawning);
        for note in plan.notes {
            self.report(note);
        }
        for row in plan.start {
            if !self.start(row) {
                break;
            }
        }
        for bucket in plan.retire {
            self.pods[bucket].order(Order::Graceful, 1);
            if !self.threaded() {
                super::dummy::connect(&self.listeners[bucket], &self.setup.server.banner);
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
            Note::ScoreboardFull => {
                self.say(LogLevel::Error, numbers.full, "scoreboard is full, not at MaxRequestWorkers");
            }
            // Apache's sentence lacks the space, too.
            Note::IncreaseServerLimit => self.say(
                LogLevel::Error,
                numbers.full,
                "scoreboard is full, not at MaxRequestWorkers.Increase ServerLimit.",
            ),
            Note::BusyProcesses { spawning, idle, total } => self.busy(
                "or Min/MaxSpareServers",
                spawning,
                &format!("there are {idle} idle, and {total} total children"),
            ),
            Note::BusyThreads { spawning, idle, total } => self.busy(
                "ThreadsPerChild or Min/MaxSpareThreads",
                spawning,
                &format!("there are around {idle} idle threads, and {total} total children"),
            ),
            Note::BusyActive { spawning, idle, active, leaving } => self.busy(
                "ThreadsPerChild or Min/MaxSpareThreads",
                spawning,
                &format!(
                    "there are around {idle} idle threads, {active} active children, and {leaving} children that are \
                     shutting down"
                ),
            ),
        }
    }

    fn busy(&self, raise: &str, spawning: usize, there_are: &str) {
        let text = format!(
            "server seems busy, (you may need to increase StartServers, {raise}), spawning {spawning} children, {there_are}"
        );
        self.say(LogLevel::Info, self.mpm.card().messages.busy, &text);
    }

    /// Forgets a child that has ended, and gives its row free unless a younger one squats in it: then the answer is `None`
    /// in the second place.
    fn bury(&mut self, pid: Pid) -> Option<(Offspring, Option<usize>)> {
        let index = self.children.iter().position(|child| child.pid == pid)?;
        let child = self.children.swap_remove(index);
        let had_row = self.board.process(child.row).pid() == pid.as_raw();
        if had_row {
            self.board.bury(child.row);
        }
        Some((child, had_row.then_some(child.row)))
    }

    /// Bookkeeping for one child that has ended (mpm-semantics 5.1).
    fn reap(&mut self, status: WaitStatus) -> Next {
        let Some((child, row)) = status.pid().and_then(|pid| self.bury(pid)) else { return Next::GoOn };
        let current = child.generation == self.generation;
        let numbers = self.mpm.card().messages;
        let mut killed = false;
        let mut sick = false;
        match status {
            WaitStatus::Exited(pid, code) if code == ExitReason::Fatal.status() => {
                if current {
                    let text = format!("Child {pid} returned a Fatal error... mpmlab is exiting!");
                    self.say(LogLevel::Alert, 50, &text);
                    self.end_all();
                    return Next::GaveUp;
                }
                // One that was started just before the restart may have lost what it needed.
                let text = format!("Ignoring fatal error in child of previous generation (pid {pid}).");
                self.say(LogLevel::Warn, numbers.old_fatal, &text);
                self.sick = true;
            }
            WaitStatus::Exited(_, code) if code == ExitReason::Sick(Errno::UnknownErrno).status() => {
                sick = true;
                self.sick = true;
                // One that is alone may have worked and ended between two ticks: who has answered a request has worked.
                self.ever_healthy |= self.has_one_acceptor()
                    && (0..self.board.rows())
                        .any(|row| self.board.slots(row).any(|slot| slot.counters().requests[2] > 0));
            }
            WaitStatus::Signaled(pid, signal, _) => {
                killed = true;
                if let Some(name) = signals::remarkable(signal) {
                    let text = format!("child pid {pid} exit signal {name} ({})", signal as i32);
                    self.say(LogLevel::Notice, 52, &text);
                }
            }
            _ => {}
        }
        // Of one whose row another has taken nobody takes notice.
        let Some(row) = row else { return Next::GoOn };
        if sick {
            self.spawning.was_sick(row);
        } else if self.remaining > 0 {
            self.remaining -= 1;
            self.start(row);
        }
        if killed && self.threaded() {
            self.killed_in_row += 1;
            if self.killed_in_row < TOO_MANY_KILLED && self.has_one_acceptor() {
                self.decide();
            } else if self.killed_in_row < TOO_MANY_KILLED {
                self.remaining += 1;
                self.start_remaining();
            } else if self.killed_in_row % 10 == TOO_MANY_KILLED {
                self.say(LogLevel::Warn, numbers.killed_successively, "children are killed successively!");
            }
        } else if self.has_one_acceptor() && matches!(status, WaitStatus::Exited(_, 0)) {
            self.decide();
        }
        Next::GoOn
    }
}

/// Where lock files are made when `Mutex` does not say: beside the pid file, or else where everybody may write.
fn lock_folder(config: &Config) -> PathBuf {
    let beside = config.pid_file.as_deref().and_then(Path::parent).filter(|p| !p.as_os_str().is_empty());
    beside.unwrap_or(Path::new("/tmp")).to_owned()
}
