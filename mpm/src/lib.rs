//! The concurrency models, and the process management they share.
//!
//! A model answers one question: *where does a connection wait?* The connection itself ([`Connection`]) is the same
//! under every model; it says what it waits for, and the model waits in place, or parks it and serves another.
//!
//! To add a model: one file next to [`prefork`], one line in [`registry`]. It gets the command line, the configuration, the
//! scoreboard, restarts and the once-a-second loop from there.
//!
//! Reading order: [`fork`] and [`thread`] (the simplest), [`prefork`] (30 lines of serving), [`worker`], [`event`]; then [`kit`] for the parts they are made of, and
//! [`process`] for what is around them.
//!
//! # What is not here
//!
//! - HTTP: a model never looks at a byte.
//! - Which directory or file is served: that is the core's.
//!
//! [`Connection`]: mpmlab_core::connection::Connection

#![deny(unsafe_code)]

pub mod event;
pub mod fork;
pub mod kit;
pub mod knobs;
pub mod prefork;
#[allow(unsafe_code, reason = "fork, shared memory, signals, raw sockets: the models' room for it")]
pub mod process;
pub mod registry;
pub mod thread;
pub mod worker;

use knobs::ModelKnobs;
use mpmlab_core::config::clamp::{Effective, Shape};
use mpmlab_core::config::knobs::Profile;
use mpmlab_core::connection::step::ConnState;
use mpmlab_core::context::{Leaving, ThreadContext};
use mpmlab_core::monitor::Monitor;
use mpmlab_core::server::Server;
use mpmlab_core::slot::{Slot, Status};
use nix::errno::Errno;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use process::errorlog::ErrorLog;
use process::listen::Listener;
use process::mutex::AcceptMutex;
use process::pod::Pod;
use process::scoreboard::Scoreboard;
use process::spare::{Row, SpawnPlan, Spawning};

/// A concurrency model. A model is a constant: what changes lives in the parent or in the child.
pub trait Mpm: Sync {
    /// What it says about itself.
    fn card(&self) -> &'static Card;
    /// What one child process does, from its start to its end. Runs in the child, with privileges dropped.
    fn child(&self, child: &Child<'_>) -> ExitReason;
    /// The parent's decision once a second: how many children to start or to retire.
    fn maintain(&self, view: &View<'_>, state: &mut Spawning) -> SpawnPlan;
    /// How many rows may be filled at once after a graceful restart, when the old children are still there: the limit of
    /// processes, unless dying ones do not count (mpm-semantics 5.1, 5.2).
    fn rows_to_fill(&self, limits: &Effective) -> i64 {
        limits.limit
    }
}

/// A model's own description; lists and guides are printed from it.
#[derive(Debug)]
pub struct Card {
    /// Its name in `--mpm`.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub sentence: &'static str,
    /// Processes, or processes with threads: which directives it reads and how they are corrected.
    pub shape: Shape,
    /// What a connection that waits in place keeps from other work: `process` or `thread`.
    pub holder: &'static str,
    /// The states in which no process or thread holds the connection.
    pub parks: ParkSet,
    /// Knob values that make the inside of a connection behave as under Apache's model of this name: the honest list of
    /// what else differs between models.
    pub faithful: &'static [(&'static str, &'static str)],
    /// What all knobs are set to when nobody says.
    pub profile: Profile,
    /// Its own mechanisms: knobs that mean something to it, and nothing to models that do not claim them, too; and
    /// directives of which the same holds.
    pub obeys: &'static [&'static str],
    /// Where it deliberately does not do as Apache does.
    pub deviations: &'static [&'static str],
    /// Numbers of its log messages.
    pub messages: Messages,
}

impl Card {
    /// Does a knob mean anything to the model? One that no card claims means something to all.
    pub fn knows(&self, knob: &str) -> bool {
        let claimed = registry::MODELS.iter().any(|model| model.card().obeys.contains(&knob));
        !claimed || self.obeys.contains(&knob)
    }
}

/// Numbers (AHnnnnn) of a model's log messages.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "each is the number of the message that process/parent.rs writes out")]
pub struct Messages {
    pub resuming: u32,
    pub stop: u32,
    pub graceful_stop: u32,
    pub restart: u32,
    pub graceful_restart: u32,
    pub reached: u32,
    pub near: u32,
    pub full: u32,
    pub busy: u32,
    pub fork_failed: u32,
    pub killed_successively: u32,
    pub never_healthy: u32,
    pub old_fatal: u32,
    /// 0: the model has no accept mutex and does not speak of it.
    pub accept_mutex: u32,
}

/// A set of [`ConnState`]s: where connections are parked rather than waited for in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParkSet(u8);

