//! One connection as a state machine: the match over its states, and nothing else.
//!
//! ```text
//!             +--------------------- input left, or read at once ---------------------+
//!             v                                                                       |
//! Fresh -> ReadRequest -> Handle -> [ReadBody] -> Respond -> Send -> (log) -> NextRequest -> KeepAlive
//!             |              refused: a response made early ^          |                     |
//!             +-- silent client, end of file ------------------------> Linger <--------------+
//! ```
//!
//! Each state has one function, in the file that its name says: it returns where to go next, what to wait for, or that
//! the connection is over. Only [`Connection::advance`] loops.

mod exchange;
mod linger;
mod output;
mod patience;
mod read;
mod respond;
pub mod step;

pub use exchange::Exchange;

use crate::config::knobs::LingerStyle;
use crate::context::ThreadContext;
use crate::request::Peer;
use crate::slot::Status;
use crate::sys;
use nix::libc;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Instant;
use step::{CloseReason, ConnState, Interest, Step, Wait, Wake};

/// A client connection. Moves freely between threads between two calls of [`Connection::advance`].
#[derive(Debug)]
pub struct Connection {
    /// Closed when taken.
    socket: Option<OwnedFd>,
    peer: Peer,
    local_known: bool,
    phase: Phase,
    /// Responses after which the connection was kept: what MaxKeepAliveRequests counts.
    kept: u32,
    /// A request took too long to arrive: whatever follows, the close lingers only briefly (the note
    /// "short-lingering-close" of mod_reqtimeout).
    impatient: bool,
    /// Borrowed from the thread while a request is in progress; an idle connection holds none.
    exchange: Option<Box<Exchange>>,
}

/// Where a connection stands. The states it can *wait* in are [`ConnState`].
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// Just accepted; nothing was asked of the kernel yet.
    Fresh,
    /// Reading a request head.
    ReadRequest,
    /// Reading and discarding a request body; the response is already chosen.
    ReadBody,
    /// Writing what is owed. `then` says what follows.
    Send { then: AfterSend },
    /// Looking for the next request. `probed` says that the socket was just found empty.
    NextRequest { probed: bool },
    /// Idle.
    KeepAlive,
    /// About to be closed.
    StartLinger { short: bool, reason: CloseReason },
    /// Shut down for writing.
    Linger(linger::Lingering),
    /// Over, for this reason.
    Closed(CloseReason),
}

/// What follows once everything owed is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterSend {
    /// Another request may come.
    Next { probed: bool },
    /// The response said close.
    Close,
    /// The response did not say close, but the process is told to end.
    Retire,
    /// Answers to earlier requests are out: go on reading the next head.
    ReadRequest,
    /// An interim response, or answers to earlier requests, are out: read the body.
    ReadBody,
}

/// What one state function decides.
enum Flow {
    Go(Phase),
    Wait(Wait),
    Close(CloseReason),
}

impl Connection {
    /// A connection over an accepted socket. Makes no system call. `local` is the listener's address; `None` when it is
    /// bound to a wildcard, and then the first advance asks the kernel, as Apache does.
    pub fn new(socket: OwnedFd, remote: SocketAddr, local: Option<SocketAddr>) -> Connection {
        let unknown = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        Connection {
            socket: Some(socket),
            peer: Peer { remote, local: local.unwrap_or(unknown) },
            local_known: local.is_some(),
            phase: Phase::Fresh,
            kept: 0,
            impatient: false,
            exchange: None,
        }
    }

