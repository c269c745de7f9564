//! event: nobody holds a connection that only waits.
//!
//! **The problem.** Under prefork and worker an idle keep-alive connection costs a process or a thread, although nothing is to
//! be done for it. With more idle clients than workers, new ones wait for a time-out.
//!
//! **The picture.** As worker: children with a listener and ThreadsPerChild workers. But after a response the worker gives the
//! connection back: idle, half-sent and closing connections are *parked* in an epoll set that the listener waits on along
//! with its listening sockets, each in a list with one time-out. A worker has a connection only while there is something
//! to do. Reading a request's head still holds a worker (7.7): what is parked is data, [`ParkSet::EVENT`].
//!
//! ```text
//!   child:  listener: epoll { listening sockets, parked connections }
//!              | accept, or readable: reserve a worker          ^
//!              v                                                | park
//!           [queue] ------------> worker: one request ----------+
//! ```
//!
//! The price: with many connections and all workers busy there is nobody to hand a readable connection to. Then it is closed,
//! with its request unanswered (7.4), and all idle ones are told to go. New connections are refused by the accept rule
//! (4.4), a pure function here: [`may_accept`].
//!
//! **The loops** are mpm-semantics 4.3 (listener) and 4.2 (worker).

use crate::kit::accept::{Accepted, Fresh, accept_from};
use crate::kit::crew::{self, Crew, Post};
use crate::kit::drive::drive;
use crate::kit::handoff::{Idlers, Popped, Queue};
use crate::kit::lot::{Held, Lot, Token};
use crate::process::poller::Ready;
use crate::process::spare::{self, SpawnPlan, Spawning};
use crate::{Card, Child, ExitReason, Messages, Mpm, ParkSet, View};
use mpmlab_core::config::clamp::Shape;
use mpmlab_core::config::knobs::Profile;
use mpmlab_core::connection::step::{ConnState, Wake};
use mpmlab_core::context::ThreadContext;
use mpmlab_core::slot::Status;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// See the module's documentation.
pub struct Event;

static CARD: Card = Card {
    name: "event",
    sentence: "as worker, but connections that only wait are parked with the listener and hold no thread",
    shape: Shape::EVENT,
    holder: "thread",
    parks: ParkSet::EVENT,
    faithful: &[
        ("linger", "read-first"),
        ("coalesce", "off"),
        ("later-line", "timeout"),
        ("accounting", "async"),
    ],
    profile: Profile::Apache,
    obeys: &["park", "shed", "stop-signal", "AsyncRequestWorkerFactor"],
    deviations: &[
        "TERM ends a worker that waits for its client at once; Apache's is killed after 9 s (knob stop-signal)",
        "children die with their parent, should it be killed",
    ],
    messages: Messages {
        resuming: 489,
        stop: 491,
        graceful_stop: 492,
        restart: 494,
        graceful_restart: 493,
        reached: 484,
        near: 10159,
        full: 3490,
        busy: 486,
        fork_failed: 481,
        killed_successively: 10392,
        never_healthy: 2324,
    },
};

/// No more events are fetched at once, whatever AsyncRequestWorkerFactor says: the rest comes with the next call.
const MOST_EVENTS: usize = 16_384;
/// A dying process lets nobody linger longer than this.
const SHORT_LINGER: Duration = Duration::from_secs(2);

impl Mpm for Event {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn child(&self, child: &Child<'_>) -> ExitReason {
        let lot = match Lot::new() {
            Ok(lot) => lot,
            Err(errno) => return ExitReason::Sick(errno),
        };
        let process = Process {
            child,
            lot,
            idlers: Idlers::new(),
            queue: Queue::new(child.threads()),
            connections: AtomicUsize::new(0),
            lingering: AtomicUsize::new(0),
            threads_gone: AtomicUsize::new(0),
            disabled: AtomicBool::new(false),
            dying: AtomicBool::new(false),
            deferred: Deferred::default(),
        };
        crew::run(child, &process)
    }

    fn maintain(&self, view: &View<'_>, state: &mut Spawning) -> SpawnPlan {
        spare::event(&view.rows(), view.limits, state)
    }
}

/// What the accept rule looks at (mpm-semantics 4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Idle workers.
    pub idle: usize,
    /// Connections of the process.
    pub connections: usize,
    /// Of these, lingering.
    pub lingering: usize,
    /// Are accepts switched off at the moment?
    pub disabled: bool,
    /// ThreadsPerChild.
    pub threads: usize,
    /// AsyncRequestWorkerFactor, truncated, at least 1.
    pub factor: usize,
}

/// What the rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Take a connection.
    Accept,
    /// Too many connections, but idle workers: leave idle connections alone.
    Above,
    /// No idle worker: the process is busy, idle connections must go.
    Busy,
}

