//! The system calls of a server's threads, as strace(1) sees them.

use super::{Bench, Trouble};
use crate::study::scratch::Scratch;
use crate::target::find_program;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::process::{Child, Command, Stdio};

/// For [`Bench::trace`]: every call but those that only concern memory, and what threads wake each other with. Those depend on
/// the C library and on who comes first, and are no part of what a request costs in kind.
pub const ALL: &str = "!futex,brk,mprotect,madvise,mremap,restart_syscall,rt_sigprocmask,rt_sigreturn";

/// strace attached to processes. Dropping it detaches.
#[derive(Debug)]
pub struct Trace {
    strace: Child,
    scratch: Scratch,
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Seconds since the epoch, in microseconds' precision: comparable between threads.
    pub at: String,
    /// The thread that made it.
    pub thread: i32,
    /// The name.
    pub name: String,
    /// Its arguments as strace prints them; strings are cut after [`STRING`] bytes.
    pub arguments: String,
    /// What it returned; `?` if it did not while it was watched.
    pub result: String,
}

/// Bytes of each string argument that are kept: enough to recognize a request.
const STRING: &str = "120";

impl Bench {
    /// Watches calls of processes, all their threads, and what they start. `calls` is what `strace -e trace=` takes: [`ALL`], or
    /// names. Returns once every thread is watched.
    ///
    /// # Errors
    /// strace is missing or may not attach: [`Trouble::Skip`].
    pub fn trace(&self, processes: &BTreeSet<i32>, calls: &str) -> Result<Trace, Trouble> {
        let program =
            find_program("strace").ok_or_else(|| Trouble::Skip("strace is not installed".to_owned()))?;
        let scratch = Scratch::create().map_err(|error| Trouble::failed(error.to_string()))?;
        let messages = scratch.path().join("messages");
        let mut command = Command::new(program);
        command.args(["--follow-forks", "--output-separately", "-ttt", "-s", STRING, "-e"]);
        command.arg(format!("trace={calls}")).arg("-o").arg(scratch.path().join("calls"));
        processes.iter().for_each(|process| {
            command.arg("-p").arg(process.to_string());
        });
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&messages)?);
        let mut trace = Trace { strace: command.spawn()?, scratch };
        let said = || fs::read_to_string(&messages).unwrap_or_default();
        self.wait("strace is attached", || {
            let ended = trace.strace.try_wait().is_ok_and(|status| status.is_some());
            (ended || said().matches(" attached").count() >= processes.len()).then_some(())
        })?;
        let said = said();
        match said.lines().find(|line| line.contains("attach:")) {
            Some(refusal) if refusal.contains("not permitted") => Err(Trouble::Skip(refusal.to_owned())),
            Some(refusal) => Err(Trouble::failed(refusal)),
            None => Ok(trace),
        }
    }

    /// Watches calls of all children.
    ///
    /// # Errors
    /// As [`Bench::trace`].
    pub fn trace_children(&self, calls: &str) -> Result<Trace, Trouble> {
        self.trace(&self.children(), calls)
    }
}

impl Trace {
    /// Detaches, and gives back what was seen. A call that has begun and not returned is among it.
    ///
    /// # Errors
    /// The files cannot be read.
    pub fn stop(mut self) -> Result<Calls, Trouble> {
        self.detach();
        let mut calls = Vec::new();
        for entry in fs::read_dir(self.scratch.path())? {
            let path = entry?.path();
            let Some(thread) = path.extension().and_then(|tid| tid.to_str()?.parse().ok()) else { continue };
            let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
            // Rust's own check of debug builds before it closes a descriptor; a release build makes none.
            let checks = |call: &Call| cfg!(debug_assertions) && call.arguments.contains("F_GETFD");
            calls.extend(text.lines().filter_map(|line| parse(line, thread)).filter(|call| !checks(call)));
        }
        // Stable: of one thread the order is that of the file.
        calls.sort_by(|a, b| a.at.cmp(&b.at));
        Ok(Calls(calls))
    }

