//! The processes of a server: a root process and everything it started, from `/proc/PID/stat` (proc(5)).

use std::collections::HashMap;
use std::fs;
use std::io;

/// One line of `/proc/PID/stat`, the fields the probes use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Process id.
    pub pid: i32,
    /// Parent's process id.
    pub parent: i32,
    /// Command name as the kernel keeps it (15 bytes).
    pub name: String,
    /// `R`, `S`, `Z` ...
    pub state: char,
    /// User and system time of the living process, in clock ticks.
    pub own_ticks: u64,
    /// User and system time of children it has waited for, in clock ticks.
    pub reaped_ticks: u64,
    /// Threads.
    pub threads: u64,
}

/// Parses one `/proc/PID/stat`. The name may hold spaces and brackets, so fields are counted from the last `)`.
pub fn parse_stat(text: &str) -> Option<Process> {
    let open = text.find('(')?;
    let close = text.rfind(')')?;
    let pid = text.get(..open)?.trim().parse().ok()?;
    let name = text.get(open + 1..close)?.to_owned();
    let fields: Vec<&str> = text.get(close + 1..)?.split_ascii_whitespace().collect();
    // proc(5) numbers from 1 with the state as field 3, which is index 0 here.
    let number = |field: usize| -> Option<u64> { fields.get(field - 3)?.parse().ok() };
    Some(Process {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        name,
        state: fields.first()?.chars().next()?,
        own_ticks: number(14)? + number(15)?,
        reaped_ticks: number(16)? + number(17)?,
        threads: number(20)?,
    })
}

/// Every process of the machine. Processes that end while the list is read are left out.
pub fn all() -> io::Result<Vec<Process>> {
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Ok(entry) = entry else { continue };
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        if let Ok(text) = fs::read_to_string(format!("/proc/{pid}/stat"))
            && let Some(process) = parse_stat(&text)
        {
            processes.push(process);
        }
    }
    Ok(processes)
}

/// `root` and all its living descendants, parents before their children. Empty when `root` is gone; zombies, which
/// hold neither memory nor threads, are left out.
pub fn descendants(root: i32) -> io::Result<Vec<Process>> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    let mut found = Vec::new();
    for process in all()? {
        if process.state == 'Z' {
            continue;
        }
        if process.pid == root {
            found.push(process);
        } else {
            children.entry(process.parent).or_default().push(process);
        }
    }
    let mut next = 0;
    while next < found.len() {
        if let Some(born) = children.remove(&found[next].pid) {
            found.extend(born);
        }
        next += 1;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_brackets_does_not_shift_the_fields() {
        let line = "42 (a b) (c) S 7 42 42 0 -1 4194304 10 20 0 0 5 6 70 80 20 0 9 0 123 456 7";
        let process = parse_stat(line).unwrap();
        assert_eq!(
            process,
            Process {
                pid: 42,
                parent: 7,
                name: "a b) (c".into(),
                state: 'S',
                own_ticks: 11,
                reaped_ticks: 150,
                threads: 9
            }
        );
    }

    #[test]
    fn half_a_line_is_no_process() {
        assert_eq!(parse_stat("42 (a) S 7 42"), None);
        assert_eq!(parse_stat(""), None);
    }
}
