//! event's listener thread: the loop of mpm-semantics 4.3, in its order.

use super::rule::Verdict;
use super::{Process, Work};
use crate::ExitReason;
use crate::kit::accept::{Accepted, accept_from};
use crate::kit::crew::Crew;
use crate::kit::lot::{Held, Lot, Token};
use crate::process::poller::Ready;
use crate::process::scoreboard::ProcessRow;
use mpmlab_core::connection::step::{ConnState, Wake};
use mpmlab_core::slot::Status;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// No more events are fetched at once, whatever AsyncRequestWorkerFactor says: the rest comes with the next call.
const MOST_EVENTS: usize = 16_384;
/// A dying process lets nobody linger longer than this.
const SHORT_LINGER: Duration = Duration::from_secs(2);

/// Listens until the process is to end and has no connection any more, or must end at once.
pub(super) fn run(process: &Process<'_, '_>, crew: &Crew<'_, '_>) -> ExitReason {
    let child = process.child;
    for (index, listener) in child.listeners.iter().enumerate() {
        listener.set_nonblocking(true);
        if let Err(errno) = process.lot.watch(listener.fd(), index, child.knobs.accept_exclusive) {
            return ExitReason::Sick(errno);
        }
    }
    let mut listening = Listening {
        process,
        crew,
        left: child.budget(),
        reserved: false,
        busy: false,
        closed: false,
        reason: ExitReason::Finished,
        taken: Vec::new(),
    };
    let factor = usize::try_from(child.limits.async_factor).unwrap_or(1);
    listening.run(&mut Ready::with_capacity(events_at_once(child.threads(), factor, child.listeners.len())));
    listening.reason
}

/// Events fetched by one `epoll_wait`, as Apache does: listeners, the wake-up pipe, max(2, factor) connections per worker, and
/// one more.
fn events_at_once(threads: usize, factor: usize, listeners: usize) -> usize {
    threads.saturating_mul(factor.max(2)).saturating_add(listeners + 2).min(MOST_EVENTS)
}

/// The listener's own state.
struct Listening<'a, 'b, 'c> {
    process: &'a Process<'b, 'c>,
    crew: &'a Crew<'a, 'c>,
    left: Option<i64>,
    /// A worker is reserved and was not used.
    reserved: bool,
    /// This round met a moment without an idle worker.
    busy: bool,
    /// The listening sockets are closed.
    closed: bool,
    reason: ExitReason,
    taken: Vec<(Held, ConnState)>,
}

