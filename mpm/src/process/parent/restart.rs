//! The parent's answer to signals: stop, restart, and both gracefully (mpm-semantics 6).
//!
//! A request that comes while a restart is carried out is lost when the new run begins, as in Apache (knob restart-signals).

use super::{HOLD_OFF, Next, Parent, Setup, TICK, online_cores, prepare};
use crate::knobs::{BrokenRestart, RestartSignals};
use crate::process::listen::{Listener, open_all};
use crate::process::pod::Order;
use crate::process::reclaim;
use crate::process::signals::{self, Request};
use mpmlab_core::config::{LogLevel, clamp};
use mpmlab_core::slot::Status;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use std::time::{Duration, Instant};

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

    /// Writes an order for every child that there may be into the pipe of death of each bucket. prefork has signals for it.
    fn order(&self, order: Order) {
        if self.threaded() {
            self.pods.iter().for_each(|pod| pod.order(order, self.limit()));
        }
    }

    /// Asks every child to end at once, and makes sure.
    pub(super) fn end_all(&mut self) {
        self.order(Order::Now);
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
        self.listeners.iter().flatten().for_each(Listener::close);
        self.ask_to_finish();
        let limit = self.setup.server.config.graceful_shutdown_timeout;
        self.wait_for_children((!limit.is_zero()).then_some(limit));
        self.end_all();
    }

    /// Waits in steps of a second until no child is left, the time is up, or a signal asks for the end again.
    fn wait_for_children(&mut self, limit: Option<Duration>) {
        let began = Instant::now();
        loop {
            signals::sleep(TICK);
            self.collect();
            let impatient = matches!(signals::take_request(), Some(Request::Stop | Request::GracefulStop));
            if self.children.is_empty() || impatient || limit.is_some_and(|limit| began.elapsed() >= limit) {
                return;
            }
        }
    }

    /// Children of the running generation finish what they have, and end.
    fn ask_to_finish(&self) {
        if self.threaded() {
            return self.order(Order::Graceful);
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
            self.order(Order::Now);
        } else {
            self.signal_all(Signal::SIGHUP);
        }
        // Threaded children do not know HUP; for them the first TERM follows 3 s later, as in Apache.
        self.reclaim(false);
        if self.renew(reload, false) == Next::GaveUp {
            return Next::GaveUp;
        }
        // Nobody is left who uses it: statistics begin anew.
        self.board.reset();
        self.board.set_generation(self.generation);
        self.remaining = 0;
        self.start_first();
        self.begin_run()
    }

    fn restart_gracefully(&mut self, reload: &dyn Fn() -> Result<Setup, String>) -> Next {
        self.ask_to_finish();
        if self.renew(reload, true) == Next::GaveUp {
            // What is begun is finished. (Apache's parent ends at once, and its children finish without it; ours would
            // die with it.)
            self.wait_for_children(None);
            self.end_all();
            return Next::GaveUp;
        }
        if self.has_one_acceptor() {
            self.decide();
            return self.begin_run();
        }
        self.remaining = (self.setup.limits.start_servers.max(1) as usize).min(self.limit());
        self.spawning.hold_off = HOLD_OFF;
        self.begin_run()
    }

    fn begin_run(&self) -> Next {
        self.log_started();
        if self.setup.knobs.restart_signals == RestartSignals::Lost {
            signals::forget_requests();
        }
        Next::GoOn
    }

    /// A new generation with the configuration read anew. If that has become unusable, the server ends, as Apache does, or
    /// goes on with what it had (knob broken-restart).
    fn renew(&mut self, reload: &dyn Fn() -> Result<Setup, String>, graceful: bool) -> Next {
        self.generation += 1;
        self.board.set_generation(self.generation);
        if let Err(why) = self.adopt(reload, graceful) {
            match self.setup.knobs.broken_restart {
                BrokenRestart::Keep => {
                    self.log.say(LogLevel::Error, &format!("the configuration stays as it was: {why}"));
                }
                BrokenRestart::Exit => {
                    // On standard error it is said by whoever called; a file would not have it.
                    if self.setup.server.config.error_log.is_some() {
                        self.log.say(LogLevel::Crit, &why);
                    }
                    self.unusable = Some(why);
                    return Next::GaveUp;
                }
            }
        }
        match self.equip() {
            Ok(()) => Next::GoOn,
            Err(error) => {
                self.log.say(LogLevel::Alert, &error.to_string());
                Next::GaveUp
            }
        }
    }

    fn adopt(&mut self, reload: &dyn Fn() -> Result<Setup, String>, graceful: bool) -> Result<(), String> {
        let mut setup = reload()?;
        let (log, account) = prepare(self.mpm, &setup.server).map_err(|error| error.to_string())?;
        let config = &setup.server.config;
        // Old and new children share the buckets of a graceful restart (mpm-semantics 1.3).
        let asked = config.accepting.buckets(online_cores());
        // Each needs a row of the scoreboard, which stays as large as it is.
        let buckets = if graceful { self.buckets() as i64 } else { asked.min(self.board.rows() as i64) };
        // A kept socket is moved over; new ones are opened before old ones are closed.
        let listeners = open_all(&setup.listen, config, buckets as usize, &mut self.listeners);
        self.listeners = listeners.map_err(|error| error.to_string())?;
        let shape = self.mpm.card().shape;
        let (limits, said) = clamp::resolve_again(&config.mpm, shape, self.first_limits);
        setup.limits = limits.with_buckets(buckets, shape);
        for warning in said {
            log.say(LogLevel::Warn, &warning.to_string());
        }
        (self.setup, self.account, self.log) = (setup, account, log);
        Ok(())
    }
}
