//! One scoreboard slot: what a serving thread says about itself, readable from other processes.
//!
//! The models lay an array of these out in memory shared by all processes; the core only ever sees the one that belongs
//! to the thread it runs on. There are no locks: one writer per slot, and readers copy racily (mpm-semantics 9.1). Every
//! field is an atomic, so a row may live in shared memory and all bit patterns are valid.
//!
//! The fields lie where those of Apache 2.4's `worker_score` lie on x86-64, so that whoever can read Apache's scoreboard
//! from outside can read this one. *When* they are written is decided in [`crate::report`].

use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU8, AtomicU16, AtomicU64, Ordering::Relaxed};

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

/// Bytes of text in shared memory, `WORDS` times 8 of them, the last always NUL. A reader may see half of an old and half
/// of a new text, never anything outside.
#[derive(Debug)]
#[repr(transparent)]
pub struct Text<const WORDS: usize>([AtomicU64; WORDS]);

impl<const WORDS: usize> Default for Text<WORDS> {
    fn default() -> Text<WORDS> {
        Text([const { AtomicU64::new(0) }; WORDS])
    }
}

impl<const WORDS: usize> Text<WORDS> {
    /// Puts a text in, cut to what fits before the closing NUL.
    pub fn set(&self, text: &[u8]) {
        let text = &text[..text.len().min(WORDS * 8 - 1)];
        let (whole, rest) = text.as_chunks::<8>();
        for (word, bytes) in self.0.iter().zip(whole) {
            word.store(u64::from_ne_bytes(*bytes), Relaxed);
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.0[whole.len()].store(u64::from_ne_bytes(last), Relaxed);
    }

    /// The text up to its NUL.
    pub fn get(&self) -> Vec<u8> {
        let bytes: Vec<u8> = self.0.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        bytes[..end].to_vec()
    }
}

/// CPU times as `times(2)` gives them, in clock ticks: user, system, and both of the children that were waited for.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Times([AtomicI64; 4]);

impl Times {
    /// Puts new ones in.
    pub fn set(&self, times: [i64; 4]) {
        for (cell, ticks) in self.0.iter().zip(times) {
            cell.store(ticks, Relaxed);
        }
    }

    /// As last published.
    pub fn get(&self) -> [i64; 4] {
        std::array::from_fn(|index| self.0[index].load(Relaxed))
    }
}

/// The row of one serving thread: Apache's `worker_score`. Times of day are microseconds since the epoch.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Slot {
    thread: AtomicU64,
    number: AtomicI32,
    pid: AtomicI32,
    generation: AtomicI32,
    status: AtomicU8,
    unused: AtomicU8,
    /// Requests of the present connection.
    conn_count: AtomicU16,
    /// Bytes on the wire for the present connection.
    conn_bytes: AtomicI64,
    /// Requests since the scoreboard was made.
    access_count: AtomicU64,
    /// Bytes on the wire since the scoreboard was made.
    bytes_served: AtomicI64,
    /// Requests of the present process.
    my_access_count: AtomicU64,
    /// Bytes on the wire for the present process.
    my_bytes_served: AtomicI64,
    start_time: AtomicI64,
    stop_time: AtomicI64,
    last_used: AtomicI64,
    /// CPU times of the whole process when the last request ended.
    pub times: Times,
    /// The client's address, cut to 31 bytes.
    pub client: Text<4>,
    /// The request line, cut to 63 bytes.
    pub request: Text<8>,
    /// Server name and port, cut to 31 bytes.
    pub vhost: Text<4>,
    /// The protocol of the connection.
    pub protocol: Text<2>,
    duration: AtomicI64,
    /// The client's address, cut to 63 bytes.
    pub client64: Text<8>,
}

// Where a program that knows Apache's scoreboard looks (mpm-semantics 9.1).
const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Slot>() == 336 && align_of::<Slot>() == 8);
    assert!(offset_of!(Slot, status) == 20 && offset_of!(Slot, conn_count) == 22);
    assert!(offset_of!(Slot, access_count) == 32 && offset_of!(Slot, start_time) == 64);
    assert!(offset_of!(Slot, times) == 88 && offset_of!(Slot, client) == 120);
    assert!(offset_of!(Slot, request) == 152 && offset_of!(Slot, vhost) == 216);
    assert!(offset_of!(Slot, protocol) == 248 && offset_of!(Slot, duration) == 264);
    assert!(offset_of!(Slot, client64) == 272);
};

