//! The threads of a child: a main thread that takes orders, a listener, the workers (mpm-semantics 1.1, 3.4).
//!
//! All signals are kept out of all threads, except HUP in the listener (wakes it from `accept4`), USR1 in workers (ends a wait
//! in `poll` when the process must stop at once) and TERM in the main thread.

use crate::process::orders::{News, Orders};
use crate::process::pod::Order;
use crate::process::signals;
use crate::{Child, ExitReason};
use mpmlab_core::slot::Status;
use nix::errno::Errno;
use nix::sys::pthread::{Pthread, pthread_kill, pthread_self};
use nix::sys::signal::Signal;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::Scope;
use std::time::Duration;

/// How often, and how many times, a listener that still accepts is told again that it should not (mpm-semantics 3.4). A
/// signal that comes just before `accept4` does not end it.
const TELL_AGAIN: Duration = Duration::from_millis(500);
const TELL_TIMES: u32 = 10;
/// How often workers are told again that they should end at once.
const KICK_AGAIN: Duration = Duration::from_millis(10);
/// How often the starter looks again for slots that an older process still occupies.
const RETRY: Duration = Duration::from_secs(1);

/// What a threaded model does with its threads.
pub trait Post: Sync {
    /// A worker's life.
    fn work(&self, thread: usize);
    /// The listener's life. Having returned, it has closed the queue, so that workers end.
    fn listen(&self, crew: &Crew<'_, '_>) -> ExitReason;
    /// At an immediate stop: do workers get a signal that ends their waits?
    fn signals_workers(&self) -> bool;
    /// Ends the listener's waits, so that it looks at [`Child::leaving`].
    fn wake_listener(&self);
}

/// The threads that there are.
pub struct Crew<'a, 'c> {
    child: &'a Child<'c>,
    orders: Orders,
    /// Threads that have not ended, the starter included.
    live: AtomicUsize,
    accepting: AtomicBool,
    workers: Mutex<Vec<Option<Pthread>>>,
    listener: Mutex<Option<Pthread>>,
    outcome: Mutex<ExitReason>,
    retry: (Mutex<()>, Condvar),
}

impl Crew<'_, '_> {
    /// The listener has decided that the process is to retire: no more orders are taken from the pipe of death.
    pub fn retire(&self) {
        self.child.leaving.begin_graceful();
        self.orders.leave();
    }

    /// The listener has seen that it must not accept any more.
    pub fn stopped_accepting(&self) {
        self.accepting.store(false, SeqCst);
    }

    fn ended(&self) {
        self.live.fetch_sub(1, SeqCst);
        self.orders.ended();
    }
}

/// Runs a child's threads until all have ended. To be called by the process's only thread.
pub fn run(child: &Child<'_>, post: &dyn Post) -> ExitReason {
    let orders = match Orders::new(child.knobs.stop_retiring) {
        Ok(orders) => orders,
        Err(errno) => return ExitReason::Sick(errno),
    };
    let crew = Crew {
        child,
        orders,
        live: AtomicUsize::new(1),
        accepting: AtomicBool::new(true),
        workers: Mutex::new(vec![None; child.threads()]),
        listener: Mutex::new(None),
        outcome: Mutex::new(ExitReason::Finished),
        retry: (Mutex::new(()), Condvar::new()),
    };
    std::thread::scope(|scope| {
        let started = child.thread("starter".to_owned()).spawn_scoped(scope, || {
            start(&crew, post, scope);
            crew.ended();
        });
        if started.is_err() {
            *crew.outcome.lock() = ExitReason::Sick(Errno::EAGAIN);
            return;
        }
        command(&crew, post);
    });
    *crew.outcome.lock()
}

