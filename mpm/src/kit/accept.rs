//! Taking connections, as prefork's children and worker's listener threads do (mpm-semantics 1.3).
//!
//! One `Listen`: no mutex and no poll; everybody blocks in `accept4`, and the kernel wakes one, in turn. Several: the accept
//! mutex is held around `epoll_wait` and one `accept4`, so one process at a time waits for connections.

use crate::Child;
use crate::process::poller::{Poller, Ready};
use mpmlab_core::config::LogLevel;
use mpmlab_core::connection::Connection;
use mpmlab_core::connection::step::Interest;
use mpmlab_core::sys;
use nix::errno::Errno;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// How long prefork's holder of the mutex waits before it looks whether it should leave: a signal that came just before the
/// wait does not end it. worker's listener is told again and again, and waits without limit (mpm-semantics 1.3).
const WAIT_MILLIS: i32 = 10_000;

/// A connection that nobody has served yet.
#[derive(Debug)]
pub struct Fresh {
    socket: OwnedFd,
    remote: SocketAddr,
    local: Option<SocketAddr>,
}

impl Fresh {
    /// The connection, ready to be advanced.
    pub fn into_connection(self) -> Connection {
        Connection::new(self.socket, self.remote, self.local)
    }
}

/// What came of an attempt.
#[derive(Debug)]
pub enum Accepted {
    /// A connection.
    Connection(Fresh),
    /// A signal, or a client that left again: look whether to leave, and try again.
    Nothing,
    /// The process lacks a resource and should end.
    Sick(Errno),
}

/// Takes one connection from the child's listener with this number.
pub fn accept_from(child: &Child<'_>, index: usize) -> Accepted {
    let listener = &child.listeners[index];
    match sys::accept(listener.fd()) {
        Ok((socket, remote)) => Accepted::Connection(Fresh { socket, remote, local: listener.local() }),
        Err(
            Errno::EINTR
            | Errno::ECONNABORTED
            | Errno::ECONNRESET
            | Errno::EPROTO
            | Errno::ETIMEDOUT
            | Errno::EHOSTUNREACH
            | Errno::ENETUNREACH
            | Errno::EAGAIN,
        ) => Accepted::Nothing,
        // Closed by the signal that also said to leave.
        Err(Errno::EBADF) => Accepted::Nothing,
        Err(errno) => {
            // The words and the number are Apache's.
            let text = "AH02179: apr_socket_accept: (client socket)";
            child.log.say(LogLevel::Error, &format!("({}){}: {text}", errno as i32, errno.desc()));
            Accepted::Sick(errno)
        }
    }
}

/// One process's way to its connections.
pub struct Acceptor {
    several: Option<(Poller, Ready)>,
    /// Where the search for a ready listener begins, so that none is preferred.
    next: usize,
    wait_millis: i32,
}

impl Acceptor {
    /// For the listeners of a child.
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub fn new(child: &Child<'_>) -> nix::Result<Acceptor> {
        let several = match child.listeners {
            [_] => None,
            listeners => {
                let poller = Poller::new()?;
                for (index, listener) in listeners.iter().enumerate() {
                    poller.add(listener.fd(), Interest::Read, index as u64)?;
                }
                Some((poller, Ready::with_capacity(listeners.len())))
            }
        };
        Ok(Acceptor { several, next: 0, wait_millis: WAIT_MILLIS })
    }

    /// Waits without limit: somebody sees to it that this thread looks whether to leave.
    pub fn without_limit(self) -> Acceptor {
        Acceptor { wait_millis: -1, ..self }
    }

    /// Waits for a connection and takes it.
    pub fn accept(&mut self, child: &Child<'_>) -> Accepted {
        let Some((poller, ready)) = &mut self.several else {
            return accept_from(child, 0);
        };
        let guard = match child.mutex.map(|mutex| mutex.lock()).transpose() {
            Ok(guard) => guard,
            // pthread mutexes cannot be interrupted; where the mechanism can be, it must not keep who should leave.
            Err(Errno::EINTR) => return Accepted::Nothing,
            // A mutex of the generation before goes with it (a semaphore is removed): common at a restart.
            Err(_) if child.generation != child.board.generation() => {
                child.leaving.begin_graceful();
                return Accepted::Nothing;
            }
            Err(errno) => {
                let text = "AH00273: apr_proc_mutex_lock failed. Attempting to shutdown process gracefully.";
                child.log.say(LogLevel::Emerg, &format!("({}){}: {text}", errno as i32, errno.desc()));
                return Accepted::Sick(errno);
            }
        };
        if child.leaving.stopping() {
            return Accepted::Nothing;
        }
        match poller.wait(ready, self.wait_millis) {
            Ok(()) if ready.is_empty() => return Accepted::Nothing,
            Ok(()) => {}
            Err(Errno::EINTR) => return Accepted::Nothing,
            Err(errno) => return Accepted::Sick(errno),
        }
        let chosen = ready.token(self.next % ready.len()) as usize;
        self.next = self.next.wrapping_add(1);
        let accepted = accept_from(child, chosen);
        drop(guard);
        accepted
    }
}
