//! Signals: handlers that only set flags or leave, and waits that no signal can slip past (mpm-semantics 6, 12).
//!
//! The parent keeps its signals blocked except while it sleeps in `pselect`, which unblocks them atomically: a signal can
//! never arrive between the look at a flag and the sleep. Handlers are installed without SA_RESTART, so that blocking calls
//! return EINTR.
//!
//! | in | TERM | INT | HUP | USR1 | WINCH |
//! |---|---|---|---|---|---|
//! | parent | stop | stop | restart | graceful restart | graceful stop |
//! | prefork child | `_exit` | ignored | `_exit` | close listeners, finish | ignored |
//! | threaded child | stop at once | ignored | wakes the listener | wakes a worker | ignored |
//!
//! INT is ignored in children because a terminal sends it to all of them, and the parent alone decides. Children are
//! signalled one by one, by pid; Apache's prefork signals its whole process group, which in the foreground would hit the
//! script that started it (mpm-semantics 1.2).

use super::fork::exit_now;
use super::listen::MOST_LISTENERS;
use mpmlab_core::context::Leaving;
use nix::libc::c_int;
use nix::sys::select::pselect;
use nix::sys::signal::{
    SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, pthread_sigmask, sigaction,
};
use nix::sys::time::{TimeSpec, TimeValLike};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering::Relaxed};
use std::time::Duration;

/// What the parent was last asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// TERM, INT.
    Stop,
    /// WINCH.
    GracefulStop,
    /// HUP.
    Restart,
    /// USR1.
    GracefulRestart,
}

// Handlers can reach nothing but statics. These belong to this process as a whole; all are atomics.
static REQUEST: AtomicU8 = AtomicU8::new(0);
static LEAVING: Leaving = Leaving::new();
static ORDERS: AtomicI32 = AtomicI32::new(-1);
static LISTENERS: [AtomicI32; MOST_LISTENERS] = [const { AtomicI32::new(-1) }; MOST_LISTENERS];

/// Whether this process is to end, for the threads that serve.
pub fn leaving() -> &'static Leaving {
    &LEAVING
}

extern "C" fn on_parent(signal: c_int) {
    let request = match Signal::try_from(signal) {
        Ok(Signal::SIGTERM | Signal::SIGINT) => 4,
        Ok(Signal::SIGWINCH) => 3,
        Ok(Signal::SIGHUP) => 2,
        _ => 1,
    };
    // The sterner request wins when several arrive at once.
    REQUEST.fetch_max(request, Relaxed);
}

/// What the error log calls a signal that has ended a child, if it speaks of it: TERM, HUP, USR1 and KILL are how children are
/// ended anyway.
pub fn remarkable(signal: Signal) -> Option<&'static str> {
    match signal {
        Signal::SIGTERM | Signal::SIGHUP | Signal::SIGUSR1 | Signal::SIGKILL => None,
        Signal::SIGSEGV => Some("Segmentation fault"),
        Signal::SIGBUS => Some("Bus error"),
        Signal::SIGABRT => Some("Aborted"),
        Signal::SIGILL => Some("Illegal instruction"),
        Signal::SIGFPE => Some("Floating point exception"),
        other => Some(other.as_str()),
    }
}

/// Takes the request that is pending.
pub fn take_request() -> Option<Request> {
    match REQUEST.swap(0, Relaxed) {
        0 => None,
        1 => Some(Request::GracefulRestart),
        2 => Some(Request::Restart),
        3 => Some(Request::GracefulStop),
        _ => Some(Request::Stop),
    }
}

/// Forgets every request so far, those included that signals still wait to make.
pub fn forget_requests() {
    // Pending signals reach their handlers before the first call returns.
    mask(SigmaskHow::SIG_UNBLOCK, &handled());
    mask(SigmaskHow::SIG_BLOCK, &handled());
    REQUEST.store(0, Relaxed);
}

fn handled() -> SigSet {
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGWINCH].into_iter().collect()
}

fn handle(signal: Signal, handler: SigHandler) {
    let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
    // SAFETY: every handler of this file only stores to atomics, writes to a pipe, closes descriptors or calls _exit, all of
    // which are async-signal-safe.
    unsafe { sigaction(signal, &action) }.expect("these signals can be handled");
}

fn mask(how: SigmaskHow, set: &SigSet) {
    pthread_sigmask(how, Some(set), None).expect("the mask is valid");
}

