//! Listening sockets, made as Apache makes them (mpm-semantics 1.2, step 2), by the parent, before it forks.

use mpmlab_core::config::Listen;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::sockopt::{Ipv6V6Only, KeepAlive, ReuseAddr, TcpNoDelay};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockProtocol, SockType, SockaddrStorage, bind, listen, setsockopt,
    socket,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// TCP_DEFER_ACCEPT: a client that connects and sends nothing is not handed out for about this many seconds
/// (mpm-semantics 1.4). Apache's default ListenTCPDeferAccept.
const DEFER_ACCEPT_SECONDS: i32 = 30;

/// Most addresses. Prefork's signal handler must be able to reach every listener, so they stand in a table of fixed size.
pub const MOST_LISTENERS: usize = 256;

/// Why a `Listen` cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("Listen {address}: {why}")]
pub struct ListenError {
    address: String,
    why: String,
}

/// One listening socket.
///
/// It can be closed before it is dropped, because a child that retires closes its listeners and lives on.
#[derive(Debug)]
pub struct Listener {
    fd: AtomicI32,
    asked: Listen,
    bound: SocketAddr,
}

impl Listener {
    /// The descriptor; -1 once closed.
    pub fn fd(&self) -> RawFd {
        self.fd.load(Relaxed)
    }

    /// Where it listens, with the port that the kernel chose for port 0.
    pub fn bound(&self) -> SocketAddr {
        self.bound
    }

    /// The local address of every connection from here; `None` when bound to a wildcard: then each must be asked for.
    pub fn local(&self) -> Option<SocketAddr> {
        (!self.bound.ip().is_unspecified()).then_some(self.bound)
    }

    /// Where a client on this machine reaches it.
    pub fn reachable(&self) -> SocketAddr {
        let ip = match self.bound.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        SocketAddr::new(ip, self.bound.port())
    }

    /// Closes it in this process. The socket lives on in the others.
    pub fn close(&self) {
        let fd = self.fd.swap(-1, Relaxed);
        if fd >= 0 {
            // SAFETY: the swap made this call the only one that closes the descriptor, which this value owned.
            unsafe { libc::close(fd) };
        }
    }

    /// Sets or clears the non-blocking flag, which all processes share.
    pub fn set_nonblocking(&self, on: bool) {
        // SAFETY: fcntl with these commands takes no pointer.
        unsafe {
            let flags = libc::fcntl(self.fd(), libc::F_GETFL);
            let wanted = if on { flags | libc::O_NONBLOCK } else { flags & !libc::O_NONBLOCK };
            if wanted != flags {
                libc::fcntl(self.fd(), libc::F_SETFL, wanted);
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.close();
    }
}

/// Opens what the configuration asks for. Sockets of `old` that are still asked for are kept as they are, so that a
/// restart never refuses a connection; the others are closed.
///
/// # Errors
/// One of them cannot be had; `old` is as it was then.
pub fn open_all(
    asked: &[Listen],
    backlog: u32,
    old: &mut Vec<Listener>,
) -> Result<Vec<Listener>, ListenError> {
    if asked.len() > MOST_LISTENERS {
        let why = format!("there may be no more than {MOST_LISTENERS} addresses; remove some");
        return Err(ListenError { address: format!("({} addresses)", asked.len()), why });
    }
    let mut fresh = Vec::new();
    for listen in asked.iter().filter(|listen| !old.iter().any(|l| l.asked == **listen)) {
        fresh.push(open_one(*listen, backlog)?);
    }
    old.extend(fresh);
    let mut in_order = |listen: &Listen| {
        let index = old.iter().position(|l| l.asked == *listen)?;
        Some(old.swap_remove(index))
    };
    let open = asked.iter().filter_map(&mut in_order).collect();
    old.clear();
    Ok(open)
}

fn open_one(asked: Listen, backlog: u32) -> Result<Listener, ListenError> {
    let failed = |address: String, error: Errno| ListenError { address, why: explain(error) };
    match asked.ip {
        Some(ip) => {
            let address = SocketAddr::new(ip, asked.port);
            open_at(asked, address, backlog).map_err(|e| failed(address.to_string(), e))
        }
        // A bare port is one socket for both families; where there is no IPv6, one for IPv4.
        None => match open_at(asked, SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), asked.port), backlog)
        {
            Err(Errno::EAFNOSUPPORT | Errno::EADDRNOTAVAIL) => {
                open_at(asked, SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), asked.port), backlog)
            }
            other => other,
        }
        .map_err(|e| failed(asked.port.to_string(), e)),
    }
}

fn open_at(asked: Listen, address: SocketAddr, backlog: u32) -> nix::Result<Listener> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let fd: OwnedFd = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, SockProtocol::Tcp)?;
    setsockopt(&fd, ReuseAddr, &true)?;
    setsockopt(&fd, KeepAlive, &true)?;
    // Set here once; accepted sockets inherit it.
    setsockopt(&fd, TcpNoDelay, &true)?;
    if address.is_ipv6() {
        setsockopt(&fd, Ipv6V6Only, &false)?;
    }
    bind(fd.as_raw_fd(), &SockaddrStorage::from(address))?;
    // Backlog::new refuses what the kernel would silently cap at somaxconn.
    let backlog = i32::try_from(backlog).ok().and_then(|n| Backlog::new(n).ok()).unwrap_or(Backlog::MAXCONN);
    listen(&fd, backlog)?;
    defer_accept(fd.as_raw_fd());
    let bound = mpmlab_core::sys::local_address(fd.as_raw_fd())?;
    Ok(Listener { fd: AtomicI32::new(fd.into_raw_fd()), asked, bound })
}

/// Only an optimisation: a kernel that refuses it is no error, as in Apache.
fn defer_accept(fd: RawFd) {
    let seconds = DEFER_ACCEPT_SECONDS;
    // SAFETY: the option value is a c_int that outlives the call, and its size is given.
    unsafe {
        libc::setsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        );
    }
}

fn explain(error: Errno) -> String {
    match error {
        Errno::EADDRINUSE => {
            "address already in use; stop the server that listens there, or choose another port"
        }
        Errno::EACCES => "permission denied; ports below 1024 need root, choose a higher one",
        Errno::EADDRNOTAVAIL => "this machine has no such address; choose one of its own, or only a port",
        other => return format!("{}; choose another address", other.desc().to_lowercase()),
    }
    .to_owned()
}
