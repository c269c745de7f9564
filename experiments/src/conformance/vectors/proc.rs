//! What `/proc` says of a server's sockets.

use crate::conformance::Bench;
use crate::probe::tree;
use std::fs;
use std::net::SocketAddr;

/// The inodes of a process's sockets, listening ones included, in the order of its descriptors.
pub(super) fn sockets(pid: i32) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let mut found: Vec<(u32, u64)> = entries
        .flatten()
        .filter_map(|entry| {
            let target = fs::read_link(entry.path()).ok()?;
            let inode = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()?;
            Some((entry.file_name().to_str()?.parse().ok()?, inode))
        })
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, inode)| inode).collect()
}

/// How many sockets the server's processes have together, without the parent's: fork's connections are its grandchildren's.
pub(super) fn of_children(bench: &Bench) -> usize {
    let processes = tree::descendants(bench.parent()).unwrap_or_default();
    let served = processes.iter().filter(|process| process.pid != bench.parent());
    served.map(|process| sockets(process.pid).len()).sum()
}

/// The inodes of the sockets that listen at an IPv4 address (proc(5), `/proc/net/tcp`; state 0A is LISTEN).
pub(super) fn listening(address: SocketAddr) -> Vec<u64> {
    let table = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let port = format!(":{:04X}", address.port());
    let listener = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let listens = fields.get(1)?.ends_with(&port) && *fields.get(3)? == "0A";
        listens.then(|| fields.get(9)?.parse().ok()).flatten()
    };
    table.lines().filter_map(listener).collect()
}
