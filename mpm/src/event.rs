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
//! (4.4), a pure function: [`rule::may_accept`].
//!
//! **The loops** are mpm-semantics 4.3 (listener, in a file of its own) and 4.2 (worker, here).

mod listener;
pub mod rule;

use crate::kit::accept::Fresh;
use crate::kit::crew::{self, Crew, Post};
use crate::kit::drive::drive;
use crate::kit::handoff::{Idlers, Popped, Queue};
use crate::kit::lot::{Held, Lot};
use crate::kit::monitor::{HandOff, Monitor};
use crate::knobs::AsyncCounters;
use crate::process::spare::{self, SpawnPlan, Spawning};
use crate::{Card, Child, ExitReason, Messages, Mpm, ParkSet, View};
use mpmlab_core::config::clamp::{Effective, Shape};
use mpmlab_core::config::knobs::Profile;
use mpmlab_core::connection::step::{ConnState, Wake};
use mpmlab_core::context::ThreadContext;
use mpmlab_core::slot::Status;
use rule::{Load, Verdict, may_accept};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

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
    obeys: &[
        "park",
        "shed",
        "stop-signal",
        "stop-retiring",
        "hand-off",
        "idle-order",
        "wake-up",
        "accept-exclusive",
        "async-counters",
        "AsyncRequestWorkerFactor",
    ],
    deviations: &[
        "children die with their parent, should it be killed",
        "a worker that becomes idle at the very moment in which accepts are switched off is not overlooked",
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
        old_fatal: 487,
        accept_mutex: 0,
    },
};

impl Mpm for Event {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn child(&self, child: &Child<'_>) -> ExitReason {
        let knobs = child.knobs;
        let lot = match Lot::new(knobs.hand_off, knobs.wake_up) {
            Ok(lot) => lot,
            Err(errno) => return ExitReason::Sick(errno),
        };
        let process = Process {
            child,
            lot,
            idlers: Idlers::new(knobs.hand_off),
            queue: Queue::new(knobs.hand_off, knobs.idle_order, child.threads()),
            connections: AtomicUsize::new(0),
            lingering: AtomicUsize::new(0),
            threads_gone: AtomicUsize::new(0),
            disabled: AtomicBool::new(false),
            dying: AtomicBool::new(false),
            deferred: Deferred::new(knobs.hand_off),
        };
        crew::run(child, &process)
    }

    fn maintain(&self, view: &View<'_>, state: &mut Spawning) -> SpawnPlan {
        spare::event(&view.rows(), view.limits, state)
    }

    fn rows_to_fill(&self, limits: &Effective) -> i64 {
        limits.server_limit
    }
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
struct Deferred {
    count: AtomicUsize,
    chain: Monitor<Vec<(Held, Wake)>>,
}

impl Deferred {
    fn new(kind: HandOff) -> Deferred {
        Deferred { count: AtomicUsize::new(0), chain: Monitor::new(kind, Vec::new()) }
    }

    fn push(&self, held: Held, wake: Wake) {
        self.chain.lock().push((held, wake));
        self.count.fetch_add(1, SeqCst);
    }

    /// The one that was pushed last, as from Apache's chain. Takes no lock when there is none.
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
            match self.lot.park(held, wait) {
                Ok(()) => self.publish_if_always(),
                Err(held) => self.gone(held),
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
        self.publish_if_always();
        if (last && self.dying.load(SeqCst)) || self.should_enable() {
            self.lot.wake();
        }
    }

    /// Tells the scoreboard of parked connections.
    fn publish(&self) {
        let row = self.child.board.process(self.child.row);
        row.connections.store(self.connections.load(SeqCst) as u32, Relaxed);
        row.write_completion.store(self.lot.count(ConnState::WriteCompletion) as u32, Relaxed);
        row.lingering_close.store(self.lot.count(ConnState::Linger) as u32, Relaxed);
        row.keep_alive.store(self.lot.count(ConnState::KeepAlive) as u32, Relaxed);
    }

    fn publish_if_always(&self) {
        if self.child.knobs.async_counters == AsyncCounters::Always {
            self.publish();
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
                match self.queue.pop(thread) {
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
                    self.publish_if_always();
                    self.serve(&mut cx, Held::new(fresh.into_connection()), Wake::Ready);
                }
                Work::Parked(held) => self.serve(&mut cx, held, Wake::Ready),
                Work::Drain => {}
            }
            self.drain_deferred(&mut cx);
        }
    }

    fn listen(&self, crew: &Crew<'_, '_>) -> ExitReason {
        let reason = listener::run(self, crew);
        self.queue.close();
        reason
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