/// May a process in this state accept? One worker's worth of room more is needed to switch accepts on again than to keep
/// them on.
pub fn may_accept(load: Load) -> Verdict {
    if load.idle == 0 {
        return Verdict::Busy;
    }
    let active = load.connections.saturating_sub(load.lingering);
    let room = load.threads + (load.idle - usize::from(load.disabled)) * load.factor;
    if active == 0 || active < room { Verdict::Accept } else { Verdict::Above }
}

/// What a worker is handed.
enum Work {
    /// A new connection.
    Fresh(Fresh),
    /// A parked one that has become ready.
    Parked(Held),
    /// Nothing but the deferred connections.
    Drain,
}

/// Connections that the listener wants closed. Only workers do that: it takes writes and may take time.
#[derive(Default)]
struct Deferred {
    count: AtomicUsize,
    chain: Mutex<Vec<(Held, Wake)>>,
}

impl Deferred {
    fn push(&self, held: Held, wake: Wake) {
        self.chain.lock().push((held, wake));
        self.count.fetch_add(1, SeqCst);
    }

    fn pop(&self) -> Option<(Held, Wake)> {
        if self.is_empty() {
            return None;
        }
        let popped = self.chain.lock().pop()?;
        self.count.fetch_sub(1, SeqCst);
        Some(popped)
    }

    fn is_empty(&self) -> bool {
        self.count.load(SeqCst) == 0
    }
}

struct Process<'a, 'c> {
    child: &'a Child<'c>,
    lot: Lot,
    idlers: Idlers,
    queue: Queue<Work>,
    /// Counted when a worker starts a new connection, not when it is accepted.
    connections: AtomicUsize,
    lingering: AtomicUsize,
    threads_gone: AtomicUsize,
    /// Are accepts switched off?
    disabled: AtomicBool,
    dying: AtomicBool,
    deferred: Deferred,
}

impl Process<'_, '_> {
    fn verdict(&self) -> Verdict {
        may_accept(Load {
            idle: self.idlers.idle(),
            connections: self.connections.load(SeqCst),
            lingering: self.lingering.load(SeqCst),
            disabled: self.disabled.load(SeqCst),
            threads: self.child.threads(),
            factor: usize::try_from(self.child.limits.async_factor).unwrap_or(1).max(1),
        })
    }

    fn should_enable(&self) -> bool {
        self.disabled.load(SeqCst) && !self.dying.load(SeqCst) && self.verdict() == Verdict::Accept
    }

    /// Serves a connection as far as it goes, then parks or forgets it.
    fn serve(&self, cx: &mut ThreadContext<'_>, mut held: Held, mut wake: Wake) {
        loop {
            let Some(wait) = drive(&mut held.conn, cx, wake, self.child.knobs.park) else {
                return self.gone(held);
            };
            if wait.state == ConnState::KeepAlive && self.child.leaving.stopping() {
                // Nobody idles in a process that stops.
                wake = Wake::Evicted;
                continue;
            }
            if wait.state == ConnState::Linger && !held.lingers {
                held.lingers = true;
                self.lingering.fetch_add(1, SeqCst);
            }
            if let Err(held) = self.lot.park(held, wait) {
                self.gone(held);
            }
            return;
        }
    }

    /// A connection has ended; the listener may now accept again, or leave.
    fn gone(&self, held: Held) {
        let lingered = held.lingers;
        drop(held);
        if lingered {
            self.lingering.fetch_sub(1, SeqCst);
        }
        let last = self.connections.fetch_sub(1, SeqCst) == 1;
        if (last && self.dying.load(SeqCst)) || self.should_enable() {
            self.lot.wake();
        }
    }

    fn drain_deferred(&self, cx: &mut ThreadContext<'_>) {
        while let Some((held, wake)) = self.deferred.pop() {
            self.serve(cx, held, wake);
        }
    }

    /// In a dying process workers go as connections do: no more stay than there are connections.
    fn superfluous(&self) -> bool {
        if !self.dying.load(SeqCst) {
            return false;
        }
        let (connections, threads) = (self.connections.load(SeqCst), self.child.threads());
        let goes = |gone| (connections < threads - gone).then_some(gone + 1);
        self.threads_gone.fetch_update(SeqCst, SeqCst, goes).is_ok()
    }
}