impl Listening<'_, '_, '_> {
    fn run(&mut self, ready: &mut Ready) {
        let process = self.process;
        let leaving = process.child.leaving;
        loop {
            // 1. The process's share of connections.
            if self.left.is_some_and(|left| left <= 0) {
                self.crew.retire();
                self.left = None;
            }
            // 2. Is the process to end?
            let mut wait = true;
            if leaving.stopping() {
                if !self.closed {
                    self.stop_accepting();
                    wait = false;
                }
                if leaving.immediately() || process.connections.load(SeqCst) == 0 {
                    return;
                }
            }
            // 3. Until something is ready or expires.
            if wait && process.lot.wait(ready).is_err() {
                continue;
            }
            // 4. What is ready.
            self.busy = false;
            for index in 0..if wait { ready.len() } else { 0 } {
                match Lot::token(ready, index) {
                    Token::Wake => process.lot.clear_wake(),
                    Token::Outside(listener) => self.connect(listener),
                    Token::Parked(place) => self.resume(place),
                }
            }
            // 5. What has expired, or must go.
            self.expire();
            // 6. Somebody must close what was deferred.
            if !process.deferred.is_empty() && self.reserve_if_idle() {
                process.queue.push(Work::Drain);
                self.reserved = false;
            }
            // 7. Room again? A worker that became idle after the rule was asked and before accepts were switched off has
            // not seen that they are, and wakes nobody: then look again in the next round, which is not busy.
            if process.should_enable() {
                if self.busy {
                    process.lot.wake();
                } else {
                    self.enable();
                }
            }
        }
    }

    /// A parked connection is ready: it goes to a worker. Those that were promised an answer wait for one, with everything
    /// else (7.17); the others are dropped if none is idle (7.4).
    fn resume(&mut self, place: u32) {
        let process = self.process;
        let Some((held, state)) = process.lot.take(place) else { return };
        let got = match state {
            ConnState::KeepAlive | ConnState::Linger if process.child.knobs.shed => self.reserve_if_idle(),
            _ => self.reserve(),
        };
        if got {
            process.queue.push(Work::Parked(held));
            self.reserved = false;
            return;
        }
        self.busy = true;
        match state {
            ConnState::Linger => process.gone(held),
            _ => process.deferred.push(held, Wake::Evicted),
        }
    }

    /// A listening socket is ready: one connection, if the rule allows.
    fn connect(&mut self, listener: usize) {
        let process = self.process;
        if self.closed || process.disabled.load(SeqCst) {
            return;
        }
        let verdict = if self.busy { Verdict::Busy } else { process.verdict() };
        if verdict != Verdict::Accept {
            self.busy |= verdict == Verdict::Busy;
            self.disable();
            return;
        }
        if !self.reserve() {
            return;
        }
        match accept_from(process.child, listener) {
            Accepted::Connection(fresh) => {
                self.left = self.left.map(|left| left - 1);
                process.queue.push(Work::Fresh(fresh));
                self.reserved = false;
            }
            // Another process was faster: the reservation is for the next.
            Accepted::Nothing => {}
            Accepted::Sick(errno) => {
                self.reason = ExitReason::Sick(errno);
                self.crew.retire();
            }
        }
    }

    fn expire(&mut self) {
        let process = self.process;
        let dying = process.dying.load(SeqCst);
        let sweep = ((self.busy && process.child.knobs.shed) || dying).then_some(ConnState::KeepAlive);
        let due = process.lot.due();
        let idlers = || process.lot.count(ConnState::KeepAlive) > 0;
        if !(due || dying || (sweep.is_some() && idlers())) {
            return;
        }
        process.lot.expire(sweep, dying.then_some(SHORT_LINGER), &mut self.taken);
        for (held, state) in self.taken.drain(..) {
            match state {
                // Closing cannot block, so the listener does it.
                ConnState::Linger => process.gone(held),
                _ => process.deferred.push(held, Wake::Expired),
            }
        }
        // Apache's one place where the scoreboard learns of parked connections (7.12).
        if due {
            process.publish();
        }
    }

    fn reserve(&mut self) -> bool {
        self.reserved = self.reserved || self.process.idlers.reserve();
        self.reserved
    }

    fn reserve_if_idle(&mut self) -> bool {
        self.reserved = self.reserved || self.process.idlers.try_reserve();
        self.reserved
    }

    fn row(&self) -> &ProcessRow {
        self.process.child.board.process(self.process.child.row)
    }

    fn disable(&mut self) {
        for listener in self.process.child.listeners {
            self.process.lot.unwatch(listener.fd());
        }
        self.process.disabled.store(true, SeqCst);
        self.row().set_not_accepting(true);
    }

    fn enable(&mut self) {
        for (index, listener) in self.process.child.listeners.iter().enumerate() {
            // It was watched before, so the kernel has room for it.
            let _ = self.process.lot.watch(listener.fd(), index, self.process.child.knobs.accept_exclusive);
        }
        self.process.disabled.store(false, SeqCst);
        self.row().set_not_accepting(false);
    }

    fn stop_accepting(&mut self) {
        let process = self.process;
        // Other processes share the sockets, so closing them here would not take them out of the epoll set.
        for listener in process.child.listeners {
            process.lot.unwatch(listener.fd());
        }
        process.child.close_listeners();
        self.closed = true;
        process.dying.store(true, SeqCst);
        self.row().set_quiescing();
        self.row().set_not_accepting(true);
        for thread in 0..process.child.threads() {
            process.child.slot(thread).set(Status::Graceful);
        }
        self.crew.stopped_accepting();
        self.crew.retire();
        process.queue.interrupt();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // mpm-semantics 4.1.
    #[test]
    fn as_many_events_are_fetched_at_once_as_apache_fetches() {
        assert_eq!(events_at_once(25, 2, 1), 53);
        assert_eq!(events_at_once(2, 2, 1), 7);
        assert_eq!(events_at_once(2, 1, 1), 7);
        assert_eq!(events_at_once(usize::MAX, 1_000_000_000, 1), MOST_EVENTS);
    }
}