    fn detach(&mut self) {
        if let Ok(None) = self.strace.try_wait() {
            let pid = Pid::from_raw(i32::try_from(self.strace.id()).expect("Linux process ids fit in i32"));
            // It is unwaited-for, so the id is its own.
            let _ = kill(pid, Signal::SIGTERM);
            let _ = self.strace.wait();
        }
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.detach();
    }
}

/// Calls in the order of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calls(pub Vec<Call>);

impl Calls {
    /// Those for which a condition holds.
    pub fn that(&self, condition: impl Fn(&Call) -> bool) -> Calls {
        Calls(self.0.iter().filter(|call| condition(call)).cloned().collect())
    }

    /// Those with one of these names.
    pub fn named(&self, names: &str) -> Calls {
        self.that(|call| names.split(' ').any(|name| name == call.name))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Those of each thread, in its order.
    pub fn by_thread(&self) -> BTreeMap<i32, Vec<&Call>> {
        let mut threads: BTreeMap<i32, Vec<&Call>> = BTreeMap::new();
        self.0.iter().for_each(|call| threads.entry(call.thread).or_default().push(call));
        threads
    }

    /// The calls of the thread that serves a request: from the one that brings `mark` until the same thread reads `next`, which
    /// is left out. As in [`Calls::connection`].
    ///
    /// # Errors
    /// No thread reads both.
    pub fn between(&self, mark: &str, next: &str) -> Result<Vec<Call>, Trouble> {
        let of_one = |calls: Vec<Call>| {
            let place = |text: &str| calls.iter().position(|call| call.brings(text));
            Some(calls.get(place(mark)?..place(next)?)?.to_vec())
        };
        let found = self.served().find_map(of_one);
        found.ok_or_else(|| Trouble::failed(format!("no thread reads {mark} and then {next}")))
    }

    /// The calls that one connection costs, of which the first read brings `mark`: first those of the thread that accepts it, if
    /// that is another than the one that serves it, then of the latter, until it begins another. Calls that have not returned and
    /// memory that is only taken or given back are left out.
    ///
    /// # Errors
    /// No thread reads it.
    pub fn connection(&self, mark: &str) -> Result<(Vec<Call>, Vec<Call>), Trouble> {
        let begins =
            |call: &Call| matches!(call.name.as_str(), "accept4" | "getsockname" | "fcntl" | "epoll_wait");
        let of_server = |calls: Vec<Call>| {
            let read = calls.iter().position(|call| call.brings(mark))?;
            let from = calls[..read].iter().rposition(|call| !begins(call)).map_or(0, |before| before + 1);
            let to = calls[read..].iter().position(begins).map_or(calls.len(), |length| read + length);
            Some(calls[from..to].to_vec())
        };
        let server = self.served().find_map(of_server);
        let server = server.ok_or_else(|| Trouble::failed(format!("no thread reads {mark}")))?;
        if server.iter().any(|call| call.name == "accept4") {
            return Ok((Vec::new(), server));
        }
        let of_listener = |calls: Vec<Call>| {
            let before: Vec<_> = calls.into_iter().filter(|call| call.at < server[0].at).collect();
            let accept = before.iter().rposition(|call| call.name == "accept4")?;
            let waits = accept > 0 && before[accept - 1].name == "epoll_wait";
            Some(before[if waits { accept - 1 } else { accept }..=accept].to_vec())
        };
        let listener = self.served().find_map(of_listener);
        listener.map(|listener| (listener, server)).ok_or_else(|| Trouble::failed("no thread accepts"))
    }

    /// What each thread has done: calls that returned, without memory. Two more are left out: the byte that wakes a listener for
    /// the first of many time-outs, since which connection's that is, is chance; and what Rust's library asks of a descriptor
    /// before it closes it, in development builds only.
    fn served(&self) -> impl Iterator<Item = Vec<Call>> {
        let returned = |call: &&&Call| {
            let wakes = call.name == "write" && call.result == "1";
            let checks = call.name == "fcntl" && call.arguments.ends_with("F_GETFD");
            !call.result.starts_with('?') && !call.failed_with("EINTR") && !wakes && !checks
        };
        self.by_thread().into_values().map(move |calls| {
            without_memory(calls.iter().filter(returned).map(|call| (*call).clone()).collect())
        })
    }
}

impl Call {
    /// Is it a read that brings this text?
    pub fn brings(&self, text: &str) -> bool {
        self.name.starts_with("re") && self.arguments.contains(text)
    }

