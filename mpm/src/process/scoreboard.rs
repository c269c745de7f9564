//! The scoreboard: shared memory in which every process and thread says what it does (mpm-semantics 9.1).
//!
//! One anonymous shared mapping, made before the first fork, never moved or grown: `server_limit` process rows, and
//! `server_limit` times `thread_limit` slots. Only atomics live in it; there are no locks. A slot has one writer (its
//! thread; the parent writes only "dead" and "starting"), and readers copy racily.
//!
//! Missing on purpose: Apache's rows are packed, so neighbours share cache lines; ours have a line each.

use mpmlab_core::slot::{Slot, Status};
use nix::libc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::Relaxed};

/// What is said about one child process as a whole.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct ProcessRow {
    pid: AtomicI32,
    generation: AtomicU32,
    quiescing: AtomicBool,
    not_accepting: AtomicBool,
    /// Connections the process has, as of its last maintenance (mpm-semantics 7.12: they may be stale).
    pub connections: AtomicU32,
    /// Of these, responses waiting for the socket outside any worker.
    pub write_completion: AtomicU32,
    /// Of these, lingering.
    pub lingering_close: AtomicU32,
    /// Of these, idle between two requests.
    pub keep_alive: AtomicU32,
}

impl ProcessRow {
    /// The child that has the row; 0 for none.
    pub fn pid(&self) -> i32 {
        self.pid.load(Relaxed)
    }

    /// Its generation.
    pub fn generation(&self) -> u32 {
        self.generation.load(Relaxed)
    }

    /// Is the process on its way out?
    pub fn quiescing(&self) -> bool {
        self.quiescing.load(Relaxed)
    }

    /// Has event switched its listeners off?
    pub fn not_accepting(&self) -> bool {
        self.not_accepting.load(Relaxed)
    }

    /// Says that the process is on its way out.
    pub fn set_quiescing(&self) {
        self.quiescing.store(true, Relaxed);
    }

    /// Says whether event has switched its listeners off.
    pub fn set_not_accepting(&self, off: bool) {
        self.not_accepting.store(off, Relaxed);
    }

    /// Gives the row to a new child, or back with pid 0.
    pub fn claim(&self, pid: i32, generation: u32) {
        self.quiescing.store(false, Relaxed);
        self.not_accepting.store(false, Relaxed);
        for counter in [&self.connections, &self.write_completion, &self.lingering_close, &self.keep_alive] {
            counter.store(0, Relaxed);
        }
        self.generation.store(generation, Relaxed);
        self.pid.store(pid, Relaxed);
    }
}

#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Global {
    generation: AtomicU32,
}

#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Column(Slot);

/// The mapping, with its shape.
#[derive(Debug)]
pub struct Scoreboard {
    base: *mut libc::c_void,
    bytes: usize,
    rows: usize,
    columns: usize,
}

// SAFETY: nothing but atomics is ever reached through the mapping, and it stays mapped until the value is dropped.
unsafe impl Send for Scoreboard {}
// SAFETY: as above.
unsafe impl Sync for Scoreboard {}

impl Scoreboard {
    /// Maps a scoreboard for `rows` processes of `columns` threads, all dead.
    ///
    /// # Errors
    /// The system has not that much memory.
    pub fn new(rows: usize, columns: usize) -> nix::Result<Scoreboard> {
        let (rows, columns) = (rows.max(1), columns.max(1));
        let bytes = size_of::<Global>() + rows * (size_of::<ProcessRow>() + columns * size_of::<Column>());
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing; failure is checked.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(nix::errno::Errno::last());
        }
        Ok(Scoreboard { base, bytes, rows, columns })
    }

    /// Number of process rows: ServerLimit.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Threads per process row: ThreadLimit.
    pub fn columns(&self) -> usize {
        self.columns
    }

    fn global(&self) -> &Global {
        // SAFETY: the mapping begins with a Global (page-aligned, so aligned for it), zeroed by the kernel, which is a
        // valid value, and lives as long as `self`.
        unsafe { &*self.base.cast::<Global>() }
    }

    /// The row of the process in a slot.
    ///
    /// # Panics
    /// There are not so many rows.
    pub fn process(&self, row: usize) -> &ProcessRow {
        assert!(row < self.rows, "process row {row} of {}", self.rows);
        // SAFETY: `rows` process rows follow the Global, and `row` is one of them. All sizes are multiples of 64, so each
        // is aligned. Zeroes are a valid value of the atomics; every write keeps the bools 0 or 1.
        unsafe { &*self.base.byte_add(size_of::<Global>()).cast::<ProcessRow>().add(row) }
    }

    /// The slot of one thread.
    ///
    /// # Panics
    /// There are not so many rows or columns.
    pub fn slot(&self, row: usize, column: usize) -> &Slot {
        assert!(row < self.rows && column < self.columns, "slot {row}/{column} outside the scoreboard");
        let start = size_of::<Global>() + self.rows * size_of::<ProcessRow>();
        // SAFETY: `rows * columns` Columns follow the process rows, and the index is within them. Alignment as above; all
        // bit patterns of a Slot are valid.
        unsafe { &(*self.base.byte_add(start).cast::<Column>().add(row * self.columns + column)).0 }
    }

    /// The slots of one process.
    pub fn slots(&self, row: usize) -> impl Iterator<Item = &Slot> {
        (0..self.columns).map(move |column| self.slot(row, column))
    }

    /// The generation that new children belong to.
    pub fn generation(&self) -> u32 {
        self.global().generation.load(Relaxed)
    }

    /// Begins a new generation.
    pub fn set_generation(&self, generation: u32) {
        self.global().generation.store(generation, Relaxed);
    }

    /// Marks every thread of a process dead and the row free. Only the parent calls it, for a child it has reaped.
    pub fn bury(&self, row: usize) {
        for slot in self.slots(row) {
            slot.set(Status::Dead);
        }
        self.process(row).claim(0, 0);
    }
}

impl Drop for Scoreboard {
    fn drop(&mut self) {
        // SAFETY: base and bytes are those of a mapping this value owns; every reference into it borrowed `self`.
        unsafe { libc::munmap(self.base, self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_distinct_and_start_dead() {
        let board = Scoreboard::new(3, 4).unwrap();
        for row in 0..3 {
            for column in 0..4 {
                assert_eq!(board.slot(row, column).status(), Status::Dead);
                board.slot(row, column).claim((row * 4 + column) as i32 + 1, 0);
            }
            board.process(row).claim(100 + row as i32, 7);
        }
        let pids: Vec<i32> = (0..3).flat_map(|r| board.slots(r).map(Slot::pid).collect::<Vec<_>>()).collect();
        assert_eq!(pids, (1..=12).collect::<Vec<_>>());
        assert_eq!(board.process(2).pid(), 102);
        board.bury(2);
        assert_eq!((board.process(2).pid(), board.process(1).pid()), (0, 101));
    }
}
