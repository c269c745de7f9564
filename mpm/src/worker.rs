//! worker: a few processes with many threads, one thread per connection.
//!
//! **The problem.** A process per connection is dear: memory, and a fork when load rises.
//!
//! **The picture.** Each child has one listener thread that accepts, and ThreadsPerChild workers. The listener reserves an idle
//! worker *first* and only then accepts: a child with no idle worker leaves new connections in the kernel's queue, where
//! another child can take them. A worker keeps its connection from first byte to close, idle times included, so a client that
//! only idles costs a whole thread, and nothing shortens that under load (mpm-semantics 3.3, 7.1).
//!
//! ```text
//!   child:  listener --reserve idle worker, accept--> [queue] --> worker --> client, to the end
//!                                                             \-> worker (idle)
//! ```
//!
//! **The loops** are mpm-semantics 3.2 (listener) and 3.3 (worker).

use crate::kit::accept::{Accepted, Acceptor, Fresh};
use crate::kit::crew::{self, Crew, Post};
use crate::kit::drive::drive;
use crate::kit::handoff::{Idlers, Popped, Queue};
use crate::process::spare::{self, SpawnPlan, Spawning};
use crate::{Card, Child, ExitReason, Messages, Mpm, ParkSet, View};
use mpmlab_core::config::clamp::Shape;
use mpmlab_core::config::knobs::Profile;
use mpmlab_core::connection::step::Wake;
use mpmlab_core::slot::Status;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// See the module's documentation.
pub struct Worker;

pub(crate) static CARD: Card = Card {
    name: "worker",
    sentence: "processes of many threads, each holding one connection from accept to close",
    shape: Shape::WORKER,
    holder: "thread",
    parks: ParkSet::NONE,
    faithful: &[("linger", "wait-first"), ("coalesce", "on"), ("later-line", "keep-alive")],
    profile: Profile::Apache,
    obeys: &["stop-retiring", "hand-off", "idle-order"],
    deviations: &["children die with their parent, should it be killed"],
    messages: Messages {
        resuming: 292,
        stop: 295,
        graceful_stop: 296,
        restart: 298,
        graceful_restart: 297,
        reached: 286,
        near: 287,
        full: 288,
        busy: 289,
        fork_failed: 283,
        killed_successively: 10393,
        never_healthy: 2325,
        old_fatal: 290,
        accept_mutex: 294,
    },
};

impl Mpm for Worker {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn child(&self, child: &Child<'_>) -> ExitReason {
        let process = Process {
            child,
            idlers: Idlers::new(child.knobs.hand_off),
            queue: Queue::new(child.knobs.hand_off, child.knobs.idle_order, child.threads()),
            left: AtomicI64::new(child.budget().unwrap_or(i64::MAX)),
        };
        crew::run(child, &process)
    }

    fn maintain(&self, view: &View<'_>, state: &mut Spawning) -> SpawnPlan {
        spare::worker(&view.rows(), view.limits, state)
    }
}

struct Process<'a, 'c> {
    child: &'a Child<'c>,
    idlers: Idlers,
    queue: Queue<Fresh>,
    /// Connections that may still be taken, counted when they end.
    left: AtomicI64,
}

impl Process<'_, '_> {
    fn take_connections(&self, crew: &Crew<'_, '_>) -> ExitReason {
        let mut acceptor = match Acceptor::new(self.child) {
            Ok(acceptor) => acceptor.without_limit(),
            Err(errno) => return ExitReason::Sick(errno),
        };
        let mut reserved = false;
        loop {
            if self.left.load(Relaxed) <= 0 {
                crew.retire();
            }
            if self.child.leaving.stopping() {
                return ExitReason::Finished;
            }
            // What has changed while it waited for a worker is seen after one more connection, as in Apache.
            reserved = reserved || self.idlers.reserve();
            if !reserved {
                continue;
            }
            match acceptor.accept(self.child) {
                Accepted::Connection(fresh) => {
                    self.queue.push(fresh);
                    reserved = false;
                }
                Accepted::Nothing => {}
                Accepted::Sick(errno) => return ExitReason::Sick(errno),
            }
        }
    }
}

impl Post for Process<'_, '_> {
    fn work(&self, thread: usize) {
        let mut cx = self.child.context(thread);
        loop {
            self.idlers.set_idle();
            cx.report_idle(Status::Ready);
            let fresh = loop {
                match self.queue.pop(thread) {
                    Popped::Item(fresh) => break fresh,
                    Popped::Interrupted => {}
                    Popped::Closed => return,
                }
            };
            drive(&mut fresh.into_connection(), &mut cx, Wake::Ready, ParkSet::NONE);
            self.left.fetch_sub(1, Relaxed);
        }
    }

    fn listen(&self, crew: &Crew<'_, '_>) -> ExitReason {
        let reason = self.take_connections(crew);
        self.child.board.process(self.child.row).set_quiescing();
        self.child.close_listeners();
        self.queue.close();
        reason
    }

    fn signals_workers(&self) -> bool {
        true
    }

    fn wake_listener(&self) {
        self.idlers.close();
    }
}
