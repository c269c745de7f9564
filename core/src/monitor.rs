//! How the whole server is doing, as plain values: what the status page is made from.
//!
//! The core does not know about processes. Whoever does implements [`Monitor`] and hands it to the threads' contexts.

use crate::slot::{Counters, Slot, Status};

/// Somebody who knows every process and thread.
pub trait Monitor: Sync {
    /// A copy of everything, taken now.
    fn snapshot(&self) -> Snapshot;
}

/// The server at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Name of the concurrency model.
    pub mpm: &'static str,
    /// The model holds connections outside of its threads, and processes count them.
    pub asynchronous: bool,
    /// Processes at most, by the present configuration; the scoreboard may have more rows.
    pub limit: usize,
    /// Threads per process, by the present configuration; the scoreboard may have more columns.
    pub threads: usize,
    /// Configurations read so far.
    pub config_generation: u32,
    /// Restarts so far.
    pub generation: u32,
    /// When statistics began, microseconds since the epoch.
    pub restart_time: i64,
    /// CPU times of the parent, in clock ticks: user, system, children's user, children's system.
    pub parent_times: [i64; 4],
    /// Every row of the scoreboard.
    pub processes: Vec<Process>,
}

/// One process, or a row without one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Process {
    /// 0 for none.
    pub pid: i32,
    /// The generation it belongs to.
    pub generation: u32,
    /// It is on its way out.
    pub quiescing: bool,
    /// It takes no connections at the moment.
    pub not_accepting: bool,
    /// Its connections.
    pub connections: u32,
    /// Of these, waiting for input or output in the middle of a request.
    pub wait_io: u32,
    /// Of these, waiting for the socket to take the rest of a response.
    pub write_completion: u32,
    /// Of these, idle.
    pub keep_alive: u32,
    /// Of these, lingering.
    pub lingering_close: u32,
    /// Every column of the row.
    pub workers: Vec<Worker>,
}

/// One thread, or a place without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// Its state.
    pub status: Status,
    /// The process it belongs to, where threads say so; else 0.
    pub pid: i32,
    /// The generation of that process.
    pub generation: u32,
    /// What it has counted.
    pub counters: Counters,
    /// CPU times of its process after its last request, in clock ticks.
    pub times: [i64; 4],
    /// Address of the last client.
    pub client: Vec<u8>,
    /// Protocol of the last connection.
    pub protocol: Vec<u8>,
    /// Server name and port of the last request.
    pub vhost: Vec<u8>,
    /// First line of the last request.
    pub request: Vec<u8>,
}

impl From<&Slot> for Worker {
    fn from(slot: &Slot) -> Worker {
        Worker {
            status: slot.status(),
            pid: slot.pid(),
            generation: slot.generation(),
            counters: slot.counters(),
            times: slot.times.get(),
            client: slot.client64.get(),
            protocol: slot.protocol.get(),
            vhost: slot.vhost.get(),
            request: slot.request.get(),
        }
    }
}
