//! The scoreboard: shared memory in which every process and thread says what it does (mpm-semantics 9.1).
//!
//! One shared mapping, made before the first fork, never moved or grown: `server_limit` process rows, and `server_limit`
//! times `thread_limit` slots. Only atomics live in it; there are no locks. A slot has one writer (its thread; the parent
//! writes only "dead", "starting" and "graceful"), and readers copy racily.
//!
//! Byte for byte it is Apache 2.4's on x86-64, so that a program that maps Apache's reads ours: the size, the global part,
//! process rows, worker rows, without gaps. Neighbours then share cache lines; the knob `scoreboard-layout` gives each row
//! its own. With `ScoreBoardFile` the memory has a name, which the kernel shows in `/proc/PID/maps`.

use mpmlab_core::knob_words;
use mpmlab_core::slot::{Slot, Status, Times};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::mman::{shm_open, shm_unlink};
use nix::sys::stat::Mode;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

knob_words! {
    /// Where rows lie (`LabScoreboardLayout`, `scoreboard-layout`).
    pub enum Layout {
        /// As in Apache: one behind the other, so that neighbours share cache lines.
        Packed = "packed",
        /// Each row on cache lines of its own.
        Padded = "padded",
    }
}

/// What is said about one child process as a whole: Apache's `process_score`.
#[derive(Debug, Default)]
#[repr(C)]
pub struct ProcessRow {
    pid: AtomicI32,
    generation: AtomicI32,
    quiescing: AtomicU8,
    not_accepting: AtomicU8,
    /// Connections the process has, as of its last maintenance (mpm-semantics 7.12: they may be stale).
    pub connections: AtomicU32,
    /// Of these, responses waiting for the socket outside any worker.
    pub write_completion: AtomicU32,
    /// Of these, lingering.
    pub lingering_close: AtomicU32,
    /// Of these, idle between two requests.
    pub keep_alive: AtomicU32,
    /// Of these, taken over by a module. Nothing does that here.
    pub suspended: AtomicU32,
    bucket: AtomicI32,
    /// Of these, waiting for input or output in the middle of a request, outside any worker.
    pub wait_io: AtomicU32,
}

impl ProcessRow {
    /// The child that has the row; 0 for none.
    pub fn pid(&self) -> i32 {
        self.pid.load(Relaxed)
    }

    /// Its generation.
    pub fn generation(&self) -> u32 {
        self.generation.load(Relaxed) as u32
    }

    /// Is the process on its way out?
    pub fn quiescing(&self) -> bool {
        self.quiescing.load(Relaxed) != 0
    }

    /// Has event switched its listeners off?
    pub fn not_accepting(&self) -> bool {
        self.not_accepting.load(Relaxed) != 0
    }

    /// Says that the process is on its way out.
    pub fn set_quiescing(&self) {
        self.quiescing.store(1, Relaxed);
    }

    /// Says whether event has switched its listeners off.
    pub fn set_not_accepting(&self, off: bool) {
        self.not_accepting.store(off.into(), Relaxed);
    }

    /// Gives the row to a new child, or back with pid 0.
    pub fn claim(&self, pid: i32, generation: u32) {
        self.quiescing.store(0, Relaxed);
        self.set_not_accepting(false);
        for counter in [
            &self.connections,
            &self.write_completion,
            &self.lingering_close,
            &self.keep_alive,
            &self.suspended,
            &self.wait_io,
        ] {
            counter.store(0, Relaxed);
        }
        self.generation.store(generation as i32, Relaxed);
        self.pid.store(pid, Relaxed);
    }
}

/// What is said about the whole server: Apache's `global_score`, with the size in front of it.
#[derive(Debug, Default)]
#[repr(C)]
struct Global {
    bytes: AtomicU64,
    server_limit: AtomicI32,
    thread_limit: AtomicI32,
    generation: AtomicI32,
    restart_time: AtomicI64,
    times: Times,
}

const _: () = assert!(size_of::<Global>() == 8 + 56 && size_of::<ProcessRow>() == 40);
const _: () = assert!(size_of::<Slot>() == 336 && align_of::<Slot>() == 8);

/// Bytes of a cache line.
const LINE: usize = 64;

/// Where the rows are, in bytes from the start.
#[derive(Debug, Clone, Copy)]
struct Shape {
    rows: usize,
    columns: usize,
    process_stride: usize,
    slots_start: usize,
    slot_stride: usize,
}

impl Shape {
    fn new(rows: usize, columns: usize, layout: Layout) -> Shape {
        let stride = |bytes: usize| match layout {
            Layout::Packed => bytes,
            Layout::Padded => bytes.next_multiple_of(LINE),
        };
        let process_stride = stride(size_of::<ProcessRow>());
        Shape {
            rows,
            columns,
            process_stride,
            slots_start: size_of::<Global>() + rows * process_stride,
            slot_stride: stride(size_of::<Slot>()),
        }
    }

