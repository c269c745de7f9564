//! One client connection: opens, sends, reads, and says what happened. When to send, and what it counts as, is the
//! caller's business.
//!
//! Registered once, edge-triggered, for both directions: on a kept connection a request costs one `send` and one
//! `recv` when the answer fits the buffer. A `recv` that returns less than the buffer has emptied the socket, so no
//! second one probes for EAGAIN (epoll(7), question 9).
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, connect, setsockopt, socket, sockopt::TcpNoDelay,
};

use super::response::{Answer, Parser};

/// Reads before the loop gets its turn: an endless answer must not starve the time-outs and the run's end.
const READS_IN_A_ROW: usize = 16;

/// A connection and what it is doing.
pub(super) struct Client {
    stream: Option<TcpStream>,
    phase: Phase,
    /// Bytes of the request already sent.
    sent: usize,
    /// Answers this connection has brought: more than none makes it a kept one.
    answers: u64,
    /// The server's end of the connection is closed: nothing more will come after what can be read.
    ended: bool,
    /// Something was reported as readable together with the connection itself, before a request was sent; it will
    /// not be reported again.
    unread: bool,
    parser: Parser,
}

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Closed,
    Connecting,
    /// Open, and no request in progress.
    Open,
    Sending,
    Reading,
}

/// What became of a step.
#[derive(Debug)]
pub(super) enum Happened {
    /// Nothing yet; epoll will say when to look again.
    Waiting,
    /// There is more to read than one turn allows; epoll must be asked to say so again.
    Unread,
    /// Connected: a request may be sent.
    Opened,
    /// The answer is complete. `ended`: the server has already closed its end.
    Answered { answer: Answer, ended: bool },
    /// A kept connection was closed, or reset, before the first byte of an answer: the server's right at any time
    /// (RFC 9112 section 9.5), and the request may go again on another connection.
    ClosedIdle { reset: bool },
    /// The connection is of no more use, and the request in progress on it is lost.
    Failed(Cause),
}

/// Why a request was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Could not connect.
    Connect,
    /// Could not connect because this machine, the client's side, ran out of ports, descriptors or memory.
    Exhausted,
    Refused,
    Reset,
    ClosedEarly,
    Timeout,
    BadResponse,
}

