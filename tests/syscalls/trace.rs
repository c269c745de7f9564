//! strace on one process, and what its output says about each request.
//!
//! Requests of one kind follow each other, each for a file whose name is in no other request. The stat of that name marks
//! the request, and a *period* is what all threads of the process complete from one mark to the next: the rest of one request
//! and the beginning of the next. Since requests are alike, each period is worth one request, whatever the order of threads in it.
//!
//! A call is counted where it completes: a thread that begins to wait early or late does not matter.

use super::harness::{PATIENCE, within};
use super::profile::{Period, Profile};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A running strace.
pub struct Tracer {
    child: Child,
    output: PathBuf,
    _folder: tempfile::TempDir,
}

/// Is strace there?
pub fn installed() -> bool {
    Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

impl Tracer {
    /// Attaches to all threads of some processes. The error is what strace says.
    pub fn attach(pids: &[i32]) -> Result<Tracer, String> {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("trace");
        let mut child = Command::new("strace")
            .arg("-f")
            .arg("-o")
            .arg(&output)
            .args(pids.iter().map(|pid| format!("-p{pid}")))
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut said = BufReader::new(child.stderr.take().expect("piped")).lines();
        for _ in pids {
            let line = said.next().and_then(Result::ok).unwrap_or_default();
            if !line.contains(" attached") {
                let _ = child.kill();
                let _ = child.wait();
                return Err(line);
            }
        }
        std::thread::spawn(move || said.map_while(Result::ok).for_each(drop));
        Ok(Tracer { child, output, _folder: folder })
    }

    /// Lets go of the process and reads what was written.
    pub fn finish(mut self) -> String {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT).unwrap();
        let ended = within(PATIENCE, || self.child.try_wait().unwrap());
        assert!(ended.is_some(), "strace does not end");
        String::from_utf8_lossy(&std::fs::read(&self.output).unwrap()).into_owned()
    }
}

/// The call that a line completes, with the error if it is EAGAIN: an attempt in vain is another kind of call.
fn completed(line: &str) -> Option<String> {
    let (_, rest) = line.trim_start().split_once(' ')?;
    let rest = rest.trim_start();
    if rest.ends_with("<unfinished ...>") || rest.ends_with("<detached ...>") {
        return None;
    }
    let name = match rest.strip_prefix("<... ") {
        Some(resumed) => resumed.split(' ').next()?,
        None => rest.split_once('(')?.0,
    };
    // Rust's own check of debug builds before it closes a descriptor; in a release build there is none.
    if cfg!(debug_assertions) && rest.contains(", F_GETFD)") {
        return None;
    }
    // Signals and ends of threads have no such name.
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let error = if rest.contains(" = -1 EAGAIN") && name != "futex" { "=EAGAIN" } else { "" };
    is_name.then(|| format!("{name}{error}"))
}

/// How often a call, as [`completed`] names it, is in the whole trace.
pub fn count(trace: &str, name: &str) -> usize {
    trace.lines().filter(|line| completed(line).as_deref() == Some(name)).count()
}

/// The last `count` periods of requests for `file`.
pub fn profile(trace: &str, file: &str, count: usize) -> Profile {
    let mark = format!("/{file}\"");
    let mut periods: Vec<Period> = Vec::new();
    let mut marks = 0;
    for line in trace.lines() {
        if line.contains("newfstatat(") && line.contains(&mark) {
            marks += 1;
            periods.push(Period::default());
        }
        if let (Some(period), Some(name)) = (periods.last_mut(), completed(line)) {
            *period.entry(name).or_default() += 1;
        }
    }
    // The last period has no end.
    periods.pop();
    assert!(periods.len() >= count, "{marks} requests for {file} were seen, {count} and one more are needed");
    Profile::of(&periods[periods.len() - count..])
}

#[test]
fn calls_are_counted_where_they_complete_and_by_kind() {
    let trace = "7 accept4(3,  <unfinished ...>\n\
        8 newfstatat(AT_FDCWD, \"/r/a.txt\", {..}, 0) = 0\n\
        8 read(5, 0x7f, 8000) = -1 EAGAIN (Resource temporarily unavailable)\n\
        8 futex(0x7f, FUTEX_WAIT_PRIVATE, 0, NULL) = -1 EAGAIN (Resource temporarily unavailable)\n\
        7 <... accept4 resumed>{..}, [16], SOCK_CLOEXEC) = 5\n\
        7 --- SIGHUP {si_signo=SIGHUP} ---\n\
        8 newfstatat(AT_FDCWD, \"/r/a.txt\",  <unfinished ...>\n\
        8 <... newfstatat resumed>{..}, 0) = 0\n\
        9 newfstatat(AT_FDCWD, \"/r/b.txt\", {..}, 0) = 0\n\
        8 newfstatat(AT_FDCWD, \"/r/a.txt\", {..}, 0) = 0\n\
        8 read(5,  <detached ...>\n";
    let first = "accept4 1, futex 1.00, newfstatat 1, read=EAGAIN 1";
    assert_eq!(profile(&trace.replace("/b.txt", "/a.txt"), "a.txt", 3).count("newfstatat"), 1.0);
    let until_the_second: Vec<&str> = trace.lines().take(9).collect();
    assert_eq!(profile(&until_the_second.join("\n"), "a.txt", 1).to_string(), first);
}