    fn bytes(&self) -> usize {
        self.slots_start + self.rows * self.columns * self.slot_stride
    }
}

/// The mapping, with its shape.
#[derive(Debug)]
pub struct Scoreboard {
    base: *mut libc::c_void,
    shape: Shape,
    name: Option<String>,
}

// SAFETY: nothing but atomics is ever reached through the mapping, and it stays mapped until the value is dropped.
unsafe impl Send for Scoreboard {}
// SAFETY: as above.
unsafe impl Sync for Scoreboard {}

impl Scoreboard {
    /// Maps a scoreboard for `rows` processes of `columns` threads, all dead. `file` is ScoreBoardFile: not a file that
    /// appears anywhere, but what the name of the shared memory is made from. Memory that another server of this name left
    /// behind is replaced.
    ///
    /// # Errors
    /// The system has not that much memory, or the name cannot be had.
    pub fn new(rows: usize, columns: usize, layout: Layout, file: Option<&Path>) -> nix::Result<Scoreboard> {
        let shape = Shape::new(rows.max(1), columns.max(1), layout);
        let name = file.map(memory_name);
        let memory = name.as_deref().map(|name| create(name, shape.bytes())).transpose()?;
        let (flags, fd) = match &memory {
            Some(memory) => (libc::MAP_SHARED, memory.as_raw_fd()),
            None => (libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1),
        };
        // SAFETY: a fresh mapping at an address of the kernel's choice aliases nothing; failure is checked.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), shape.bytes(), libc::PROT_READ | libc::PROT_WRITE, flags, fd, 0)
        };
        if base == libc::MAP_FAILED {
            let why = Errno::last();
            if let Some(name) = &name {
                let _ = shm_unlink(name.as_str());
            }
            return Err(why);
        }
        let board = Scoreboard { base, shape, name };
        board.begin();
        Ok(board)
    }

    /// Number of process rows: ServerLimit.
    pub fn rows(&self) -> usize {
        self.shape.rows
    }

    /// Threads per process row: ThreadLimit.
    pub fn columns(&self) -> usize {
        self.shape.columns
    }

    fn global(&self) -> &Global {
        // SAFETY: the mapping begins with a Global (page-aligned, so aligned for it), zeroed by the kernel, which is a
        // valid value, and lives as long as `self`.
        unsafe { &*self.base.cast::<Global>() }
    }

    /// Says what the whole is, and that the server begins now.
    fn begin(&self) {
        let global = self.global();
        global.bytes.store(self.shape.bytes() as u64, Relaxed);
        global.server_limit.store(self.shape.rows as i32, Relaxed);
        global.thread_limit.store(self.shape.columns as i32, Relaxed);
        global.restart_time.store(mpmlab_core::sys::now_us(), Relaxed);
    }

    /// As new: statistics begin anew. Only when no child is left that uses it.
    pub fn reset(&self) {
        let start = size_of::<Global>();
        for at in (start..self.shape.bytes()).step_by(8) {
            // SAFETY: the offset is inside of the mapping, which consists of atomics whose sizes and places are multiples
            // of 8 bytes or lie together in such; for all of them zero is a valid value, and nobody else writes.
            unsafe { &*self.base.byte_add(at).cast::<AtomicU64>() }.store(0, Relaxed);
        }
        self.begin();
    }

    /// The row of the process in a slot.
    ///
    /// # Panics
    /// There are not so many rows.
    pub fn process(&self, row: usize) -> &ProcessRow {
        let shape = &self.shape;
        assert!(row < shape.rows, "process row {row} of {}", shape.rows);
        let at = size_of::<Global>() + row * shape.process_stride;
        // SAFETY: `rows` process rows follow the Global, and `row` is one of them. Start and stride are multiples of 8, so
        // each is aligned. All bit patterns of a ProcessRow are valid.
        unsafe { &*self.base.byte_add(at).cast::<ProcessRow>() }
    }

    /// The slot of one thread.
    ///
    /// # Panics
    /// There are not so many rows or columns.
    pub fn slot(&self, row: usize, column: usize) -> &Slot {
        let shape = &self.shape;
        assert!(row < shape.rows && column < shape.columns, "slot {row}/{column} outside the scoreboard");
        let at = shape.slots_start + self.number(row, column) * shape.slot_stride;
        // SAFETY: `rows * columns` slots follow the process rows, and the index is within them. Alignment as above; all
        // bit patterns of a Slot are valid.
        unsafe { &*self.base.byte_add(at).cast::<Slot>() }
    }

    /// A slot's number, counted through all rows.
    pub fn number(&self, row: usize, column: usize) -> usize {
        row * self.shape.columns + column
    }

    /// The slots of one process.
    pub fn slots(&self, row: usize) -> impl Iterator<Item = &Slot> {
        (0..self.columns()).map(move |column| self.slot(row, column))
    }

    /// The generation that new children belong to.
    pub fn generation(&self) -> u32 {
        self.global().generation.load(Relaxed) as u32
    }

    /// Begins a new generation.
    pub fn set_generation(&self, generation: u32) {
        self.global().generation.store(generation as i32, Relaxed);
    }

    /// When the server started, or last restarted other than gracefully: microseconds since the epoch.
    pub fn restart_time(&self) -> i64 {
        self.global().restart_time.load(Relaxed)
    }

    /// The parent's CPU times, as last noted.
    pub fn parent_times(&self) -> [i64; 4] {
        self.global().times.get()
    }

    /// Notes the parent's CPU times: one `times` call, once per round of its loop (mpm-semantics 5.1).
    pub fn note_parent_times(&self) {
        self.global().times.set(mpmlab_core::sys::times());
    }

    /// Marks every thread of a process dead and the row free. Only the parent calls it, for a child it has reaped. What the
    /// slots have counted in all stays, and so does the generation, which names them in the status page.
    pub fn bury(&self, row: usize) {
        let now = mpmlab_core::sys::now_us();
        for slot in self.slots(row) {
            slot.set(Status::Dead);
            slot.end_process(now);
        }
        let process = self.process(row);
        process.claim(0, process.generation());
    }
}