/// The listener's own state: the loop of mpm-semantics 4.3.
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
        match accept_from(&process.child.listeners[listener]) {
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
        if due {
            self.publish();
        }
    }

    /// The only place where the scoreboard learns of parked connections (7.12).
    fn publish(&self) {
        use std::sync::atomic::Ordering::Relaxed;
        let process = self.process;
        let row = process.child.board.process(process.child.row);
        row.connections.store(process.connections.load(SeqCst) as u32, Relaxed);
        row.write_completion.store(process.lot.count(ConnState::WriteCompletion) as u32, Relaxed);
        row.lingering_close.store(process.lot.count(ConnState::Linger) as u32, Relaxed);
        row.keep_alive.store(process.lot.count(ConnState::KeepAlive) as u32, Relaxed);
    }

    fn reserve(&mut self) -> bool {
        self.reserved = self.reserved || self.process.idlers.reserve();
        self.reserved
    }

    fn reserve_if_idle(&mut self) -> bool {
        self.reserved = self.reserved || self.process.idlers.try_reserve();
        self.reserved
    }

    fn row(&self) -> &crate::process::scoreboard::ProcessRow {
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
            let _ = self.process.lot.watch(listener.fd(), index);
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

impl Post for Process<'_, '_> {
    fn work(&self, thread: usize) {
        let mut cx = self.child.context(thread);
        loop {
            if self.superfluous() {
                return;
            }
            self.idlers.set_idle();
            if self.should_enable() {
                self.lot.wake();
            }
            cx.report_idle(if self.dying.load(SeqCst) { Status::Graceful } else { Status::Ready });
            let work = loop {
                match self.queue.pop() {
                    Popped::Item(work) => break work,
                    // Not idle any more, unless somebody has reserved this worker: then there will be work.
                    Popped::Interrupted if self.idlers.try_reserve() => {
                        if self.superfluous() {
                            return;
                        }
                        self.idlers.set_idle();
                    }
                    Popped::Interrupted => {}
                    Popped::Closed => return,
                }
            };
            match work {
                Work::Fresh(fresh) => {
                    self.connections.fetch_add(1, SeqCst);
                    self.serve(&mut cx, Held::new(fresh.into_connection()), Wake::Ready);
                }
                Work::Parked(held) => self.serve(&mut cx, held, Wake::Ready),
                Work::Drain => {}
            }
            self.drain_deferred(&mut cx);
        }
    }

    fn listen(&self, crew: &Crew<'_, '_>) -> ExitReason {
        // Room for what Apache fetches at once: listeners, the wake-up pipe, and max(2, factor) connections per worker.
        let factor = usize::try_from(self.child.limits.async_factor).unwrap_or(1).max(2);
        let room = self.child.threads().saturating_mul(factor).saturating_add(self.child.listeners.len() + 2);
        let mut ready = Ready::with_capacity(room.min(MOST_EVENTS));
        for (index, listener) in self.child.listeners.iter().enumerate() {
            listener.set_nonblocking(true);
            if let Err(errno) = self.lot.watch(listener.fd(), index) {
                self.queue.close();
                return ExitReason::Sick(errno);
            }
        }
        let mut listening = Listening {
            process: self,
            crew,
            left: self.child.budget(),
            reserved: false,
            busy: false,
            closed: false,
            reason: ExitReason::Finished,
            taken: Vec::new(),
        };
        listening.run(&mut ready);
        self.queue.close();
        listening.reason
    }

    fn signals_workers(&self) -> bool {
        self.child.knobs.stop_signal
    }

    fn wake_listener(&self) {
        self.lot.wake();
        if self.child.leaving.immediately() {
            self.idlers.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(idle: usize, active: usize, disabled: bool) -> Load {
        // Lingering connections do not count: two more of them change nothing.
        Load { idle, connections: active + 2, lingering: 2, disabled, threads: 4, factor: 2 }
    }

    // mpm-semantics V3.
    #[test]
    fn switching_on_again_needs_more_room_than_staying_on() {
        assert_eq!(may_accept(load(1, 4, false)), Verdict::Accept);
        assert_eq!(may_accept(load(1, 4, true)), Verdict::Above);
    }

    // mpm-semantics V4.
    #[test]
    fn without_an_idle_worker_the_process_is_busy() {
        for active in [0, 1, 100] {
            assert_eq!(may_accept(load(0, active, false)), Verdict::Busy);
        }
    }

    // mpm-semantics V5 and 7.3.
    #[test]
    fn above_the_limit_with_idle_workers_is_not_busy() {
        assert_eq!(may_accept(load(2, 8, false)), Verdict::Above);
        assert_eq!(may_accept(load(3, 8, true)), Verdict::Above);
    }

    // mpm-semantics V6: an idle process stops at TPC x (1 + F).
    #[test]
    fn an_idle_process_takes_threads_times_one_plus_factor() {
        for (factor, most) in [(1, 8), (2, 12)] {
            let taken = (0..).take_while(|&connections| {
                let load = Load { connections, lingering: 0, factor, ..load(4, 0, false) };
                may_accept(load) == Verdict::Accept
            });
            assert_eq!(taken.count(), most);
        }
    }
}