/// The starter thread: all workers, then the listener; then, once a second, workers for slots that were occupied.
fn start<'scope, 'env, 'c>(
    crew: &'env Crew<'env, 'c>,
    post: &'env dyn Post,
    scope: &'scope Scope<'scope, 'env>,
) where
    'c: 'env,
{
    let child = crew.child;
    let mut missing: Vec<usize> = (0..child.threads()).collect();
    let mut listening = false;
    loop {
        let mut started = 0;
        let mut failed = false;
        missing.retain(|&thread| {
            let slot = child.slot(thread);
            // Another process may still be using the slot: one that is dying (mpm-semantics 5.2, slot squatting).
            if failed || !matches!(slot.status(), Status::Dead | Status::Graceful) {
                return true;
            }
            slot.claim(0, std::process::id() as i32, child.generation);
            slot.set(Status::Starting);
            crew.live.fetch_add(1, SeqCst);
            let spawned = child
                .thread(format!("worker {thread}"))
                .spawn_scoped(scope, move || worker(crew, post, thread));
            if spawned.is_err() {
                slot.set(Status::Dead);
                crew.live.fetch_sub(1, SeqCst);
                failed = true;
                return true;
            }
            started += 1;
            false
        });
        if failed {
            *crew.outcome.lock() = ExitReason::Sick(Errno::EAGAIN);
            crew.retire();
        }
        if !listening && (started > 0 || failed) {
            listening = true;
            crew.live.fetch_add(1, SeqCst);
            let spawned =
                child.thread("listener".to_owned()).spawn_scoped(scope, move || listener(crew, post));
            if spawned.is_err() {
                // Without a listener nobody would tell the workers to end.
                crate::process::fork::exit_now(ExitReason::Sick(Errno::EAGAIN).status());
            }
        }
        if missing.is_empty() || failed {
            return;
        }
        let mut guard = crew.retry.0.lock();
        if !child.leaving.stopping() {
            crew.retry.1.wait_for(&mut guard, RETRY);
        }
        drop(guard);
        if child.leaving.stopping() {
            return;
        }
    }
}

fn worker(crew: &Crew<'_, '_>, post: &dyn Post, thread: usize) {
    crew.workers.lock()[thread] = Some(pthread_self());
    signals::let_in(Signal::SIGUSR1);
    let slot = crew.child.slot(thread);
    slot.claim(pthread_self(), std::process::id() as i32, crew.child.generation);
    post.work(thread);
    crew.workers.lock()[thread] = None;
    let leaving = crew.child.leaving.stopping();
    if leaving {
        slot.end_process(mpmlab_core::sys::now_us());
    }
    slot.set(if leaving { Status::Dead } else { Status::Graceful });
    crew.ended();
}

fn listener(crew: &Crew<'_, '_>, post: &dyn Post) {
    *crew.listener.lock() = Some(pthread_self());
    signals::let_in(Signal::SIGHUP);
    let reason = post.listen(crew);
    if reason != ExitReason::Finished {
        *crew.outcome.lock() = reason;
    }
    crew.stopped_accepting();
    *crew.listener.lock() = None;
    crew.retire();
    crew.ended();
}

/// The main thread: takes orders, passes them on, and waits for the others to end.
fn command(crew: &Crew<'_, '_>, post: &dyn Post) {
    let leaving = crew.child.leaving;
    let mut told = 0;
    loop {
        let pod = (!leaving.stopping()).then_some(crew.child.pod);
        let limit = if leaving.immediately() && post.signals_workers() {
            Some(KICK_AGAIN)
        } else {
            (leaving.stopping() && crew.accepting.load(SeqCst) && told <= TELL_TIMES).then_some(TELL_AGAIN)
        };
        match crew.orders.wait(pod, limit) {
            News::Order(Order::Now) => leaving.begin_now(),
            News::Order(Order::Graceful) | News::Leave => leaving.begin_graceful(),
            News::Look => {}
        }
        if crew.live.load(SeqCst) == 0 {
            return;
        }
        if !leaving.stopping() {
            continue;
        }
        crew.child.board.process(crew.child.row).set_quiescing();
        drop(crew.retry.0.lock());
        crew.retry.1.notify_all();
        if crew.accepting.load(SeqCst) || leaving.immediately() {
            told += 1;
            post.wake_listener();
            // Held while signalling, so the thread cannot end in between.
            if let Some(listener) = *crew.listener.lock() {
                let _ = pthread_kill(listener, Signal::SIGHUP);
            }
        }
        if leaving.immediately() && post.signals_workers() {
            for worker in crew.workers.lock().iter().flatten() {
                let _ = pthread_kill(*worker, Signal::SIGUSR1);
            }
        }
    }
}