impl Drop for Scoreboard {
    fn drop(&mut self) {
        // SAFETY: base and size are those of a mapping this value owns; every reference into it borrowed `self`.
        unsafe { libc::munmap(self.base, self.shape.bytes()) };
        // Children leave by _exit and never come here.
        if let Some(name) = &self.name {
            let _ = shm_unlink(name.as_str());
        }
    }
}

/// Named shared memory of this size, for its owner alone.
fn create(name: &str, bytes: usize) -> nix::Result<OwnedFd> {
    let _ = shm_unlink(name);
    let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
    let memory = shm_open(name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?;
    nix::unistd::ftruncate(&memory, bytes as i64).inspect_err(|_| {
        let _ = shm_unlink(name);
    })?;
    Ok(memory)
}

/// The name that Apache's runtime library gives to the shared memory of a file: two hashes of its path, so that a program
/// that knows the path finds the memory of either server.
fn memory_name(file: &Path) -> String {
    let path = file.as_os_str().as_bytes();
    let times33 = path.iter().fold(0_u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(byte.into()));
    let (sedgewick, _) = path.iter().fold((0_u32, 63_689_u32), |(hash, factor), &byte| {
        (hash.wrapping_mul(factor).wrapping_add(byte.into()), factor.wrapping_mul(378_551))
    });
    format!("/ShM.{times33:x}H{sedgewick:x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_distinct_and_start_dead() {
        for layout in [Layout::Packed, Layout::Padded] {
            let board = Scoreboard::new(3, 4, layout, None).unwrap();
            for row in 0..3 {
                for column in 0..4 {
                    assert_eq!(board.slot(row, column).status(), Status::Dead);
                    board.slot(row, column).claim(1, (row * 4 + column) as i32 + 1, 0);
                }
                board.process(row).claim(100 + row as i32, 7);
            }
            let pids: Vec<i32> =
                (0..3).flat_map(|r| board.slots(r).map(Slot::pid).collect::<Vec<_>>()).collect();
            assert_eq!(pids, (1..=12).collect::<Vec<_>>());
            assert_eq!(board.process(2).pid(), 102);
            board.bury(2);
            assert_eq!((board.process(2).pid(), board.process(1).pid()), (0, 101));
            board.set_generation(3);
            board.reset();
            assert_eq!((board.process(1).pid(), board.slot(1, 1).pid(), board.generation()), (0, 0, 3));
        }
    }

    #[test]
    fn packed_it_has_the_size_of_apaches() {
        let bytes = |rows, columns, layout| Shape::new(rows, columns, layout).bytes();
        assert_eq!(bytes(16, 64, Layout::Packed), 344_768);
        assert_eq!(bytes(8, 1, Layout::Packed), 3072);
        assert_eq!(bytes(4, 8, Layout::Padded) % LINE, 0);
    }

    #[test]
    fn named_memory_has_apaches_name_and_goes_with_the_scoreboard() {
        assert_eq!(memory_name(Path::new("/run/apache2/board")), "/ShM.54c45b1eHe06c654e");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("board");
        let memory = Path::new("/dev/shm").join(&memory_name(&file)[1..]);
        let board = Scoreboard::new(2, 1, Layout::Packed, Some(&file)).unwrap();
        board.process(1).claim(77, 0);
        let bytes = std::fs::read(&memory).unwrap();
        let int = |at: usize| i32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(bytes.len(), 8 + 56 + 2 * 40 + 2 * 336);
        assert_eq!((int(0), int(8), int(12), int(64 + 40)), (bytes.len() as i32, 2, 1, 77));
        drop(board);
        assert!(!memory.exists());
    }
}
