//! One scoreboard slot: what a serving thread says about itself, readable from other processes.
//!
//! The models lay an array of these out in memory shared by all processes; the core only ever sees the one that belongs
//! to the thread it runs on. There are no locks: one writer per slot, and readers copy racily
//! (mpm-semantics 9.1). Every field is an atomic, so a row may live in shared memory and all bit patterns are valid.

use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

/// A worker's state with Apache's value and letter (mpm-semantics 9.2).
///
/// The order matters: "idle" is `<= Ready`, "active" is `Ready <= s < Graceful`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Status {
    /// No thread here.
    Dead = 0,
    /// Being started.
    Starting = 1,
    /// Waiting for a connection.
    Ready = 2,
    /// Reading a request head.
    Read = 3,
    /// Handling a request: reading its body, producing or sending the response.
    Write = 4,
    /// Waiting for the next request of a kept connection.
    KeepAlive = 5,
    /// Writing the access log.
    Log = 6,
    /// Looking up a host name.
    Dns = 7,
    /// Closing a connection.
    Closing = 8,
    /// Finishing gracefully.
    Graceful = 9,
    /// Idle cleanup.
    IdleKill = 10,
}

impl Status {
    /// Every status, by value.
    pub const ALL: [Status; 11] = [
        Status::Dead,
        Status::Starting,
        Status::Ready,
        Status::Read,
        Status::Write,
        Status::KeepAlive,
        Status::Log,
        Status::Dns,
        Status::Closing,
        Status::Graceful,
        Status::IdleKill,
    ];

    /// The letter mod_status prints.
    pub const fn letter(self) -> char {
        [b'.', b'S', b'_', b'R', b'W', b'K', b'L', b'D', b'C', b'G', b'I'][self as usize] as char
    }
}

/// The row of one serving thread.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Slot {
    status: AtomicU8,
    pid: AtomicI32,
    generation: AtomicU32,
    access_count: AtomicU64,
    bytes_served: AtomicU64,
    connections: AtomicU64,
}

impl Slot {
    /// Publishes a new state. One relaxed byte store.
    #[inline]
    pub fn set(&self, status: Status) {
        self.status.store(status as u8, Relaxed);
    }

    /// The state last published; unknown bytes read as `Dead`.
    pub fn status(&self) -> Status {
        Status::ALL.get(usize::from(self.status.load(Relaxed))).copied().unwrap_or(Status::Dead)
    }

    /// Claims the row for a process of a generation, or gives it back with pid 0.
    pub fn claim(&self, pid: i32, generation: u32) {
        self.pid.store(pid, Relaxed);
        self.generation.store(generation, Relaxed);
    }

    /// The process the row belongs to, 0 for none.
    pub fn pid(&self) -> i32 {
        self.pid.load(Relaxed)
    }

    /// The generation of that process.
    pub fn generation(&self) -> u32 {
        self.generation.load(Relaxed)
    }

    /// Counts one answered request and the bytes it put on the wire. Only the slot's own thread calls this, so plain
    /// load and store do, without a locked instruction.
    #[inline]
    pub fn count_request(&self, bytes: u64) {
        self.access_count.store(self.access_count.load(Relaxed) + 1, Relaxed);
        self.bytes_served.store(self.bytes_served.load(Relaxed) + bytes, Relaxed);
    }

    /// Counts one connection. Same caller as [`Slot::count_request`].
    #[inline]
    pub fn count_connection(&self) {
        self.connections.store(self.connections.load(Relaxed) + 1, Relaxed);
    }

    /// Requests answered, bytes sent, connections taken since the row was created.
    pub fn totals(&self) -> (u64, u64, u64) {
        (self.access_count.load(Relaxed), self.bytes_served.load(Relaxed), self.connections.load(Relaxed))
    }
}
