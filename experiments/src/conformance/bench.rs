//! The words scenarios are written in: a server of their own, its clients, its processes, its scoreboard, its log.

use super::board::Board;
use super::client::{Answer, Client};
use super::curve;
use super::server::{self, Program, Running};
use super::{Trouble, Vector};
use crate::probe::tree;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest wait for anything that must happen. Longer than any time-out a scenario sets.
pub const PATIENCE: Duration = Duration::from_secs(45);
/// How often a condition is looked at.
pub const LOOK: Duration = Duration::from_millis(10);
/// A state of the scoreboard that is over sooner is an instant on the way to another.
const INSTANT: Duration = Duration::from_millis(400);

/// A server that runs for one scenario.
pub struct Bench {
    pub(super) running: Running,
    /// Name of the model.
    pub model: String,
}

impl Bench {
    /// Starts a server for a vector.
    ///
    /// # Errors
    /// It does not start; or it is not installed, which is [`Trouble::Skip`].
    pub fn start(program: &Program, model: &str, vector: &Vector) -> Result<Bench, Trouble> {
        let running = server::start(program, model, vector)?;
        Ok(Bench { running, model: model.to_owned() })
    }

    /// Where the server listens: the first address.
    pub fn address(&self) -> SocketAddr {
        self.running.address
    }

    /// The address that `{second}` stands for in a set-up.
    pub fn second(&self) -> SocketAddr {
        self.running.second
    }

    /// The document root, to put files into. `/small` is there: 1 KiB.
    pub fn root(&self) -> &Path {
        &self.running.root
    }

    /// A new connection.
    pub fn dial(&self) -> Result<Client, Trouble> {
        Client::dial(self.address())
    }

    /// A new connection to the address that `{second}` stands for.
    pub fn dial_second(&self) -> Result<Client, Trouble> {
        Client::dial(self.second())
    }

    /// `n` new connections.
    pub fn dial_many(&self, n: usize) -> Result<Vec<Client>, Trouble> {
        (0..n).map(|_| self.dial()).collect()
    }

