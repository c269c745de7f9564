//! The parent's answer to signals: stop, restart, and both gracefully (mpm-semantics 6).
//!
//! A request that comes while another is carried out waits its turn; Apache loses it.

use super::{HOLD_OFF, Next, Parent, Setup, TICK, prepare};
use crate::process::listen::{Listener, open_all};
use crate::process::pod::{Order, Pod};
use crate::process::reclaim;
use crate::process::signals::{self, Request};
use crate::process::spare::Spawning;
use mpmlab_core::config::LogLevel;
use mpmlab_core::slot::Status;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use std::time::Instant;

impl Parent {
    /// Does what a signal to the parent asks for.
    pub(super) fn obey(&mut self, request: Request, reload: &dyn Fn() -> Result<Setup, String>) -> Next {
        let numbers = self.mpm.card().messages;
        match request {
            Request::Stop => {
                self.end_all();
                self.say(LogLevel::Notice, numbers.stop, "caught SIGTERM, shutting down");
                Next::Over
            }
            Request::GracefulStop => {
                self.say(
                    LogLevel::Notice,
                    numbers.graceful_stop,
                    "caught SIGWINCH, shutting down gracefully",
                );
                self.stop_gracefully();
                Next::Over
            }
            Request::Restart => {
                self.say(LogLevel::Notice, numbers.restart, "SIGHUP received.  Attempting to restart");
                self.restart(reload)
            }
            Request::GracefulRestart => {
                let text = if self.threaded() {
                    "SIGUSR1 received.  Doing graceful restart"
                } else {
                    "Graceful restart requested, doing restart"
                };
                self.say(LogLevel::Notice, numbers.graceful_restart, text);
                self.restart_gracefully(reload)
            }
        }
    }

    fn signal_all(&self, signal: Signal) {
        for child in &self.children {
            // One that has just ended is still a zombie: the signal cannot hit a stranger.
            let _ = kill(child.pid, signal);
        }
    }

    /// Asks every child to end at once, and makes sure.
    pub(super) fn end_all(&mut self) {
        if self.threaded() {
            self.pod.order(Order::Now, self.limit());
        }
        self.reclaim(true);
    }

    /// Waits for all children by the schedule of [`reclaim`].
    fn reclaim(&mut self, with_first: bool) {
        let began = Instant::now();
        let mut actions = reclaim::SCHEDULE.iter().skip(usize::from(!with_first)).peekable();
        let mut sleep = None;
        loop {
            self.collect();
            if self.children.is_empty() || began.elapsed() >= reclaim::GIVE_UP {
                return;
            }
            while let Some(action) = actions.next_if(|action| began.elapsed() >= action.at) {
                if action.warns {
                    for child in &self.children {
                        let text = format!(
                            "child process {} still did not exit, sending a {}",
                            child.pid, action.signal
                        );
                        let (level, number) = match action.signal {
                            Signal::SIGKILL => (LogLevel::Error, 46),
                            _ => (LogLevel::Warn, 45),
                        };
                        self.say(level, number, &text);
                    }
                }
                self.signal_all(action.signal);
            }
            let next = reclaim::next_sleep(sleep);
            sleep = Some(next);
            signals::sleep(next);
        }
    }

    /// Buries every child that has ended meanwhile.
    fn collect(&mut self) {
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            let Some(pid) = status.pid() else { break };
            self.bury(pid);
        }
    }

    fn stop_gracefully(&mut self) {
        self.remove_pid_file();
        self.listeners.iter().for_each(Listener::close);
        self.ask_to_finish();
        loop {
            self.collect();
            if self.children.is_empty() {
                return;
            }
            signals::sleep(TICK);
            if signals::take_request() == Some(Request::Stop) {
                return self.end_all();
            }
        }
    }

    /// Children of the running generation finish what they have, and end.
    fn ask_to_finish(&self) {
        if self.threaded() {
            self.pod.order(Order::Graceful, self.limit());
            return;
        }
        for child in &self.children {
            let slot = self.board.slot(child.row, 0);
            if slot.status() != Status::Dead {
                slot.set(Status::Graceful);
            }
            let _ = kill(child.pid, Signal::SIGUSR1);
        }
    }

    fn restart(&mut self, reload: &dyn Fn() -> Result<Setup, String>) -> Next {
        if self.threaded() {
            self.pod.order(Order::Now, self.limit());
        } else {
            self.signal_all(Signal::SIGHUP);
        }
        // Threaded children do not know HUP; for them the first TERM follows 3 s later, as in Apache.
        self.reclaim(false);
        // Nobody is left who uses it: statistics begin anew.
        self.board.reset();
        if self.renew(reload) == Next::GaveUp {
            return Next::GaveUp;
        }
        self.spawning = Spawning::default();
        self.remaining = 0;
        self.start_first();
        self.log_started();
        Next::GoOn
    }

    fn restart_gracefully(&mut self, reload: &dyn Fn() -> Result<Setup, String>) -> Next {
        self.ask_to_finish();
        if self.renew(reload) == Next::GaveUp {
            self.end_all();
            return Next::GaveUp;
        }
        if self.has_one_acceptor() {
            self.decide();
            self.log_started();
            return Next::GoOn;
        }
        self.remaining = (self.setup.limits.start_servers.max(1) as usize).min(self.limit());
        self.spawning.hold_off = HOLD_OFF;
        self.log_started();
        Next::GoOn
    }

    /// A new generation with the configuration read anew. If that has become unusable, the server goes on with what it had
    /// and says so; Apache would end.
    fn renew(&mut self, reload: &dyn Fn() -> Result<Setup, String>) -> Next {
        self.generation += 1;
        self.board.set_generation(self.generation);
        match Pod::new() {
            Ok(pod) => self.pod = pod,
            Err(errno) => {
                self.log.say(LogLevel::Alert, &format!("cannot make the pipe of death: {}", errno.desc()));
                return Next::GaveUp;
            }
        }
        if let Err(why) = self.adopt(reload) {
            self.log.say(LogLevel::Error, &format!("the configuration stays as it was: {why}"));
        }
        self.configure_listeners();
        Next::GoOn
    }

    fn adopt(&mut self, reload: &dyn Fn() -> Result<Setup, String>) -> Result<(), String> {
        let mut setup = reload()?;
        let (log, account) = prepare(self.mpm, &setup.server).map_err(|error| error.to_string())?;
        let backlog = setup.server.config.listen_backlog;
        // A kept socket is moved over; new ones are opened before old ones are closed.
        self.listeners =
            open_all(&setup.listen, backlog, &mut self.listeners).map_err(|error| error.to_string())?;
        // The scoreboard cannot grow or shrink while old children use it (mpm-semantics 5.3).
        let (rows, columns) = (self.board.rows() as i64, self.board.columns() as i64);
        let limits = &mut setup.limits;
        if (limits.server_limit, limits.thread_limit) != (rows, columns) {
            self.log.say(
                LogLevel::Warn,
                "changing ServerLimit or ThreadLimit not allowed during restart; the original values stay",
            );
            (limits.server_limit, limits.thread_limit) = (rows, columns);
            limits.limit = limits.limit.min(rows);
            limits.threads_per_child = limits.threads_per_child.min(columns);
        }
        (self.setup, self.account, self.log) = (setup, account, log);
        Ok(())
    }
}