/// What a slot has counted. Requests and bytes each for the present connection, the present process, and since the
/// scoreboard was made; times of day in microseconds since the epoch, 0 for never.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests: of the connection, of the process, in all.
    pub requests: [u64; 3],
    /// Bytes on the wire: of the connection, of the process, in all.
    pub bytes: [u64; 3],
    /// When the last request began.
    pub start_time: i64,
    /// When the last request ended.
    pub stop_time: i64,
    /// When a request last began or ended, or the thread last became idle.
    pub last_used: i64,
    /// Time spent on requests, microseconds.
    pub duration: i64,
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

    /// Says which thread of which process has the row. Models with one thread per process leave this out, as Apache's do.
    pub fn claim(&self, thread: u64, pid: i32, generation: u32) {
        self.thread.store(thread, Relaxed);
        self.pid.store(pid, Relaxed);
        self.generation.store(generation as i32, Relaxed);
    }

    /// Says where the row stands, counted through all rows.
    pub fn set_number(&self, number: usize) {
        self.number.store(number as i32, Relaxed);
    }

    /// The process the row was claimed for, 0 for none.
    pub fn pid(&self) -> i32 {
        self.pid.load(Relaxed)
    }

    /// The generation of that process.
    pub fn generation(&self) -> u32 {
        self.generation.load(Relaxed) as u32
    }

    /// Counts one answered request and its bytes on the wire, both ways. Only the slot's own thread calls this, so plain
    /// load and store do, without a locked instruction.
    #[inline]
    pub fn count_request(&self, bytes: u64) {
        self.conn_count.store(self.conn_count.load(Relaxed).wrapping_add(1), Relaxed);
        for count in [&self.access_count, &self.my_access_count] {
            count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
        }
        for sum in [&self.bytes_served, &self.my_bytes_served, &self.conn_bytes] {
            sum.store(sum.load(Relaxed).wrapping_add(bytes as i64), Relaxed);
        }
    }

    /// Says how many requests its connection has brought. Same caller as [`Slot::count_request`].
    pub fn set_connection_count(&self, requests: u32) {
        self.conn_count.store(requests as u16, Relaxed);
    }

    /// The connection is over. Same caller as [`Slot::count_request`].
    pub fn end_connection(&self, now_us: i64) {
        self.conn_count.store(0, Relaxed);
        self.conn_bytes.store(0, Relaxed);
        self.last_used.store(now_us, Relaxed);
    }

    /// The process is gone: its own counters with it.
    pub fn end_process(&self, now_us: i64) {
        self.my_access_count.store(0, Relaxed);
        self.my_bytes_served.store(0, Relaxed);
        self.end_connection(now_us);
    }

    /// A request begins. Same caller as [`Slot::count_request`].
    pub fn begin_request(&self, now_us: i64) {
        self.start_time.store(now_us, Relaxed);
        self.last_used.store(now_us, Relaxed);
    }

    /// A request ends; `times` as often as Apache's model counts its duration. Same caller as [`Slot::count_request`].
    pub fn end_request(&self, now_us: i64, times: i64) {
        self.stop_time.store(now_us, Relaxed);
        self.last_used.store(now_us, Relaxed);
        let took = now_us.wrapping_sub(self.start_time.load(Relaxed)).wrapping_mul(times);
        self.duration.store(self.duration.load(Relaxed).wrapping_add(took), Relaxed);
    }

    /// What has been counted so far.
    pub fn counters(&self) -> Counters {
        let bytes = |sum: &AtomicI64| sum.load(Relaxed).max(0) as u64;
        Counters {
            requests: [
                self.conn_count.load(Relaxed).into(),
                self.my_access_count.load(Relaxed),
                self.access_count.load(Relaxed),
            ],
            bytes: [bytes(&self.conn_bytes), bytes(&self.my_bytes_served), bytes(&self.bytes_served)],
            start_time: self.start_time.load(Relaxed),
            stop_time: self.stop_time.load(Relaxed),
            last_used: self.last_used.load(Relaxed),
            duration: self.duration.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_to_what_fits_and_end_in_nul() {
        let text: Text<2> = Text::default();
        for (given, kept) in [
            (&b""[..], &b""[..]),
            (b"1234567", b"1234567"),
            (b"12345678", b"12345678"),
            (b"123456789012345", b"123456789012345"),
            (b"1234567890123456789", b"123456789012345"),
            (b"ab", b"ab"),
        ] {
            text.set(given);
            assert_eq!(text.get(), kept);
        }
    }

    #[test]
    fn connection_process_and_slot_are_counted_apart() {
        let slot = Slot::default();
        slot.count_request(100);
        slot.end_connection(5);
        slot.count_request(30);
        assert_eq!(slot.counters().requests, [1, 2, 2]);
        assert_eq!(slot.counters().bytes, [30, 130, 130]);
        slot.end_process(6);
        slot.count_request(1);
        assert_eq!((slot.counters().requests, slot.counters().bytes), ([1, 1, 3], [1, 1, 131]));
        slot.begin_request(1000);
        slot.end_request(1250, 2);
        assert_eq!((slot.counters().duration, slot.counters().last_used), (500, 1250));
    }
}
