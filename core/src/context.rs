//! What one serving thread owns and reuses: the server it works for, its scoreboard slot, its clock, its buffers.

use crate::connection::Exchange;
use crate::connection::step::{Interest, Wait, Wake};
use crate::http::date::Clock;
use crate::monitor::Monitor;
use crate::server::Server;
use crate::slot::Slot;
use crate::sys;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// What the process has been told about its own end. Set by signal handlers and by the child's main thread, read by
/// every serving thread.
#[derive(Debug, Default)]
pub struct Leaving {
    gracefully: AtomicBool,
    now: AtomicBool,
    closed_kept: AtomicU32,
}

impl Leaving {
    /// Nobody leaves yet.
    pub const fn new() -> Leaving {
        Leaving {
            gracefully: AtomicBool::new(false),
            now: AtomicBool::new(false),
            closed_kept: AtomicU32::new(0),
        }
    }

    /// From now on responses carry `Connection: close`, and kept connections end after the request in hand.
    /// Async-signal-safe.
    pub fn begin_graceful(&self) {
        self.gracefully.store(true, Relaxed);
    }

    /// From now on every wait ends at once and connections are dropped. Async-signal-safe.
    pub fn begin_now(&self) {
        self.gracefully.store(true, Relaxed);
        self.now.store(true, Relaxed);
    }

    /// A connection that its client had reason to think kept is closed because the process ends: a request that is on its way
    /// on it will not be answered.
    pub(crate) fn close_kept(&self) {
        self.closed_kept.fetch_add(1, Relaxed);
    }

    /// How many kept connections were closed because the process ends.
    pub fn closed_kept(&self) -> u32 {
        self.closed_kept.load(Relaxed)
    }

    /// Is the process stopping, in whichever way?
    #[inline]
    pub fn stopping(&self) -> bool {
        self.gracefully.load(Relaxed)
    }

    /// Must waits be given up at once?
    #[inline]
    pub fn immediately(&self) -> bool {
        self.now.load(Relaxed)
    }
}

/// A serving thread's working set. Created once per thread, lent to each connection it advances.
pub struct ThreadContext<'a> {
    /// The resolved configuration, shared by all threads, never written.
    pub server: &'a Server,
    /// This thread's scoreboard row.
    pub slot: &'a Slot,
    /// Who knows how the whole server is doing; `None` where nobody does.
    pub monitor: Option<&'a dyn Monitor>,
    /// Whether the process is to end.
    pub leaving: &'a Leaving,
    /// Wall clock with the Date header's text, formatted once a second.
    pub clock: Clock,
    #[allow(
        clippy::vec_box,
        reason = "a connection takes the box itself; moving the contents in and out would copy them"
    )]
    exchanges: Vec<Box<Exchange>>,
    drain: Vec<u8>,
}

/// Working sets kept for reuse per thread; more are returned to the allocator.
const EXCHANGES_KEPT: usize = 8;

impl<'a> ThreadContext<'a> {
    /// A context for one thread of a server.
    pub fn new(server: &'a Server, slot: &'a Slot, leaving: &'a Leaving) -> ThreadContext<'a> {
        ThreadContext {
            server,
            slot,
            monitor: None,
            leaving,
            clock: Clock::new(),
            exchanges: Vec::new(),
            drain: Vec::new(),
        }
    }

    /// The same with somebody who can be asked how the whole server is doing.
    pub fn with_monitor(mut self, monitor: &'a dyn Monitor) -> ThreadContext<'a> {
        self.monitor = Some(monitor);
        self
    }

    /// A working set for a request, reused if one is there. A connection holds one only while a request is in progress.
    pub(crate) fn take_exchange(&mut self) -> Box<Exchange> {
        self.exchanges.pop().unwrap_or_default()
    }

    /// Gives a working set back.
    pub(crate) fn give_exchange(&mut self, exchange: Option<Box<Exchange>>) {
        if let Some(mut exchange) = exchange
            && self.exchanges.len() < EXCHANGES_KEPT
        {
            exchange.recycle();
            self.exchanges.push(exchange);
        }
    }

    /// Where bytes nobody wants are read into. Cleared once per thread, not once per read.
    pub(crate) fn drain_buffer(&mut self, size: usize) -> &mut [u8] {
        if self.drain.len() < size {
            self.drain.resize(size, 0);
        }
        &mut self.drain[..size]
    }

    /// Waits in place, in `poll(2)`: the blocking models' way. A signal that asks for an immediate stop ends the wait
    /// as [`Wake::Evicted`]; any other signal is ignored.
    pub fn poll(&self, wait: &Wait) -> Wake {
        loop {
            if self.leaving.immediately() {
                return Wake::Evicted;
            }
            match sys::poll(wait.fd, wait.interest == Interest::Write, wait.limit) {
                Ok(true) => return Wake::Ready,
                Ok(false) => return Wake::Expired,
                Err(nix::errno::Errno::EINTR) => continue,
                // Nothing but a programming error is left (EFAULT, EINVAL): let the next read or write report it.
                Err(_) => return Wake::Ready,
            }
        }
    }
}
