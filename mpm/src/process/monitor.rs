//! The scoreboard as a plain value, for the status page.

use super::scoreboard::Scoreboard;
use crate::Card;
use mpmlab_core::config::clamp::Effective;
use mpmlab_core::connection::step::ConnState;
use mpmlab_core::monitor::{Monitor, Process, Snapshot, Worker};

/// One process's view of the whole server. What is read again at a restart, generation and limits, is as it was when the
/// process began, as in Apache.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The shared scoreboard.
    pub board: &'a Scoreboard,
    /// The model.
    pub card: &'static Card,
    /// The numbers, corrected.
    pub limits: &'a Effective,
    /// The generation of the process that looks.
    pub generation: u32,
}

impl Monitor for View<'_> {
    fn snapshot(&self) -> Snapshot {
        let count = |number: i64| usize::try_from(number).unwrap_or(1).max(1);
        Snapshot {
            mpm: self.card.name,
            asynchronous: ConnState::ALL.into_iter().any(|state| self.card.parks.holds(state)),
            limit: count(self.limits.limit),
            threads: count(self.limits.threads_per_child),
            config_generation: self.generation + 1,
            generation: self.generation,
            restart_time: self.board.restart_time(),
            parent_times: self.board.parent_times(),
            processes: (0..self.board.rows()).map(|row| self.process(row)).collect(),
        }
    }
}

impl View<'_> {
    fn process(&self, row: usize) -> Process {
        use std::sync::atomic::Ordering::Relaxed;
        let process = self.board.process(row);
        Process {
            pid: process.pid(),
            generation: process.generation(),
            quiescing: process.quiescing(),
            not_accepting: process.not_accepting(),
            connections: process.connections.load(Relaxed),
            wait_io: process.wait_io.load(Relaxed),
            write_completion: process.write_completion.load(Relaxed),
            keep_alive: process.keep_alive.load(Relaxed),
            lingering_close: process.lingering_close.load(Relaxed),
            workers: self.board.slots(row).map(Worker::from).collect(),
        }
    }
}