    /// `GET path` on a connection of its own that the answer closes.
    pub fn get(&self, path: &str) -> Result<Answer, Trouble> {
        let mut client = self.dial()?;
        client.send(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))?;
        client.answer()
    }

    /// A connection whose request is in progress: a body is announced and not sent. It pins a worker in W until it is
    /// [released](Client::release) or dropped. Returns once the scoreboard shows it.
    pub fn hold(&self) -> Result<Client, Trouble> {
        let before = self.count('W');
        let mut client = self.dial()?;
        client.send("POST /small HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n")?;
        self.wait("a held request shows as W", || (self.count('W') > before).then_some(()))?;
        Ok(client)
    }

    /// `n` connections with requests in progress.
    pub fn hold_many(&self, n: usize) -> Result<Vec<Client>, Trouble> {
        (0..n).map(|_| self.hold()).collect()
    }

    /// A kept connection that has had one answer and idles now. Returns once the answer is complete.
    pub fn idle(&self) -> Result<Client, Trouble> {
        let mut client = self.dial()?;
        client.get("/small")?;
        Ok(client)
    }

    /// The scoreboard as it stands.
    pub fn board(&self) -> Result<Board, Trouble> {
        Board::read(&self.running.scoreboard)
    }

    /// How many workers show this letter; 0 while the scoreboard cannot be read.
    pub fn count(&self, letter: char) -> usize {
        self.board().map_or(0, |board| board.letters().chars().filter(|c| *c == letter).count())
    }

    /// The parent.
    pub fn parent(&self) -> i32 {
        self.running.server.leader()
    }

    /// The living children of the parent.
    pub fn children(&self) -> BTreeSet<i32> {
        let parent = self.parent();
        let all = tree::descendants(parent).unwrap_or_default();
        all.into_iter().filter(|process| process.parent == parent).map(|process| process.pid).collect()
    }

    /// Sends the parent a signal.
    pub fn signal(&self, signal: Signal) {
        self.signal_to(self.parent(), signal);
    }

    /// Sends one of the server's processes a signal.
    pub fn signal_to(&self, pid: i32, signal: Signal) {
        // A process that has just ended needs no signal.
        let _ = kill(Pid::from_raw(pid), signal);
    }

    /// Has the parent ended?
    pub fn ended(&mut self) -> bool {
        self.running.server.exited().is_some()
    }

    /// Waits for the parent's end.
    pub fn wait_for_end(&mut self) -> Result<(), Trouble> {
        let start = Instant::now();
        while !self.ended() {
            if start.elapsed() > PATIENCE {
                return Err(Trouble::failed("the server does not end"));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// The error log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.running.error_log).unwrap_or_default()
    }

    /// The access log so far: method, path, status per line.
    pub fn access_log(&self) -> String {
        std::fs::read_to_string(&self.running.access_log).unwrap_or_default()
    }

    /// How often a text stands in the error log.
    pub fn logged(&self, text: &str) -> usize {
        self.log().matches(text).count()
    }

    /// Waits until a text stands in the error log at least `times` times.
    pub fn wait_for_log(&self, text: &str, times: usize) -> Result<(), Trouble> {
        self.wait(&format!("the error log says \"{text}\""), || (self.logged(text) >= times).then_some(()))
    }

    /// Does a graceful or hard restart (USR1, HUP), and returns once the parent has begun the new generation.
    pub fn restart(&self, signal: Signal) -> Result<(), Trouble> {
        let before = self.logged("resuming normal operations");
        self.signal(signal);
        self.wait_for_log("resuming normal operations", before + 1)
    }

    /// Asks again and again until there is an answer.
    pub fn wait<T>(&self, what: &str, mut ask: impl FnMut() -> Option<T>) -> Result<T, Trouble> {
        within(PATIENCE, &mut ask).ok_or_else(|| {
            let board = self.board().map_or_else(|_| "unreadable".to_owned(), |board| board.living());
            Trouble::failed(format!("waited in vain: {what} (scoreboard {board})"))
        })
    }

    /// Whether something becomes true within a time.
    pub fn happens(&self, limit: Duration, mut ask: impl FnMut() -> bool) -> bool {
        within(limit, &mut || ask().then_some(())).is_some()
    }

    /// Waits until the scoreboard shows exactly these letters, leaving out dead slots.
    pub fn wait_for_letters(&self, letters: &str) -> Result<(), Trouble> {
        self.wait(&format!("the scoreboard shows {letters}"), || {
            (self.board().ok()?.living() == letters).then_some(())
        })
    }

    /// The letters of slots that are not dead, once they have stood still for a moment.
    pub fn settled(&self) -> Result<String, Trouble> {
        let states = self.letters_until(|_| true)?;
        Ok(states.into_iter().map(|(letters, _)| letters).next_back().unwrap_or_default())
    }

    /// Follows the letters of slots that are not dead: what they were and for how long, without instants, until they stand still
    /// and `done` says so of them.
    pub fn letters_until(
        &self,
        mut done: impl FnMut(&str) -> bool,
    ) -> Result<Vec<(String, Duration)>, Trouble> {
        let mut states: Vec<(String, Duration)> = Vec::new();
        let (mut now, mut since) = (self.board()?.living(), Instant::now());
        self.wait("the scoreboard stands still in the end", || {
            let letters = self.board().ok()?.living();
            let lasted = since.elapsed();
            if letters == now {
                return (done(&letters) && lasted > INSTANT).then_some(());
            }
            keep(&mut states, std::mem::replace(&mut now, letters), lasted);
            since = Instant::now();
            None
        })?;
        keep(&mut states, now, since.elapsed());
        Ok(states)
    }

    /// Waits until no request is in progress: every worker is ready, or waits between two requests.
    pub fn wait_until_quiet(&self) -> Result<(), Trouble> {
        // Under event K is an instant on the way out of a worker, which then still counts as busy.
        let letters: &[char] = if self.model == "event" { &['_'] } else { &['_', 'K'] };
        self.wait("no request is in progress", || {
            self.board().ok()?.living().chars().all(|letter| letters.contains(&letter)).then_some(())
        })
    }

    /// The letters of slots that are not dead, sorted: which worker has what is chance.
    pub fn sorted_letters(&self) -> Result<String, Trouble> {
        let mut letters: Vec<char> = self.board()?.living().chars().collect();
        letters.sort_unstable();
        Ok(letters.into_iter().collect())
    }

    /// The number of children at each tick of the parent (1 s), from now until it is `last`: see [`curve`].
    pub fn children_per_tick(&self, last: usize) -> Result<String, Trouble> {
        curve::per_tick(&mut || self.children().len(), last, PATIENCE)
    }
}

/// Asks until there is an answer or the time is up.
pub fn within<T>(limit: Duration, ask: &mut dyn FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if start.elapsed() > limit {
            return None;
        }
        std::thread::sleep(LOOK);
    }
}

/// Adds a state that has ended, unless it was an instant; one that only an instant interrupted goes on.
fn keep(states: &mut Vec<(String, Duration)>, letters: String, lasted: Duration) {
    match states.last_mut() {
        Some((last, before)) if lasted <= INSTANT || *last == letters => *before += lasted,
        None if lasted <= INSTANT => {}
        _ => states.push((letters, lasted)),
    }
}

/// States as an expectation says them: `K for 2-4 s, C for 2-4 s, _`. The last one goes on.
pub fn story(states: &[(String, Duration)], each: Range<u32>) -> String {
    let last = states.len().saturating_sub(1);
    let state = |(index, (letters, lasted)): (usize, &(String, Duration))| match index {
        _ if index == last => letters.clone(),
        _ => format!("{letters} for {}", span(*lasted, each.clone())),
    };
    states.iter().enumerate().map(state).collect::<Vec<_>>().join(", ")
}

/// A duration as an expectation says it: `6-8 s` if it lies there, else what it was, `8.91 s`. The bounds are seconds, and wide
/// enough for a busy machine.
pub fn span(time: Duration, range: Range<u32>) -> String {
    let seconds = time.as_secs_f64();
    if (f64::from(range.start)..f64::from(range.end)).contains(&seconds) {
        format!("{}-{} s", range.start, range.end)
    } else {
        format!("{seconds:.2} s")
    }
}

/// `text` if true, else `no text`: for expectations that read like a sentence.
pub fn says(truth: bool, text: &str) -> String {
    if truth { text.to_owned() } else { format!("not {text}") }
}