impl ParkSet {
    /// Every wait happens in place.
    pub const NONE: ParkSet = ParkSet(0);
    /// As Apache's event: between requests, while output drains, while closing.
    pub const EVENT: ParkSet =
        ParkSet::NONE.with(ConnState::WriteCompletion).with(ConnState::KeepAlive).with(ConnState::Linger);
    /// No wait happens in place.
    pub const ALL: ParkSet = ParkSet(0b0111_1111);

    /// This set and one state more.
    pub const fn with(self, state: ConnState) -> ParkSet {
        ParkSet(self.0 | 1 << state as u8)
    }

    /// Is the state in the set?
    pub const fn holds(self, state: ConnState) -> bool {
        self.0 & (1 << state as u8) != 0
    }
}

/// Why a child process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReason {
    /// It was told to, or has served its share.
    Finished,
    /// It lacks a resource (descriptors, memory); others may fare better. Apache's CHILDSICK.
    Sick(Errno),
    /// It cannot work, nor will another. Apache's CHILDFATAL: the server stops.
    Fatal,
}

impl ExitReason {
    /// The exit status that tells the parent.
    pub const fn status(self) -> i32 {
        match self {
            ExitReason::Finished => 0,
            ExitReason::Sick(_) => 7,
            ExitReason::Fatal => 15,
        }
    }
}

/// What a child process is given.
pub struct Child<'a> {
    /// The resolved configuration.
    pub server: &'a Server,
    /// The numbers, corrected.
    pub limits: &'a Effective,
    /// The shared scoreboard.
    pub board: &'a Scoreboard,
    /// Its row there.
    pub row: usize,
    /// The generation it belongs to.
    pub generation: u32,
    /// The sockets it accepts from: those of its bucket.
    pub listeners: &'a [Listener],
    /// Its pipe of death.
    pub pod: &'a Pod,
    /// Serialises accepting between the processes of its bucket where there are several addresses.
    pub mutex: Option<&'a AcceptMutex>,
    /// The whole server, for the status page.
    pub monitor: &'a dyn Monitor,
    /// Whether it is to end.
    pub leaving: &'static Leaving,
    /// The models' mechanisms.
    pub knobs: &'a ModelKnobs,
    /// Where it says what happens.
    pub log: &'a ErrorLog,
}

impl<'a> Child<'a> {
    /// The scoreboard slot of one of its threads.
    pub fn slot(&self, thread: usize) -> &'a Slot {
        self.board.slot(self.row, thread)
    }

    /// The working set for one of its threads.
    pub fn context(&self, thread: usize) -> ThreadContext<'a> {
        self.slot(thread).set_number(self.board.number(self.row, thread));
        ThreadContext::new(self.server, self.slot(thread), self.leaving).with_monitor(self.monitor)
    }

    /// Workers of this process.
    pub fn threads(&self) -> usize {
        usize::try_from(self.limits.threads_per_child).unwrap_or(1).max(1)
    }

    /// How to make one of its threads: with `ThreadStackSize`, or with the stack that the system gives (`ulimit -s`), as C
    /// programs have it.
    pub fn thread(&self, name: String) -> std::thread::Builder {
        // What the C library takes where there is no limit.
        const UNLIMITED: usize = 2 << 20;
        let of_system = || {
            let (soft, _) = getrlimit(Resource::RLIMIT_STACK).unwrap_or((RLIM_INFINITY, RLIM_INFINITY));
            if soft == RLIM_INFINITY { UNLIMITED } else { usize::try_from(soft).unwrap_or(UNLIMITED) }
        };
        let size = match self.server.config.thread_stack_size {
            0 => of_system(),
            size => size,
        };
        std::thread::Builder::new().name(name).stack_size(size)
    }

    /// Connections it may take in its life; `None` for no limit.
    pub fn budget(&self) -> Option<i64> {
        (self.limits.max_connections_per_child > 0).then_some(self.limits.max_connections_per_child)
    }

    /// Closes its listening sockets; other processes keep theirs.
    pub fn close_listeners(&self) {
        self.listeners.iter().for_each(Listener::close);
    }
}

/// What the parent's decision looks at.
pub struct View<'a> {
    /// The shared scoreboard.
    pub board: &'a Scoreboard,
    /// The numbers, corrected.
    pub limits: &'a Effective,
}

impl View<'_> {
    /// The first thread's status of every row: the whole of a process of one thread.
    pub fn statuses(&self) -> Vec<Status> {
        (0..self.board.rows()).map(|row| self.board.slot(row, 0).status()).collect()
    }

    /// Every row with the threads it may have.
    pub fn rows(&self) -> Vec<Row> {
        let generation = self.board.generation();
        (0..self.board.rows())
            .map(|row| {
                let process = self.board.process(row);
                Row {
                    present: process.pid() != 0,
                    quiescing: process.quiescing(),
                    not_accepting: process.not_accepting(),
                    current: process.generation() == generation,
                    threads: self.board.slots(row).map(Slot::status).collect(),
                }
            })
            .collect()
    }
}
