//! The vocabulary between a connection and the model that drives it: what it waits for, and why it is called again.
//!
//! A connection never waits. It goes as far as it can on its non-blocking socket and then says, with a [`Wait`], which
//! descriptor must become ready and how long that may take. *Where* the waiting happens (in `poll` on this thread,
//! in the listener's epoll set, nowhere) is the one question that makes a concurrency model, and nothing here can
//! find out the answer.

use std::os::fd::RawFd;
use std::time::Duration;

/// A descriptor that a connection waits on. Owned by the connection; valid until it is advanced or dropped.
pub type Fd = RawFd;

/// What [`super::Connection::advance`] returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// Not finished: call again as the wait says.
    Wait(Wait),
    /// Finished: the socket is already closed. The connection must not be advanced again.
    Closed(CloseReason),
}

/// "Call me again when `fd` is ready for `interest`, or when `limit` has passed."
///
/// `limit` is a duration, not a deadline: a model that keeps one FIFO per duration gets sorted lists for free
/// (mpm-semantics 4.1), and `poll(60000)` looks like Apache's, not like `poll(59999)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// The state it waits in; a model parks by state.
    pub state: ConnState,
    /// The descriptor to watch.
    pub fd: Fd,
    /// What it must become ready for. Hang-up and error always count as ready.
    pub interest: Interest,
    /// How long it may take, counted from now.
    pub limit: Duration,
}

/// Readiness waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Readable, end of file included.
    Read,
    /// Writable.
    Write,
}

/// Why the model calls [`super::Connection::advance`] again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// The descriptor is ready, or the connection is new.
    Ready,
    /// `limit` passed first.
    Expired,
    /// The model needs the room (event with no idle worker) or the process stops now: end it, without an answer.
    Evicted,
}

/// The states a connection can wait in, named as in Apache's `conn_state_e`.
///
/// | state | Apache 2.4 | time-out | scoreboard letter |
/// |---|---|---|---|
/// | `ReadRequest` | PROCESSING (READ_REQUEST_LINE) | Timeout, RequestReadTimeout header | R |
/// | `ReadBody` | HANDLER, reading the body | Timeout, RequestReadTimeout body | W |
/// | `Backend` | HANDLER, waiting for another server | Timeout | W |
/// | `Output` | HANDLER, more than FlushMaxThreshold of memory unsent | Timeout | W |
/// | `WriteCompletion` | WRITE_COMPLETION | Timeout | W |
/// | `KeepAlive` | KEEPALIVE (CHECK_REQUEST_LINE_READABLE) | KeepAliveTimeout | K |
/// | `Linger` | LINGER, LINGER_NORMAL, LINGER_SHORT | 2 s or 30 s | C |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnState {
    /// A request head is incomplete.
    ReadRequest,
    /// A request body is incomplete.
    ReadBody,
    /// Another server has not answered.
    Backend,
    /// The handler still has data in memory to give to the socket.
    Output,
    /// The handler is done; the rest of the response is not fully in the kernel.
    WriteCompletion,
    /// Idle between two requests.
    KeepAlive,
    /// Shut down for writing; draining what the client still sends.
    Linger,
}

impl ConnState {
    /// Every state, in the order of the table above.
    pub const ALL: [ConnState; 7] = [
        ConnState::ReadRequest,
        ConnState::ReadBody,
        ConnState::Backend,
        ConnState::Output,
        ConnState::WriteCompletion,
        ConnState::KeepAlive,
        ConnState::Linger,
    ];

    /// The name used in knobs, reports and logs.
    pub const fn name(self) -> &'static str {
        match self {
            ConnState::ReadRequest => "read-request",
            ConnState::ReadBody => "read-body",
            ConnState::Backend => "backend",
            ConnState::Output => "output",
            ConnState::WriteCompletion => "write-completion",
            ConnState::KeepAlive => "keep-alive",
            ConnState::Linger => "linger",
        }
    }
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The client closed or reset it.
    Client,
    /// The response said `Connection: close`, and the client has seen it.
    Finished,
    /// The process ends, and the last response did not say so.
    Retired,
    /// KeepAliveTimeout passed without another request.
    KeepAliveExpired,
    /// Timeout passed in the middle of a request or a response.
    TimedOut,
    /// The model evicted it.
    Evicted,
    /// The kernel refused to go on (errno).
    Error(i32),
}
