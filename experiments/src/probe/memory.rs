//! Memory of a server's processes: proportional and resident set sizes, from `/proc/PID/smaps_rollup`.
//!
//! PSS divides each shared page by the number of processes that map it, so the sum over a forking server's children is
//! the memory it really takes; RSS counts shared pages once per process (claims A15: a factor of 17 apart).

use super::tree::Process;
use std::fs;

/// Sums over a set of processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Proportional set size, bytes.
    pub pss_bytes: u64,
    /// Resident set size, bytes.
    pub rss_bytes: u64,
    /// Processes counted.
    pub processes: u64,
    /// Processes that could not be read: they belong to another user.
    pub unreadable: u64,
}

/// Sums the memory of `processes`. A process that ended since the list was made counts nothing.
pub fn sum(processes: &[Process]) -> Memory {
    let mut total = Memory::default();
    for process in processes {
        match fs::read_to_string(format!("/proc/{}/smaps_rollup", process.pid)) {
            Ok(text) => {
                total.pss_bytes += kilobytes(&text, "Pss:") * 1024;
                total.rss_bytes += kilobytes(&text, "Rss:") * 1024;
                total.processes += 1;
            }
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => total.unreadable += 1,
            Err(_) => {} // ended meanwhile: ENOENT or ESRCH
        }
    }
    total
}

/// The value of `key` in kB, 0 when it is missing.
fn kilobytes(text: &str, key: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix(key))
        .and_then(|rest| rest.split_ascii_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::kilobytes;

    #[test]
    fn pss_is_not_confused_with_its_parts() {
        let text =
            "559f-7ffd ---p 00000000 00:00 0 [rollup]\nRss:  1200 kB\nPss:  345 kB\nPss_Anon:  99 kB\n";
        assert_eq!(kilobytes(text, "Pss:"), 345);
        assert_eq!(kilobytes(text, "Rss:"), 1200);
        assert_eq!(kilobytes(text, "Swap:"), 0);
    }
}