    /// The client's socket, or -1 after the end.
    pub fn fd(&self) -> RawFd {
        self.socket.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// Goes as far as it can without waiting for a socket (the disk may be waited for).
    ///
    /// Call with [`Wake::Ready`] for a new connection and whenever what it waits for is ready, with [`Wake::Expired`]
    /// when the limit passed, with [`Wake::Evicted`] to end it.
    pub fn advance(&mut self, cx: &mut ThreadContext<'_>, wake: Wake) -> Step {
        let was_idle = matches!(self.phase, Phase::KeepAlive);
        match wake {
            Wake::Ready => {}
            Wake::Expired => self.expired(cx),
            Wake::Evicted => self.evicted(),
        }
        if wake != Wake::Ready && cx.leaving.stopping() && was_idle {
            cx.leaving.close_kept();
        }
        loop {
            let flow = match self.phase {
                Phase::Fresh => self.start(cx),
                Phase::ReadRequest => self.read_request(cx),
                Phase::ReadBody => self.read_body(cx),
                Phase::Send { then } => self.send(cx, then),
                Phase::NextRequest { probed } => self.next_request(cx, probed),
                Phase::KeepAlive => self.resume(cx),
                Phase::StartLinger { short, reason } => self.start_linger(cx, short, reason),
                Phase::Linger(lingering) => self.linger(cx, lingering),
                Phase::Closed(reason) => Flow::Close(reason),
            };
            match flow {
                Flow::Go(phase) => self.phase = phase,
                Flow::Wait(wait) => return Step::Wait(wait),
                Flow::Close(reason) => return Step::Closed(self.close(cx, reason)),
            }
        }
    }

    /// Fresh: makes the socket non-blocking, learns its local address if need be.
    fn start(&mut self, cx: &mut ThreadContext<'_>) -> Flow {
        cx.report_connection(&self.peer, self.kept);
        if !self.local_known {
            match sys::local_address(self.fd()) {
                Ok(address) => self.peer.local = address,
                Err(errno) => return Flow::Close(CloseReason::Error(errno as i32)),
            }
        }
        match sys::set_nonblocking(self.fd()) {
            Ok(()) => Flow::Go(Phase::ReadRequest),
            Err(errno) => Flow::Close(CloseReason::Error(errno as i32)),
        }
    }

    /// NextRequest: serves what is already there, else waits for the client in KeepAlive.
    ///
    /// The one read that looks for pipelined input is Apache's too (mpm-semantics 2, step 4c). `probed` skips it when
    /// it has just been made.
    fn next_request(&mut self, cx: &mut ThreadContext<'_>, probed: bool) -> Flow {
        let exchange = self.exchange.as_deref_mut().expect("held from the request's first byte to here");
        exchange.eat_blank_lines();
        exchange.finish_request();
        // Apache looks here (mpm-semantics 2, step 4d), although the answer has gone out without `Connection: close` and the
        // client may already have sent its next request.
        if cx.leaving.immediately() || (cx.leaving.stopping() && !cx.server.config.knobs.keep_promise) {
            cx.leaving.close_kept();
            return Flow::Go(Phase::Send { then: AfterSend::Retire });
        }
        if exchange.has_input() {
            cx.report_next(&self.peer, self.kept);
            return Flow::Go(Phase::ReadRequest);
        }
        if !probed {
            match read::look(self.socket.as_ref(), exchange, cx) {
                read::Filled::Some => {
                    exchange.finish_request();
                    cx.report_next(&self.peer, self.kept);
                    return Flow::Go(Phase::ReadRequest);
                }
                read::Filled::Nothing => {}
                read::Filled::End => return self.begin_linger(false, CloseReason::Client),
                read::Filled::Failed => return Flow::Close(CloseReason::Client),
            }
        }
        cx.give_exchange(self.exchange.take());
        cx.slot.set(Status::KeepAlive);
        self.phase = Phase::KeepAlive;
        self.wait(ConnState::KeepAlive, Interest::Read, cx.server.config.keep_alive_timeout)
    }

    /// KeepAlive, ready: the next request begins (or the client has left, which its first read will say).
    fn resume(&mut self, cx: &mut ThreadContext<'_>) -> Flow {
        cx.report_next(&self.peer, self.kept);
        Flow::Go(Phase::ReadRequest)
    }

    /// A wait took too long. mpm-semantics 4.2, column "leaves by"; table 7.7 for the 408.
    fn expired(&mut self, cx: &mut ThreadContext<'_>) {
        self.phase = match self.phase {
            Phase::ReadRequest => self.request_timed_out(cx),
            Phase::ReadBody => self.body_timed_out(cx),
            Phase::KeepAlive => {
                // event's alone is short: it is the queue it goes to (mpm-semantics 4.2).
                let short = cx.server.config.knobs.linger == LingerStyle::ReadFirst;
                Phase::StartLinger { short, reason: CloseReason::KeepAliveExpired }
            }
            Phase::Send { .. } => Phase::StartLinger { short: false, reason: CloseReason::TimedOut },
            Phase::Linger(lingering) => Phase::Closed(lingering.reason()),
            Phase::Fresh | Phase::NextRequest { .. } | Phase::StartLinger { .. } | Phase::Closed(_) => {
                self.phase
            }
        };
    }

    /// The model wants it gone: an idle or writing client is told by an orderly close, others are dropped.
    fn evicted(&mut self) {
        self.phase = match self.phase {
            Phase::KeepAlive => Phase::StartLinger { short: true, reason: CloseReason::Evicted },
            Phase::Send { .. } => Phase::StartLinger { short: false, reason: CloseReason::Evicted },
            Phase::Linger(lingering) => Phase::Closed(lingering.reason()),
            _ => Phase::Closed(CloseReason::Evicted),
        };
    }

    fn begin_linger(&self, short: bool, reason: CloseReason) -> Flow {
        Flow::Go(Phase::StartLinger { short, reason })
    }

    fn wait(&self, state: ConnState, interest: Interest, limit: std::time::Duration) -> Flow {
        Flow::Wait(Wait { state, fd: self.fd(), interest, limit })
    }

    fn close(&mut self, cx: &mut ThreadContext<'_>, reason: CloseReason) -> CloseReason {
        if let Some(exchange) = self.exchange.as_deref_mut() {
            // A response cut short is logged with what was sent of it.
            exchange.write_log(cx, &self.peer);
        }
        cx.give_exchange(self.exchange.take());
        self.socket = None;
        self.phase = Phase::Closed(reason);
        reason
    }
}

/// Seconds or microseconds a request took, for the log.
fn elapsed_us(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// Errors after which the client is simply gone.
fn is_gone(errno: nix::errno::Errno) -> bool {
    matches!(errno as i32, libc::EPIPE | libc::ECONNRESET | libc::ETIMEDOUT | libc::ENOTCONN)
}
