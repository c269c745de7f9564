//! The scoreboard read from outside, the way a program reads Apache's: by its place in `/proc`, by offsets.

use super::harness::until;
use std::path::PathBuf;

/// Letters by value.
const LETTERS: &[u8] = b".S_RWKLDCGI";
const HEAD: usize = 8 + 56;
const PROCESS: usize = 40;
const WORKER: usize = 336;

/// What a worker's row says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    pub letter: char,
    /// Requests of the connection, the process, the slot.
    pub requests: [u64; 3],
    /// Bytes of the same.
    pub bytes: [i64; 3],
    pub client: String,
    pub request: String,
    pub vhost: String,
    pub protocol: String,
}

/// Where the kernel shows a process's named scoreboard.
pub fn place(pid: i32) -> PathBuf {
    // Apache listens before it has one.
    until("a named scoreboard", || {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let line = maps.lines().find(|line| line.contains("/dev/shm/ShM."))?;
        Some(PathBuf::from(&line[line.find('/')?..]))
    })
}

/// Every worker's row.
pub fn workers(pid: i32) -> Vec<Worker> {
    let bytes = std::fs::read(place(pid)).unwrap();
    let int = |at: usize| i32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let (total, rows, columns) = (int(0), int(8), int(12));
    assert_eq!(bytes.len(), total, "the size stands at its beginning");
    let start = HEAD + rows * PROCESS;
    assert_eq!(bytes.len(), start + rows * columns * WORKER);
    let row = |index: usize| &bytes[start + index * WORKER..start + (index + 1) * WORKER];
    (0..rows * columns).map(|index| worker(row(index))).collect()
}

fn worker(row: &[u8]) -> Worker {
    let long = |at: usize| i64::from_ne_bytes(row[at..at + 8].try_into().unwrap());
    let text = |at: usize, length: usize| {
        let end = row[at..at + length].iter().position(|&b| b == 0).expect("a closing NUL");
        String::from_utf8(row[at..at + end].to_vec()).unwrap()
    };
    let on_connection = u16::from_ne_bytes([row[22], row[23]]);
    assert_eq!(text(120, 32), text(272, 64), "the client stands twice");
    Worker {
        letter: char::from(LETTERS[usize::from(row[20])]),
        requests: [on_connection.into(), long(48) as u64, long(32) as u64],
        bytes: [long(24), long(56), long(40)],
        client: text(120, 32),
        request: text(152, 64),
        vhost: text(216, 32),
        protocol: text(248, 16),
    }
}