impl Client {
    pub(super) fn new() -> Client {
        Client {
            stream: None,
            phase: Phase::Closed,
            sent: 0,
            answers: 0,
            ended: false,
            unread: false,
            parser: Parser::new(false),
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// Starts a connection and registers it under `token`. The client must be closed.
    pub(super) fn open(&mut self, address: SocketAddr, epoll: &Epoll, token: u64) -> Happened {
        debug_assert_eq!(self.phase, Phase::Closed);
        self.answers = 0;
        self.ended = false;
        self.unread = false;
        match start_connecting(address) {
            Ok((stream, connected)) => {
                if let Err(errno) = epoll.add(&stream, EpollEvent::new(interest(), token)) {
                    return Happened::Failed(connect_cause(errno));
                }
                self.stream = Some(stream);
                self.phase = if connected { Phase::Open } else { Phase::Connecting };
                if connected { Happened::Opened } else { Happened::Waiting }
            }
            Err(errno) => Happened::Failed(connect_cause(errno)),
        }
    }

    /// Sends a request. The connection must be open and without one.
    pub(super) fn send(&mut self, request: &[u8]) -> Happened {
        debug_assert_eq!(self.phase, Phase::Open);
        self.phase = Phase::Sending;
        self.sent = 0;
        self.parser.reset();
        self.write(request)
    }

    /// Goes on after epoll reported `events`.
    pub(super) fn ready(&mut self, events: EpollFlags, request: &[u8], buffer: &mut [u8]) -> Happened {
        let gone = EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR;
        match self.phase {
            Phase::Closed => Happened::Waiting,
            Phase::Connecting => self.connected(events),
            Phase::Open | Phase::Sending | Phase::Reading => {
                self.ended |= events.intersects(gone);
                if self.phase == Phase::Sending && events.contains(EpollFlags::EPOLLOUT) {
                    match self.write(request) {
                        Happened::Waiting => {}
                        over => return over,
                    }
                }
                if events.intersects(EpollFlags::EPOLLIN | gone) {
                    self.read(buffer)
                } else {
                    Happened::Waiting
                }
            }
        }
    }

    /// Lets go of the connection; it closes when the stream is dropped.
    pub(super) fn close(&mut self) -> Option<TcpStream> {
        self.phase = Phase::Closed;
        self.stream.take()
    }

    /// Asks epoll to look at the connection afresh, after [`Happened::Unread`].
    pub(super) fn rearm(&self, epoll: &Epoll, token: u64) -> nix::Result<()> {
        match &self.stream {
            Some(stream) => epoll.modify(stream, &mut EpollEvent::new(interest(), token)),
            None => Ok(()),
        }
    }

    fn connected(&mut self, events: EpollFlags) -> Happened {
        if events.intersects(EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP) {
            let error = self.stream.as_ref().and_then(|stream| stream.take_error().ok().flatten());
            match error.and_then(|error| error.raw_os_error()).map(Errno::from_raw) {
                // A refusal is ECONNREFUSED; these say that the connection had been there.
                Some(Errno::ECONNRESET | Errno::EPIPE) => return Happened::Failed(Cause::Reset),
                Some(errno) => return Happened::Failed(connect_cause(errno)),
                None => {}
            }
        }
        if !events.contains(EpollFlags::EPOLLOUT) {
            return Happened::Waiting;
        }
        self.phase = Phase::Open;
        self.ended = events.contains(EpollFlags::EPOLLRDHUP);
        self.unread = events.contains(EpollFlags::EPOLLIN);
        Happened::Opened
    }

    fn write(&mut self, request: &[u8]) -> Happened {
        let stream = self.stream.as_mut().expect("an open client has a stream");
        while self.sent < request.len() {
            match stream.write(&request[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Happened::Waiting,
                Err(error) => return self.lost(&error),
            }
        }
        self.phase = Phase::Reading;
        if std::mem::take(&mut self.unread) { Happened::Unread } else { Happened::Waiting }
    }

    fn read(&mut self, buffer: &mut [u8]) -> Happened {
        let stream = self.stream.as_mut().expect("an open client has a stream");
        for _ in 0..READS_IN_A_ROW {
            match stream.read(buffer) {
                Ok(0) => return self.closed_by_server(),
                Ok(n) => {
                    if self.phase == Phase::Open {
                        // An answer nobody asked for.
                        return Happened::Failed(Cause::BadResponse);
                    }
                    let Ok(used) = self.parser.feed(&buffer[..n]) else {
                        return Happened::Failed(Cause::BadResponse);
                    };
                    if let Some(answer) = self.parser.complete() {
                        // More than was announced is a sign of a lost or doubled answer. So is an answer to half a
                        // request, unless the server refuses the request (and then closes).
                        if used < n || (self.phase == Phase::Sending && answer.reusable) {
                            return Happened::Failed(Cause::BadResponse);
                        }
                        self.answers += 1;
                        self.phase = Phase::Open;
                        return Happened::Answered { answer, ended: self.ended };
                    }
                    if n < buffer.len() && !self.ended {
                        return Happened::Waiting;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Happened::Waiting,
                Err(error) => return self.lost(&error),
            }
        }
        Happened::Unread
    }

    fn closed_by_server(&mut self) -> Happened {
        if self.parser.close() {
            let answer = self.parser.complete().expect("close said that it is complete");
            self.phase = Phase::Open;
            return Happened::Answered { answer, ended: true };
        }
        if self.unanswered_and_kept() {
            return Happened::ClosedIdle { reset: false };
        }
        Happened::Failed(Cause::ClosedEarly)
    }

    /// A call on the open connection failed.
    fn lost(&self, error: &io::Error) -> Happened {
        // EPIPE is what a write meets after an orderly close.
        let reset = error.kind() != ErrorKind::BrokenPipe;
        if self.unanswered_and_kept() {
            return Happened::ClosedIdle { reset };
        }
        Happened::Failed(if reset { Cause::Reset } else { Cause::ClosedEarly })
    }

    fn unanswered_and_kept(&self) -> bool {
        self.answers > 0 && !self.parser.begun()
    }
}

fn interest() -> EpollFlags {
    EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET
}

/// A non-blocking socket on its way to `address`, and whether it is already there.
fn start_connecting(address: SocketAddr) -> nix::Result<(TcpStream, bool)> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(family, SockType::Stream, flags, None)?;
    // A request must leave when it is written, not when an earlier segment is acknowledged.
    setsockopt(&socket, TcpNoDelay, &true)?;
    match connect(socket.as_raw_fd(), &SockaddrStorage::from(address)) {
        Ok(()) => Ok((TcpStream::from(socket), true)),
        Err(Errno::EINPROGRESS) => Ok((TcpStream::from(socket), false)),
        Err(errno) => Err(errno),
    }
}

fn connect_cause(errno: Errno) -> Cause {
    match errno {
        Errno::ECONNREFUSED => Cause::Refused,
        Errno::EADDRNOTAVAIL
        | Errno::EMFILE
        | Errno::ENFILE
        | Errno::ENOBUFS
        | Errno::ENOMEM
        | Errno::ENOSPC => Cause::Exhausted,
        _ => Cause::Connect,
    }
}
