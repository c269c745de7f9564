//! The scoreboard as any program can see it: the shared memory that `ScoreBoardFile` names, in Apache's layout.
//!
//! Reading it disturbs nothing and works while every worker is stuck, when no status page can be had. Offsets are those of
//! Apache 2.4 on 64-bit Linux (mpm-semantics 9.1).

use super::Trouble;
use std::path::{Path, PathBuf};

/// Letters of the states, by value.
const LETTERS: &[u8] = b".S_RWKLDCGI";
const SIZE_HEADER: usize = 8;
const GLOBAL: usize = 56;
const PROCESS: usize = 40;
const WORKER: usize = 336;

/// One copy of the scoreboard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Board {
    /// ServerLimit.
    pub server_limit: usize,
    /// ThreadLimit.
    pub thread_limit: usize,
    /// The generation that new children belong to.
    pub generation: i32,
    /// One row per slot of a process.
    pub processes: Vec<Process>,
}

/// One process slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// 0 for none.
    pub pid: i32,
    /// Its generation.
    pub generation: i32,
    /// Is it on its way out?
    pub quiescing: bool,
    /// Has it switched its listeners off?
    pub not_accepting: bool,
    /// Connections it has, as of its last maintenance (event).
    pub connections: u32,
    /// Of these, responses that wait for the socket.
    pub write_completion: u32,
    /// Of these, lingering.
    pub lingering_close: u32,
    /// Of these, idle.
    pub keep_alive: u32,
    /// Its threads.
    pub workers: Vec<Worker>,
}

/// One thread's slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// Its state, by Apache's letter.
    pub letter: char,
    /// The process that has it.
    pub pid: i32,
    /// Requests answered in this slot since the server started.
    pub accesses: u64,
    /// Bytes sent in this slot.
    pub bytes: u64,
    /// Requests answered on the connection in hand.
    pub on_connection: u16,
    /// Requests answered by the process that has the slot.
    pub by_child: u64,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn int(bytes: &[u8], at: usize) -> Option<i32> {
    number(bytes, at).map(i32::from_ne_bytes)
}

fn unsigned(bytes: &[u8], at: usize) -> Option<u32> {
    number(bytes, at).map(u32::from_ne_bytes)
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    number(bytes, at).map(u64::from_ne_bytes)
}

impl Board {
    /// Copies the scoreboard out of the file that [`find`] has found.
    pub fn read(file: &Path) -> Result<Board, Trouble> {
        let bytes = std::fs::read(file).map_err(|error| {
            Trouble::failed(format!("scoreboard {}: {}", file.display(), crate::reason::reason(&error)))
        })?;
        Board::parse(&bytes)
            .ok_or_else(|| Trouble::failed(format!("scoreboard {}: not in Apache's layout", file.display())))
    }

    fn parse(bytes: &[u8]) -> Option<Board> {
        let server_limit = usize::try_from(int(bytes, SIZE_HEADER)?).ok()?;
        let thread_limit = usize::try_from(int(bytes, SIZE_HEADER + 4)?).ok()?;
        let rows = SIZE_HEADER + GLOBAL;
        let threads = rows + server_limit.checked_mul(PROCESS)?;
        let worker = |row: usize, column: usize| {
            let at = threads + (row * thread_limit + column) * WORKER;
            Some(Worker {
                letter: char::from(*LETTERS.get(usize::from(*bytes.get(at + 20)?))?),
                pid: int(bytes, at + 12)?,
                accesses: long(bytes, at + 32)?,
                bytes: long(bytes, at + 40)?,
                on_connection: number(bytes, at + 22).map(u16::from_ne_bytes)?,
                by_child: long(bytes, at + 48)?,
            })
        };
        let process = |row: usize| {
            let at = rows + row * PROCESS;
            Some(Process {
                pid: int(bytes, at)?,
                generation: int(bytes, at + 4)?,
                quiescing: *bytes.get(at + 8)? != 0,
                not_accepting: *bytes.get(at + 9)? != 0,
                connections: unsigned(bytes, at + 12)?,
                write_completion: unsigned(bytes, at + 16)?,
                lingering_close: unsigned(bytes, at + 20)?,
                keep_alive: unsigned(bytes, at + 24)?,
                workers: (0..thread_limit).map(|column| worker(row, column)).collect::<Option<_>>()?,
            })
        };
        Some(Board {
            server_limit,
            thread_limit,
            generation: int(bytes, SIZE_HEADER + 8)?,
            processes: (0..server_limit).map(process).collect::<Option<_>>()?,
        })
    }

    /// Every slot's letter, row by row.
    pub fn letters(&self) -> String {
        self.workers().map(|worker| worker.letter).collect()
    }

    /// The letters of slots that are not dead.
    pub fn living(&self) -> String {
        self.letters().replace('.', "")
    }

    /// All slots.
    pub fn workers(&self) -> impl Iterator<Item = &Worker> {
        self.processes.iter().flat_map(|process| &process.workers)
    }

    /// Requests answered since the server started.
    pub fn accesses(&self) -> u64 {
        self.workers().map(|worker| worker.accesses).sum()
    }

    /// The rows that have a process.
    pub fn present(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(|process| process.pid != 0)
    }
}

/// The shared memory of a process's scoreboard: what it has mapped from `/dev/shm`, if that is one file.
pub fn find(pid: i32) -> Option<PathBuf> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let path = maps.lines().find_map(|line| line.find("/dev/shm/").map(|at| &line[at..]))?;
    // A mapping whose file was removed has this behind its name.
    Some(PathBuf::from(path.trim_end_matches(" (deleted)")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_is_read_by_its_offsets_and_a_short_one_is_refused() {
        let (rows, columns) = (2, 3);
        let mut bytes = vec![0; SIZE_HEADER + GLOBAL + rows * PROCESS + rows * columns * WORKER];
        bytes[8] = rows as u8;
        bytes[12] = columns as u8;
        let process = SIZE_HEADER + GLOBAL + PROCESS;
        bytes[process..process + 4].copy_from_slice(&77i32.to_ne_bytes());
        let worker = SIZE_HEADER + GLOBAL + rows * PROCESS + 5 * WORKER;
        bytes[worker + 20] = 4;
        bytes[worker + 32] = 9;
        let board = Board::parse(&bytes).unwrap();
        assert_eq!(
            (board.letters(), board.living(), board.accesses()),
            (".....W".to_owned(), "W".to_owned(), 9)
        );
        assert_eq!(board.present().map(|process| process.pid).collect::<Vec<_>>(), [77]);
        assert_eq!(Board::parse(&bytes[..bytes.len() - 300]), None);
    }
}
