//! The words scenarios about starting, restarting and ending are written in.

use super::bench::{Bench, LOOK};
use super::board::Process;
use super::client::{Client, Reply};
use super::{Trouble, curve};
use nix::sys::signal::Signal;
use std::fs;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// One second of the parent's, and what a busy machine adds.
pub const TICK: Duration = Duration::from_millis(1200);

impl Bench {
    /// What the server said on its terminal and in its error log.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.running.terminal).unwrap_or_default() + &self.log()
    }

    /// Replaces a text in the configuration file, which has it once.
    pub fn reconfigure(&self, from: &str, to: &str) -> Result<(), Trouble> {
        let text = fs::read_to_string(&self.running.file)?;
        if text.matches(from).count() != 1 {
            return Err(Trouble::failed(format!("the configuration does not have \"{from}\" once")));
        }
        Ok(fs::write(&self.running.file, text.replace(from, to))?)
    }

    /// Is the pid file there?
    pub fn has_pid_file(&self) -> bool {
        self.running.pid_file.exists()
    }

    /// Would a new client be refused? (Whoever is not refused leaves at once, without a byte.)
    pub fn refuses(&self) -> bool {
        TcpStream::connect(self.address()).is_err()
    }

    /// The rows of processes that are there, each with its letters.
    pub fn rows(&self) -> Result<Vec<(Process, String)>, Trouble> {
        let rows = self.board()?.present().cloned().collect::<Vec<_>>();
        Ok(rows
            .into_iter()
            .map(|row| {
                let letters = row.workers.iter().map(|worker| worker.letter).collect();
                (row, letters)
            })
            .collect())
    }

    /// A kept connection that idles in the server's eyes too: an answer is sent before its worker is done with it.
    pub fn parked(&self) -> Result<Client, Trouble> {
        let client = self.idle()?;
        self.wait_for_calm()?;
        Ok(client)
    }

    /// Waits until no worker reads, answers, logs or closes.
    pub fn wait_for_calm(&self) -> Result<(), Trouble> {
        self.wait("no worker is busy", || {
            (self.board().is_ok_and(|board| !board.living().contains(['R', 'W', 'L', 'C']))).then_some(())
        })
    }

    /// One request in progress in each process, with the process's id. Which process takes a connection is chance, so those
    /// that land where there is one already leave again.
    pub fn hold_in_each(&self) -> Result<Vec<(i32, Client)>, Trouble> {
        let busy = |bench: &Bench| -> Result<Vec<i32>, Trouble> {
            Ok(bench.rows()?.iter().filter(|row| row.1.contains('W')).map(|row| row.0.pid).collect())
        };
        let mut held: Vec<(i32, Client)> = Vec::new();
        for _ in 0..100 {
            if self.children().len() == held.len() {
                return Ok(held);
            }
            let (before, writing) = (busy(self)?, self.count('W'));
            let client = self.hold()?;
            match busy(self)?.into_iter().find(|pid| !before.contains(pid)) {
                Some(pid) => held.push((pid, client)),
                None => {
                    drop(client);
                    self.wait("a client that left is forgotten", || {
                        (self.count('W') == writing && self.count('C') == 0).then_some(())
                    })?;
                }
            }
        }
        Err(Trouble::failed("some process takes no connection"))
    }

    /// The number of children at each tick, until it has been the same for `quiet` ticks.
    pub fn children_until_quiet(&self, quiet: u32) -> Result<String, Trouble> {
        curve::until_quiet(&mut || self.children().len(), TICK * quiet, super::bench::PATIENCE)
    }

    /// Sends a signal, and says how long it is until the parent has ended.
    pub fn end_by(&mut self, signal: Signal) -> Result<Duration, Trouble> {
        let start = Instant::now();
        self.signal(signal);
        self.wait_for_end()?;
        Ok(start.elapsed())
    }

    /// Do processes have several workers each?
    pub fn is_threaded(&self) -> bool {
        self.board().is_ok_and(|board| board.thread_limit > 1)
    }

    /// How the parent ended: `exit status: 1`.
    pub fn running_status(&mut self) -> String {
        self.running.server.exited().map_or_else(|| "runs".to_owned(), |status| status.replace(':', ""))
    }

    /// Waits until a process is gone.
    pub fn wait_for_death(&self, pid: i32) -> Result<(), Trouble> {
        self.wait("a process ends", || (!self.children().contains(&pid)).then_some(()))
    }

    /// The only child.
    pub fn only_child(&self) -> Result<i32, Trouble> {
        let children = self.children();
        match children.iter().collect::<Vec<_>>()[..] {
            [pid] => Ok(*pid),
            _ => Err(Trouble::failed(format!("{} children, not one", children.len()))),
        }
    }
}

/// What happens to a client within a second that nothing should happen in.
pub fn glance(client: &mut Client) -> Reply {
    client.reply(Duration::from_secs(1))
}

/// Waits this many ticks, to show that nothing happens in them.
pub fn let_pass(ticks: u32) {
    let end = Instant::now() + TICK * ticks;
    while Instant::now() < end {
        std::thread::sleep(LOOK);
    }
}