/// Installs the parent's handlers and blocks its signals; only [`sleep`] lets them in.
pub fn prepare_parent() {
    mask(SigmaskHow::SIG_BLOCK, &handled());
    for signal in &handled() {
        handle(signal, SigHandler::Handler(on_parent));
    }
    // A client that went away is an error of write, not a reason to end.
    handle(Signal::SIGPIPE, SigHandler::SigIgn);
    // Rust's runtime catches these to tell a stack overflow, and goes on where one was sent by kill(2): a child would
    // survive what ends Apache's.
    handle(Signal::SIGSEGV, SigHandler::SigDfl);
    handle(Signal::SIGBUS, SigHandler::SigDfl);
}

/// Sleeps in the parent until a signal comes or the time has passed.
pub fn sleep(time: Duration) {
    let timeout = TimeSpec::microseconds(i64::try_from(time.as_micros()).unwrap_or(i64::MAX));
    // EINTR is the other expected end.
    let _ = pselect(None, None, None, None, &timeout, &SigSet::empty());
}

extern "C" fn die_now(_: c_int) {
    exit_now(0);
}

extern "C" fn finish(_: c_int) {
    LEAVING.begin_graceful();
    // Closing the listeners is what closes the race: an accept that has not begun yet fails with EBADF.
    for listener in &LISTENERS {
        let fd = listener.swap(-1, Relaxed);
        if fd >= 0 {
            nix::unistd::close(fd).ok();
        }
    }
}

extern "C" fn stop_child(_: c_int) {
    let fd = ORDERS.load(Relaxed);
    if fd >= 0 {
        // SAFETY: the pipe lives as long as the child, which sets the descriptor before it lets TERM in.
        let _ = nix::unistd::write(unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) }, b"$");
    }
}

extern "C" fn child_ended(_: c_int) {
    let fd = ORDERS.load(Relaxed);
    if fd >= 0 {
        // SAFETY: as in `stop_child`.
        let _ = nix::unistd::write(unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) }, b"x");
    }
}

extern "C" fn nothing(_: c_int) {}

/// A prefork child's handlers; unblocks them. On USR1 these listeners are closed.
///
/// # Panics
/// There are more listeners than [`MOST_LISTENERS`].
pub fn prepare_prefork_child(listeners: &[RawFd]) {
    assert!(listeners.len() <= MOST_LISTENERS, "open_all opens no more");
    for (place, fd) in LISTENERS.iter().zip(listeners) {
        place.store(*fd, Relaxed);
    }
    handle(Signal::SIGTERM, SigHandler::Handler(die_now));
    handle(Signal::SIGHUP, SigHandler::Handler(die_now));
    handle(Signal::SIGUSR1, SigHandler::Handler(finish));
    handle(Signal::SIGINT, SigHandler::SigIgn);
    handle(Signal::SIGWINCH, SigHandler::SigIgn);
    mask(SigmaskHow::SIG_UNBLOCK, &handled());
}

/// A threaded child's handlers. All signals stay blocked in threads that it creates; only this, its main thread, lets TERM
/// in, which writes an order to `orders`.
pub fn prepare_threaded_child(orders: RawFd) {
    ORDERS.store(orders, Relaxed);
    handle(Signal::SIGTERM, SigHandler::Handler(stop_child));
    handle(Signal::SIGHUP, SigHandler::Handler(nothing));
    handle(Signal::SIGUSR1, SigHandler::Handler(nothing));
    handle(Signal::SIGINT, SigHandler::SigIgn);
    handle(Signal::SIGWINCH, SigHandler::SigIgn);
}

/// To be called after [`prepare_threaded_child`]: a child process that ends writes to `orders`, too.
pub fn tell_of_children() {
    handle(Signal::SIGCHLD, SigHandler::Handler(child_ended));
}

/// Lets one signal into the calling thread.
pub fn let_in(signal: Signal) {
    mask(SigmaskHow::SIG_UNBLOCK, &SigSet::from(signal));
}

/// Keeps one signal out of the calling thread and of the threads it creates.
pub fn keep_out(signal: Signal) {
    mask(SigmaskHow::SIG_BLOCK, &SigSet::from(signal));
}

/// Sends a request to another server's parent.
///
/// # Errors
/// There is no such process, or it is someone else's.
pub fn send(pid: i32, request: Request) -> nix::Result<()> {
    let signal = match request {
        Request::Stop => Signal::SIGTERM,
        Request::GracefulStop => Signal::SIGWINCH,
        Request::Restart => Signal::SIGHUP,
        Request::GracefulRestart => Signal::SIGUSR1,
    };
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal)
}