    /// Did it fail with this error?
    pub fn failed_with(&self, error: &str) -> bool {
        self.result.contains(error)
    }
}

/// Leaves out `mmap` of anonymous memory and the `munmap` of anything whose `mmap` is not among the calls: allocators ask for it
/// when it suits them. What maps files stays.
fn without_memory(calls: Vec<Call>) -> Vec<Call> {
    let mut mapped = BTreeSet::new();
    let mut kept = Vec::new();
    for call in calls {
        match call.name.as_str() {
            "mmap" if call.arguments.contains("MAP_ANONYMOUS") => continue,
            "mmap" => {
                mapped.insert(call.result.clone());
            }
            "munmap" if !mapped.remove(call.arguments.split(',').next().unwrap_or_default()) => continue,
            _ => {}
        }
        kept.push(call);
    }
    kept
}

/// Names in order, separated by spaces; `read=EAGAIN` for one that would have had to wait. What is repeated at once is said once
/// with how often: `read x3`.
pub fn names(calls: &[Call]) -> String {
    let mut said: Vec<(String, usize)> = Vec::new();
    for call in calls {
        let name = match call.failed_with("EAGAIN") {
            true => format!("{}=EAGAIN", call.name),
            false => call.name.clone(),
        };
        match said.last_mut() {
            Some((last, times)) if *last == name => *times += 1,
            _ => said.push((name, 1)),
        }
    }
    let said =
        said.into_iter().map(|(name, times)| if times == 1 { name } else { format!("{name} x{times}") });
    said.collect::<Vec<_>>().join(" ")
}

/// One line: `1764567890.123456 read(9, "GET /"..., 8000) = 54`. Signals and exits are no calls.
fn parse(line: &str, thread: i32) -> Option<Call> {
    let (at, rest) = line.split_once(' ')?;
    let (name, rest) = rest.split_once('(')?;
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return None;
    }
    // The result is behind the last ` = `; strings may hold one too, but before it.
    let (arguments, result) = rest.rsplit_once(" = ").unwrap_or((rest, "?"));
    let arguments = arguments.trim_end().trim_end_matches(')');
    let own = |text: &str| text.to_owned();
    Some(Call { at: own(at), thread, name: own(name), arguments: own(arguments), result: own(result) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_calls_and_what_is_no_call_is_left_out() {
        let call = parse(r#"17.000001 read(9, "GET / = 1 HTTP", 8000) = 54"#, 7).unwrap();
        assert_eq!(
            (call.name.as_str(), call.arguments.as_str(), call.result.as_str(), call.thread),
            ("read", r#"9, "GET / = 1 HTTP", 8000"#, "54", 7)
        );
        assert!(call.brings("GET /"));
        let call = parse("17.0 accept4(3,  <detached ...>", 7).unwrap();
        assert_eq!((call.name.as_str(), call.result.as_str()), ("accept4", "?"));
        let call = parse("17.0 read(5, 0x7f, 1) = -1 EAGAIN (Resource temporarily unavailable)", 7).unwrap();
        assert!(call.failed_with("EAGAIN") && !call.brings("GET"));
        assert_eq!(parse("17.0 --- SIGTERM {si_signo=SIGTERM} ---", 7), None);
        assert_eq!(parse("17.0 +++ exited with 0 +++", 7), None);
    }

    #[test]
    fn only_memory_that_maps_files_counts() {
        let lines = [
            "1 mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f01",
            "2 mmap(NULL, 1024, PROT_READ, MAP_SHARED, 9, 0) = 0x7f02",
            "3 munmap(0x7f02, 1024) = 0",
            "4 munmap(0x7f01, 8192) = 0",
            "5 read(8, 0x7f, 8000) = -1 EAGAIN (Resource temporarily unavailable)",
        ];
        let calls = lines.iter().filter_map(|line| parse(line, 1)).collect();
        assert_eq!(names(&without_memory(calls)), "mmap munmap read=EAGAIN");
    }
}
