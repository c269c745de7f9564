//! prefork: one process per connection.
//!
//! **The problem.** Many clients at once, and code that may not be thread-safe, may leak, may crash.
//!
//! **The picture.** The parent keeps a few processes ready before anybody asks (hence the name). Each child has one thread,
//! waits in `accept` itself, and belongs to one connection from its first byte to its close, idle times between requests
//! included. The kernel wakes one waiting child per connection, in turn. Nothing is shared but the scoreboard, so a crash costs
//! one connection; and a client that only idles costs a whole process.
//!
//! ```text
//!            parent (never accepts)
//!      fork /      |  fork    \ fork
//!      child     child       child        each: accept -> serve to the end -> accept ...
//!        |         |           |
//!      client    client     (waiting)
//! ```
//!
//! **The loop** is mpm-semantics section 2, steps 1 to 6.

use crate::kit::accept::{Accepted, Acceptor};
use crate::kit::drive::drive;
use crate::process::signals;
use crate::process::spare::{self, SpawnPlan, Spawning};
use crate::{Card, Child, ExitReason, Messages, Mpm, ParkSet, View};
use mpmlab_core::config::clamp::Shape;
use mpmlab_core::config::knobs::Profile;
use mpmlab_core::connection::step::Wake;
use mpmlab_core::slot::Status;

/// See the module's documentation.
pub struct Prefork;

static CARD: Card = Card {
    name: "prefork",
    sentence: "one process per connection, held from accept to close",
    shape: Shape::PREFORK,
    holder: "process",
    parks: ParkSet::NONE,
    faithful: &[("linger", "wait-first"), ("coalesce", "on"), ("later-line", "keep-alive")],
    profile: Profile::Apache,
    obeys: &[],
    deviations: &[
        "children are signalled one by one, not by process group: in the foreground that would hit the caller",
        "children die with their parent, should it be killed",
    ],
    messages: Messages {
        resuming: 163,
        stop: 169,
        graceful_stop: 170,
        restart: 173,
        graceful_restart: 171,
        reached: 161,
        near: 161,
        full: 161,
        busy: 162,
        fork_failed: 159,
        killed_successively: 0,
        never_healthy: 0,
        old_fatal: 166,
        accept_mutex: 165,
    },
};

impl Mpm for Prefork {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn child(&self, child: &Child<'_>) -> ExitReason {
        let mut acceptor = match Acceptor::new(child) {
            Ok(acceptor) => acceptor,
            Err(errno) => return ExitReason::Sick(errno),
        };
        let mut cx = child.context(0);
        let mut left = child.budget();
        let fds: Vec<_> = child.listeners.iter().map(|listener| listener.fd()).collect();
        signals::prepare_prefork_child(&fds);
        loop {
            if left == Some(0) {
                return ExitReason::Finished;
            }
            cx.report_idle(Status::Ready);
            match acceptor.accept(child) {
                Accepted::Connection(fresh) => {
                    left = left.map(|n| n - 1);
                    drive(&mut fresh.into_connection(), &mut cx, Wake::Ready, ParkSet::NONE);
                    // One look per connection: was this child chosen to die?
                    if child.pod.take().is_some() {
                        return ExitReason::Finished;
                    }
                }
                Accepted::Nothing => {}
                Accepted::Sick(errno) => return ExitReason::Sick(errno),
            }
            if child.leaving.stopping() || child.generation != child.board.generation() {
                return ExitReason::Finished;
            }
        }
    }

    fn maintain(&self, view: &View<'_>, state: &mut Spawning) -> SpawnPlan {
        spare::prefork(&view.statuses(), view.limits, state)
    }
}
