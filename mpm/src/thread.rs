//! thread: a new thread for every connection.
//!
//! **The problem.** A process per connection is dear, and so is a pool: its size must be guessed, and its hand-off costs
//! wake-ups.
//!
//! **The picture.** One process. Its main thread accepts, and starts a thread that serves the connection to its end and is gone.
//! What many first servers in a language with threads look like, and what a pool of threads saves the starting of. There is one
//! process, so that MaxRequestWorkers is one number in one place; a crash therefore costs every connection there is, and the
//! parent starts the process anew. At MaxRequestWorkers threads it stops accepting, and new clients wait in the kernel's queue.
//!
//! ```text
//!            parent (never accepts)
//!               | fork, once
//!            process:  main thread --accept, start--> thread --> client, to the end
//!                                 \--accept, start--> thread --> client
//! ```
//!
//! **The loop** is [`alone::run`]: accept, start, collect who has ended. Here is what starting and ending mean.

use crate::kit::accept::Fresh;
use crate::kit::alone::{self, Hands};
use crate::kit::drive::drive;
use crate::process::orders::Orders;
use crate::process::pod::Order;
use crate::process::signals;
use crate::process::spare::{SpawnPlan, Spawning};
use crate::{Card, Child, ExitReason, Mpm, ParkSet, View, worker};
use mpmlab_core::config::clamp::Shape;
use mpmlab_core::config::knobs::Profile;
use mpmlab_core::connection::step::Wake;
use nix::errno::Errno;
use nix::sys::pthread::{Pthread, pthread_kill, pthread_self};
use nix::sys::signal::Signal;
use parking_lot::Mutex;
use std::thread::Scope;

/// See the module's documentation.
pub struct Thread;

static CARD: Card = Card {
    name: "thread",
    sentence: "one process that starts a thread for every connection, which serves it and ends",
    shape: Shape::Acceptor,
    holder: "thread",
    parks: ParkSet::NONE,
    faithful: &[("linger", "wait-first"), ("coalesce", "on"), ("later-line", "keep-alive")],
    profile: Profile::Apache,
    obeys: &[],
    deviations: &[
        "Apache has no such model; inside a connection it is worker's, and its messages have worker's numbers",
        "there is one process and nothing is spare: StartServers, Min/MaxSpare... and Thread... are not read",
        "MaxConnectionsPerChild counts connections when they are accepted",
    ],
    messages: worker::CARD.messages,
};

impl Mpm for Thread {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn child(&self, child: &Child<'_>) -> ExitReason {
        let orders = match Orders::new(true) {
            Ok(orders) => orders,
            Err(errno) => return ExitReason::Sick(errno),
        };
        let serving = Mutex::new(vec![None; child.threads()]);
        let crowd = Crowd { child, orders: &orders, serving, ended: Mutex::new(Vec::new()) };
        std::thread::scope(|scope| alone::run(child, &orders, &mut Threads { crowd: &crowd, scope }))
    }

    fn maintain(&self, view: &View<'_>, _: &mut Spawning) -> SpawnPlan {
        alone::maintain(view)
    }
}

/// What the threads share.
struct Crowd<'a, 'c> {
    child: &'a Child<'c>,
    orders: &'a Orders,
    /// Who serves in each column; to be signalled only while the lock is held, so that the thread cannot end meanwhile.
    serving: Mutex<Vec<Option<Pthread>>>,
    /// Columns of threads that have ended and were not collected yet.
    ended: Mutex<Vec<usize>>,
}

/// A thread's place among the others, left however it ends.
struct Place<'a, 'c>(&'a Crowd<'a, 'c>, usize);

impl Drop for Place<'_, '_> {
    fn drop(&mut self) {
        self.0.serving.lock()[self.1] = None;
        self.0.ended.lock().push(self.1);
        self.0.orders.ended();
    }
}

impl Crowd<'_, '_> {
    fn serve(&self, column: usize, fresh: Fresh) {
        self.serving.lock()[column] = Some(pthread_self());
        let _place = Place(self, column);
        // It only ends a wait: whoever sends it has said before that the process stops at once.
        signals::let_in(Signal::SIGUSR1);
        self.child.slot(column).claim(pthread_self(), std::process::id() as i32, self.child.generation);
        let mut cx = self.child.context(column);
        drive(&mut fresh.into_connection(), &mut cx, Wake::Ready, ParkSet::NONE);
    }
}

struct Threads<'scope, 'env, 'c> {
    crowd: &'env Crowd<'env, 'c>,
    scope: &'scope Scope<'scope, 'env>,
}

impl Hands for Threads<'_, '_, '_> {
    fn start(&mut self, column: usize, fresh: Fresh) -> nix::Result<()> {
        let (crowd, builder) = (self.crowd, self.crowd.child.thread(format!("connection {column}")));
        let started = builder.spawn_scoped(self.scope, move || crowd.serve(column, fresh));
        started.map(drop).map_err(|error| error.raw_os_error().map_or(Errno::EAGAIN, Errno::from_raw))
    }

    fn ended(&mut self) -> Vec<usize> {
        std::mem::take(&mut *self.crowd.ended.lock())
    }

    fn tell(&self, order: Order) {
        if order == Order::Now {
            for thread in self.crowd.serving.lock().iter().flatten() {
                let _ = pthread_kill(*thread, Signal::SIGUSR1);
            }
        }
    }
}
