//! The parent's children: started in a row of the scoreboard, and buried when they have ended (mpm-semantics 5.1).

use super::{FORK_PAUSE, Next, Offspring, Parent, TOO_MANY_KILLED};
use crate::process::listen::Listener;
use crate::process::mutex::AcceptMutex;
use crate::process::{fork, monitor, privileges, signals};
use crate::{Child, ExitReason};
use mpmlab_core::config::LogLevel;
use mpmlab_core::slot::Status;
use nix::errno::Errno;
use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;

impl Parent {
    /// Starts a child in a row. If the system refuses, this round is over after a pause.
    pub(super) fn start(&mut self, row: usize) -> bool {
        if !self.threaded() {
            self.board.slot(row, 0).set(Status::Starting);
        }
        let parent = Pid::this();
        match fork::spawn(|| self.be_child(row, parent)) {
            Ok(pid) => {
                let old = self.board.process(row).pid();
                if old != 0 {
                    let ending = if self.board.process(row).quiescing() { " (quiescing)" } else { "" };
                    let text = format!("pid {pid} taking over scoreboard slot from {old}{ending}");
                    self.say(LogLevel::Info, 263, &text);
                }
                self.board.process(row).claim(pid.as_raw(), self.generation);
                self.children.push(Offspring { pid, row, generation: self.generation });
                true
            }
            Err(errno) => {
                let text = format!("fork: Unable to fork new process: {}", fork::describe(errno));
                self.say(LogLevel::Error, self.mpm.card().messages.fork_failed, &text);
                if !self.threaded() {
                    self.board.slot(row, 0).set(Status::Dead);
                }
                signals::sleep(FORK_PAUSE);
                false
            }
        }
    }

    /// The child's side of [`Parent::start`]: everything here is its own copy.
    fn be_child(&self, row: usize, parent: Pid) -> ExitReason {
        let bucket = row % self.buckets();
        for other in (0..self.buckets()).filter(|other| *other != bucket) {
            self.listeners[other].iter().for_each(Listener::close);
            self.pods[other].close();
        }
        let mutex = self.mutexes.get(bucket);
        if let Some(Err(errno)) = mutex.map(AcceptMutex::enter_child) {
            let text = format!("cannot open the accept mutex: {}", errno.desc());
            self.log.say(LogLevel::Emerg, &text);
            return ExitReason::Fatal;
        }
        if let Some(account) = &self.account
            && let Err(errno) = privileges::become_account(account)
        {
            self.log.say(LogLevel::Alert, &format!("cannot become user {}: {}", account.name, errno.desc()));
            return ExitReason::Fatal;
        }
        fork::die_with(parent);
        let monitor = monitor::View {
            board: &self.board,
            card: self.mpm.card(),
            limits: &self.setup.limits,
            generation: self.generation,
        };
        let reason = self.mpm.child(&Child {
            monitor: &monitor,
            server: &self.setup.server,
            limits: &self.setup.limits,
            board: &self.board,
            row,
            generation: self.generation,
            listeners: &self.listeners[bucket],
            pod: &self.pods[bucket],
            mutex,
            leaving: signals::leaving(),
            knobs: &self.setup.knobs,
            log: &self.log,
        });
        let closed = signals::leaving().closed_kept();
        if closed > 0 {
            let text = format!(
                "child ends, kept connections closed: {closed} (a request that was on its way on one was not answered)"
            );
            self.log.say(LogLevel::Info, &text);
        }
        if let ExitReason::Sick(errno) = reason {
            self.log.say(LogLevel::Emerg, &format!("child ends early: {}", errno.desc()));
        }
        reason
    }

    /// Starts what is left of a graceful restart, or of a killed child, in free rows.
    pub(super) fn start_remaining(&mut self) {
        let rows = (self.mpm.rows_to_fill(&self.setup.limits).max(1) as usize).min(self.board.rows());
        let free: Vec<usize> = (0..rows).filter(|row| self.is_free(*row)).take(self.remaining).collect();
        self.remaining = 0;
        for row in free {
            if !self.start(row) {
                break;
            }
        }
    }

    pub(super) fn is_free(&self, row: usize) -> bool {
        self.board.process(row).pid() == 0
    }

    /// Forgets a child that has ended, and gives its row free unless a younger one squats in it: then the answer is `None`
    /// in the second place.
    pub(super) fn bury(&mut self, pid: Pid) -> Option<(Offspring, Option<usize>)> {
        let index = self.children.iter().position(|child| child.pid == pid)?;
        let child = self.children.swap_remove(index);
        let had_row = self.board.process(child.row).pid() == pid.as_raw();
        if had_row {
            self.board.bury(child.row);
        }
        Some((child, had_row.then_some(child.row)))
    }

    /// Bookkeeping for one child that has ended (mpm-semantics 5.1).
    pub(super) fn reap(&mut self, status: WaitStatus) -> Next {
        let Some((child, row)) = status.pid().and_then(|pid| self.bury(pid)) else { return Next::GoOn };
        let current = child.generation == self.generation;
        let numbers = self.mpm.card().messages;
        let mut killed = false;
        let mut sick = false;
        match status {
            WaitStatus::Exited(pid, code) if code == ExitReason::Fatal.status() => {
                if current {
                    let text = format!("Child {pid} returned a Fatal error... mpmlab is exiting!");
                    self.say(LogLevel::Alert, 50, &text);
                    self.end_all();
                    return Next::GaveUp;
                }
                // One that was started just before the restart may have lost what it needed.
                let text = format!("Ignoring fatal error in child of previous generation (pid {pid}).");
                self.say(LogLevel::Warn, numbers.old_fatal, &text);
                self.sick = true;
            }
            WaitStatus::Exited(_, code) if code == ExitReason::Sick(Errno::UnknownErrno).status() => {
                sick = true;
                self.sick = true;
                // One that is alone may have worked and ended between two ticks: who has answered a request has worked.
                self.ever_healthy |= self.has_one_acceptor()
                    && (0..self.board.rows())
                        .any(|row| self.board.slots(row).any(|slot| slot.counters().requests[2] > 0));
            }
            WaitStatus::Signaled(pid, signal, _) => {
                killed = true;
                if let Some(name) = signals::remarkable(signal) {
                    let text = format!("child pid {pid} exit signal {name} ({})", signal as i32);
                    self.say(LogLevel::Notice, 52, &text);
                }
            }
            _ => {}
        }
        // Of one whose row another has taken nobody takes notice.
        let Some(row) = row else { return Next::GoOn };
        if sick {
            self.spawning.was_sick(row);
        } else if self.remaining > 0 {
            self.remaining -= 1;
            self.start(row);
        }
        if killed && self.threaded() {
            self.killed_in_row += 1;
            if self.killed_in_row < TOO_MANY_KILLED && self.has_one_acceptor() {
                self.decide();
            } else if self.killed_in_row < TOO_MANY_KILLED {
                self.remaining += 1;
                self.start_remaining();
            } else if self.killed_in_row % 10 == TOO_MANY_KILLED {
                self.say(LogLevel::Warn, numbers.killed_successively, "children are killed successively!");
            }
        } else if self.has_one_acceptor() && matches!(status, WaitStatus::Exited(_, 0)) {
            self.decide();
        }
        Next::GoOn
    }
}
